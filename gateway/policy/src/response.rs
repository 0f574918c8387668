//! The head of a response on its way to the client, as policies see it, and the transforms of its body.
//!
//! Actions that policies registered in the [`Context`](crate::Context) receive a [`Response`]. They can
//! change all fields except those about framing and the connection.

use std::fmt::{self, Debug};
use std::ops::Range;
use std::sync::Arc;

use tollgate_cache::{FormFill, Store, Stored};
use tollgate_http::h1::write_decimal;
use tollgate_http::{ContentCoding, FieldFinder, FieldLine, Name, find_field_line, is_field};
use tollgate_observe::Reason;

/// The kind of body after the head of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyKind {
    /// No body: a response to HEAD, a 204 or 304, a protocol switch. The head describes the body that GET
    /// would return.
    Absent,
    /// A body that must not change: a response of the gateway itself, or a response to an HTTP/1.0 client,
    /// which needs the length in advance.
    Fixed,
    /// A body that may be transformed, with a change of length.
    Transformable,
}

/// A transform of a message body, applied to one piece at a time.
pub trait Transform {
    /// Takes a piece and appends the output that can be sent now, so that a stream does not wait for later
    /// input.
    ///
    /// # Errors
    /// When the body cannot be transformed: the message is aborted with this reason.
    fn push(&mut self, data: &[u8], out: &mut Vec<u8>) -> Result<(), Reason>;

    /// Ends the body: appends the remaining output.
    ///
    /// # Errors
    /// The same as those of [`push`](Self::push).
    fn finish(&mut self, out: &mut Vec<u8>) -> Result<(), Reason>;
}

/// Two transforms in sequence.
struct TransformChain {
    first: Box<dyn Transform>,
    second: Box<dyn Transform>,
    /// The output of the first, before the second reads it.
    between: Vec<u8>,
}

/// Chains two transforms: the second reads the output of the first.
pub(crate) fn then(first: Box<dyn Transform>, second: Box<dyn Transform>) -> Box<dyn Transform> {
    Box::new(TransformChain { first, second, between: Vec::new() })
}

impl Transform for TransformChain {
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

/// A stored response whose whole body is sent, with its store, so that a compressed form of the body can be used or kept.
#[derive(Clone, Copy, Debug)]
pub struct StoredBody<'a> {
    /// The store.
    pub store: &'a Arc<Store>,
    /// The response.
    pub stored: &'a Arc<Stored>,
}

/// The head of a response on its way to the client. Policies may change its fields, except those about
/// framing and the connection.
pub struct Response<'a> {
    /// Status line, fields and the empty line.
    head: &'a mut Vec<u8>,
    /// The kind of body that follows.
    pub body: BodyKind,
    /// The transform of the body.
    transform: Option<Box<dyn Transform>>,
    /// The stored response that is sent, if it is one.
    stored: Option<StoredBody<'a>>,
    /// The coding of its form that is sent in place of the plain body.
    form: Option<ContentCoding>,
}

impl<'a> Response<'a> {
    /// Wraps a complete head, from the status line to the empty line.
    pub fn new(head: &'a mut Vec<u8>, body: BodyKind) -> Self {
        debug_assert!(head.ends_with(b"\r\n\r\n"), "a whole head: {:?}", String::from_utf8_lossy(head));
        Self { head, body, transform: None, stored: None, form: None }
    }

    /// Sets the stored response that is sent.
    pub(crate) fn of_stored(self, stored: Option<StoredBody<'a>>) -> Self {
        Self { stored, ..self }
    }

    /// Returns the status; 0 if the status line is malformed.
    #[must_use]
    pub fn status(&self) -> u16 {
        match self.head.get(9..12) {
            Some(digits) if digits.iter().all(u8::is_ascii_digit) => {
                digits.iter().fold(0, |status, digit| status * 10 + u16::from(digit - b'0'))
            }
            _ => 0,
        }
    }

    /// Iterates over the values of all fields of this name; case is ignored.
    pub fn all<'h>(&'h self, name: &'h str) -> impl Iterator<Item = &'h [u8]> {
        let mut start = 0;
        std::iter::from_fn(move || {
            let line = find_field_line(self.head, name.as_bytes(), start)?;
            start = line.end;
            Some(self.head[line][name.len() + 1..].trim_ascii())
        })
    }

