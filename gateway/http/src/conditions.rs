//! Evaluates the conditions and the range of a request (RFC 9110, 13 and 14), for whatever the gateway answers
//! itself: files and stored responses.

use crate::byte_range::{ByteRange, Requested, parse_ranges};
use crate::date::parse_date;
use crate::{Method, Name, RequestHead};

/// The fields of a request on which the answer depends. The values of repeated fields are joined by commas.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Conditions {
    /// `If-Match`.
    pub if_match: Option<Vec<u8>>,
    /// `If-None-Match`.
    pub if_none_match: Option<Vec<u8>>,
    /// `If-Modified-Since`.
    pub if_modified_since: Option<Vec<u8>>,
    /// `If-Unmodified-Since`.
    pub if_unmodified_since: Option<Vec<u8>>,
    /// `If-Range`.
    pub if_range: Option<Vec<u8>>,
    /// `Range`, if the method is GET: for other methods it means nothing.
    pub range: Option<Vec<u8>>,
}

impl Conditions {
    /// Reads the fields of a request. Allocates only for fields that are present.
    #[must_use]
    pub fn read(request: &RequestHead) -> Self {
        let (mut conditions, head) = (Self::default(), &request.head);
        if !head.has(Name::Other) {
            return conditions;
        }
        for field in head.fields().iter().filter(|field| field.id == Name::Other) {
            let name = head.slice(field.name);
            let is = |wanted: &str| name.eq_ignore_ascii_case(wanted.as_bytes());
            let slot = match name.len() {
                8 if is("if-match") => &mut conditions.if_match,
                13 if is("if-none-match") => &mut conditions.if_none_match,
                17 if is("if-modified-since") => &mut conditions.if_modified_since,
                19 if is("if-unmodified-since") => &mut conditions.if_unmodified_since,
                8 if is("if-range") => &mut conditions.if_range,
                // RFC 9110, 14.2: only GET has ranges.
                5 if is("range") && request.method == Method::Get => &mut conditions.range,
                _ => continue,
            };
            let list = slot.get_or_insert_default();
            if !list.is_empty() {
                list.extend_from_slice(b", ");
            }
            list.extend_from_slice(head.slice(field.value));
        }
        conditions
    }
}

/// The properties of the selected content that conditions concern.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Selected<'a> {
    /// Its entity tag, with the quotes, and `W/` if it is weak.
    pub etag: Option<&'a [u8]>,
    /// When it was modified, in seconds since 1970.
    pub modified: Option<u64>,
    /// Whether that date is a strong validator (RFC 9110, 8.8.2.2), so that `If-Range` may rely on it.
    pub has_strong_date: bool,
    /// Its length in bytes.
    pub length: u64,
}

/// How a request is answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// 200 with the whole content.
    Whole,
    /// 206 with these ranges, at least one.
    Ranges(Vec<ByteRange>),
    /// 304.
    NotModified,
    /// 412.
    PreconditionFailed,
    /// 416.
    NotSatisfiable,
}

/// Decides how a request is answered, in the order of RFC 9110, 13.2.2.
#[must_use]
pub fn evaluate(conditions: &Conditions, selected: &Selected<'_>) -> Answer {
    let Selected { etag, modified, length, .. } = *selected;
    let is_later = |date: &Vec<u8>| Some(modified? > parse_date(date)?);
    match (&conditions.if_match, &conditions.if_unmodified_since) {
        (Some(list), _) if !lists(list, etag, false) => return Answer::PreconditionFailed,
        (None, Some(date)) if is_later(date) == Some(true) => return Answer::PreconditionFailed,
        _ => {}
    }
    match (&conditions.if_none_match, &conditions.if_modified_since) {
        (Some(list), _) if lists(list, etag, true) => return Answer::NotModified,
        (None, Some(date)) if is_later(date) == Some(false) => return Answer::NotModified,
        _ => {}
    }
    let Some(range) = &conditions.range else { return Answer::Whole };
    if let Some(validator) = &conditions.if_range
        && !is_current(validator, selected)
    {
        return Answer::Whole;
    }
    match parse_ranges(range, length) {
        Requested::Whole => Answer::Whole,
        Requested::Ranges(ranges) => Answer::Ranges(ranges),
        Requested::Nothing => Answer::NotSatisfiable,
    }
}

