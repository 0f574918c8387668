//! Chooses between the responses of one key by fields of the request (RFC 9111, 4.1).
//!
//! A [`Vary`] holds the fields that the response named, with the values of the request that it was stored for, in a
//! normal form. A look-up writes the normal form of its request piece by piece and compares, without an allocation.
//! Values that mean the same should have one normal form, since each form is a response of its own; a form must never
//! be shared by values that an endpoint may tell apart.

use tollgate_http::{Head, is_token};

/// How the values of a field are brought to a normal form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Normal {
    /// Lines are joined; otherwise the value counts as written.
    Exact,
    /// As a list: white space around members does not count, and empty members do not either.
    List,
    /// As a set of content codings: neither the order nor the weights of `Accept-Encoding` count, as long as they are
    /// not
    /// 0. An endpoint that chooses by weight may see its choice shared by clients with other weights.
    Codings,
}

/// How the fields that `Vary` may name are compared.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VaryRules {
    /// Names in lower case. `None`: the field is ignored, as if `Vary` did not name it.
    fields: Vec<(Box<[u8]>, Option<Normal>)>,
}

impl VaryRules {
    /// Sets how a field is compared.
    #[must_use]
    pub fn with(mut self, name: &str, normal: Normal) -> Self {
        self.set(name, Some(normal));
        self
    }

    /// Has a field ignored. Only for fields on which the responses do not depend, whatever the endpoint says.
    #[must_use]
    pub fn ignoring(mut self, name: &str) -> Self {
        self.set(name, None);
        self
    }

    fn set(&mut self, name: &str, normal: Option<Normal>) {
        let name: Box<[u8]> = name.to_ascii_lowercase().into_bytes().into();
        self.fields.retain(|(other, _)| *other != name);
        self.fields.push((name, normal));
    }

    /// The normal form of a field, whose name is in lower case. `None`: it is ignored.
    fn normal_of(&self, name: &[u8]) -> Option<Normal> {
        if let Some((_, normal)) = self.fields.iter().find(|(other, _)| **other == *name) {
            return *normal;
        }
        Some(match name {
            b"accept" | b"accept-charset" | b"accept-encoding" | b"accept-language" => Normal::List,
            _ => Normal::Exact,
        })
    }
}

/// The fields of a request that a stored response depends on, with their values.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Vary {
    /// The fields in the order of their names, so that equal sets are equal bytes. See [`Entry::write`].
    bytes: Box<[u8]>,
}

/// Bytes before the name of an entry: the normal form, whether the field occurs, and the lengths of name and value.
const PREFIX: usize = 8;

/// A field of a [`Vary`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Entry<'a> {
    normal: Normal,
    name: &'a [u8],
    /// `None`: the request had no such field, which matches only requests without it.
    value: Option<&'a [u8]>,
}

impl<'a> Entry<'a> {
    /// Appends it. `None`: it is longer than a head can be.
    fn write(self, out: &mut Vec<u8>) -> Option<()> {
        let value = self.value.unwrap_or_default();
        out.extend_from_slice(&[self.normal as u8, u8::from(self.value.is_some())]);
        out.extend_from_slice(&u16::try_from(self.name.len()).ok()?.to_le_bytes());
        out.extend_from_slice(&u32::try_from(value.len()).ok()?.to_le_bytes());
        out.extend_from_slice(self.name);
        out.extend_from_slice(value);
        Some(())
    }

    /// Takes the first entry.
    fn read(bytes: &mut &'a [u8]) -> Option<Self> {
        let ([normal, occurs, name @ .., a, b, c, d], rest) = bytes.split_first_chunk::<PREFIX>()?;
        let (name, rest) = rest.split_at_checked(usize::from(u16::from_le_bytes(*name)))?;
        let (value, rest) = rest.split_at_checked(u32::from_le_bytes([*a, *b, *c, *d]) as usize)?;
        *bytes = rest;
        let normal = match normal {
            1 => Normal::List,
            2 => Normal::Codings,
            _ => Normal::Exact,
        };
        Some(Self { normal, name, value: (*occurs != 0).then_some(value) })
    }
}

