//! The body of a request, copied while the exchange reads it.

use tollgate_http::HeadLimits;
use tollgate_http::h1::{BodyReader, Length};
use tollgate_observe::Reason;

use crate::client_side::broken_body;

/// The body of a request, copied while the exchange reads it, within a bound.
#[derive(Debug)]
pub(super) struct Tee {
    /// Where the body ends, in the client's version of HTTP.
    reader: BodyReader,
    /// What has come of it.
    data: Vec<u8>,
    most: usize,
    /// Whether the beginning of a longer body is wanted.
    begins: bool,
    /// Where framing is taken out of what was read.
    scratch: Vec<u8>,
}

/// What became of a piece.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Teed {
    /// More is to come.
    More,
    /// This is all of it.
    Whole(Vec<u8>),
    /// This is its beginning; the body is longer.
    Begin(Vec<u8>),
    /// It is too long, or broken: this is what a request is refused for that wants it whole.
    GivenUp(Reason),
}

impl Tee {
    /// For a body of this length, with trailers within these limits; up to `most` bytes of it are kept.
    pub fn new(length: Length, most: usize, limits: &HeadLimits) -> Self {
        let reader = BodyReader::new(length).within(limits);
        Self { reader, data: Vec::new(), most, begins: false, scratch: Vec::new() }
    }

    /// As [`new`](Self::new), for the beginning of a longer body.
    pub fn begin(length: Length, most: usize, limits: &HeadLimits) -> Self {
        Self { begins: true, ..Self::new(length, most, limits) }
    }

    /// The data so far.
    pub fn so_far(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.data)
    }

    /// Takes what was read; nothing: the client has ended its direction.
    pub fn take(&mut self, read: &[u8]) -> Teed {
        if read.is_empty() {
            if !self.reader.end_of_stream() {
                return Teed::GivenUp(Reason::IncompleteRequest);
            }
        } else {
            self.scratch.clear();
            self.scratch.extend_from_slice(read);
            let step = match self.reader.read(&mut self.scratch) {
                Ok(step) => step,
                Err(error) => return Teed::GivenUp(broken_body(error)),
            };
            let room = self.most.saturating_sub(self.data.len());
            let data = &self.scratch[step.data];
            if data.len() > room {
                if !self.begins {
                    return Teed::GivenUp(Reason::BodyTooLarge);
                }
                self.data.extend_from_slice(&data[..room]);
                return Teed::Begin(self.so_far());
            }
            self.data.extend_from_slice(data);
        }
        if self.reader.is_done() { Teed::Whole(std::mem::take(&mut self.data)) } else { Teed::More }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn teed(length: Length, most: usize, pieces: &[&str]) -> Teed {
        let mut tee = Tee::new(length, most, &HeadLimits { line: 0, head: 1000, fields: 10 });
        let mut last = Teed::More;
        for piece in pieces {
            assert_eq!(last, Teed::More);
            last = tee.take(piece.as_bytes());
        }
        last
    }

    #[test]
    fn a_body_is_whole_at_its_end_and_not_before() {
        let whole = |text: &str| Teed::Whole(text.into());
        assert_eq!(teed(Length::Exactly(5), 5, &["ab", "cd"]), Teed::More);
        assert_eq!(teed(Length::Exactly(5), 5, &["ab", "cdeGET /"]), whole("abcde"));
        assert_eq!(
            teed(Length::Chunked, 9, &["3\r\nab", "c\r\n2\r\nde\r\n", "0\r\n\r\nGET"]),
            whole("abcde")
        );
        assert_eq!(teed(Length::UntilClose, 9, &["abc", ""]), whole("abc"));
    }

    #[test]
    fn the_beginning_of_a_body_is_not_longer_than_is_wanted() {
        for (length, pieces, expected) in [
            (Length::Exactly(5), &["ab", "cde"][..], Teed::Begin("abcd".into())),
            (Length::Exactly(4), &["ab", "cd"], Teed::Whole("abcd".into())),
            (Length::Chunked, &["4\r\nabcd\r\n", "0\r\n\r\n"], Teed::Whole("abcd".into())),
            (Length::Chunked, &["4\r\nabcd\r\n", "1\r\ne"], Teed::Begin("abcd".into())),
        ] {
            let (mut tee, mut last) =
                (Tee::begin(length, 4, &HeadLimits { line: 0, head: 1000, fields: 10 }), Teed::More);
            for piece in pieces {
                assert_eq!(last, Teed::More);
                last = tee.take(piece.as_bytes());
            }
            assert_eq!(last, expected);
        }
    }

    #[test]
    fn what_is_too_long_or_cut_is_given_up() {
        let given_up = Teed::GivenUp;
        assert_eq!(teed(Length::Exactly(5), 4, &["abcde"]), given_up(Reason::BodyTooLarge));
        assert_eq!(teed(Length::Exactly(5), 5, &["ab", ""]), given_up(Reason::IncompleteRequest));
        assert_eq!(teed(Length::Chunked, 9, &["x"]), given_up(Reason::BadChunk));
    }
}