/// Returns whether a list of entity tags is `*` or holds this one. `weakly`: weak tags count (RFC 9110, 8.8.3.2).
fn lists(list: &[u8], etag: Option<&[u8]>, weakly: bool) -> bool {
    let mut rest = list.trim_ascii();
    if rest == b"*" {
        return true;
    }
    let Some(etag) = etag else { return false };
    let (own, own_is_weak) = opaque(etag);
    loop {
        // RFC 9110, 5.6.1.2: empty members do not count.
        while let Some(after) = rest.strip_prefix(b",") {
            rest = after.trim_ascii_start();
        }
        if rest.is_empty() {
            return false;
        }
        let (tag, is_weak) = opaque(rest);
        // A tag may hold commas, so its end is the second quote.
        let Some(inner) = tag.strip_prefix(b"\"") else { return false };
        let Some(end) = inner.iter().position(|byte| *byte == b'"') else { return false };
        if (weakly || !is_weak && !own_is_weak) && tag[..end + 2] == *own {
            return true;
        }
        rest = tag[end + 2..].trim_ascii_start();
    }
}

/// An entity tag without `W/`, and whether it is weak.
fn opaque(etag: &[u8]) -> (&[u8], bool) {
    etag.strip_prefix(b"W/").map_or((etag, false), |tag| (tag, true))
}

/// Returns whether `If-Range` names the content as it is: by its strong entity tag or its exact date (RFC 9110,
/// 13.1.5).
fn is_current(validator: &[u8], selected: &Selected<'_>) -> bool {
    let validator = validator.trim_ascii();
    match validator.first() {
        Some(b'"') => selected.etag == Some(validator),
        _ if validator.starts_with(b"W/") => false,
        _ => {
            selected.has_strong_date
                && selected.modified.is_some()
                && parse_date(validator) == selected.modified
        }
    }
}

