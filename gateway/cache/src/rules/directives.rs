//! Splits `Cache-Control` into directives (RFC 9111, 5.2).
//!
//! ```text
//! Cache-Control   = #cache-directive
//! cache-directive = token [ "=" ( token / quoted-string ) ]
//! ```
//!
//! A comma in a quoted value ends nothing. A member that does not match the grammar, such as `no-store; max-age=60`,
//! counts only against the cache: the words in it that restrict the use of the response do, and a lifetime in it is an
//! invalid one (4.2.1). Otherwise a wrong separator would hide a `private`.

use std::borrow::Cow;

use tollgate_http::is_token;

/// The largest number of seconds that counts. Larger ones are the same as this one (RFC 9111, 1.2.2).
pub(crate) const SECONDS_MAX: u32 = 1 << 31;

/// A directive. Names are compared without regard to case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Directive<'a> {
    /// The name as written.
    pub name: &'a [u8],
    /// The value: a token, or the content of a quoted string.
    pub value: Option<Cow<'a, [u8]>>,
}

impl Directive<'_> {
    /// Whether it has this name.
    #[must_use]
    pub fn is(&self, name: &str) -> bool {
        self.name.eq_ignore_ascii_case(name.as_bytes())
    }

    /// Its value as delta-seconds (RFC 9111, 1.2.2), quoted or not. `None`: it is no such number.
    #[must_use]
    pub fn seconds(&self) -> Option<u32> {
        seconds(self.value.as_deref()?)
    }

    /// The members of a value that lists field names, as `no-cache` and `private` may have.
    pub fn field_names(&self) -> impl Iterator<Item = &[u8]> {
        let value = self.value.as_deref().unwrap_or_default();
        value.split(|byte| *byte == b',').map(<[u8]>::trim_ascii).filter(|name| !name.is_empty())
    }
}

/// Parses delta-seconds. A number beyond the range counts as the largest.
pub(crate) fn seconds(digits: &[u8]) -> Option<u32> {
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let add = |sum: u32, digit: &u8| sum.saturating_mul(10).saturating_add(u32::from(digit - b'0'));
    Some(digits.iter().fold(0, add).min(SECONDS_MAX))
}

/// The directives of a field's value.
pub fn directives(value: &[u8]) -> impl Iterator<Item = Directive<'_>> {
    members(value).flat_map(|member| {
        let (directive, malformed) = match parse(member) {
            Some(directive) => (Some(directive), &b""[..]),
            None => (None, member),
        };
        directive.into_iter().chain(restrictions(malformed))
    })
}

/// Directives that restrict the use of a response, also in a member that is malformed. A lifetime is one of them,
/// because without a value it counts as 0.
const RESTRICTIONS: [&str; 7] =
    ["no-store", "private", "no-cache", "must-revalidate", "proxy-revalidate", "s-maxage", "max-age"];

/// The directives in a malformed member that restrict the use of a response, without their values.
fn restrictions(member: &[u8]) -> impl Iterator<Item = Directive<'_>> {
    let words = member.split(|byte| !is_token(&[*byte]));
    let is_one = |word: &&[u8]| RESTRICTIONS.iter().any(|name| word.eq_ignore_ascii_case(name.as_bytes()));
    words.filter(is_one).map(|name| Directive { name, value: None })
}

/// The members of a list that may hold quoted strings. A quote that is not closed reaches to the end.
fn members(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = Some(value);
    std::iter::from_fn(move || {
        let text = rest?;
        let (mut is_quoted, mut is_escaped) = (false, false);
        let end = text.iter().position(|byte| {
            let was_escaped = std::mem::take(&mut is_escaped);
            match byte {
                b'"' if !was_escaped => is_quoted = !is_quoted,
                b'\\' if is_quoted && !was_escaped => is_escaped = true,
                b',' => return !is_quoted,
                _ => {}
            }
            false
        });
        rest = end.map(|end| &text[end + 1..]);
        Some(text[..end.unwrap_or(text.len())].trim_ascii())
    })
}

fn parse(member: &[u8]) -> Option<Directive<'_>> {
    let (name, value) = match member.iter().position(|byte| *byte == b'=') {
        Some(equals) => (&member[..equals], Some(&member[equals + 1..])),
        None => (member, None),
    };
    if !is_token(name) {
        return None;
    }
    let value = match value {
        None => None,
        Some(quoted) if quoted.first() == Some(&b'"') => Some(unquote(quoted)?),
        Some(token) => Some(Cow::Borrowed(Some(token).filter(|token| is_token(token))?)),
    };
    Some(Directive { name, value })
}

