//! The entity tags of the representations that a client holds.

use crate::Request;

/// The tags of a request's `If-None-Match` (RFC 9110, 13.1.2).
#[derive(Debug, Default)]
pub(crate) struct KnownTags(Box<[u8]>);

impl KnownTags {
    pub fn of(request: &Request<'_>) -> Self {
        let values: Vec<_> = request.head.head.all_by_text(b"if-none-match").collect();
        Self(values.join(&b", "[..]).into())
    }

    /// Whether the client holds the endpoint's original representation with this strong tag: it sends the
    /// strong tag and not the weak form that transformed bodies get. The 304 must then keep the strong tag.
    /// Otherwise the client could neither send `If-Match` nor request ranges (RFC 9110, 13.1.1 and 13.1.5).
    pub fn has_original(&self, tag: &[u8]) -> bool {
        let (mut strong, mut weak) = (false, false);
        let mut rest = &self.0[..];
        // A quoted tag contains no quotes but may contain commas.
        while let Some(begin) = rest.iter().position(|byte| *byte == b'"') {
            let Some(length) = rest[begin + 1..].iter().position(|byte| *byte == b'"') else { break };
            let end = begin + length + 2;
            if rest[begin..end] == *tag {
                let is_weak = rest[..begin].ends_with(b"W/");
                strong |= !is_weak;
                weak |= is_weak;
            }
            rest = &rest[end..];
        }
        strong && !weak
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tag_is_known_as_it_was_where_it_is_strong_alone() {
        for (known, is) in [
            ("", false),
            ("*", false),
            ("\"a\"", true),
            ("W/\"a\"", false),
            ("\"b\", W/\"c\",\"a\"", true),
            ("\"a\", W/\"a\"", false),
            ("\"b,\"a\",\"", false),
            ("\"b\", \"a", false),
            ("\"A\"", false),
        ] {
            assert_eq!(KnownTags(known.as_bytes().into()).has_original(b"\"a\""), is, "{known}");
        }
    }
}
