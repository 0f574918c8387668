//! Bodies, read.

use std::ops::Range;

use super::Length;
use super::chunked::Chunked;
use crate::HeadLimits;

/// Why a body is refused; the connection cannot be used any longer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyError {
    /// A chunk breaks the grammar.
    Chunk,
    /// The trailer section has more bytes or fields than the limits allow.
    Trailers,
}

/// Reads one body from however few bytes at a time. Nothing is allocated, but for trailers.
#[derive(Clone, Debug)]
pub struct BodyReader(Kind);

#[derive(Clone, Debug)]
enum Kind {
    Exactly(u64),
    Chunked(Chunked),
    /// Ends with the peer's direction; the trailer lines came apart from the body.
    UntilClose {
        ended: bool,
        trailers: Vec<u8>,
    },
}

impl Kind {
    #[inline]
    fn new(length: Length, is_lenient: bool) -> Self {
        match length {
            Length::None => Self::Exactly(0),
            Length::Exactly(length) => Self::Exactly(length),
            Length::Chunked => Self::Chunked(Chunked::new(is_lenient)),
            Length::UntilClose => Self::UntilClose { ended: false, trailers: Vec::new() },
        }
    }
}

/// What one call made of its input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// Bytes of the input that belong to the body, framing included. What follows is the next message.
    pub used: usize,
    /// Where in the input the data now stands.
    pub data: Range<usize>,
}

impl BodyReader {
    /// A reader for a client's body of this length.
    #[must_use]
    #[inline]
    pub fn new(length: Length) -> Self {
        Self(Kind::new(length, false))
    }

    /// A reader for an endpoint's body. It accepts white space at the end of a chunk's line and before the colon of a trailer, and
    /// removes the latter (RFC 9112, 5.1).
    #[must_use]
    #[inline]
    pub fn of_response(length: Length) -> Self {
        Self(Kind::new(length, true))
    }

    /// Applies the limits of heads to the trailer section. The default is 8 KiB and 100 fields.
    #[must_use]
    #[inline]
    pub fn within(mut self, limits: &HeadLimits) -> Self {
        if let Kind::Chunked(chunked) = &mut self.0 {
            chunked.limit_trailers(limits);
        }
        self
    }

    /// Reads on. Chunks' data is moved together in place.
    ///
    /// # Errors
    /// A chunk or trailer that breaks the grammar or a bound; the data before it in `input` is lost, and every later
    /// call fails too.
    pub fn read(&mut self, input: &mut [u8]) -> Result<Step, BodyError> {
        match &mut self.0 {
            Kind::Exactly(left) => {
                let used = usize::try_from(*left).unwrap_or(usize::MAX).min(input.len());
                *left -= used as u64;
                Ok(Step { used, data: 0..used })
            }
            Kind::Chunked(chunked) => chunked.read(input).map(|(used, data)| Step { used, data }),
            Kind::UntilClose { .. } => Ok(Step { used: input.len(), data: 0..input.len() }),
        }
    }

    /// The peer has ended its direction. Says whether that ends the body too; if not, the message was cut.
    pub fn end_of_stream(&mut self) -> bool {
        if let Kind::UntilClose { ended, .. } = &mut self.0 {
            *ended = true;
        }
        self.is_done()
    }

    /// The same, where the peer's version of HTTP has trailers of its own (HTTP/2): whole lines, each with its CRLF, of
    /// fields that may be passed on. They are dropped where the length was declared, since that leaves no room for them.
    pub fn end_with(&mut self, lines: Vec<u8>) -> bool {
        if let Kind::UntilClose { trailers, .. } = &mut self.0 {
            *trailers = lines;
        }
        self.end_of_stream()
    }

    /// Whether the body has ended.
    #[must_use]
    pub fn is_done(&self) -> bool {
        match &self.0 {
            Kind::Exactly(left) => *left == 0,
            Kind::Chunked(chunked) => chunked.is_done(),
            Kind::UntilClose { ended, .. } => *ended,
        }
    }

    /// How many bytes of data are still to come, where that is known.
    #[must_use]
    pub fn left(&self) -> Option<u64> {
        match &self.0 {
            Kind::Exactly(left) => Some(*left),
            _ => None,
        }
    }

    /// The bytes for which [`read`](Self::read) refused the body: at most 64, as received. Empty if it has not.
    #[must_use]
    pub fn offence(&self) -> &[u8] {
        match &self.0 {
            Kind::Chunked(chunked) => chunked.offence(),
            Kind::Exactly(_) | Kind::UntilClose { .. } => &[],
        }
    }

    /// Drops the trailer lines whose name is not to be kept. For a body that has ended.
    pub fn retain_trailers(&mut self, keep: impl Fn(&[u8]) -> bool) {
        debug_assert!(self.is_done(), "a line may be in the middle, at an offset that would be wrong");
        let lines = match &mut self.0 {
            Kind::Chunked(chunked) => chunked.trailers_mut(),
            Kind::UntilClose { trailers, .. } => trailers,
            Kind::Exactly(_) => return,
        };
        let kept = |line: &&[u8]| line.split(|byte| *byte == b':').next().is_none_or(&keep);
        *lines = lines.split_inclusive(|byte| *byte == b'\n').filter(kept).collect::<Vec<_>>().concat();
    }

    /// The trailer lines of a body without a declared length, each with its CRLF, once it has ended.
    #[must_use]
    pub fn trailers(&self) -> &[u8] {
        match &self.0 {
            Kind::Chunked(chunked) => chunked.trailers(),
            Kind::UntilClose { trailers, .. } => trailers,
            Kind::Exactly(_) => &[],
        }
    }
}