/// The content of a quoted string (RFC 9110, 5.6.4). `None`: it does not end, or something follows its end.
fn unquote(text: &[u8]) -> Option<Cow<'_, [u8]>> {
    let inner = text.strip_prefix(b"\"")?;
    if !inner.contains(&b'\\') {
        let inner = inner.strip_suffix(b"\"")?;
        return (!inner.contains(&b'"')).then_some(Cow::Borrowed(inner));
    }
    let (mut out, mut bytes) = (Vec::with_capacity(inner.len()), inner.iter());
    while let Some(byte) = bytes.next() {
        match byte {
            b'"' => return bytes.as_slice().is_empty().then_some(Cow::Owned(out)),
            b'\\' => out.push(*bytes.next()?),
            byte => out.push(*byte),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn shown(value: &str) -> Vec<String> {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let show = |directive: Directive<'_>| match &directive.value {
            Some(value) => format!("{}={}", text(directive.name), text(value)),
            None => text(directive.name),
        };
        directives(value.as_bytes()).map(show).collect()
    }

    #[test]
    fn directives_as_in_rfc_9111_5_2() {
        for (value, expected) in [
            ("", &[][..]),
            (",, ,", &[]),
            ("no-store", &["no-store"]),
            ("max-age=60, Public", &["max-age=60", "Public"]),
            ("max-age=\"60\"", &["max-age=60"]),
            ("private=\"a, b\",no-cache", &["private=a, b", "no-cache"]),
            ("x=\"a\\\"b,\\\\\", y", &["x=a\"b,\\", "y"]),
            // The grammar allows no white space around the equals sign: the lifetime is there, and invalid.
            ("max-age =60, Max-Age= 60, a", &["max-age", "Max-Age", "a"]),
            ("max-age=60 foo, b", &["max-age", "b"]),
            // A wrong separator hides no restriction, and allows nothing.
            ("no-store; private", &["no-store", "private"]),
            ("public; max-age=60; No-Cache", &["max-age", "No-Cache"]),
            ("public; stale-if-error=60, b", &["b"]),
            ("x-private; no-stores, b", &["b"]),
            ("private =\"x\"", &["private"]),
            ("=60, a=, b", &["b"]),
            ("a=\"x\"y, b", &["b"]),
            // A quote without its end extends to the end of the field.
            ("a=\"x, max-age=60", &["max-age"]),
            ("no-store, a=\"x, public", &["no-store"]),
            ("a\tb, c", &["c"]),
        ] {
            assert_eq!(shown(value), expected, "{value}");
        }
    }

    #[test]
    fn seconds_as_in_rfc_9111_1_2_2() {
        for (text, expected) in [
            ("0", Some(0)),
            ("007", Some(7)),
            ("2147483647", Some(2_147_483_647)),
            ("2147483648", Some(SECONDS_MAX)),
            ("2147483649", Some(SECONDS_MAX)),
            ("99999999999999999999", Some(SECONDS_MAX)),
            ("", None),
            ("-1", None),
            ("+1", None),
            ("1.5", None),
            ("60s", None),
            ("0x1", None),
        ] {
            assert_eq!(seconds(text.as_bytes()), expected, "{text}");
        }
    }

    proptest! {
        #[test]
        fn no_bytes_panic(bytes: Vec<u8>) {
            for directive in directives(&bytes) {
                prop_assert!(is_token(directive.name));
                let _ = (directive.seconds(), directive.field_names().count());
            }
        }

        #[test]
        fn what_is_written_is_read(
            list in proptest::collection::vec(("[a-z-]{1,12}", proptest::option::of("[ -~]{0,12}")), 0..6),
        ) {
            let write = |(name, value): &(String, Option<String>)| match value {
                Some(value) => format!("{name}=\"{}\"", value.replace('\\', "\\\\").replace('"', "\\\"")),
                None => name.clone(),
            };
            let text = list.iter().map(write).collect::<Vec<_>>().join(" ,");
            let read: Vec<(String, Option<String>)> = directives(text.as_bytes())
                .map(|directive| {
                    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
                    (text(directive.name), directive.value.as_deref().map(text))
                })
                .collect();
            prop_assert_eq!(read, list);
        }
    }
}
