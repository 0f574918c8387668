//! The parameters of a query, as endpoints read them.

use std::borrow::Cow;

use tollgate_http::RequestHead;

/// The pairs of a query.
pub(crate) struct Pairs<'q>(Option<&'q [u8]>);

/// A name and its value, as written.
#[derive(Clone, Copy)]
pub(crate) struct Pair<'q>(&'q [u8]);

impl<'q> Pairs<'q> {
    pub fn of(query: &'q [u8]) -> Self {
        Self((!query.is_empty()).then_some(query))
    }
}

impl<'q> Iterator for Pairs<'q> {
    type Item = Pair<'q>;

    fn next(&mut self) -> Option<Pair<'q>> {
        let query = self.0?;
        // Some endpoints part at `;` too (HTML 4.01, B.2.2): a key behind one must not be missed.
        let end = query.iter().position(|byte| matches!(byte, b'&' | b';'));
        let (pair, rest) = match end {
            Some(end) => (&query[..end], Some(&query[end + 1..])),
            None => (query, None),
        };
        self.0 = rest;
        Some(Pair(pair))
    }
}

impl<'q> Pair<'q> {
    /// Its value, decoded, if it has this name.
    pub fn value_of(self, name: &[u8]) -> Option<Vec<u8>> {
        let (own, value) = match self.0.iter().position(|byte| *byte == b'=') {
            Some(at) => (&self.0[..at], &self.0[at + 1..]),
            None => (self.0, &b""[..]),
        };
        (*decoded(own) == *name).then(|| decoded(value).into_owned())
    }
}

/// Takes every pair of this name out of a request's query.
pub(crate) fn remove(request: &mut RequestHead, name: &[u8]) {
    let Some(query) = request.query else { return };
    let query = request.slice(query);
    if !Pairs::of(query).any(|pair| pair.value_of(name).is_some()) {
        return;
    }
    let kept: Vec<&[u8]> =
        Pairs::of(query).filter(|pair| pair.value_of(name).is_none()).map(|pair| pair.0).collect();
    let query = kept.join(&b'&');
    request.set_query(Some(query.as_slice()).filter(|query| !query.is_empty()));
}

/// With `%XX` decoded; what is no such sequence stays.
fn decoded(text: &[u8]) -> Cow<'_, [u8]> {
    if !text.contains(&b'%') {
        return Cow::Borrowed(text);
    }
    let digit =
        |byte: Option<&u8>| byte.and_then(|byte| char::from(*byte).to_digit(16)).map(|digit| digit as u8);
    let mut out = Vec::with_capacity(text.len());
    let mut at = 0;
    while let Some(byte) = text.get(at) {
        match (byte, digit(text.get(at + 1)), digit(text.get(at + 2))) {
            (b'%', Some(high), Some(low)) => {
                out.push(high << 4 | low);
                at += 3;
            }
            _ => {
                out.push(*byte);
                at += 1;
            }
        }
    }
    Cow::Owned(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(query: &str) -> Vec<String> {
        let values = Pairs::of(query.as_bytes()).filter_map(|pair| pair.value_of(b"key"));
        values.map(|value| String::from_utf8_lossy(&value).into_owned()).collect()
    }

    #[test]
    fn every_pair_of_the_name_is_found() {
        assert_eq!(values("key=a&b=c&key=d"), ["a", "d"]);
        assert_eq!(values("b=c;key=a"), ["a"]);
        assert_eq!(values("%6bey=%61%2"), ["a%2"]);
        assert_eq!(values("key"), [""]);
        assert!(values("").is_empty() && values("keys=a&xkey=b&=key").is_empty());
    }
}
