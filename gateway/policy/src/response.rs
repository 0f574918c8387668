//! The head of a response on its way to the client, as policies see it.

use std::fmt::{self, Debug};
use std::ops::Range;

use tollgate_http::{FieldLine, LineNames, Name, is_field, line_of};
use tollgate_observe::Reason;

/// What follows a response's head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyKind {
    /// None: an answer to HEAD, a 204 or 304, a switch of protocols. The head says what there would be.
    Absent,
    /// One that must not be touched: an answer of the gateway's own, one to a client of HTTP/1.0, to which the length has to be
    /// told before.
    Fixed,
    /// A body that may become another one, of another length.
    Free,
}

/// Makes another body of a response's body, piece by piece.
pub trait Transform {
    /// Takes a piece, and appends what is to go out now: a stream must not wait for what comes later.
    ///
    /// # Errors
    /// When no other body can be made of it: the message is broken off for this reason.
    fn push(&mut self, data: &[u8], out: &mut Vec<u8>) -> Result<(), Reason>;

    /// That was all: appends what ends it.
    ///
    /// # Errors
    /// As of [`push`](Self::push).
    fn finish(&mut self, out: &mut Vec<u8>) -> Result<(), Reason>;
}

/// One after the other.
struct Then {
    first: Box<dyn Transform>,
    second: Box<dyn Transform>,
    /// What is between them.
    between: Vec<u8>,
}

/// What the first makes of a body, the second makes another one of.
pub(crate) fn then(first: Box<dyn Transform>, second: Box<dyn Transform>) -> Box<dyn Transform> {
    Box::new(Then { first, second, between: Vec::new() })
}

impl Transform for Then {
    fn push(&mut self, data: &[u8], out: &mut Vec<u8>) -> Result<(), Reason> {
        self.between.clear();
        self.first.push(data, &mut self.between)?;
        if self.between.is_empty() { Ok(()) } else { self.second.push(&self.between, out) }
    }

    fn finish(&mut self, out: &mut Vec<u8>) -> Result<(), Reason> {
        self.between.clear();
        self.first.finish(&mut self.between)?;
        self.second.push(&self.between, out)?;
        self.second.finish(out)
    }
}

/// The head of a response on its way to the client. Its lines can be changed, except those that say where it ends and what
/// concerns one connection only.
pub struct Response<'a> {
    /// Start line, fields and the empty line.
    head: &'a mut Vec<u8>,
    /// What follows.
    pub body: BodyKind,
    /// What makes another body of it.
    transform: Option<Box<dyn Transform>>,
}

impl<'a> Response<'a> {
    /// Of a whole head, from the status line to the empty line.
    pub fn new(head: &'a mut Vec<u8>, body: BodyKind) -> Self {
        debug_assert!(head.ends_with(b"\r\n\r\n"), "a whole head: {:?}", String::from_utf8_lossy(head));
        Self { head, body, transform: None }
    }

    /// Its status.
    #[must_use]
    pub fn status(&self) -> u16 {
        match self.head.get(9..12) {
            Some(digits) if digits.iter().all(u8::is_ascii_digit) => {
                digits.iter().fold(0, |status, digit| status * 10 + u16::from(digit - b'0'))
            }
            _ => 0,
        }
    }

    /// The values of all fields of this name, in any case.
    pub fn all<'h>(&'h self, name: &'h str) -> impl Iterator<Item = &'h [u8]> {
        let mut start = 0;
        std::iter::from_fn(move || {
            let line = line_of(self.head, name.as_bytes(), start)?;
            start = line.end;
            Some(self.head[line][name.len() + 1..].trim_ascii())
        })
    }

