//! The cookie that keeps a client with its endpoint.

use std::hash::Hasher;

use siphasher::sip::SipHasher24;
use siphasher::sip128::{Hasher128, SipHasher24 as SipHasher24Of128};
use tollgate_plan::Sticky;

use crate::hash;

/// A cookie's value: an endpoint's tag in hexadecimal digits.
pub type StickyValue = [u8; 16];

/// The field in which a client sends the value that names its endpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StickyField {
    /// A cookie with this name.
    Cookie(Box<str>),
    /// A header with this name.
    Header(Box<str>),
}

impl StickyField {
    /// Returns the field of an upstream: the configured one, or a cookie whose name derives from the upstream's.
    pub(crate) fn new(sticky: &Sticky, upstream: &str) -> Self {
        if let Some(header) = &sticky.header {
            return Self::Header(header.as_str().into());
        }
        let own = || format!("tollgate_{:08x}", hash(upstream.as_bytes()) >> 32).into();
        Self::Cookie(sticky.cookie.as_deref().map_or_else(own, Into::into))
    }
}

/// The cookie value of each endpoint: a hash of its address and its upstream's name, keyed with the
/// configured secret. The same configuration gives the same cookies on every worker, after a reload or
/// restart, and on every gateway of a group. A client's session survives all of these, and also changes of
/// the upstream's other endpoints.
///
/// Without a secret the key is a constant. Then a client that knows the upstream's name and guesses an
/// address can check its guess.
#[derive(Debug)]
pub(crate) struct StickyTags {
    by_endpoint: Vec<u64>,
    /// Sorted by tag, with the endpoint's index.
    sorted: Vec<(u64, usize)>,
}

impl StickyTags {
    /// Creates the tags of an upstream's endpoints, given by their addresses as text.
    pub fn new<'a>(sticky: &Sticky, upstream: &str, endpoints: impl Iterator<Item = &'a str>) -> Self {
        let mut key = SipHasher24Of128::new();
        key.write(sticky.secret.as_ref().map_or(&[][..], |secret| secret.reveal().as_bytes()));
        let key = key.finish128().as_bytes();
        let tag = |endpoint: &str| {
            let mut hasher = SipHasher24::new_with_key(&key);
            // With its length, so that name and address cannot run into each other.
            hasher.write(&(upstream.len() as u64).to_le_bytes());
            hasher.write(upstream.as_bytes());
            hasher.write(endpoint.as_bytes());
            hasher.finish()
        };
        let by_endpoint: Vec<u64> = endpoints.map(tag).collect();
        let mut sorted: Vec<_> = by_endpoint.iter().copied().zip(0..).collect();
        sorted.sort_unstable();
        Self { by_endpoint, sorted }
    }

    /// Returns the index of the endpoint that a cookie value names.
    pub fn find(&self, value: &[u8]) -> Option<usize> {
        let tag = parse(value)?;
        let at = self.sorted.binary_search_by_key(&tag, |(tag, _)| *tag).ok()?;
        Some(self.sorted[at].1)
    }

    /// Returns the cookie value of an endpoint.
    pub fn value(&self, endpoint: usize) -> StickyValue {
        const DIGITS: [u8; 16] = *b"0123456789abcdef";
        let tag = self.by_endpoint[endpoint];
        std::array::from_fn(|at| DIGITS[(tag >> (60 - 4 * at) & 15) as usize])
    }
}

fn parse(value: &[u8]) -> Option<u64> {
    let value: &StickyValue = value.try_into().ok()?;
    value.iter().try_fold(0, |tag, digit| {
        let digit = match digit {
            b'0'..=b'9' => digit - b'0',
            b'a'..=b'f' => digit - b'a' + 10,
            _ => return None,
        };
        Some(tag << 4 | u64::from(digit))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tags(secret: Option<&str>, upstream: &str, endpoints: &[&str]) -> StickyTags {
        let secret = secret.map(|secret| secret.to_owned().into());
        StickyTags::new(&Sticky { secret, ..Sticky::default() }, upstream, endpoints.iter().copied())
    }

    #[test]
    fn names_its_endpoint() {
        let endpoints = ["10.0.0.1:80", "10.0.0.2:80", "unix:/run/app.sock"];
        let tags = tags(None, "shop", &endpoints);
        for at in 0..endpoints.len() {
            assert_eq!(tags.find(&tags.value(at)), Some(at));
        }
        let unknown: [&[u8]; 6] =
            [b"", b"0", b"0000000000000000", b"000000000000000g", b"00000000000000000", &[0xff; 16]];
        for value in unknown {
            assert_eq!(tags.find(value), None);
        }
        let upper = tags.value(0).to_ascii_uppercase();
        assert!(upper == tags.value(0) || tags.find(&upper).is_none(), "one spelling");
    }

    #[test]
    fn depends_on_the_endpoint_the_upstream_and_the_secret_alone() {
        let value = |secret, upstream, endpoints: &[&str]| {
            let tags = tags(secret, upstream, endpoints);
            tags.value(endpoints.len() - 1)
        };
        let one = value(None, "shop", &["a:1"]);
        assert_eq!(one, value(None, "shop", &["b:1", "c:1", "a:1"]), "whatever stands beside it");
        assert_ne!(one, value(None, "shop", &["b:1"]));
        assert_ne!(one, value(None, "sho", &["pa:1"]));
        assert_ne!(one, value(Some("secret"), "shop", &["a:1"]));
        assert_ne!(value(Some("other"), "shop", &["a:1"]), value(Some("secret"), "shop", &["a:1"]));
        // Another value would end every client's session when the gateway is upgraded.
        assert_eq!(one, *b"5b4e17f3f0f5035e");
        assert_eq!(value(Some("secret"), "shop", &["a:1"]), *b"85481933d7513c51");
    }
}
