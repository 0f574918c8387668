//! Fields as lines: prepared lines that are written many times, and search for lines in heads.
//!
//! The header policies prepare a [`FieldLine`] for each field that they set, and a [`FieldFinder`] for the
//! fields that they remove. A [`FieldFinder`] works on heads that are already written as text, so a response
//! is edited without being parsed again.

use std::ops::Range;

use memchr::memchr;

use crate::Name;
use crate::chars::{find_line, is_lower_token, is_token, is_value};

/// Whether HTTP/1 allows these as the name and the value of a field; the value cannot end its line (RFC 9110,
/// 5.1 and 5.5).
#[must_use]
pub fn is_field(name: &[u8], value: &[u8]) -> bool {
    is_token(name) && is_value(value)
}

/// Whether HTTP/2 allows these as a field: the name is a token without upper-case letters, and the value has
/// no control bytes and no white space around it (RFC 9113, 8.2.1).
#[must_use]
pub fn is_http2_field(name: &[u8], value: &[u8]) -> bool {
    let is_blank = |byte: Option<&u8>| matches!(byte, Some(b' ' | b'\t'));
    is_lower_token(name) && is_value(value) && !is_blank(value.first()) && !is_blank(value.last())
}

/// Finds the first line from `start` on that is a field with this name, in any case. Returns its range, line
/// end included. `head` is a start line and field lines, each with its line end.
#[must_use]
pub fn find_field_line(head: &[u8], name: &[u8], start: usize) -> Option<Range<usize>> {
    let line = find_line(head, start, |line| is_named(head, line, name))?;
    line_range(head, line, name)
}

/// Whether the line at `line` is a field with this name.
#[inline(always)]
fn is_named(head: &[u8], line: usize, name: &[u8]) -> bool {
    // Nearly every line with another name has another byte where the colon would be.
    head.get(line + name.len()) == Some(&b':')
        && head.get(line..line + name.len()).is_some_and(|own| own.eq_ignore_ascii_case(name))
}

/// The range of a line with this name, line end included.
fn line_range(head: &[u8], line: usize, name: &[u8]) -> Option<Range<usize>> {
    let colon = line + name.len();
    Some(line..colon + memchr(b'\n', head.get(colon..)?)? + 1)
}

/// A set of field names to search for together. One look at a line's first letter rules out most lines.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldFinder {
    names: Box<[Box<[u8]>]>,
    /// One bit for each of their first letters.
    letters: u32,
}

impl FieldFinder {
    /// Creates a set; empty names are left out.
    pub fn new<'n>(names: impl IntoIterator<Item = &'n [u8]>) -> Self {
        let names: Box<[Box<[u8]>]> =
            names.into_iter().filter(|name| !name.is_empty()).map(Into::into).collect();
        let letters = names.iter().fold(0, |letters, name| letters | letter_bit(name[0]));
        Self { names, letters }
    }

    /// Whether the set is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// Whether HTTP/2 allows these as a field: the name is a token without upper-case letters, and the value has
    /// no control bytes and no white space around it (RFC 9113, 8.2.1).
    #[must_use]
    pub fn is_http2_field(name: &[u8], value: &[u8]) -> bool {
        let is_blank = |byte: Option<&u8>| matches!(byte, Some(b' ' | b'\t'));
        is_lower_token(name) && is_value(value) && !is_blank(value.first()) && !is_blank(value.last())
    }

    /// Finds the first line from `start` on that is a field with one of these names. Returns the index of the
    /// name, and the line's range, line end included. `head` is as for [`find_field_line`].
    #[must_use]
    pub fn find(&self, head: &[u8], start: usize) -> Option<(usize, Range<usize>)> {
        let letters = self.letters;
        let line = find_line(head, start, |line| {
            head.get(line).is_some_and(|first| letters & letter_bit(*first) != 0)
                && self.index_of(head, line).is_some()
        })?;
        let index = self.index_of(head, line)?;
        Some((index, line_range(head, line, &self.names[index])?))
    }

    /// The index of the name of the line at `line`, if it is in the set. Not inlined: few lines get this far,
    /// and inlined it would compete with the search for registers.
    #[inline(never)]
    fn index_of(&self, head: &[u8], line: usize) -> Option<usize> {
        self.names.iter().position(|name| is_named(head, line, name))
    }
}

/// The bit of a letter, in either case. Other bytes, which are rare, share these bits.
fn letter_bit(byte: u8) -> u32 {
    1 << (byte & 0x1f)
}

/// A field as a prepared line. It is validated when it is created, so that adding it to a head only copies
/// it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldLine {
    bytes: Box<[u8]>,
    name: usize,
    id: Name,
}

impl FieldLine {
    /// Creates the line; `None` if the name is no token, or the value would end the line.
    #[must_use]
    pub fn new(name: &[u8], value: &[u8]) -> Option<Self> {
        let value = value.trim_ascii();
        let bytes = || [name, b": ", value, b"\r\n"].concat().into();
        is_field(name, value).then(|| Self { bytes: bytes(), name: name.len(), id: Name::of(name) })
    }

    /// The name as written.
    #[must_use]
    pub fn name(&self) -> &[u8] {
        &self.bytes[..self.name]
    }

    /// The known name, if it is one.
    pub(crate) fn id(&self) -> Name {
        self.id
    }

    /// The whole line, with its CRLF.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_found_by_their_names() {
        let head = b"HTTP/1.1 200 OK\r\nA: 1\r\nAccept:2\r\nb: A: 3\r\na : 4\r\na: 5\r\n\r\nA: 6\r";
        let all = |name: &[u8]| {
            let (mut start, mut found) = (0, Vec::new());
            while let Some(line) = find_field_line(head, name, start) {
                start = line.end;
                found.push(String::from_utf8_lossy(&head[line]).into_owned());
            }
            found
        };
        assert_eq!(all(b"a"), ["A: 1\r\n", "a: 5\r\n"]);
        assert_eq!(all(b"ACCEPT"), ["Accept:2\r\n"]);
        assert_eq!(all(b"B"), ["b: A: 3\r\n"]);
        for none in [&b"HTTP/1.1 200 OK"[..], b"acc", b"accept:2", b"", b"c"] {
            assert_eq!(all(none), [""; 0], "{none:?}");
        }
        let names = FieldFinder::new([&b"B"[..], b"ACCEPT", b"", b"_x", b"a"]);
        let (mut start, mut found) = (0, Vec::new());
        while let Some((index, line)) = names.find(head, start) {
            start = line.end;
            found.push((index, String::from_utf8_lossy(&head[line]).into_owned()));
        }
        let expected = [(3, "A: 1\r\n"), (1, "Accept:2\r\n"), (0, "b: A: 3\r\n"), (3, "a: 5\r\n")];
        assert_eq!(found, expected.map(|(index, line)| (index, line.to_owned())));
        assert!(FieldFinder::new([&b""[..]]).find(head, 0).is_none());
    }

    #[test]
    fn invalid_fields_make_no_line() {
        let line = FieldLine::new(b"X-A", b" b c ").expect("a field");
        assert_eq!((line.name(), line.bytes()), (&b"X-A"[..], &b"X-A: b c\r\n"[..]));
        assert_eq!(FieldLine::new(b"Host", b"").expect("a field").id(), Name::Host);
        for (name, value) in [("", "a"), ("x y", "a"), ("x:", "a"), ("x", "a\r\nb: c"), ("x", "a\0")] {
            assert_eq!(FieldLine::new(name.as_bytes(), value.as_bytes()), None, "{name}: {value}");
        }
    }
}
