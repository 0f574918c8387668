//! Reads message bodies.
//!
//! [`BodyReader`] finds the end of a body from the [`BodyLength`] that its head declares, and separates data
//! from framing. The exchange, the policies and the clients of auxiliary services use it. Data is not copied:
//! it stays in the caller's buffer, where chunks are compacted.

use std::ops::Range;

use super::BodyLength;
use super::chunked::{BodyError, Chunked};
use crate::HeadLimits;

/// Reads one body in pieces of any size. Allocates only for trailers.
#[derive(Clone, Debug)]
pub struct BodyReader(ReaderState);

#[derive(Clone, Debug)]
enum ReaderState {
    Exactly(u64),
    Chunked(Chunked),
    /// Ends when the peer closes its direction. The trailer lines arrive separately from the body.
    UntilClose {
        ended: bool,
        trailers: Vec<u8>,
    },
}

impl ReaderState {
    #[inline]
    fn new(length: BodyLength, is_lenient: bool) -> Self {
        match length {
            BodyLength::None => Self::Exactly(0),
            BodyLength::Exactly(length) => Self::Exactly(length),
            BodyLength::Chunked => Self::Chunked(Chunked::new(is_lenient)),
            BodyLength::UntilClose => Self::UntilClose { ended: false, trailers: Vec::new() },
        }
    }
}

/// The result of one call of [`BodyReader::read`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BodyPart {
    /// Bytes of the input that belong to the body, framing included. The bytes after them belong to the next
    /// message.
    pub used: usize,
    /// The range of the input that now holds the data.
    pub data: Range<usize>,
}

impl BodyReader {
    /// Creates a reader for a client's body.
    #[must_use]
    #[inline]
    pub fn new(length: BodyLength) -> Self {
        Self(ReaderState::new(length, false))
    }

    /// Creates a reader for an endpoint's body. It accepts white space at the end of a chunk's line, and
    /// before the colon of a trailer, where it removes the white space (RFC 9112, 5.1).
    #[must_use]
    #[inline]
    pub fn for_response(length: BodyLength) -> Self {
        Self(ReaderState::new(length, true))
    }

    /// Applies the limits of heads to the trailer section. The defaults are 8 KiB and 100 fields.
    #[must_use]
    #[inline]
    pub fn with_trailer_limits(mut self, limits: &HeadLimits) -> Self {
        if let ReaderState::Chunked(chunked) = &mut self.0 {
            chunked.limit_trailers(limits);
        }
        self
    }

    /// Reads the next part of the body. The data of chunks is compacted in place.
    ///
    /// # Errors
    /// If a chunk or trailer violates the grammar or a limit. The data before it in `input` is lost, and
    /// every later call fails too.
    pub fn read(&mut self, input: &mut [u8]) -> Result<BodyPart, BodyError> {
        match &mut self.0 {
            ReaderState::Exactly(left) => {
                let used = usize::try_from(*left).unwrap_or(usize::MAX).min(input.len());
                *left -= used as u64;
                Ok(BodyPart { used, data: 0..used })
            }
            ReaderState::Chunked(chunked) => chunked.read(input).map(|(used, data)| BodyPart { used, data }),
            ReaderState::UntilClose { .. } => Ok(BodyPart { used: input.len(), data: 0..input.len() }),
        }
    }

    /// Records that the peer closed its direction. Returns whether the body is complete; if not, the message
    /// was truncated.
    pub fn end_of_stream(&mut self) -> bool {
        if let ReaderState::UntilClose { ended, .. } = &mut self.0 {
            *ended = true;
        }
        self.is_done()
    }

    /// The same with trailers, for a protocol version that carries them separately (HTTP/2). `lines` are
    /// whole lines with their CRLF, of fields that may be forwarded. They are dropped if the body's length
    /// was declared, because HTTP/1 has no place for trailers after such a body.
    pub fn end_with_trailers(&mut self, lines: Vec<u8>) -> bool {
        if let ReaderState::UntilClose { trailers, .. } = &mut self.0 {
            *trailers = lines;
        }
        self.end_of_stream()
    }

    /// Whether the body is complete.
    #[must_use]
    pub fn is_done(&self) -> bool {
        match &self.0 {
            ReaderState::Exactly(left) => *left == 0,
            ReaderState::Chunked(chunked) => chunked.is_done(),
            ReaderState::UntilClose { ended, .. } => *ended,
        }
    }

    /// The number of bytes of data that are still missing; `None` if the length is not known in advance.
    #[must_use]
    pub fn remaining(&self) -> Option<u64> {
        match &self.0 {
            ReaderState::Exactly(left) => Some(*left),
            _ => None,
        }
    }

    /// The bytes for which [`read`](Self::read) refused the body: at most 64, as received. Empty if it was
    /// not refused.
    #[must_use]
    pub fn rejected_bytes(&self) -> &[u8] {
        match &self.0 {
            ReaderState::Chunked(chunked) => chunked.rejected_bytes(),
            ReaderState::Exactly(_) | ReaderState::UntilClose { .. } => &[],
        }
    }

    /// Keeps only the trailer lines whose name `keep` accepts. The body must be complete.
    pub fn retain_trailers(&mut self, keep: impl Fn(&[u8]) -> bool) {
        debug_assert!(self.is_done(), "a line may be in the middle, at an offset that would be wrong");
        let lines = match &mut self.0 {
            ReaderState::Chunked(chunked) => chunked.trailers_mut(),
            ReaderState::UntilClose { trailers, .. } => trailers,
            ReaderState::Exactly(_) => return,
        };
        let kept = |line: &&[u8]| line.split(|byte| *byte == b':').next().is_none_or(&keep);
        *lines = lines.split_inclusive(|byte| *byte == b'\n').filter(kept).collect::<Vec<_>>().concat();
    }

    /// The trailer lines of a complete body without a declared length, each with its CRLF.
    #[must_use]
    pub fn trailers(&self) -> &[u8] {
        match &self.0 {
            ReaderState::Chunked(chunked) => chunked.trailers(),
            ReaderState::UntilClose { trailers, .. } => trailers,
            ReaderState::Exactly(_) => &[],
        }
    }
}
