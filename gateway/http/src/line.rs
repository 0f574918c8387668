//! A field as a line that is checked once and written many times.

use crate::Name;
use crate::chars::{is_value, token_length};

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
    fn what_can_be_no_field_is_no_line() {
        let line = FieldLine::new(b"X-A", b" b c ").expect("a field");
        assert_eq!((line.name(), line.bytes()), (&b"X-A"[..], &b"X-A: b c\r\n"[..]));
        assert_eq!(FieldLine::new(b"Host", b"").expect("a field").id(), Name::Host);
        for (name, value) in [("", "a"), ("x y", "a"), ("x:", "a"), ("x", "a\r\nb: c"), ("x", "a\0")] {
            assert_eq!(FieldLine::new(name.as_bytes(), value.as_bytes()), None, "{name}: {value}");
        }
    }
}