    /// Returns the value of the first field of this name; case is ignored.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&[u8]> {
        let line = find_field_line(self.head, name.as_bytes(), 0)?;
        Some(self.head[line][name.len() + 1..].trim_ascii())
    }

    /// Removes every field of this name.
    pub fn remove(&mut self, name: &str) {
        if may_be_changed(name.as_bytes()) {
            self.remove_raw(name.as_bytes());
        }
    }

    /// Appends a field. An invalid field is left out, so that a value cannot start another field.
    pub fn append(&mut self, name: &str, value: &[u8]) {
        if may_be_changed(name.as_bytes()) && is_field(name.as_bytes(), value) {
            self.write(&[name.as_bytes(), b": ", value, b"\r\n"]);
        }
    }

    /// Appends a prepared line. The caller ensures that policies may change this field.
    pub(crate) fn push(&mut self, line: &FieldLine) {
        self.write(&[line.bytes()]);
    }

    /// Replaces all fields of this name by one.
    pub fn set(&mut self, name: &str, value: &[u8]) {
        self.remove(name);
        self.append(name, value);
    }

    /// Removes `Content-Length`, for a response whose body is absent.
    pub(crate) fn remove_length(&mut self) {
        self.remove_raw(b"content-length");
    }

    /// Replaces `Content-Length`.
    fn set_length(&mut self, length: u64) {
        self.remove_length();
        self.head.truncate(self.head.len().saturating_sub(2));
        self.head.extend_from_slice(b"Content-Length: ");
        write_decimal(self.head, length);
        self.head.extend_from_slice(b"\r\n\r\n");
    }

    fn remove_raw(&mut self, name: &[u8]) {
        self.remove_where(|head, start| find_field_line(head, name, start));
    }

    /// Removes every field of these names. The caller ensures that policies may change them.
    pub(crate) fn remove_all(&mut self, names: &FieldFinder) {
        self.remove_where(|head, start| names.find(head, start).map(|(_, line)| line));
    }

    /// Removes every field that policies may change and whose name starts with one of these prefixes; case is
    /// ignored.
    pub(crate) fn remove_prefixed(&mut self, begins: &[Box<[u8]>]) {
        let begins_so = |name: &[u8], begin: &[u8]| {
            name.get(..begin.len()).is_some_and(|start| start.eq_ignore_ascii_case(begin))
        };
        let goes = |name: &[u8]| may_be_changed(name) && begins.iter().any(|begin| begins_so(name, begin));
        self.remove_where(|head, start| line_where(head, start, goes));
    }

    fn remove_where(&mut self, find: impl Fn(&[u8], usize) -> Option<Range<usize>>) {
        let Some(first) = find(self.head, 0) else { return };
        // The kept lines move up in one pass, however many are removed.
        let (mut end, mut next) = (first.start, Some(first));
        while let Some(line) = next {
            next = find(self.head, line.end);
            let kept = line.end..next.as_ref().map_or(self.head.len(), |line| line.start);
            self.head.copy_within(kept.clone(), end);
            end += kept.len();
        }
        self.head.truncate(end);
    }

    /// Returns a bit mask of the names that are present. Names after the 64th are not reported.
    pub(crate) fn present_mask(&self, names: &FieldFinder) -> u64 {
        let (mut start, mut there) = (0, 0);
        while let Some((which, line)) = names.find(self.head, start) {
            start = line.end;
            there |= 1_u64.checked_shl(which as u32).unwrap_or(0);
        }
        there
    }

    /// Whether a field of one of these names is present.
    pub(crate) fn has_any(&self, names: &FieldFinder) -> bool {
        names.find(self.head, 0).is_some()
    }

    /// Appends a line given in pieces, with its CRLF.
    fn write(&mut self, line: &[&[u8]]) {
        self.head.truncate(self.head.len().saturating_sub(2));
        line.iter().for_each(|piece| self.head.extend_from_slice(piece));
        self.head.extend_from_slice(b"\r\n");
    }

    /// Adds a request field to `Vary`: caches must know that the response depends on it (RFC 9110, 12.5.5).
    pub fn vary(&mut self, name: &str) {
        let says = |value: &[u8]| {
            let mut names = value.split(|byte| *byte == b',').map(<[u8]>::trim_ascii);
            names.any(|own| own == b"*" || own.eq_ignore_ascii_case(name.as_bytes()))
        };
        if !self.all("vary").any(says) {
            self.append("Vary", name.as_bytes());
        }
    }

    /// Turns a strong `ETag` into a weak one. The body no longer has the bytes that the tag identifies, only
    /// the same meaning (RFC 9110, 8.8.1).
    pub(crate) fn weaken_tag(&mut self) {
        let Some(line) = find_field_line(self.head, b"etag", 0) else { return };
        let text = &self.head[line.clone()][b"etag:".len()..];
        let start = line.end - text.trim_ascii_start().len();
        let value = start..start + text.trim_ascii().len();
        if self.head.get(start) != Some(&b'"') {
            return;
        }
        // Copied within the head, so that nothing is allocated.
        let end = self.head.len().saturating_sub(2);
        self.head.truncate(end);
        self.head.extend_from_slice(b"ETag: W/");
        self.head.extend_from_within(value);
        self.head.extend_from_slice(b"\r\n\r\n");
        self.remove_where(|head, from| find_field_line(head, b"etag", from).filter(|line| line.start < end));
    }

    /// Returns the length of the compressed form of the stored body that is sent, if there is one for this coding.
    /// `None` too if another transform comes first: then the form is not what the client would get.
    fn form_length(&self, coding: ContentCoding) -> Option<u64> {
        let form = self.stored.filter(|_| self.transform.is_none())?.stored.form(coding)?;
        Some(form.len() as u64)
    }

    /// Sends the compressed form of the stored body in place of the plain body, if there is one. Only its length in the head
    /// changes; the caller changes the other fields. Returns whether it is sent. Of a response without a body, only the length
    /// changes.
    pub(crate) fn use_form(&mut self, coding: ContentCoding) -> bool {
        let Some(length) = self.form_length(coding) else { return false };
        self.set_length(length);
        if self.body != BodyKind::Absent {
            self.form = Some(coding);
        }
        true
    }

    /// Starts to make a compressed form of the stored body that is sent. `None`: nothing stored is sent, or not as it is
    /// stored.
    pub(crate) fn begin_form(&self, coding: ContentCoding) -> Option<FormFill> {
        let StoredBody { store, stored } = self.stored.filter(|_| self.transform.is_none())?;
        store.begin_form(stored, coding)
    }

    /// Returns the coding of the form that is sent in place of the plain body.
    pub(crate) fn form(&self) -> Option<ContentCoding> {
        self.form
    }

    /// Transforms the body, if its kind is [`BodyKind::Transformable`]. The first caller receives the body as
    /// the endpoint sends it. The caller changes `Content-Encoding` and related fields; the gateway adjusts
    /// the length.
    pub fn transform(&mut self, transform: Box<dyn Transform>) {
        if self.body == BodyKind::Transformable {
            self.transform = Some(match self.transform.take() {
                Some(first) => then(first, transform),
                None => transform,
            });
        }
    }

    /// Returns the transform of the body and removes `Content-Length` from the head. `chunked`: adds
    /// `Transfer-Encoding: chunked`.
    pub(crate) fn into_transform(mut self, chunked: bool) -> Option<Box<dyn Transform>> {
        let transform = self.transform.take();
        if transform.is_some() {
            self.remove_raw(b"content-length");
            if chunked && self.get("transfer-encoding").is_none() {
                self.write(&[b"Transfer-Encoding: chunked\r\n"]);
            }
        }
        transform
    }
}

