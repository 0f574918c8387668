//! An incremental parser of responses. The result does not depend on how the bytes are split into reads. A
//! [`Reader`] belongs to a slot and is reused for all of its responses; its buffers stay allocated. A body
//! that is complete in one read is hashed in place, without a copy.

use crate::chunked::{Chunked, Step};
use crate::digest::digest;
use crate::head::{self, Framing, Head, LONGEST_HEAD, LastHead, Malformed};
use crate::kept::Kept;
use xxhash_rust::xxh3::Xxh3;

/// A complete response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Response {
    pub(crate) status: u16,
    /// Length of the body in bytes, without transfer coding.
    pub(crate) length: u64,
    /// [`digest`] of the body; 0 if it was not requested.
    pub(crate) digest: u64,
    /// Whether the connection can carry another request.
    pub(crate) keep_alive: bool,
}

#[derive(Debug, Clone, Copy)]
enum Stage {
    Head,
    Length(u64),
    Chunked(Chunked),
    UntilClose,
}

/// Parses one response after another from a connection.
pub(crate) struct Reader {
    stage: Stage,
    /// Whether the request was `HEAD`, whose response has no body.
    to_head: bool,
    /// Whether to compute the digest.
    digested: bool,
    status: u16,
    keep_alive: bool,
    length: u64,
    /// The first part of a head that arrived in several reads.
    stash: Vec<u8>,
    /// Digests bodies that arrive in several reads; kept for the next response.
    hasher: Option<Box<Xxh3>>,
    /// The response's bytes, if values are taken from it.
    kept: Option<Box<Kept>>,
}

impl Reader {
    pub(crate) fn new(digested: bool) -> Self {
        Self {
            stage: Stage::Head,
            to_head: false,
            digested,
            status: 0,
            keep_alive: true,
            length: 0,
            stash: Vec::new(),
            hasher: None,
            kept: None,
        }
    }

    /// Keeps the bytes of the next response, or no longer keeps any.
    pub(crate) fn keep(&mut self, keep: bool) {
        match (&mut self.kept, keep) {
            (kept @ None, true) => *kept = Some(Box::default()),
            (Some(kept), true) => kept.clear(),
            (kept, false) => *kept = None,
        }
    }

    /// Returns the kept bytes of the response.
    pub(crate) fn kept(&self) -> Option<&Kept> {
        self.kept.as_deref()
    }

    /// Prepares for the response to the next request.
    pub(crate) fn expect(&mut self, to_head: bool) {
        self.stage = Stage::Head;
        self.to_head = to_head;
        self.length = 0;
        self.stash.clear();
    }

    /// Consumes bytes. If the response is complete, returns it and how many bytes it took; otherwise all
    /// bytes were consumed.
    pub(crate) fn read(
        &mut self,
        input: &[u8],
        last: &mut LastHead,
    ) -> Result<Option<(Response, usize)>, Malformed> {
        let mut at = 0;
        while at < input.len() {
            let rest = &input[at..];
            match &mut self.stage {
                Stage::Head => {
                    let Some((head, taken)) = self.head(rest, last)? else { return Ok(None) };
                    at += taken;
                    if let Some(digest) = self.begin(head, &input[at..])? {
                        let length = self.length;
                        return Ok(Some((self.response(digest), at + length as usize)));
                    }
                }
                Stage::Length(left) => {
                    let taken = usize::try_from(*left).unwrap_or(usize::MAX).min(rest.len());
                    *left -= taken as u64;
                    let done = *left == 0;
                    self.absorb(&rest[..taken]);
                    at += taken;
                    if done {
                        return Ok(Some((self.finished(), at)));
                    }
                }
                Stage::Chunked(chunked) => match chunked.step(rest)? {
                    Step::Data(taken) => {
                        self.absorb(&rest[..taken]);
                        at += taken;
                    }
                    Step::Frame => at += 1,
                    Step::End => return Ok(Some((self.finished(), at + 1))),
                },
                Stage::UntilClose => {
                    self.absorb(rest);
                    at = input.len();
                }
            }
        }
        Ok(None)
    }

    /// Handles the end of the connection. Returns the response if the connection's end completes it.
    pub(crate) fn end(&mut self) -> Option<Response> {
        matches!(self.stage, Stage::UntilClose).then(|| self.finished())
    }

