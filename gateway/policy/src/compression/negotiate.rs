//! Negotiates the content encoding with the client, from `Accept-Encoding` and `Cache-Control`.
//!
//! `compression` selects an encoding with [`negotiate`]; `decompression` asks with [`accepts`] whether the
//! client accepts the endpoint's coding.

use tollgate_http::ContentCoding;

/// Returns the best of our encodings that the client accepts, by its weights and then by our order. `None`:
/// the body is sent without an encoding (RFC 9110, 12.5.3). `accepted`: the elements of its
/// `Accept-Encoding`.
pub(super) fn negotiate<'a>(
    accepted: impl Iterator<Item = &'a [u8]>,
    ours: &[ContentCoding],
) -> Option<ContentCoding> {
    let (mut named, mut others, mut plain) = ([None; ContentCoding::ALL.len()], None, None);
    for element in accepted {
        let mut parts = element.split(|byte| *byte == b';').map(<[u8]>::trim_ascii);
        let name = parts.next().unwrap_or_default();
        let weight = parts.find_map(|part| weight(part.strip_prefix(b"q=").or(part.strip_prefix(b"Q="))?));
        let weight = weight.unwrap_or(1000);
        if name == b"*" {
            others = Some(weight);
        } else if name.eq_ignore_ascii_case(b"identity") {
            plain = Some(weight);
        } else if let Some(encoding) = ContentCoding::of(name) {
            named[encoding as usize] = Some(weight);
        }
    }
    let weight = |encoding: &ContentCoding| named[*encoding as usize].or(others).unwrap_or(0);
    let best = ours.iter().copied().map(|encoding| (weight(&encoding), encoding));
    // Among equal weights the first encoding wins; `max_by_key` alone would return the last.
    let (most, best) = best.rev().max_by_key(|(weight, _)| *weight)?;
    // The body stays unencoded if the client prefers that.
    (most > 0 && most >= plain.unwrap_or(0)).then_some(best)
}

/// Whether a client accepts bodies of this coding. A client without the field receives the plain body. By RFC
/// 9110, 12.5.3 it would accept any coding, but few such clients mean that.
pub(crate) fn accepts<'a>(accepted: impl Iterator<Item = &'a [u8]>, coding: &str) -> bool {
    let (mut named, mut others) = (None, 0);
    for element in accepted {
        let mut parts = element.split(|byte| *byte == b';').map(<[u8]>::trim_ascii);
        let name = parts.next().unwrap_or_default();
        let weight = parts.find_map(|part| weight(part.strip_prefix(b"q=").or(part.strip_prefix(b"Q="))?));
        let weight = weight.unwrap_or(1000);
        if name == b"*" {
            others = weight;
        } else if name.strip_prefix(b"x-").unwrap_or(name).eq_ignore_ascii_case(coding.as_bytes()) {
            named = Some(weight);
        }
    }
    named.unwrap_or(others) > 0
}

/// Parses a weight in thousandths (RFC 9110, 12.4.2). An invalid weight counts as 0, so that the client does
/// not receive an encoding that it may have excluded.
fn weight(text: &[u8]) -> Option<u16> {
    let thousandths = |digits: &[u8]| {
        let known = digits.len() <= 3 && digits.iter().all(u8::is_ascii_digit);
        let scale = [1000, 100, 10, 1][digits.len().min(3)];
        let value = digits.iter().fold(0, |value: u16, digit| value * 10 + u16::from(digit & 0x0f));
        if known { value * scale } else { 0 }
    };
    Some(match text {
        b"1" => 1000,
        b"0" => 0,
        [b'1', b'.', rest @ ..] if rest.iter().all(|byte| *byte == b'0') => 1000,
        [b'0', b'.', rest @ ..] if rest.len() <= 3 => thousandths(rest),
        _ => 0,
    })
}

/// Whether these values of `Cache-Control` contain `no-transform`, from the client or the upstream (RFC 9111,
/// 5.2.1.6 and 5.2.2.6).
pub(crate) fn forbids_transform<'a>(values: impl Iterator<Item = &'a [u8]>) -> bool {
    let mut words = values.flat_map(|value| value.split(|byte| *byte == b','));
    words.any(|word| word.trim_ascii().eq_ignore_ascii_case(b"no-transform"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use ContentCoding::{Brotli, Gzip, Zstd};

    #[test]
    fn the_clients_weights_and_then_our_order() {
        for (accepted, chosen) in [
            ("", None),
            ("gzip", Some(Gzip)),
            ("gzip, br, zstd", Some(Zstd)),
            ("gzip, br", Some(Brotli)),
            ("GZIP;q=1.0, br;q=0.9", Some(Gzip)),
            ("gzip;q=0.5, zstd;q=0.50, br ; q=0.4", Some(Zstd)),
            ("*", Some(Zstd)),
            ("*;q=0", None),
            ("gzip, *;q=0", Some(Gzip)),
            ("zstd;q=0, *", Some(Brotli)),
            ("identity", None),
            ("identity;q=0.5, gzip;q=0.4", None),
            ("identity;q=0, gzip;q=0.001", Some(Gzip)),
            ("gzip;q=0", None),
            ("x-gzip", Some(Gzip)),
            ("gzip;q=x", None),
            ("deflate, compress", None),
        ] {
            let elements = accepted.split(',').map(|element| element.trim().as_bytes());
            assert_eq!(negotiate(elements, &[Zstd, Brotli, Gzip]), chosen, "{accepted}");
        }
    }
}
