//! The bytes for which a message is refused, for the log.
//!
//! Whoever answers with an error asks for them, once, after a parser has refused something. They are as received: whoever
//! writes them escapes them. Values of credentials never come out.

use crate::h2::is_field;
use crate::{HeadError, Name};

/// Bytes that are shown at most.
const MOST: usize = 64;
/// Bytes that are shown behind the one at fault.
const BEHIND: usize = 8;

/// Of the line that begins at `start`, up to [`MOST`] bytes, among them the one at `fault`.
pub(crate) fn of_line(bytes: &[u8], start: usize, fault: usize) -> Option<Vec<u8>> {
    let fault = fault.min(bytes.len());
    let start = start.min(fault).max((fault + BEHIND).saturating_sub(MOST));
    let line = &bytes[start..bytes.len().min(start + MOST)];
    // No further than the end of the line, unless that itself is at fault.
    let behind = fault - start;
    let end = line[behind..].windows(2).position(|pair| pair == b"\r\n").map_or(line.len(), |at| behind + at);
    Some(&line[..end]).filter(|line| !line.is_empty()).map(<[u8]>::to_vec)
}

/// Of a field line: the value of a credential is left out, but for the byte at fault.
pub(crate) fn of_field_line(bytes: &[u8], start: usize, fault: usize) -> Option<Vec<u8>> {
    let line = bytes.get(start..)?;
    let name = line.iter().position(|byte| *byte == b':').filter(|colon| start + colon < fault);
    match name {
        Some(colon) if is_secret(line[..colon].trim_ascii()) => {
            let byte = bytes.get(fault..=fault).unwrap_or_default();
            Some([&line[..colon.min(MOST)], b": ", byte].concat())
        }
        _ => of_line(bytes, start, fault),
    }
}

/// Of fields that were read, those which the error is about; HTTP/2's pseudo-fields among them.
pub fn of_fields<'a>(
    error: HeadError,
    fields: impl Iterator<Item = (&'a [u8], &'a [u8])>,
) -> Option<Vec<u8>> {
    let is_meant = |name: &[u8], value: &[u8]| match error {
        HeadError::StartLine | HeadError::Version => name.starts_with(b":"),
        HeadError::Field => !name.starts_with(b":") && is_bad(name, value),
        HeadError::Length | HeadError::Coding => {
            matches!(Name::of(name), Name::ContentLength | Name::TransferEncoding)
        }
        HeadError::Host => name == b":authority" || Name::of(name) == Name::Host,
        HeadError::Expect => Name::of(name) == Name::Expect,
        HeadError::LineTooLong | HeadError::TooLarge | HeadError::TooMany => false,
    };
    let mut out = Vec::new();
    for (name, value) in fields.filter(|(name, value)| is_meant(name, value)) {
        if !out.is_empty() {
            out.extend_from_slice(b", ");
        }
        out.extend_from_slice(name);
        out.extend_from_slice(b": ");
        if !is_secret(name) {
            out.extend_from_slice(value);
        }
        if out.len() >= MOST || error == HeadError::Field {
            break;
        }
    }
    out.truncate(MOST);
    Some(out).filter(|out| !out.is_empty())
}

/// Whether HTTP/2 has no place for a field.
fn is_bad(name: &[u8], value: &[u8]) -> bool {
    !is_field(name, value)
        || match Name::of(name) {
            Name::Connection
            | Name::KeepAlive
            | Name::ProxyConnection
            | Name::TransferEncoding
            | Name::Upgrade => true,
            Name::Te => value != b"trailers",
            _ => false,
        }
}

/// Whether a field's value may be what somebody proves with who it is.
fn is_secret(name: &[u8]) -> bool {
    let name = name.to_ascii_lowercase();
    let has = |part: &str| name.windows(part.len()).any(|some| some == part.as_bytes());
    let is_pseudo = name.starts_with(b":");
    Name::of(&name).is_credential()
        || !is_pseudo && ["auth", "cookie", "key", "secret", "token"].into_iter().any(has)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_shown_around_its_fault() {
        assert_eq!(of_line(b"GET  / HTTP/1.1\r\nHost: a\r\n", 0, 4).unwrap(), b"GET  / HTTP/1.1");
        assert_eq!(of_line(b"a: b\r\nX : y\r\nc: d", 6, 7).unwrap(), b"X : y");
        assert_eq!(of_line(b"a\nb", 0, 1).unwrap(), b"a\nb");
        let long = [vec![b'a'; 500], vec![0], vec![b'b'; 500]].concat();
        let shown = of_line(&long, 0, 500).unwrap();
        assert_eq!((shown.len(), shown[MOST - BEHIND]), (MOST, 0));
        assert_eq!(of_line(b"", 0, 0), None);
        assert_eq!(of_line(b"ab", 9, 9), None);
    }

    #[test]
    fn credentials_are_not_shown() {
        for line in ["Authorization: Basic abc\u{1}", "Cookie: abc\u{1}", "X-Api-Key: abc\u{1}"] {
            let shown = of_field_line(line.as_bytes(), 0, line.len() - 1).unwrap();
            assert!(!shown.windows(3).any(|some| some == b"abc") && shown.ends_with(b": \x01"), "{line}");
        }
        assert_eq!(of_field_line(b"X-A: abc\x01", 0, 8).unwrap(), b"X-A: abc\x01");
        let fields = [(&b"cookie"[..], &b"abc\n"[..])];
        assert_eq!(of_fields(HeadError::Field, fields.into_iter()).unwrap(), b"cookie: ");
    }

    #[test]
    fn fields_are_those_that_the_error_is_about() {
        let fields = [
            (&b":method"[..], &b"GET"[..]),
            (b":path", b"a"),
            (b":authority", b"a"),
            (b"host", b"b"),
            (b"content-length", b"+5"),
            (b"Upper", b"case"),
            (b"upgrade", b"h2c"),
        ];
        for (error, shown) in [
            (HeadError::StartLine, &b":method: GET, :path: a, :authority: a"[..]),
            (HeadError::Host, b":authority: a, host: b"),
            (HeadError::Length, b"content-length: +5"),
            (HeadError::Field, b"Upper: case"),
        ] {
            assert_eq!(of_fields(error, fields.into_iter()).as_deref(), Some(shown), "{error:?}");
        }
        assert_eq!(of_fields(HeadError::TooLarge, fields.into_iter()), None);
        let long = [b'x'; 500];
        let shown = of_fields(HeadError::Length, [(&b"content-length"[..], &long[..])].into_iter());
        assert_eq!(shown.unwrap().len(), MOST);
    }
}
