//! The encodings of files that were compressed in advance, and the choice among them.

use tollgate_http::ContentCoding;

/// Returns the end of the names of files in a coding, with the dot.
#[must_use]
pub const fn suffix(coding: ContentCoding) -> &'static str {
    match coding {
        ContentCoding::Zstd => ".zst",
        ContentCoding::Brotli => ".br",
        ContentCoding::Gzip => ".gz",
    }
}

/// Returns the coding of files with this suffix, without the dot.
#[must_use]
pub fn coding_of_suffix(wanted: &str) -> Option<ContentCoding> {
    ContentCoding::ALL.into_iter().find(|coding| suffix(*coding)[1..] == *wanted)
}

/// Chooses among `available` the encoding that the client accepts with the greatest weight (RFC 9110, 12.5.3), the
/// first of equal ones. `None`: the plain file, which is used if no encoding is accepted, or if the client gives it a
/// greater weight.
#[must_use]
pub fn choose(
    accept_encoding: &[u8],
    available: impl Iterator<Item = ContentCoding>,
) -> Option<ContentCoding> {
    let plain = weight(accept_encoding, "identity").unwrap_or(0);
    let any = weight(accept_encoding, "*").unwrap_or(0);
    let mut best: Option<(ContentCoding, u32)> = None;
    for coding in available {
        let weight = weight(accept_encoding, coding.name())
            // RFC 9110, 8.4.1.3.
            .or_else(|| (coding == ContentCoding::Gzip).then(|| weight(accept_encoding, "x-gzip")).flatten())
            .unwrap_or(any);
        if weight > 0 && weight >= plain && best.is_none_or(|(_, most)| weight > most) {
            best = Some((coding, weight));
        }
    }
    best.map(|(coding, _)| coding)
}

/// Returns the weight of a member of `Accept-Encoding` in thousandths; `None` if it is not listed.
fn weight(accept_encoding: &[u8], name: &str) -> Option<u32> {
    accept_encoding.split(|byte| *byte == b',').find_map(|member| {
        let mut parts = member.split(|byte| *byte == b';').map(<[u8]>::trim_ascii);
        if !parts.next()?.eq_ignore_ascii_case(name.as_bytes()) {
            return None;
        }
        let weight = parts.find_map(|part| match part {
            [b'q' | b'Q', rest @ ..] => rest.trim_ascii_start().strip_prefix(b"="),
            _ => None,
        });
        Some(weight.map_or(1000, |weight| thousandths(weight.trim_ascii())))
    })
}

/// Parses a weight (RFC 9110, 12.4.2). A malformed weight counts as 0.
fn thousandths(weight: &[u8]) -> u32 {
    match weight {
        [b'1'] => 1000,
        [b'1', b'.', rest @ ..] if rest.len() <= 3 && rest.iter().all(|digit| *digit == b'0') => 1000,
        [b'0', b'.', rest @ ..] if rest.len() <= 3 && rest.iter().all(u8::is_ascii_digit) => {
            let digits = rest.iter().fold(0, |sum, digit| sum * 10 + u32::from(digit - b'0'));
            digits * 10_u32.pow(3 - rest.len() as u32)
        }
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_greatest_weight_wins() {
        use ContentCoding::{Brotli, Gzip, Zstd};
        for (accept, chosen) in [
            ("gzip, deflate, br, zstd", Some(Zstd)),
            ("gzip, deflate, br", Some(Brotli)),
            ("gzip;q=1.0, br;q=0.9", Some(Gzip)),
            ("br;q=0, gzip;q=0.001", Some(Gzip)),
            ("br;q=0", None),
            ("", None),
            ("*", Some(Zstd)),
            ("zstd;q=0, *;q=0.5", Some(Brotli)),
            ("identity, gzip;q=0.5", None),
            ("identity;q=0.5, gzip", Some(Gzip)),
            ("X-GZIP", Some(Gzip)),
            ("BR ; Q = 0.3", Some(Brotli)),
            ("br;q=2", None),
        ] {
            let available = [Zstd, Brotli, Gzip].into_iter();
            assert_eq!(choose(accept.as_bytes(), available), chosen, "{accept}");
        }
        assert_eq!(choose(b"br, gzip", [Gzip].into_iter()), Some(Gzip));
    }
}
