//! An incremental parser of requests. The result does not depend on how the bytes are split into reads. A
//! `Reader` belongs to a slot; bodies are parsed only to find their end and are not kept.

use crate::head::{self, Body, HEAD_MAX_BYTES, Head, Heads, Refusal};
use tollgate_lab_load::chunked::{Chunked, Step};

/// Parses one request after another from a connection.
#[derive(Debug)]
pub(crate) struct Reader {
    stage: Stage,
    /// The first part of a head that arrived in several reads.
    stash: Vec<u8>,
}

#[derive(Debug, Clone, Copy)]
enum Stage {
    Head,
    Length(Head, u64),
    Chunked(Head, Chunked),
}

/// The result of [`Reader::read`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Read {
    /// All bytes were consumed, and the request is incomplete.
    More,
    /// All bytes were consumed, and the client waits for `100 Continue` before it sends the body.
    Waits,
    /// A request with its body, and how many bytes it took.
    Whole(Head, usize),
}

impl Reader {
    pub(crate) fn new() -> Self {
        Self { stage: Stage::Head, stash: Vec::new() }
    }

    /// Prepares for another connection.
    pub(crate) fn reset(&mut self) {
        self.stage = Stage::Head;
        self.stash.clear();
    }

    /// Consumes bytes. Calls `seen` with the bytes of each head, blank line included.
    pub(crate) fn read(
        &mut self,
        input: &[u8],
        heads: &mut Heads,
        mut seen: impl FnMut(&[u8]),
    ) -> Result<Read, Refusal> {
        let mut at = 0;
        loop {
            let rest = &input[at..];
            match &mut self.stage {
                Stage::Head => {
                    let (head, taken) = match self.head(rest, heads, &mut seen)? {
                        Some(found) => found,
                        None => return Ok(Read::More),
                    };
                    at += taken;
                    self.stage = match head.body {
                        Body::Length(0) => return Ok(Read::Whole(head, at)),
                        Body::Length(length) => Stage::Length(head, length),
                        Body::Chunked => Stage::Chunked(head, Chunked::START),
                    };
                    if at == input.len() {
                        return Ok(if head.waits { Read::Waits } else { Read::More });
                    }
                }
                Stage::Length(head, left) => {
                    let taken = usize::try_from(*left).unwrap_or(usize::MAX).min(rest.len());
                    *left -= taken as u64;
                    if *left > 0 {
                        return Ok(Read::More);
                    }
                    let head = *head;
                    return Ok(self.whole(head, at + taken));
                }
                Stage::Chunked(head, chunked) => {
                    if rest.is_empty() {
                        return Ok(Read::More);
                    }
                    match chunked.step(rest).map_err(|_| Refusal::Malformed)? {
                        Step::Data(taken) => at += taken,
                        Step::Frame => at += 1,
                        Step::End => {
                            let head = *head;
                            return Ok(self.whole(head, at + 1));
                        }
                    }
                }
            }
        }
    }

    fn whole(&mut self, head: Head, taken: usize) -> Read {
        self.stage = Stage::Head;
        Read::Whole(head, taken)
    }

    /// Returns a complete head and how many bytes of `input` it took.
    fn head(
        &mut self,
        input: &[u8],
        heads: &mut Heads,
        seen: &mut impl FnMut(&[u8]),
    ) -> Result<Option<(Head, usize)>, Refusal> {
        if self.stash.is_empty() {
            // Skip blank lines before a request (RFC 9112, section 2.2).
            let mut skipped = 0;
            while input[skipped..].starts_with(b"\r\n") {
                skipped += 2;
            }
            let input = &input[skipped..];
            if let Some((head, length)) = heads.again(input) {
                seen(&input[..length]);
                return Ok(Some((head, skipped + length)));
            }
            if let Some(length) = head::end(input, 0) {
                return finish(&input[..length], heads, seen).map(|head| Some((head, skipped + length)));
            }
            return self.stash(input, 0, heads, seen);
        }
        if self.stash == b"\r" {
            // The CR of such a blank line; its LF must follow.
            self.stash.clear();
            return match input {
                [] => self.stash(b"\r", 0, heads, seen),
                [b'\n', rest @ ..] => {
                    let found = self.head(rest, heads, seen)?;
                    Ok(found.map(|(head, taken)| (head, taken + 1)))
                }
                _ => Err(Refusal::Malformed),
            };
        }
        let known = self.stash.len();
        self.stash(input, known, heads, seen)
    }

    /// Appends to a head that arrives in several reads.
    fn stash(
        &mut self,
        input: &[u8],
        known: usize,
        heads: &mut Heads,
        seen: &mut impl FnMut(&[u8]),
    ) -> Result<Option<(Head, usize)>, Refusal> {
        // One byte past the limit shows that the head is too long; the rest of a flood is not kept.
        let room = HEAD_MAX_BYTES + 1 - known;
        self.stash.extend_from_slice(&input[..input.len().min(room)]);
        // Another protocol, such as TLS, is detected at its first byte. Its client would otherwise wait
        // forever.
        if self.stash.first().is_some_and(|first| !head::may_begin(*first)) && self.stash != b"\r" {
            return Err(Refusal::Malformed);
        }
        match head::end(&self.stash, known) {
            Some(length) => {
                let head = finish(&self.stash[..length], heads, seen);
                self.stash.clear();
                head.map(|head| Some((head, length - known)))
            }
            None if self.stash.len() > HEAD_MAX_BYTES => Err(Refusal::HeadTooLong),
            None => Ok(None),
        }
    }
}

