//! Extracts the bytes for which a message is refused, for the log.
//!
//! The parsers and the HTTP/2 request decoder call it once they have refused a message. The result is raw;
//! the log escapes it. The value of a credential is left out. If the part before the first colon names a
//! credential anywhere, only its first word counts as the name, because the line is malformed and a value may
//! follow that word.

use crate::{HeadError, Name, is_http2_field};

/// Most bytes of a result.
const RESULT_MAX_BYTES: usize = 64;
/// Bytes that are shown after the one at fault.
const CONTEXT_AFTER_BYTES: usize = 8;

/// Up to [`RESULT_MAX_BYTES`] bytes of the line that begins at `start`, the byte at `fault` among them.
pub(crate) fn of_line(bytes: &[u8], start: usize, fault: usize) -> Option<Vec<u8>> {
    let fault = fault.min(bytes.len());
    let start = start.min(fault).max((fault + CONTEXT_AFTER_BYTES).saturating_sub(RESULT_MAX_BYTES));
    let line = &bytes[start..bytes.len().min(start + RESULT_MAX_BYTES)];
    // The result ends with the line, unless the end of the line itself is at fault.
    let offset = fault - start;
    let end = line[offset..].windows(2).position(|pair| pair == b"\r\n").map_or(line.len(), |at| offset + at);
    Some(&line[..end]).filter(|line| !line.is_empty()).map(<[u8]>::to_vec)
}

/// The same for a field line. Leaves out the value of a credential, except the byte at fault. Leaves out a
/// folded line too, because it may continue such a value.
pub(crate) fn of_field_line(bytes: &[u8], start: usize, fault: usize) -> Option<Vec<u8>> {
    let rest = bytes.get(start..)?;
    let line = &rest[..rest.windows(2).position(|pair| pair == b"\r\n").unwrap_or(rest.len())];
    if matches!(line, [b' ' | b'\t', ..]) {
        return of_byte(bytes, fault);
    }
    let is_blank = |byte: &u8| matches!(byte, b' ' | b'\t');
    let colon = line.iter().position(|byte| *byte == b':');
    let word_end = line.iter().position(|byte| *byte == b':' || is_blank(byte)).unwrap_or(line.len());
    // A line without a colon may still be a name and a value.
    if !is_secret(&line[..colon.unwrap_or(word_end)]) {
        return of_line(bytes, start, fault);
    }
    let colon = colon.filter(|colon| line[word_end..*colon].iter().all(is_blank));
    let name_end = colon.unwrap_or(word_end);
    let mut shown = line[..name_end.min(RESULT_MAX_BYTES)].to_vec();
    if colon.is_some() {
        shown.push(b':');
    }
    if start + name_end < fault {
        shown.push(b' ');
        shown.extend(of_byte(bytes, fault).unwrap_or_default());
    }
    Some(shown)
}

/// Returns only the byte at fault, because the bytes around it are data.
pub(crate) fn of_byte(bytes: &[u8], fault: usize) -> Option<Vec<u8>> {
    bytes.get(fault..=fault).map(<[u8]>::to_vec)
}

/// Returns the fields to which the error applies, from the fields read so far. HTTP/2's pseudo-fields are
/// included.
pub fn of_fields<'a>(
    error: HeadError,
    fields: impl Iterator<Item = (&'a [u8], &'a [u8])>,
) -> Option<Vec<u8>> {
    let is_meant = |name: &[u8], value: &[u8]| match error {
        HeadError::StartLine | HeadError::Version => name.starts_with(b":"),
        HeadError::Field => !name.starts_with(b":") && is_forbidden_field(name, value),
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
        if out.len() >= RESULT_MAX_BYTES || error == HeadError::Field {
            break;
        }
    }
    out.truncate(RESULT_MAX_BYTES);
    Some(out).filter(|out| !out.is_empty())
}

/// Whether HTTP/2 forbids a field.
fn is_forbidden_field(name: &[u8], value: &[u8]) -> bool {
    !is_http2_field(name, value)
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

/// Whether the value of a field may be a secret. Bytes that no valid name contains are ignored, so they
/// cannot hide it.
fn is_secret(name: &[u8]) -> bool {
    if name.starts_with(b":") {
        return false;
    }
    let is_part = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    let name: Vec<u8> = name.iter().filter(|byte| is_part(byte)).map(u8::to_ascii_lowercase).collect();
    let has = |part: &str| name.windows(part.len()).any(|some| some == part.as_bytes());
    Name::of(&name).is_credential() || ["auth", "cookie", "key", "secret", "token"].into_iter().any(has)
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
        assert_eq!((shown.len(), shown[RESULT_MAX_BYTES - CONTEXT_AFTER_BYTES]), (RESULT_MAX_BYTES, 0));
        assert_eq!(of_line(b"", 0, 0), None);
        assert_eq!(of_line(b"ab", 9, 9), None);
    }

    #[test]
    fn credentials_are_not_shown() {
        for (line, fault, expected) in [
            ("Authorization : Basic abc\r\nX: y", 13, "Authorization :"),
            ("Authorization Basic abc:\r\n", 13, "Authorization"),
            ("Authorization\tBasic abc : d\r\n", 13, "Authorization"),
            ("My Token: abc\r\n", 2, "My"),
            ("Cookie abc\r\nX: y", 6, "Cookie"),
            ("Coo\0kie: abc\r\n", 3, "Coo\0kie:"),
            (" abc\r\nX: y", 0, " "),
            ("\tabc: d\u{1}", 7, "\u{1}"),
            ("X-Token\n: abc", 7, "X-Token\n:"),
        ] {
            let shown = of_field_line(line.as_bytes(), 0, fault).unwrap();
            assert_eq!(String::from_utf8_lossy(&shown), expected, "{line:?}");
        }
        for line in ["Authorization: Basic abc\u{1}", "Cookie: abc\u{1}", "X-Api-Key: abc\u{1}"] {
            let shown = of_field_line(line.as_bytes(), 0, line.len() - 1).unwrap();
            assert!(!shown.windows(3).any(|some| some == b"abc") && shown.ends_with(b": \x01"), "{line}");
        }
        assert_eq!(of_field_line(b"X-A: abc\x01", 0, 8).unwrap(), b"X-A: abc\x01");
        let fields = [(&b"cookie"[..], &b"abc\n"[..])];
        assert_eq!(of_fields(HeadError::Field, fields.into_iter()).unwrap(), b"cookie: ");
    }

    #[test]
    fn the_shown_field_is_the_rejected_one() {
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
        assert_eq!(shown.unwrap().len(), RESULT_MAX_BYTES);
    }
}
