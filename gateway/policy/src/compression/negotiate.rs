//! Which encoding a client gets.

use super::Encoding;

/// The best of ours that the client takes, by its weights and then by our order; `None`: it gets the body as it is
/// (RFC 9110, 12.5.3). `accepted`: the elements of its `Accept-Encoding`.
pub(super) fn negotiate<'a>(accepted: impl Iterator<Item = &'a [u8]>, ours: &[Encoding]) -> Option<Encoding> {
    let (mut named, mut others, mut plain) = ([None; Encoding::ALL.len()], None, None);
    for element in accepted {
        let mut parts = element.split(|byte| *byte == b';').map(<[u8]>::trim_ascii);
        let name = parts.next().unwrap_or_default();
        let weight = parts.find_map(|part| weight(part.strip_prefix(b"q=").or(part.strip_prefix(b"Q="))?));
        let weight = weight.unwrap_or(1000);
        if name == b"*" {
            others = Some(weight);
        } else if name.eq_ignore_ascii_case(b"identity") {
            plain = Some(weight);
        } else if let Some(encoding) = Encoding::of(name) {
            named[encoding as usize] = Some(weight);
        }
    }
    let weight = |encoding: &Encoding| named[*encoding as usize].or(others).unwrap_or(0);
    let best = ours.iter().copied().map(|encoding| (weight(&encoding), encoding));
    // Of equals the first counts, which `max_by_key` would not do.
    let (most, best) = best.rev().max_by_key(|(weight, _)| *weight)?;
    // As it is, unless the client likes that better.
    (most > 0 && most >= plain.unwrap_or(0)).then_some(best)
}

/// Whether a client says that it takes bodies of this coding. Who says nothing gets them plain: that it would take any
/// (RFC 9110, 12.5.3) is not what is meant by it.
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

/// A weight in thousandths (RFC 9110, 12.4.2); 0 if it is none, so that nobody gets what they may not have wanted.
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

/// Whether these values of `Cache-Control` want the content left as it is: whoever writes them, client or upstream (RFC 9111,
/// 5.2.1.6 and 5.2.2.6).
pub(crate) fn forbids_transform<'a>(values: impl Iterator<Item = &'a [u8]>) -> bool {
    let mut words = values.flat_map(|value| value.split(|byte| *byte == b','));
    words.any(|word| word.trim_ascii().eq_ignore_ascii_case(b"no-transform"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use Encoding::{Brotli, Gzip, Zstd};

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