/// Returns whether this is one entity tag (RFC 9110, 8.8.3).
#[must_use]
pub fn is_entity_tag(value: &[u8]) -> bool {
    let inner = opaque(value).0.strip_prefix(b"\"").and_then(|tag| tag.strip_suffix(b"\""));
    inner.is_some_and(|inner| inner.iter().all(|byte| matches!(byte, 0x21 | 0x23..=0x7e | 0x80..)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEFORE: &str = "Sun, 06 Nov 1994 08:49:36 GMT";
    const EXACT: &str = "Sun, 06 Nov 1994 08:49:37 GMT";
    const AFTER: &str = "Sun, 06 Nov 1994 08:49:38 GMT";

    fn answer(fields: &[(&str, &str)]) -> Answer {
        let mut conditions = Conditions::default();
        for (name, value) in fields {
            let value = Some(value.as_bytes().to_vec());
            match *name {
                "If-Match" => conditions.if_match = value,
                "If-None-Match" => conditions.if_none_match = value,
                "If-Modified-Since" => conditions.if_modified_since = value,
                "If-Unmodified-Since" => conditions.if_unmodified_since = value,
                "If-Range" => conditions.if_range = value,
                "Range" => conditions.range = value,
                other => panic!("{other}"),
            }
        }
        let (etag, modified) = (Some(&b"\"a,b\""[..]), Some(784_111_777));
        evaluate(&conditions, &Selected { etag, modified, has_strong_date: true, length: 100 })
    }

    #[test]
    fn the_order_of_rfc_9110() {
        use Answer::{NotModified, NotSatisfiable, PreconditionFailed, Whole};
        let first = || Answer::Ranges(vec![ByteRange { start: 0, end: 1 }]);
        for (fields, expected) in [
            (&[][..], Whole),
            (&[("If-None-Match", "\"a,b\"")], NotModified),
            (&[("If-None-Match", "W/\"a,b\"")], NotModified),
            (&[("If-None-Match", "\"x\" , W/\"y\",\"a,b\"")], NotModified),
            (&[("If-None-Match", ",, \"a,b\" ,")], NotModified),
            (&[("If-None-Match", " , ,")], Whole),
            (&[("If-None-Match", "*")], NotModified),
            (&[("If-None-Match", "\"a\", \"b\"")], Whole),
            (&[("If-None-Match", "a,b")], Whole),
            (&[("If-Modified-Since", EXACT)], NotModified),
            (&[("If-Modified-Since", AFTER)], NotModified),
            (&[("If-Modified-Since", BEFORE)], Whole),
            (&[("If-Modified-Since", "yesterday")], Whole),
            // The date counts only without a tag.
            (&[("If-None-Match", "\"x\""), ("If-Modified-Since", AFTER)], Whole),
            (&[("If-Match", "\"a,b\"")], Whole),
            (&[("If-Match", "W/\"a,b\"")], PreconditionFailed),
            (&[("If-Match", "*")], Whole),
            (&[("If-Match", "\"x\"")], PreconditionFailed),
            (&[("If-Match", "\"a,b\""), ("If-Unmodified-Since", BEFORE)], Whole),
            (&[("If-Unmodified-Since", BEFORE)], PreconditionFailed),
            (&[("If-Unmodified-Since", EXACT)], Whole),
            (&[("If-Match", "\"x\""), ("If-None-Match", "\"a,b\"")], PreconditionFailed),
            (&[("Range", "bytes=0-0")], first()),
            (&[("Range", "bytes=100-")], NotSatisfiable),
            (&[("Range", "bytes=0-0"), ("If-None-Match", "\"a,b\"")], NotModified),
            (&[("Range", "bytes=0-0"), ("If-Range", "\"a,b\"")], first()),
            (&[("Range", "bytes=0-0"), ("If-Range", "W/\"a,b\"")], Whole),
            (&[("Range", "bytes=0-0"), ("If-Range", "\"x\"")], Whole),
            (&[("Range", "bytes=0-0"), ("If-Range", EXACT)], first()),
            (&[("Range", "bytes=0-0"), ("If-Range", AFTER)], Whole),
            (&[("Range", "bytes=100-"), ("If-Range", "\"x\"")], Whole),
        ] {
            assert_eq!(answer(fields), expected, "{fields:?}");
        }
    }
    #[test]
    fn content_without_strong_validators() {
        let evaluate = |name: &str, value: &str, selected: Selected<'_>| {
            let mut conditions = Conditions { range: Some(b"bytes=0-0".to_vec()), ..Conditions::default() };
            let value = Some(value.as_bytes().to_vec());
            match name {
                "If-Match" => conditions.if_match = value,
                "If-None-Match" => conditions.if_none_match = value,
                "If-Modified-Since" => conditions.if_modified_since = value,
                _ => conditions.if_range = value,
            }
            super::evaluate(&conditions, &selected)
        };
        let weak = Selected {
            etag: Some(b"W/\"a\""),
            modified: Some(784_111_777),
            has_strong_date: false,
            length: 9,
        };
        let bare = Selected { length: 9, ..Selected::default() };
        let part = || Answer::Ranges(vec![ByteRange { start: 0, end: 1 }]);
        for (name, value, selected, expected) in [
            ("If-None-Match", "\"a\"", weak, Answer::NotModified),
            ("If-None-Match", "W/\"a\"", weak, Answer::NotModified),
            ("If-Match", "W/\"a\"", weak, Answer::PreconditionFailed),
            ("If-Match", "\"a\"", weak, Answer::PreconditionFailed),
            ("If-Range", "W/\"a\"", weak, Answer::Whole),
            ("If-Range", EXACT, weak, Answer::Whole),
            ("If-Range", EXACT, Selected { has_strong_date: true, ..weak }, part()),
            ("If-None-Match", "\"a\"", bare, part()),
            ("If-None-Match", "*", bare, Answer::NotModified),
            ("If-Modified-Since", AFTER, bare, part()),
            ("If-Range", EXACT, Selected { has_strong_date: true, ..bare }, Answer::Whole),
            ("If-Range", "tomorrow", Selected { has_strong_date: true, ..bare }, Answer::Whole),
        ] {
            assert_eq!(evaluate(name, value, selected), expected, "{name}: {value}");
        }
    }

    #[test]
    fn entity_tags() {
        for tag in ["\"\"", "\"a b\"", "W/\"x\"", "\"\u{e9}\""] {
            assert_eq!(is_entity_tag(tag.as_bytes()), !tag.contains(' '), "{tag}");
        }
        for other in ["", "\"", "a", "W/a", "w/\"a\"", "\"a\"b\"", "\"a", "\"a\", \"b\""] {
            assert!(!is_entity_tag(other.as_bytes()), "{other}");
        }
    }

    #[test]
    fn the_fields_of_a_request() {
        let text = "GET / HTTP/1.1\r\nHost: a\r\nIf-None-Match: \"a\"\r\nIf-none-match: \"b\"\r\nRange: bytes=0-\r\n\r\n";
        let limits = crate::HeadLimits { line: 1000, head: 1000, fields: 10 };
        let mut request = RequestHead::default();
        let parsed = crate::h1::RequestParser::default().advance(text.as_bytes(), &mut request, &limits);
        assert!(matches!(parsed, Ok(crate::h1::Progress::Complete(_))));
        let expected = Conditions {
            if_none_match: Some(b"\"a\", \"b\"".to_vec()),
            range: Some(b"bytes=0-".to_vec()),
            ..Conditions::default()
        };
        assert_eq!(Conditions::read(&request), expected);
        request.method = Method::Head;
        assert_eq!(Conditions::read(&request), Conditions { range: None, ..expected });
    }
}