    /// Returns a complete head and the bytes of `input` that it took.
    fn head(&mut self, input: &[u8], last: &mut LastHead) -> Result<Option<(Head, usize)>, Malformed> {
        if self.stash.is_empty() {
            if self.kept.is_none()
                && let Some(known) = last.begins(input)
            {
                return Ok(Some(known));
            }
            if let Some(end) = head::end(input, 0) {
                return self.parsed(&input[..end], last).map(|head| Some((head, end)));
            }
        }
        let before = self.stash.len();
        // A head beyond the limit is an error, so the rest of a flood is not kept.
        self.stash.extend_from_slice(&input[..input.len().min(LONGEST_HEAD + 1)]);
        if !head::may_begin(&self.stash) {
            return Err(Malformed("no status line of HTTP/1"));
        }
        let Some(end) = head::end(&self.stash, before) else {
            return if self.stash.len() > LONGEST_HEAD { Err(Malformed("head too long")) } else { Ok(None) };
        };
        let stash = std::mem::take(&mut self.stash);
        let head = self.parsed(&stash[..end], last)?;
        self.stash = stash;
        self.stash.clear();
        Ok(Some((head, end - before)))
    }

    fn parsed(&mut self, bytes: &[u8], last: &mut LastHead) -> Result<Head, Malformed> {
        if bytes.len() > LONGEST_HEAD {
            return Err(Malformed("head too long"));
        }
        let head = head::parse(bytes)?;
        if head.status >= 200 {
            last.remember(bytes, head);
            if let Some(kept) = &mut self.kept {
                kept.head.extend_from_slice(bytes);
            }
        }
        Ok(head)
    }

    /// Continues with the body. If `rest` already has the whole body, in its first `self.length` bytes,
    /// returns its digest.
    fn begin(&mut self, head: Head, rest: &[u8]) -> Result<Option<u64>, Malformed> {
        self.status = head.status;
        self.keep_alive = head.keep_alive;
        match head.status {
            101 => return Err(Malformed("switched protocols though nobody asked")),
            // An interim response: the final head follows (RFC 9110, section 15.2).
            100..200 => return Ok(None),
            _ => {}
        }
        let bodiless = self.to_head || matches!(head.status, 204 | 304);
        let framing = if bodiless { Framing::Length(0) } else { head.framing };
        match framing {
            Framing::Length(length) => {
                if let Some(body) = usize::try_from(length).ok().and_then(|length| rest.get(..length)) {
                    self.length = length;
                    if let Some(kept) = &mut self.kept {
                        kept.push(body);
                    }
                    return Ok(Some(if self.digested { digest(body) } else { 0 }));
                }
                self.stage = Stage::Length(length);
            }
            Framing::Chunked => self.stage = Stage::Chunked(Chunked::START),
            Framing::UntilClose => {
                self.keep_alive = false;
                self.stage = Stage::UntilClose;
            }
        }
        if self.digested {
            self.hasher.get_or_insert_with(|| Box::new(Xxh3::new())).reset();
        }
        Ok(None)
    }

    fn absorb(&mut self, body: &[u8]) {
        self.length += body.len() as u64;
        if let Some(kept) = &mut self.kept {
            kept.push(body);
        }
        if let (true, Some(hasher)) = (self.digested, &mut self.hasher) {
            hasher.update(body);
        }
    }

    fn finished(&mut self) -> Response {
        let digest = if self.digested { self.hasher.as_ref().map_or(0, |hasher| hasher.digest()) } else { 0 };
        self.response(digest)
    }

