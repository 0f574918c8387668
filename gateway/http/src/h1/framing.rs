//! Determines where a message ends (RFC 9112, section 6.3), and refuses ambiguous framing.
//!
//! The parsers and the HTTP/2 decoders call it after the last field. Invariant: a message is accepted only if
//! every conforming reader finds the same end, which rules out request smuggling.

use crate::body_length::{BodyLength, without_leading_zeros};
use crate::{Head, HeadError, Name, Version};

/// The length that a request's head declares. Anything that another reader could interpret differently is
/// refused: both fields at once, several lengths even if equal, a coding in HTTP/1.0, and every spelling but
/// the plain one.
pub(crate) fn declared_length(head: &Head, version: Version) -> Result<Option<BodyLength>, HeadError> {
    declared_by(head, version, decimal)
}

/// The length that a response's head declares. It may have leading zeros (RFC 9110, 8.6: `1*DIGIT`). The flag
/// is true if it has; the client then gets the [`without_leading_zeros`].
pub(crate) fn declared_length_in_response(
    head: &Head,
    version: Version,
) -> Result<(Option<BodyLength>, bool), HeadError> {
    let mut is_padded = false;
    let declared_length = declared_by(head, version, |text| {
        let plain = without_leading_zeros(text);
        is_padded = plain.len() < text.len();
        decimal(plain)
    });
    Ok((declared_length?, is_padded))
}

#[inline(always)]
fn declared_by(
    head: &Head,
    version: Version,
    decimal: impl FnOnce(&[u8]) -> Result<u64, HeadError>,
) -> Result<Option<BodyLength>, HeadError> {
    if head.is_repeated(Name::ContentLength) || head.is_repeated(Name::TransferEncoding) {
        return Err(HeadError::Length);
    }
    match (head.get(Name::ContentLength), head.get(Name::TransferEncoding)) {
        (None, None) => Ok(None),
        (Some(text), None) => decimal(text).map(|length| Some(BodyLength::Exactly(length))),
        (Some(_), Some(_)) => Err(HeadError::Length),
        (None, Some(coding)) => {
            if version == Version::Http10 {
                return Err(HeadError::Length);
            }
            if coding.eq_ignore_ascii_case(b"chunked") {
                return Ok(Some(BodyLength::Chunked));
            }
            Err(unsupported_coding(coding))
        }
    }
}

/// The error for a coding other than `chunked`. The gateway does not support a known coding before a final
/// chunked (501). Any other combination makes the end ambiguous.
fn unsupported_coding(value: &[u8]) -> HeadError {
    let mut members = value.split(|byte| *byte == b',').map(<[u8]>::trim_ascii);
    let is_chunked = |member: &[u8]| member.eq_ignore_ascii_case(b"chunked");
    let last = members.next_back().unwrap_or_default();
    let known = |member: &[u8]| {
        [&b"gzip"[..], b"x-gzip", b"deflate", b"compress", b"x-compress"]
            .iter()
            .any(|coding| member.eq_ignore_ascii_case(coding))
    };
    if is_chunked(last) && members.all(known) { HeadError::Coding } else { HeadError::Length }
}

/// Parses a length: only digits, without leading zeros, and below 2^63, because some origins store it as a
/// signed number.
fn decimal(text: &[u8]) -> Result<u64, HeadError> {
    let plain = match text {
        [b'0'] => true,
        [b'1'..=b'9', rest @ ..] => rest.len() < 19 && rest.iter().all(u8::is_ascii_digit),
        _ => false,
    };
    if !plain {
        return Err(HeadError::Length);
    }
    let value = text.iter().try_fold(0u64, |sum, digit| {
        sum.checked_mul(10).and_then(|sum| sum.checked_add(u64::from(digit - b'0')))
    });
    value.filter(|value| i64::try_from(*value).is_ok()).ok_or(HeadError::Length)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths() {
        for (text, value) in [("0", 0), ("5", 5), ("9223372036854775807", i64::MAX as u64)] {
            assert_eq!(decimal(text.as_bytes()), Ok(value));
        }
        for (text, plain) in
            [("0", "0"), ("0000", "0"), ("0002", "2"), ("20", "20"), ("", ""), ("0x5", "0x5"), ("0+5", "0+5")]
        {
            assert_eq!(without_leading_zeros(text.as_bytes()), plain.as_bytes());
        }
        for text in [
            "",
            "+5",
            "-1",
            "010",
            "00",
            "5 ",
            "0x5",
            "1_0",
            "5,5",
            "9223372036854775808",
            "18446744073709551616",
        ] {
            assert_eq!(decimal(text.as_bytes()), Err(HeadError::Length), "{text}");
        }
    }

    #[test]
    fn no_length_overflows() {
        let of_endpoint = |text: &str| decimal(without_leading_zeros(text.as_bytes()));
        let zeros = "0".repeat(10_000);
        for (text, value) in
            [(zeros.clone(), 0), (format!("{zeros}1"), 1), (format!("{zeros}{}", i64::MAX), i64::MAX as u64)]
        {
            assert_eq!(of_endpoint(&text), Ok(value));
            assert_eq!(decimal(text.as_bytes()), Err(HeadError::Length), "a client writes no zeros");
        }
        for text in [
            (1_u64 << 63).to_string(),
            u64::MAX.to_string(),
            format!("{zeros}{}", 1_u64 << 63),
            format!("{zeros}{}", u128::from(u64::MAX) + 1),
            u128::MAX.to_string(),
            "9".repeat(10_000),
            "-0".to_owned(),
            "+0".to_owned(),
            "0-1".to_owned(),
        ] {
            assert_eq!(of_endpoint(&text), Err(HeadError::Length), "{text}");
        }
    }
}
