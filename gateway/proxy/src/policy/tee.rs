//! Copies a request body while it is read, up to a bound. Mirrors use it, and policies that inspect a body.

use tollgate_http::HeadLimits;
use tollgate_http::h1::{BodyLength, BodyReader};
use tollgate_observe::Reason;

use crate::state::peer_error::body_error_reason;

/// Collects the data of a body from the bytes that the exchange reads, up to a bound.
#[derive(Debug)]
pub(super) struct Tee {
    /// Finds the end of the body in the framing of the client's version of HTTP.
    reader: BodyReader,
    /// The data collected so far.
    data: Vec<u8>,
    max_bytes: usize,
    /// Whether the beginning of the body is enough.
    begins: bool,
    /// A copy of the bytes read, in which the framing is removed.
    unframed: Vec<u8>,
}

/// The state after a piece was taken.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum TeeProgress {
    /// The body goes on.
    More,
    /// The whole body.
    Whole(Vec<u8>),
    /// The beginning of a body that is longer.
    Begin(Vec<u8>),
    /// The body is too long or malformed. A request that needs the whole body is refused for this reason.
    GivenUp(Reason),
}

impl Tee {
    /// Creates a tee for a body of this length, with trailers within `limits`, that keeps at most `max_bytes`
    /// bytes.
    pub fn new(length: BodyLength, max_bytes: usize, limits: &HeadLimits) -> Self {
        let reader = BodyReader::new(length).with_trailer_limits(limits);
        Self { reader, data: Vec::new(), max_bytes, begins: false, unframed: Vec::new() }
    }

    /// Like [`new`](Self::new), but gives the beginning of a body that is longer than `max_bytes`.
    pub fn begin(length: BodyLength, max_bytes: usize, limits: &HeadLimits) -> Self {
        Self { begins: true, ..Self::new(length, max_bytes, limits) }
    }

    /// Takes the data collected so far.
    pub fn so_far(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.data)
    }

    /// Takes bytes that were read; an empty slice means that the client has closed its direction.
    pub fn take(&mut self, read: &[u8]) -> TeeProgress {
        if read.is_empty() {
            if !self.reader.end_of_stream() {
                return TeeProgress::GivenUp(Reason::IncompleteRequest);
            }
        } else {
            self.unframed.clear();
            self.unframed.extend_from_slice(read);
            let step = match self.reader.read(&mut self.unframed) {
                Ok(step) => step,
                Err(error) => return TeeProgress::GivenUp(body_error_reason(error)),
            };
            let room = self.max_bytes.saturating_sub(self.data.len());
            let data = &self.unframed[step.data];
            if data.len() > room {
                if !self.begins {
                    return TeeProgress::GivenUp(Reason::BodyTooLarge);
                }
                self.data.extend_from_slice(&data[..room]);
                return TeeProgress::Begin(self.so_far());
            }
            self.data.extend_from_slice(data);
        }
        if self.reader.is_done() {
            TeeProgress::Whole(std::mem::take(&mut self.data))
        } else {
            TeeProgress::More
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn teed(length: BodyLength, max_bytes: usize, pieces: &[&str]) -> TeeProgress {
        let mut tee = Tee::new(length, max_bytes, &HeadLimits { line: 0, head: 1000, fields: 10 });
        let mut last = TeeProgress::More;
        for piece in pieces {
            assert_eq!(last, TeeProgress::More);
            last = tee.take(piece.as_bytes());
        }
        last
    }

    #[test]
    fn a_body_is_whole_at_its_end_and_not_before() {
        let whole = |text: &str| TeeProgress::Whole(text.into());
        assert_eq!(teed(BodyLength::Exactly(5), 5, &["ab", "cd"]), TeeProgress::More);
        assert_eq!(teed(BodyLength::Exactly(5), 5, &["ab", "cdeGET /"]), whole("abcde"));
        assert_eq!(
            teed(BodyLength::Chunked, 9, &["3\r\nab", "c\r\n2\r\nde\r\n", "0\r\n\r\nGET"]),
            whole("abcde")
        );
        assert_eq!(teed(BodyLength::UntilClose, 9, &["abc", ""]), whole("abc"));
    }

    #[test]
    fn the_beginning_of_a_body_is_not_longer_than_is_wanted() {
        for (length, pieces, expected) in [
            (BodyLength::Exactly(5), &["ab", "cde"][..], TeeProgress::Begin("abcd".into())),
            (BodyLength::Exactly(4), &["ab", "cd"], TeeProgress::Whole("abcd".into())),
            (BodyLength::Chunked, &["4\r\nabcd\r\n", "0\r\n\r\n"], TeeProgress::Whole("abcd".into())),
            (BodyLength::Chunked, &["4\r\nabcd\r\n", "1\r\ne"], TeeProgress::Begin("abcd".into())),
        ] {
            let (mut tee, mut last) =
                (Tee::begin(length, 4, &HeadLimits { line: 0, head: 1000, fields: 10 }), TeeProgress::More);
            for piece in pieces {
                assert_eq!(last, TeeProgress::More);
                last = tee.take(piece.as_bytes());
            }
            assert_eq!(last, expected);
        }
    }

    #[test]
    fn oversized_and_cut_bodies_are_abandoned() {
        let given_up = TeeProgress::GivenUp;
        assert_eq!(teed(BodyLength::Exactly(5), 4, &["abcde"]), given_up(Reason::BodyTooLarge));
        assert_eq!(teed(BodyLength::Exactly(5), 5, &["ab", ""]), given_up(Reason::IncompleteRequest));
        assert_eq!(teed(BodyLength::Chunked, 9, &["x"]), given_up(Reason::BadChunk));
    }
}
