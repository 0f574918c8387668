//! Query parameters: found and compared in place, without a decoded copy.

use std::cell::Cell;

use crate::escape;

/// Returns the value, still encoded, of the first parameter whose decoded name is `name`; empty if it has no
/// `=`.
pub(crate) fn first<'q>(query: &'q [u8], name: &[u8]) -> Option<&'q [u8]> {
    query.split(|&byte| byte == b'&').filter(|pair| !pair.is_empty()).find_map(|pair| {
        let (key, value) = match memchr::memchr(b'=', pair) {
            Some(at) => (&pair[..at], &pair[at + 1..]),
            None => (pair, &pair[pair.len()..]),
        };
        is_form_encoding(key, name).then_some(value)
    })
}

/// Calls `with` with the decoded value of the first parameter whose decoded name is `name`, and returns its
/// result.
pub fn query_parameter<T>(query: &[u8], name: &[u8], with: impl FnOnce(&[u8]) -> T) -> Option<T> {
    first(query, name).map(|value| decoded(value, with))
}

/// Returns whether `encoded` decodes to `text` as form data, in which `+` is a space.
#[must_use]
pub fn is_form_encoding(encoded: &[u8], text: &[u8]) -> bool {
    Decoded(encoded).eq(text.iter().copied())
}

/// Calls `test` with the decoded form of `encoded`. Without escapes it is `encoded` itself. Otherwise it is
/// decoded into a thread-local buffer, so only the longest value so far allocates.
pub(crate) fn decoded<T>(encoded: &[u8], test: impl FnOnce(&[u8]) -> T) -> T {
    thread_local!(static BUFFER: Cell<Vec<u8>> = const { Cell::new(Vec::new()) });
    if memchr::memchr2(b'%', b'+', encoded).is_none() {
        return test(encoded);
    }
    let mut buffer = BUFFER.take();
    buffer.clear();
    // Decoding never lengthens: one reservation suffices, whatever the iterator's lower bound.
    buffer.reserve(encoded.len());
    buffer.extend(Decoded(encoded));
    let result = test(&buffer);
    BUFFER.set(buffer);
    result
}

/// The decoded bytes of a form-encoded text: `+` is a space, `%XX` a byte, and a `%` without two hexadecimal
/// digits itself (<https://url.spec.whatwg.org/#urlencoded-parsing>).
struct Decoded<'q>(&'q [u8]);

impl Iterator for Decoded<'_> {
    type Item = u8;

    fn next(&mut self) -> Option<u8> {
        let (&byte, rest) = self.0.split_first()?;
        let (byte, length) = match byte {
            b'+' => (b' ', 1),
            b'%' => escape::decode(self.0).map_or((b'%', 1), |byte| (byte, 3)),
            _ => (byte, 1),
        };
        self.0 = if length == 1 { rest } else { &self.0[length..] };
        Some(byte)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn finds_the_first() {
        for (query, name, value) in [
            ("a=1&b=2", "b", Some("2")),
            ("a=1&a=2", "a", Some("1")),
            ("a", "a", Some("")),
            ("a&a=2", "a", Some("")),
            ("a=", "a", Some("")),
            ("a=b=c", "a", Some("b=c")),
            ("&&a=1", "a", Some("1")),
            ("%61=1", "a", Some("1")),
            ("a+b=1", "a b", Some("1")),
            ("ab=1", "a", None),
            ("", "a", None),
            ("", "", None),
            ("=1", "", Some("1")),
        ] {
            assert_eq!(first(query.as_bytes(), name.as_bytes()), value.map(str::as_bytes), "{query} {name}");
            assert_eq!(query_parameter(query.as_bytes(), name.as_bytes(), <[u8]>::len), value.map(str::len));
        }
    }

    #[test]
    fn compares_decoded() {
        for (encoded, text) in
            [("a+b", "a b"), ("%41%2b", "A+"), ("%", "%"), ("%zz%2", "%zz%2"), ("100%", "100%")]
        {
            assert!(is_form_encoding(encoded.as_bytes(), text.as_bytes()), "{encoded}");
            assert!(!is_form_encoding(encoded.as_bytes(), b"other"));
            decoded(encoded.as_bytes(), |bytes| assert_eq!(bytes, text.as_bytes()));
        }
        assert!(!is_form_encoding(b"ab", b"a") && !is_form_encoding(b"a", b"ab"));
    }

    #[test]
    fn decoding_may_nest() {
        decoded(b"a+b", |outer| {
            decoded(b"%63", |inner| assert_eq!((outer, inner), (&b"a b"[..], &b"c"[..])));
        });
    }

    proptest! {
        #[test]
        fn escaping_everything_changes_nothing(text in prop::collection::vec(any::<u8>(), 0..20)) {
            let encoded: Vec<u8> = text.iter().flat_map(|&byte| escape::encode(byte)).collect();
            prop_assert!(is_form_encoding(&encoded, &text));
            prop_assert!(decoded(&encoded, |bytes| bytes == text));
        }
    }
}