impl Vary {
    /// Reads the values of `Vary` of a response, and the fields of its request. `None`: the response fits no other
    /// request (`*`), or a name is malformed.
    #[must_use]
    pub fn new<'a>(vary: impl Iterator<Item = &'a [u8]>, request: &Head, rules: &VaryRules) -> Option<Self> {
        let mut names: Vec<Vec<u8>> = Vec::new();
        for name in vary.flat_map(|line| line.split(|byte| *byte == b',')).map(<[u8]>::trim_ascii) {
            if name.is_empty() {
                continue;
            }
            if name == b"*" || !is_token(name) {
                return None;
            }
            names.push(name.to_ascii_lowercase());
        }
        names.sort_unstable();
        names.dedup();
        let mut bytes = Vec::new();
        for name in &names {
            let Some(normal) = rules.normal_of(name) else { continue };
            let mut value = Vec::new();
            let occurs = write_normal(normal, name, request, &mut value).is_some_and(|occurs| occurs);
            Entry { normal, name, value: occurs.then_some(value.as_slice()) }.write(&mut bytes)?;
        }
        Some(Self { bytes: bytes.into() })
    }

    /// Whether it names no field.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Its bytes in a record of the disk tier.
    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The fields whose [bytes](Self::as_bytes) these are.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Self {
        Self { bytes: bytes.into() }
    }

    fn entries(&self) -> impl Iterator<Item = Entry<'_>> {
        let mut rest = &*self.bytes;
        std::iter::from_fn(move || Entry::read(&mut rest))
    }

    /// The names of the fields, in lower case, with the normal forms of their values.
    pub fn fields(&self) -> impl Iterator<Item = (&[u8], Option<&[u8]>)> {
        self.entries().map(|entry| (entry.name, entry.value))
    }

    /// Whether a request has these values.
    #[must_use]
    pub fn matches(&self, request: &Head) -> bool {
        self.entries().all(|Entry { normal, name, value }| {
            let mut expected = Expected { rest: value.unwrap_or_default() };
            match write_normal(normal, name, request, &mut expected) {
                Some(occurs) => occurs == value.is_some() && expected.rest.is_empty(),
                None => false,
            }
        })
    }

    /// The values of a request, so that equal requests have equal bytes.
    pub(crate) fn values_of(&self, request: &Head) -> Vec<u8> {
        let mut out = Vec::new();
        for Entry { normal, name, .. } in self.entries() {
            let occurs = write_normal(normal, name, request, &mut out);
            out.extend_from_slice(&[0, u8::from(occurs == Some(true))]);
        }
        out
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        size_of::<Self>() + self.bytes.len()
    }
}

/// The receiver of a normal form.
trait Sink {
    /// Takes the next bytes. `None`: no more are wanted.
    fn put(&mut self, bytes: &[u8]) -> Option<()>;
}

impl Sink for Vec<u8> {
    fn put(&mut self, bytes: &[u8]) -> Option<()> {
        self.extend_from_slice(bytes);
        Some(())
    }
}

/// Compares what is written with what is expected.
struct Expected<'a> {
    rest: &'a [u8],
}

impl Sink for Expected<'_> {
    fn put(&mut self, bytes: &[u8]) -> Option<()> {
        self.rest = self.rest.strip_prefix(bytes)?;
        Some(())
    }
}

/// Writes the normal form of a field of a request. Returns whether the field occurs; `None` if the sink stopped.
fn write_normal(normal: Normal, name: &[u8], request: &Head, out: &mut impl Sink) -> Option<bool> {
    let (mut occurs, mut is_first) = (false, true);
    for line in request.all_by_text(name) {
        occurs = true;
        match normal {
            // As RFC 9110, 5.3 joins lines, and clients write lists.
            Normal::Exact if !std::mem::take(&mut is_first) => {
                out.put(b", ")?;
                out.put(line)?;
            }
            Normal::Exact => out.put(line)?,
            Normal::List => {
                for member in members(line) {
                    write_member(member, &mut is_first, out)?;
                }
            }
            Normal::Codings => {}
        }
    }
    if normal == Normal::Codings && occurs {
        write_codings(name, request, out)?;
    }
    Some(occurs)
}

