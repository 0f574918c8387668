//! Parses the parameters of a query in the way endpoints do.
//!
//! Names may be percent-encoded, and `;` may separate pairs like `&`. Otherwise a credential or a removed
//! parameter could reach an endpoint that reads the query in another way than the gateway.

use tollgate_http::RequestHead;
use tollgate_route::{is_form_encoding, percent_decoded};

/// An iterator over the pairs of a query.
pub(crate) struct QueryPairs<'q>(Option<&'q [u8]>);

/// A name and a value, still encoded.
#[derive(Clone, Copy)]
pub(crate) struct QueryPair<'q>(&'q [u8]);

impl<'q> QueryPairs<'q> {
    pub fn of(query: &'q [u8]) -> Self {
        Self((!query.is_empty()).then_some(query))
    }
}

impl<'q> Iterator for QueryPairs<'q> {
    type Item = QueryPair<'q>;

    fn next(&mut self) -> Option<QueryPair<'q>> {
        let query = self.0?;
        // Some endpoints also split at `;` (HTML 4.01, B.2.2), so a key after one must not be missed.
        let end = query.iter().position(|byte| matches!(byte, b'&' | b';'));
        let (pair, rest) = match end {
            Some(end) => (&query[..end], Some(&query[end + 1..])),
            None => (query, None),
        };
        self.0 = rest;
        Some(QueryPair(pair))
    }
}

impl<'q> QueryPair<'q> {
    fn split(self) -> (&'q [u8], &'q [u8]) {
        match self.0.iter().position(|byte| *byte == b'=') {
            Some(at) => (&self.0[..at], &self.0[at + 1..]),
            None => (self.0, b""),
        }
    }

    /// Returns the pair as written.
    pub fn as_written(self) -> &'q [u8] {
        self.0
    }

    /// Returns the name as written.
    pub fn name(self) -> &'q [u8] {
        self.split().0
    }

    /// Whether the decoded name equals this one.
    pub fn is(self, name: &[u8]) -> bool {
        is_form_encoding(self.split().0, name)
    }

    /// Whether the decoded name starts with this prefix.
    pub fn begins(self, begin: &[u8]) -> bool {
        let name: Vec<u8> =
            self.split().0.iter().map(|byte| if *byte == b'+' { b' ' } else { *byte }).collect();
        percent_decoded(&name).starts_with(begin)
    }

    /// Returns the value if the pair has this name. A `+` stays a plus: keys in base64 contain it, and
    /// clients rarely encode it.
    pub fn value_of(self, name: &[u8]) -> Option<Vec<u8>> {
        self.is(name).then(|| percent_decoded(self.split().1).into_owned())
    }
}

/// Returns a query without the parameters of these names, encoded in whichever way.
#[must_use]
pub fn without_parameters<'n>(query: &[u8], names: impl Iterator<Item = &'n [u8]> + Clone) -> Vec<u8> {
    without(query, |pair| names.clone().any(|name| pair.is(name)))
}

/// Returns a query without the pairs that `goes` selects and without empty parts between `&`. All other pairs
/// stay as written. A `;` is kept, because for some endpoints it is part of a value.
pub(crate) fn without<'q>(query: &'q [u8], goes: impl Fn(QueryPair<'q>) -> bool) -> Vec<u8> {
    let mut out = Vec::with_capacity(query.len());
    for part in query.split(|byte| *byte == b'&') {
        let before = out.len();
        if before > 0 {
            out.push(b'&');
        }
        let (begin, mut first) = (out.len(), true);
        for pair in part.split(|byte| *byte == b';').filter(|pair| !goes(QueryPair(pair))) {
            if !std::mem::take(&mut first) {
                out.push(b';');
            }
            out.extend_from_slice(pair);
        }
        if out.len() == begin {
            out.truncate(before);
        }
    }
    out
}

/// Removes every pair of this name from a request's query.
pub(crate) fn remove(request: &mut RequestHead, name: &[u8]) {
    let Some(query) = request.query else { return };
    let query = request.slice(query);
    if QueryPairs::of(query).any(|pair| pair.is(name)) {
        let query = without(query, |pair| pair.is(name));
        request.set_query(Some(query.as_slice()).filter(|query| !query.is_empty()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(query: &str) -> Vec<String> {
        let values = QueryPairs::of(query.as_bytes()).filter_map(|pair| pair.value_of(b"key"));
        values.map(|value| String::from_utf8_lossy(&value).into_owned()).collect()
    }

    #[test]
    fn every_pair_of_the_name_is_found() {
        assert_eq!(values("key=a&b=c&key=d"), ["a", "d"]);
        assert_eq!(values("b=c;key=a"), ["a"]);
        assert_eq!(values("%6bey=%61%2"), ["a%2"]);
        assert_eq!(values("key"), [""]);
        assert_eq!(values("key=a+b"), ["a+b"]);
        assert!(values("").is_empty() && values("keys=a&xkey=b&=key").is_empty());
    }

    #[test]
    fn kept_pairs_are_unchanged() {
        for (query, left) in [
            ("", ""),
            ("key", ""),
            ("a=1&key=2&b=3", "a=1&b=3"),
            ("a=1;key=2;b=3", "a=1;b=3"),
            ("a=1;2&key", "a=1;2"),
            ("key;a=1&b=%6B", "a=1&b=%6B"),
            ("a&key=1;&b", "a&b"),
            ("&a&&b;;c&", "a&b;;c"),
            ("k%65y=1;key;a+b", "a+b"),
        ] {
            let without = without(query.as_bytes(), |pair| pair.is(b"key"));
            assert_eq!(String::from_utf8_lossy(&without), left, "{query}");
        }
    }
}