fn finish(bytes: &[u8], heads: &mut Heads, seen: &mut impl FnMut(&[u8])) -> Result<Head, Refusal> {
    if bytes.len() > HEAD_MAX_BYTES {
        return Err(Refusal::HeadTooLong);
    }
    let head = heads.read(bytes)?;
    seen(bytes);
    Ok(head)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    type Outcome = (Vec<(Head, Vec<u8>)>, Option<Refusal>);

    /// Returns all requests in `bytes` when they arrive in these pieces, and the error that ended them, if
    /// any.
    fn requests<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> Outcome {
        let (mut reader, mut heads) = (Reader::new(), Heads::new("/ready"));
        let (mut found, mut seen) = (Vec::new(), Vec::new());
        for mut piece in pieces {
            while !piece.is_empty() {
                match reader.read(piece, &mut heads, |head| seen.push(head.to_vec())) {
                    Ok(Read::Whole(head, taken)) => {
                        assert!(taken <= piece.len());
                        found.push((head, seen.remove(0)));
                        piece = &piece[taken..];
                    }
                    Ok(Read::More | Read::Waits) => break,
                    Err(refusal) => return (found, Some(refusal)),
                }
            }
        }
        (found, None)
    }

    fn cut<'a>(bytes: &'a [u8], places: &[usize]) -> Vec<&'a [u8]> {
        let mut places: Vec<usize> = places.iter().map(|place| place % (bytes.len() + 1)).collect();
        places.extend([0, bytes.len()]);
        places.sort_unstable();
        places.windows(2).map(|pair| &bytes[pair[0]..pair[1]]).collect()
    }

    fn request() -> impl Strategy<Value = String> {
        let head = prop_oneof![
            Just("GET / HTTP/1.1\r\nHost: a\r\n\r\n".to_owned()),
            Just("HEAD /ready HTTP/1.0\r\nConnection: keep-alive\r\n\r\n".to_owned()),
            Just("\r\nGET /ready HTTP/1.1\r\nHost: b\r\nX: y\r\n\r\n".to_owned()),
        ];
        let sized = "[a-z\r\n]{0,40}".prop_map(|body| {
            format!("POST /p HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n{body}", body.len())
        });
        let chunked = prop::collection::vec("[a-z\r\n]{1,20}", 0..4).prop_map(|chunks| {
            let mut text = "PUT /c HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n".to_owned();
            for chunk in chunks {
                text.push_str(&format!("{:x};e=1\r\n{chunk}\r\n", chunk.len()));
            }
            text + "0\r\nT: v\r\n\r\n"
        });
        prop_oneof![head, sized, chunked]
    }

    proptest! {
        #[test]
        fn any_cut_gives_the_same_requests(
            texts in prop::collection::vec(request(), 1..8),
            places in prop::collection::vec(any::<usize>(), 0..30),
        ) {
            let bytes = texts.concat().into_bytes();
            let (found, refusal) = requests(cut(&bytes, &places));
            prop_assert_eq!(refusal, None);
            prop_assert_eq!(found.len(), texts.len());
            for ((head, seen), text) in found.iter().zip(&texts) {
                prop_assert!(text.trim_start().as_bytes().starts_with(seen));
                prop_assert_eq!(*head, head::parse(seen, b"/ready").unwrap());
            }
        }

        #[test]
        fn any_cut_of_damaged_bytes_gives_the_same_outcome(
            texts in prop::collection::vec(request(), 1..4),
            places in prop::collection::vec(any::<usize>(), 0..30),
            at in any::<usize>(),
            to in any::<u8>(),
        ) {
            let mut bytes = texts.concat().into_bytes();
            let at = at % bytes.len();
            bytes[at] = to;
            prop_assert_eq!(requests(cut(&bytes, &places)), requests([bytes.as_slice()]));
        }

        #[test]
        fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..200), places in prop::collection::vec(any::<usize>(), 0..9)) {
            prop_assert_eq!(requests(cut(&bytes, &places)), requests([bytes.as_slice()]));
        }
    }

    #[test]
    fn a_waiting_client_gets_100_continue_once_and_only_before_the_body() {
        let head = b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n";
        let (mut reader, mut heads) = (Reader::new(), Heads::new("/ready"));
        assert_eq!(reader.read(head, &mut heads, |_| ()), Ok(Read::Waits));
        assert_eq!(reader.read(b"a", &mut heads, |_| ()), Ok(Read::More));
        assert!(matches!(reader.read(b"b", &mut heads, |_| ()), Ok(Read::Whole(_, 1))));
        let all = [head.as_slice(), b"ab"].concat();
        assert!(matches!(reader.read(&all, &mut heads, |_| ()), Ok(Read::Whole(..))));
    }

    #[test]
    fn a_head_has_its_limit_in_one_piece_and_in_many() {
        let long = format!("GET / HTTP/1.1\r\nHost: a\r\nX: {}\r\n\r\n", "x".repeat(HEAD_MAX_BYTES));
        assert_eq!(requests([long.as_bytes()]).1, Some(Refusal::HeadTooLong));
        assert_eq!(requests(long.as_bytes().chunks(1000)).1, Some(Refusal::HeadTooLong));
        let start = "GET / HTTP/1.1\r\nHost: a\r\nX: ";
        let longest = format!("{start}{}\r\n\r\n", "x".repeat(HEAD_MAX_BYTES - start.len() - 4));
        assert_eq!(requests(longest.as_bytes().chunks(999)).0.len(), 1);
    }
}