    /// The value of the first field of this name, in any case.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&[u8]> {
        let line = line_of(self.head, name.as_bytes(), 0)?;
        Some(self.head[line][name.len() + 1..].trim_ascii())
    }

    /// Takes out every field of this name.
    pub fn remove(&mut self, name: &str) {
        if is_free(name.as_bytes()) {
            self.cut(name.as_bytes());
        }
    }

    /// Adds a field behind the others. What can be none is left out: nothing may begin another field.
    pub fn append(&mut self, name: &str, value: &[u8]) {
        if is_free(name.as_bytes()) && is_field(name.as_bytes(), value) {
            self.write(&[name.as_bytes(), b": ", value, b"\r\n"]);
        }
    }

    /// Adds this line behind the others, which has to be one that may change.
    pub(crate) fn push(&mut self, line: &FieldLine) {
        self.write(&[line.bytes()]);
    }

    /// Gives the response this field alone of its name.
    pub fn set(&mut self, name: &str, value: &[u8]) {
        self.remove(name);
        self.append(name, value);
    }

    /// Takes out the length, where it is not that of a body that follows.
    pub(crate) fn cut_length(&mut self) {
        self.cut(b"content-length");
    }

    fn cut(&mut self, name: &[u8]) {
        self.cut_where(|head, start| line_of(head, name, start));
    }

    /// Takes out every field of these names, which have to be such that may change.
    pub(crate) fn cut_all(&mut self, names: &LineNames) {
        self.cut_where(|head, start| names.line(head, start).map(|(_, line)| line));
    }

    /// Takes out every field that may change and whose name begins so, in any case.
    pub(crate) fn cut_beginning(&mut self, begins: &[Box<[u8]>]) {
        let begins_so = |name: &[u8], begin: &[u8]| {
            name.get(..begin.len()).is_some_and(|start| start.eq_ignore_ascii_case(begin))
        };
        let goes = |name: &[u8]| is_free(name) && begins.iter().any(|begin| begins_so(name, begin));
        self.cut_where(|head, start| line_where(head, start, goes));
    }

    fn cut_where(&mut self, find: impl Fn(&[u8], usize) -> Option<Range<usize>>) {
        let Some(first) = find(self.head, 0) else { return };
        // The others close up in one pass, however many go.
        let (mut end, mut next) = (first.start, Some(first));
        while let Some(line) = next {
            next = find(self.head, line.end);
            let kept = line.end..next.as_ref().map_or(self.head.len(), |line| line.start);
            self.head.copy_within(kept.clone(), end);
            end += kept.len();
        }
        self.head.truncate(end);
    }

    /// Which of these names there are fields of; those beyond the 64th of them are not told.
    pub(crate) fn there(&self, names: &LineNames) -> u64 {
        let (mut start, mut there) = (0, 0);
        while let Some((which, line)) = names.line(self.head, start) {
            start = line.end;
            there |= 1_u64.checked_shl(which as u32).unwrap_or(0);
        }
        there
    }

    /// Whether there is a field of one of these names.
    pub(crate) fn has_any(&self, names: &LineNames) -> bool {
        names.line(self.head, 0).is_some()
    }

    /// A line in pieces, with its CRLF.
    fn write(&mut self, line: &[&[u8]]) {
        self.head.truncate(self.head.len().saturating_sub(2));
        line.iter().for_each(|piece| self.head.extend_from_slice(piece));
        self.head.extend_from_slice(b"\r\n");
    }

    /// Has caches know that the response depends on this field of the request (RFC 9110, 12.5.5).
    pub fn vary(&mut self, name: &str) {
        let says = |value: &[u8]| {
            let mut names = value.split(|byte| *byte == b',').map(<[u8]>::trim_ascii);
            names.any(|own| own == b"*" || own.eq_ignore_ascii_case(name.as_bytes()))
        };
        if !self.all("vary").any(says) {
            self.append("Vary", name.as_bytes());
        }
    }

    /// Makes a strong `ETag` a weak one: the bytes are, or were, others than those that it stands for, with the same meaning (RFC
    /// 9110, 8.8.1).
    pub(crate) fn weaken_tag(&mut self) {
        let strong = self.get("etag").filter(|tag| tag.starts_with(b"\""));
        if let Some(weak) = strong.map(|tag| [b"W/", tag].concat()) {
            self.set("ETag", &weak);
        }
    }

    /// Has the body become another one, if it may ([`BodyKind::Free`]); whoever calls this first gets it as the endpoint sends
    /// it. Whoever calls this changes `Content-Encoding` and the like; the length is seen to.
    pub fn transform(&mut self, transform: Box<dyn Transform>) {
        if self.body == BodyKind::Free {
            self.transform = Some(match self.transform.take() {
                Some(first) => then(first, transform),
                None => transform,
            });
        }
    }

    /// What makes another body of it; the head then says nothing of a length any more. `chunked`: it says instead that chunks
    /// come.
    pub(crate) fn into_transform(mut self, chunked: bool) -> Option<Box<dyn Transform>> {
        let transform = self.transform.take();
        if transform.is_some() {
            self.cut(b"content-length");
            if chunked && self.get("transfer-encoding").is_none() {
                self.write(&[b"Transfer-Encoding: chunked\r\n"]);
            }
        }
        transform
    }
}

/// The first line from `start` on whose name fits; the status line is none.
fn line_where(head: &[u8], start: usize, fits: impl Fn(&[u8]) -> bool) -> Option<Range<usize>> {
    let end_of = |at: usize| head.get(at..)?.iter().position(|byte| *byte == b'\n').map(|end| at + end + 1);
    let mut at = if start == 0 { end_of(0)? } else { start };
    loop {
        let end = end_of(at)?;
        let line = &head[at..end];
        let name = line.iter().position(|byte| *byte == b':').map(|colon| &line[..colon]);
        if name.is_some_and(&fits) {
            return Some(at..end);
        }
        at = end;
    }
}

/// Whether a field is one that policies may change: codecs alone say where a message ends.
pub(crate) fn is_free(name: &[u8]) -> bool {
    let id = Name::of(name);
    !id.is_hop_by_hop() && id != Name::ContentLength
}

