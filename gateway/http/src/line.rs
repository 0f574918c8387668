//! Fields as lines: made once and written many times, and found in heads that are written.

use std::ops::Range;

use memchr::memchr;

use crate::Name;
use crate::chars::{is_value, line_with, token_length};

/// Where the first line from `start` on stands, with what ends it, that is a field of this name, in any case. `head`: start
/// line and lines, each with its end.
#[must_use]
pub fn line_of(head: &[u8], name: &[u8], mut start: usize) -> Option<Range<usize>> {
    let letter = *name.first()?;
    loop {
        start = line_with(head, start, letter)?;
        let colon = start + name.len();
        // Nearly every line of another name has something else where the colon would be.
        if head.get(colon) == Some(&b':') && head[start..colon].eq_ignore_ascii_case(name) {
            let end = memchr(b'\n', &head[colon..])?;
            return Some(start..colon + end + 1);
        }
        start += 1;
    }
}

/// A field as a line. It is checked when it is made, so that who adds it to a head only copies it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldLine {
    bytes: Box<[u8]>,
    name: usize,
    id: Name,
}

impl FieldLine {
    /// Nothing for a name that is none, or a value that would end its line.
    #[must_use]
    pub fn new(name: &[u8], value: &[u8]) -> Option<Self> {
        let value = value.trim_ascii();
        let fits = !name.is_empty() && token_length(name) == name.len() && is_value(value);
        let bytes = || [name, b": ", value, b"\r\n"].concat().into();
        fits.then(|| Self { bytes: bytes(), name: name.len(), id: Name::of(name) })
    }

    /// The name as it was written.
    #[must_use]
    pub fn name(&self) -> &[u8] {
        &self.bytes[..self.name]
    }

    /// The name, if it is known.
    pub(crate) fn id(&self) -> Name {
        self.id
    }

    /// All of the line, with its CRLF.
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
            while let Some(line) = line_of(head, name, start) {
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
    }

    #[test]
    fn what_can_be_no_field_is_no_line() {
        let line = FieldLine::new(b"X-A", b" b c ").expect("a field");
        assert_eq!((line.name(), line.bytes()), (&b"X-A"[..], &b"X-A: b c\r\n"[..]));
        assert_eq!(FieldLine::new(b"Host", b"").expect("a field").id(), Name::Host);
        for (name, value) in [("", "a"), ("x y", "a"), ("x:", "a"), ("x", "a\r\nb: c"), ("x", "a\0")] {
            assert_eq!(FieldLine::new(name.as_bytes(), value.as_bytes()), None, "{name}: {value}");
        }
    }
}