fn write_member(member: &[u8], is_first: &mut bool, out: &mut impl Sink) -> Option<()> {
    if !std::mem::take(is_first) {
        out.put(b",")?;
    }
    out.put(member)
}

fn members(line: &[u8]) -> impl Iterator<Item = &[u8]> {
    line.split(|byte| *byte == b',').map(<[u8]>::trim_ascii).filter(|member| !member.is_empty())
}

/// Codings that are written first, in this order.
const CODINGS: [&str; 4] = ["zstd", "br", "gzip", "deflate"];

/// Writes the codings that a request accepts: the usual ones in a fixed order, then others as they are listed, then
/// `identity` and `*` if they are refused, and all that are refused if `*` is accepted.
fn write_codings(name: &[u8], request: &Head, out: &mut impl Sink) -> Option<()> {
    let listed = || request.all_by_text(name).flat_map(members).map(coding);
    let mut is_first = true;
    for usual in CODINGS {
        if listed().any(|(coding, accepted)| accepted && is_coding(coding, usual)) {
            write_member(usual.as_bytes(), &mut is_first, out)?;
        }
    }
    let accepts_any = listed().any(|(coding, accepted)| accepted && coding == b"*");
    let is_usual = |coding: &[u8]| CODINGS.iter().any(|usual| is_coding(coding, usual));
    for (coding, _) in listed().filter(|(coding, accepted)| *accepted && !is_usual(coding)) {
        write_member(coding, &mut is_first, out)?;
    }
    for (coding, _) in listed().filter(|(_, accepted)| !accepted) {
        if accepts_any || coding == b"*" || coding.eq_ignore_ascii_case(b"identity") {
            write_member(coding, &mut is_first, out)?;
            out.put(b";q=0")?;
        }
    }
    Some(())
}

/// A member of `Accept-Encoding`: the coding, and whether its weight is not 0.
fn coding(member: &[u8]) -> (&[u8], bool) {
    let mut parts = member.split(|byte| *byte == b';').map(<[u8]>::trim_ascii);
    let coding = parts.next().unwrap_or_default();
    let weight = parts.find_map(|part| part.strip_prefix(b"q=").or_else(|| part.strip_prefix(b"Q=")));
    let is_zero = |weight: &[u8]| {
        weight.first() == Some(&b'0') && weight.iter().all(|byte| matches!(byte, b'0' | b'.'))
    };
    (coding, !weight.is_some_and(is_zero))
}