/// Returns the first line from `start` whose name fits; the status line is skipped.
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

/// Whether policies may change a field. Fields about framing are written by codecs only.
pub(crate) fn may_be_changed(name: &[u8]) -> bool {
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
    fn fields_of_the_response() {
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
    fn removing_a_name_keeps_the_order_of_the_rest() {
        let mut head = b"HTTP/1.1 200 OK\r\nS: 1\r\nA: 1\r\ns:2\r\nS: 3\r\nB: 22\r\nS: 4\r\n\r\n".to_vec();
        let mut response = Response::new(&mut head, BodyKind::Fixed);
        response.remove("S");
        assert_eq!((response.get("a"), response.get("B")), (Some(&b"1"[..]), Some(&b"22"[..])));
        response.append("C", b"3");
        response.remove("a");
        assert_eq!(response.get("c"), Some(&b"3"[..]));
        let names = FieldFinder::new([&b"c"[..], b"x", b"b"]);
        assert_eq!((response.present_mask(&names), response.has_any(&names)), (0b101, true));
        response.append("D", b"4");
        response.append("B", b"5");
        response.remove_all(&names);
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
        for (body, changes) in [(BodyKind::Fixed, false), (BodyKind::Transformable, true)] {
            let mut head = HEAD.to_vec();
            let mut response = Response::new(&mut head, body);
            response.transform(Box::new(Same));
            response.append("B", b"1");
            assert_eq!(response.into_transform(true).is_some(), changes, "{body:?}");
            let is_chunked =
                String::from_utf8_lossy(&head).contains("\r\nB: 1\r\nTransfer-Encoding: chunked\r\n\r\n");
            assert_eq!(is_chunked, changes, "{body:?}");
        }
    }

    #[test]
    fn transforms_are_chained() {
        let mut head = HEAD.to_vec();
        let mut response = Response::new(&mut head, BodyKind::Transformable);
        response.transform(Box::new(Same));
        response.transform(Box::new(Same));
        let (mut both, mut out) = (response.into_transform(false).expect("both"), Vec::new());
        assert_eq!((both.push(b"ab", &mut out), both.finish(&mut out)), (Ok(()), Ok(())));
        assert_eq!(out, b"ab..");
    }
}