    fn response(&mut self, digest: u64) -> Response {
        Response { status: self.status, length: self.length, digest, keep_alive: self.keep_alive }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Returns the outcome of a connection's bytes: the responses, then how it ended.
    fn all(bytes: &[u8], cuts: &[usize], to_head: bool) -> (Vec<Response>, Result<bool, Malformed>) {
        let mut reader = Reader::new(true);
        let mut last = LastHead::default();
        let mut responses = Vec::new();
        reader.expect(to_head);
        let mut from = 0;
        for to in cuts.iter().copied().chain([bytes.len()]) {
            let mut input = &bytes[from..to];
            from = to;
            while !input.is_empty() {
                match reader.read(input, &mut last) {
                    Ok(Some((response, taken))) => {
                        assert!(taken <= input.len());
                        input = &input[taken..];
                        responses.push(response);
                        reader.expect(to_head);
                    }
                    Ok(None) => break,
                    Err(error) => return (responses, Err(error)),
                }
            }
        }
        let end = reader.end();
        responses.extend(end);
        (responses, Ok(end.is_some()))
    }

    fn one(text: &str) -> Response {
        let (responses, end) = all(text.as_bytes(), &[], false);
        assert!(end.is_ok(), "{text}: {end:?}");
        assert_eq!(responses.len(), 1, "{text}");
        responses[0]
    }

    #[test]
    fn bodies_of_every_framing() {
        let hello = Response { status: 200, length: 5, digest: digest(b"hello"), keep_alive: true };
        assert_eq!(one("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"), hello);
        assert_eq!(
            one(
                "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2;x=y\r\nhe\r\n03\r\nllo\r\n0\r\nT: v\r\n\r\n"
            ),
            hello
        );
        assert_eq!(one("HTTP/1.1 200 OK\r\n\r\nhello"), Response { keep_alive: false, ..hello });
        assert_eq!(
            one("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"),
            hello
        );
        let empty = Response { status: 204, length: 0, digest: digest(b""), keep_alive: true };
        assert_eq!(one("HTTP/1.1 204 No Content\r\n\r\n"), empty);
        assert_eq!(
            one("HTTP/1.1 304 Not Modified\r\nContent-Length: 9\r\n\r\n"),
            Response { status: 304, ..empty }
        );
        let (responses, _) = all(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n", &[], true);
        assert_eq!(responses, [Response { status: 200, ..empty }]);
    }

    #[test]
    fn broken_bytes_are_protocol_errors() {
        for text in [
            "SSH-2.0-OpenSSH\r\n",
            "HTTP/1.1 101 Switching Protocols\r\n\r\n",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n\r\n",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nab\r\n",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\nab\r\n",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1000000000000000\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nabHTTP",
        ] {
            assert!(all(text.as_bytes(), &[], false).1.is_err(), "{text}");
        }
        let endless = [b"HTTP/1.1 200 OK\r\n".as_slice(), &[b'a'; LONGEST_HEAD]].concat();
        assert!(all(&endless, &[], false).1.is_err());
    }

    #[test]
    fn a_cut_response_is_not_whole() {
        assert_eq!(all(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhell", &[], false), (vec![], Ok(false)));
    }

    /// Generates a stream of responses, some slightly broken.
    fn stream() -> impl Strategy<Value = Vec<u8>> {
        let body = "[a-z\r\n]{0,40}";
        let part = prop_oneof![
            (200_u16..600, body).prop_map(|(status, body)| {
                format!("HTTP/1.1 {status} Word\r\nContent-Length: {}\r\nX: y\r\n\r\n{body}", body.len())
            }),
            proptest::collection::vec("[a-z\r\n]{1,30}", 0..4).prop_map(|chunks| {
                let chunks: String =
                    chunks.iter().map(|chunk| format!("{:x}\r\n{chunk}\r\n", chunk.len())).collect();
                format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{chunks}0\r\nA: b\r\n\r\n")
            }),
            Just("HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n".to_owned()),
            Just("HTTP/1.0 200 OK\r\n\r\nuntil the end".to_owned()),
            "[ -~\r\n]{0,20}",
        ];
        (proptest::collection::vec(part, 1..5), any::<u16>(), any::<u8>()).prop_map(|(parts, at, byte)| {
            let mut bytes = parts.concat().into_bytes();
            // One byte in four streams is corrupted.
            if !bytes.is_empty() && byte < 64 {
                let at = usize::from(at) % bytes.len();
                bytes[at] = byte;
            }
            bytes
        })
    }

    proptest! {
        #[test]
        fn any_cut_gives_the_same(
            bytes in stream(),
            cuts in proptest::collection::vec(any::<prop::sample::Index>(), 0..12),
            to_head: bool,
        ) {
            let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
            cuts.sort_unstable();
            let whole = all(&bytes, &[], to_head);
            prop_assert_eq!(&all(&bytes, &cuts, to_head), &whole);
            let each: Vec<usize> = (0..bytes.len()).collect();
            prop_assert_eq!(&all(&bytes, &each, to_head), &whole);
        }

        #[test]
        fn no_bytes_upset_the_reader(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = all(&bytes, &[], false);
            let _ = all(&[b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", &bytes[..]].concat(), &[], false);
        }
    }
}
