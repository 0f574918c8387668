//! Percent-encoding (RFC 3986, section 2.1), shared by paths and queries.

use std::borrow::Cow;

/// Returns the byte of the escape at the start of `bytes`; `None` if there is no `%XX`.
pub(crate) fn decode(bytes: &[u8]) -> Option<u8> {
    match bytes {
        [b'%', high, low, ..] => Some(digit(*high)? << 4 | digit(*low)?),
        _ => None,
    }
}

/// Decodes every escape; a `%` without two hexadecimal digits stays.
#[must_use]
pub fn percent_decoded(text: &[u8]) -> Cow<'_, [u8]> {
    if memchr::memchr(b'%', text).is_none() {
        return Cow::Borrowed(text);
    }
    let (mut out, mut rest) = (Vec::with_capacity(text.len()), text);
    while let Some((&byte, behind)) = rest.split_first() {
        let escape = decode(rest);
        out.push(escape.unwrap_or(byte));
        rest = if escape.is_some() { &rest[3..] } else { behind };
    }
    Cow::Owned(out)
}

/// Returns the escape of `byte`, with upper-case digits (RFC 3986, section 6.2.2.1).
pub(crate) fn encode(byte: u8) -> [u8; 3] {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    [b'%', DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]
}

fn digit(byte: u8) -> Option<u8> {
    match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        b'A'..=b'F' => Some(byte - b'A' + 10),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_survives() {
        for byte in 0..=255 {
            let escape = encode(byte);
            assert_eq!(decode(&escape), Some(byte));
            assert_eq!(decode(&escape.map(|b| b.to_ascii_lowercase())), Some(byte));
            assert_eq!(*percent_decoded(&escape), [byte]);
        }
    }

    #[test]
    fn malformed_escapes() {
        for text in [&b""[..], b"%", b"%2", b"%2g", b"%g2", b"2f", b"% 2", b"%+2"] {
            assert_eq!(decode(text), None, "{text:?}");
            assert_eq!(*percent_decoded(text), *text, "{text:?}");
        }
    }
}