/// RFC 9110, 8.4.1.3: `x-gzip` is another name of gzip.
fn is_coding(coding: &[u8], usual: &str) -> bool {
    coding.eq_ignore_ascii_case(usual.as_bytes()) || usual == "gzip" && coding.eq_ignore_ascii_case(b"x-gzip")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_messages::request;

    fn head(fields: &str) -> Head {
        request("GET", "/", fields).head
    }

    fn vary(names: &str, fields: &str, rules: &VaryRules) -> Option<Vary> {
        Vary::new([names.as_bytes()].into_iter(), &head(fields), rules)
    }

    #[test]
    fn fields_match_as_in_rfc_9111_4_1() {
        let plain = VaryRules::default();
        for (names, stored, request, expected) in [
            ("X-A", "X-A: 1\r\n", "x-a: 1\r\n", true),
            ("X-A", "X-A: 1\r\n", "X-A: 2\r\n", false),
            ("X-A", "X-A: 1\r\n", "X-A: 11\r\n", false),
            ("X-A", "X-A: 11\r\n", "X-A: 1\r\n", false),
            // A field that is missing matches only a missing one.
            ("X-A", "X-A: 1\r\n", "", false),
            ("X-A", "", "X-A: 1\r\n", false),
            ("X-A", "", "X-A:\r\n", false),
            ("X-A", "", "X-B: 1\r\n", true),
            ("X-A, X-B", "X-A: 1\r\nX-B: 2\r\n", "X-B: 2\r\nX-A: 1\r\n", true),
            ("X-A, X-B", "X-A: 1\r\nX-B: 2\r\n", "X-A: 1\r\nX-B: 3\r\n", false),
            // Unknown fields count as written; lines are joined.
            ("X-A", "X-A: 1,2\r\n", "X-A: 1, 2\r\n", false),
            ("X-A", "X-A: 1, 2\r\n", "X-A: 1\r\nX-A: 2\r\n", true),
            ("X-A", "X-A: 1,2\r\n", "X-A: 1\r\nX-A: 2\r\n", false),
            ("X-A", "X-A: a\r\n", "X-A: A\r\n", false),
            ("User-Agent", "User-Agent: a (b, c)\r\n", "User-Agent: a (b,c)\r\n", false),
            (
                "Accept-Language",
                "Accept-Language: de, en;q=0.5\r\n",
                "Accept-Language: de ,en;q=0.5,\r\n",
                true,
            ),
            ("Accept-Language", "Accept-Language: de, en\r\n", "Accept-Language: en, de\r\n", false),
            (
                "accept-encoding,",
                "Accept-Encoding: gzip, br\r\n",
                "Accept-Encoding: gzip\r\nAccept-Encoding: br\r\n",
                true,
            ),
            ("Cookie", "Cookie: a=1\r\n", "Cookie: a=2\r\n", false),
            ("Host", "", "", true),
            ("", "X-A: 1\r\n", "", true),
        ] {
            let vary = vary(names, stored, &plain).expect("no star");
            assert_eq!(vary.matches(&head(request)), expected, "{names}: {stored} {request}");
            let same_bytes = vary.values_of(&head(stored)) == vary.values_of(&head(request));
            assert_eq!(same_bytes, expected, "{names}: {stored} {request}");
        }
    }

    #[test]
    fn a_star_matches_nothing() {
        for names in ["*", "X-A, *", "X A", "\"x\""] {
            assert_eq!(vary(names, "", &VaryRules::default()), None, "{names}");
        }
    }

    #[test]
    fn the_order_of_names_does_not_count() {
        let rules = VaryRules::default();
        let fields = "X-A: 1\r\nX-B: 2\r\n";
        assert_eq!(vary("X-A, x-b", fields, &rules), vary("X-B,X-A, X-B", fields, &rules));
        let two = Vary::new([b"X-A".as_slice(), b"X-B"].into_iter(), &head(fields), &rules);
        assert_eq!(two, vary("X-A, X-B", fields, &rules));
        let names: Vec<Vec<u8>> = two.expect("no star").fields().map(|(name, _)| name.to_vec()).collect();
        assert_eq!(names, [b"x-a", b"x-b"]);
    }

    #[test]
    fn codings_are_a_set() {
        let rules = VaryRules::default().with("Accept-Encoding", Normal::Codings);
        for (stored, request, expected) in [
            ("gzip, deflate, br", "br;q=0.5,GZIP, deflate;q=1", true),
            ("gzip", "x-gzip", true),
            ("gzip, br;q=0", "gzip", true),
            ("gzip, br;q=0.000", "gzip", true),
            ("gzip, br;q=0.001", "gzip", false),
            ("gzip", "gzip, br", false),
            ("gzip", "gzip, exi", false),
            ("gzip", "gzip, *", false),
            ("gzip", "gzip, *;q=0", false),
            ("gzip", "gzip, identity;q=0", false),
            ("", "identity;q=0", false),
            // A client that accepts any coding may still refuse one.
            ("*", "gzip;q=0, *", false),
            ("gzip;q=0, *", "*;q=0.5, gzip;q=0", true),
            ("gzip;q=0, *", "br;q=0, *", false),
            ("*", "*;q=0", false),
        ] {
            let line = |value: &str| format!("Accept-Encoding: {value}\r\n");
            let vary = vary("Accept-Encoding", &line(stored), &rules).expect("no star");
            assert_eq!(vary.matches(&head(&line(request))), expected, "{stored} / {request}");
        }
    }

    #[test]
    fn an_ignored_field_does_not_count() {
        let rules = VaryRules::default().ignoring("user-agent");
        let vary = vary("User-Agent, X-A", "User-Agent: a\r\n", &rules).expect("no star");
        assert!(vary.matches(&head("User-Agent: b\r\n")) && !vary.matches(&head("X-A: 1\r\n")));
    }
}