impl Debug for Response<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Response")
            .field("head", &String::from_utf8_lossy(self.head))
            .field("body", &self.body)
            .field("transformed", &self.transform.is_some())
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &[u8] = b"HTTP/1.1 404 Not Found\r\nA: 1\r\nContent-Type:text/plain\r\na:  2 \r\n\r\n";

    fn changed(change: impl FnOnce(&mut Response<'_>)) -> String {
        let mut head = HEAD.to_vec();
        change(&mut Response::new(&mut head, BodyKind::Fixed));
        String::from_utf8(head).expect("text")
    }

    #[test]
    fn what_it_says() {
        let mut head = HEAD.to_vec();
        let response = Response::new(&mut head, BodyKind::Fixed);
        assert_eq!(response.status(), 404);
        assert_eq!(response.get("content-type"), Some(&b"text/plain"[..]));
        assert_eq!(response.all("A").collect::<Vec<_>>(), [b"1", b"2"]);
        assert_eq!(response.get("Content"), None);
        assert_eq!(response.get("HTTP/1.1 404 Not Found"), None);
    }

    #[test]
    fn lines_are_changed() {
        let begin = "HTTP/1.1 404 Not Found\r\n";
        assert_eq!(
            changed(|response| response.set("A", b"3")),
            format!("{begin}Content-Type:text/plain\r\nA: 3\r\n\r\n")
        );
        assert_eq!(
            changed(|response| response.remove("content-TYPE")),
            format!("{begin}A: 1\r\na:  2 \r\n\r\n")
        );
        assert_eq!(
            changed(|response| response.append("B", b"x\r\nC: y")),
            String::from_utf8_lossy(HEAD),
            "no value begins another field"
        );
        assert_eq!(changed(|response| response.set("Content-Length", b"7")), String::from_utf8_lossy(HEAD));
    }

    #[test]
    fn all_of_a_name_go_and_the_others_stay_where_they_are() {
        let mut head = b"HTTP/1.1 200 OK\r\nS: 1\r\nA: 1\r\ns:2\r\nS: 3\r\nB: 22\r\nS: 4\r\n\r\n".to_vec();
        let mut response = Response::new(&mut head, BodyKind::Fixed);
        response.remove("S");
        assert_eq!((response.get("a"), response.get("B")), (Some(&b"1"[..]), Some(&b"22"[..])));
        response.append("C", b"3");
        response.remove("a");
        assert_eq!(response.get("c"), Some(&b"3"[..]));
        let names = LineNames::new([&b"c"[..], b"x", b"b"]);
        assert_eq!((response.there(&names), response.has_any(&names)), (0b101, true));
        response.append("D", b"4");
        response.append("B", b"5");
        response.cut_all(&names);
        assert!(!response.has_any(&names));
        assert_eq!(head, b"HTTP/1.1 200 OK\r\nD: 4\r\n\r\n");
    }

    #[test]
    fn a_head_without_fields() {
        let mut head = b"HTTP/1.1 200 OK\r\n\r\n".to_vec();
        let mut response = Response::new(&mut head, BodyKind::Fixed);
        assert_eq!(response.get("a"), None);
        for (name, value) in
            [("Content-Length ", "5"), ("A: 1\r\nB", "2"), ("", "3"), ("C", "4\n"), ("C", "\0")]
        {
            response.append(name, value.as_bytes());
        }
        response.append("A", b"1");
        assert_eq!(head, b"HTTP/1.1 200 OK\r\nA: 1\r\n\r\n");
    }

    struct Same;

    impl Transform for Same {
        fn push(&mut self, data: &[u8], out: &mut Vec<u8>) -> Result<(), Reason> {
            out.extend_from_slice(data);
            Ok(())
        }

        fn finish(&mut self, out: &mut Vec<u8>) -> Result<(), Reason> {
            out.push(b'.');
            Ok(())
        }
    }

    #[test]
    fn a_fixed_body_stays_what_it_is() {
        for (body, changes) in [(BodyKind::Fixed, false), (BodyKind::Free, true)] {
            let mut head = HEAD.to_vec();
            let mut response = Response::new(&mut head, body);
            response.transform(Box::new(Same));
            response.append("B", b"1");
            assert_eq!(response.into_transform(true).is_some(), changes, "{body:?}");
            let told =
                String::from_utf8_lossy(&head).contains("\r\nB: 1\r\nTransfer-Encoding: chunked\r\n\r\n");
            assert_eq!(told, changes, "{body:?}");
        }
    }

    #[test]
    fn one_transform_gets_what_another_has_made() {
        let mut head = HEAD.to_vec();
        let mut response = Response::new(&mut head, BodyKind::Free);
        response.transform(Box::new(Same));
        response.transform(Box::new(Same));
        let (mut both, mut out) = (response.into_transform(false).expect("both"), Vec::new());
        assert_eq!((both.push(b"ab", &mut out), both.finish(&mut out)), (Ok(()), Ok(())));
        assert_eq!(out, b"ab..");
    }
}
