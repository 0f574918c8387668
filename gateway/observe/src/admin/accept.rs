//! Content negotiation between two formats (RFC 9110, section 12.5.1).

/// Returns whether the client prefers `other` to `default`, both of the form `type/subtype`. A client without
/// a preference gets the default.
pub(super) fn prefers(accept: &str, other: &str, default: &str) -> bool {
    quality(accept, other) > quality(accept, default)
}

/// Returns the weight, 0 to 1, that `accept` gives to a media type. The most specific range that covers the
/// type counts. Parameters other than `q` are ignored.
fn quality(accept: &str, media_type: &str) -> f32 {
    let main = media_type.split('/').next().unwrap_or_default();
    let mut best = (0, 0.0);
    for range in accept.split(',') {
        let mut parts = range.split(';').map(str::trim);
        let name = parts.next().unwrap_or_default();
        let specific = if name.eq_ignore_ascii_case(media_type) {
            3
        } else if name.strip_suffix("/*").is_some_and(|name| name.eq_ignore_ascii_case(main)) {
            2
        } else if name == "*/*" {
            1
        } else {
            continue;
        };
        let weight = parts.find_map(|part| part.strip_prefix("q=").or(part.strip_prefix("Q=")));
        let weight = weight.map_or(1.0, |weight| weight.parse::<f32>().unwrap_or(0.0).clamp(0.0, 1.0));
        if specific > best.0 {
            best = (specific, weight);
        }
    }
    best.1
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn preferences() {
        let cases = [
            ("", false),
            ("*/*", false),
            ("text/plain", true),
            ("TEXT/plain", true),
            ("text/*", true),
            ("text/plain, application/json", false),
            ("text/plain;q=0.5, application/json;q=0.4", true),
            ("text/plain;charset=utf-8;q=0.3, */*;q=0.1", true),
            ("application/json, text/plain;q=0.9", false),
            ("text/plain;q=0, */*", false),
            ("text/plain;q=x", false),
            ("text/html", false),
        ];
        for (accept, text) in cases {
            assert_eq!(prefers(accept, "text/plain", "application/json"), text, "{accept}");
        }
    }

    proptest! {
        #[test]
        fn no_text_upsets_it(accept: String) {
            let weight = quality(&accept, "text/plain");
            prop_assert!((0.0..=1.0).contains(&weight));
        }
    }
}
