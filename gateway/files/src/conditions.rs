//! Evaluates the conditions and the range of a request (RFC 9110, 13 and 14).

use std::time::SystemTime;

use crate::range::{ByteRange, Requested, parse_ranges};
use crate::served_file::ServedFile;

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

/// How a request for a file is answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// 200 with the whole file.
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
pub fn evaluate(conditions: &Conditions, file: &ServedFile) -> Answer {
    decide(conditions, file.etag(), file.modified(), file.length())
}

fn decide(conditions: &Conditions, etag: &[u8], modified: u64, length: u64) -> Answer {
    match (&conditions.if_match, &conditions.if_unmodified_since) {
        (Some(list), _) if !lists(list, etag, false) => return Answer::PreconditionFailed,
        (None, Some(date)) if seconds(date).is_some_and(|date| modified > date) => {
            return Answer::PreconditionFailed;
        }
        _ => {}
    }
    match (&conditions.if_none_match, &conditions.if_modified_since) {
        (Some(list), _) if lists(list, etag, true) => return Answer::NotModified,
        (None, Some(date)) if seconds(date).is_some_and(|date| modified <= date) => {
            return Answer::NotModified;
        }
        _ => {}
    }
    let Some(range) = &conditions.range else { return Answer::Whole };
    if let Some(validator) = &conditions.if_range
        && !is_current(validator, etag, modified)
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
fn lists(list: &[u8], etag: &[u8], weakly: bool) -> bool {
    let mut rest = list.trim_ascii();
    if rest == b"*" {
        return true;
    }
    while !rest.is_empty() {
        let is_weak = rest.starts_with(b"W/");
        let tag = if is_weak { &rest[2..] } else { rest };
        // A tag may hold commas, so its end is the second quote.
        let Some(inner) = tag.strip_prefix(b"\"") else { return false };
        let Some(end) = inner.iter().position(|byte| *byte == b'"') else { return false };
        if (weakly || !is_weak) && tag[..end + 2] == *etag {
            return true;
        }
        rest = tag[end + 2..].trim_ascii_start();
        while let Some(after) = rest.strip_prefix(b",") {
            rest = after.trim_ascii_start();
        }
    }
    false
}

/// Returns whether `If-Range` names the file as it is: by its strong entity tag or its exact date (RFC 9110, 13.1.5).
fn is_current(validator: &[u8], etag: &[u8], modified: u64) -> bool {
    let validator = validator.trim_ascii();
    match validator.starts_with(b"\"") || validator.starts_with(b"W/") {
        true => validator == etag,
        false => seconds(validator) == Some(modified),
    }
}

/// Parses a date to seconds since 1970; `None` if it is malformed.
fn seconds(date: &[u8]) -> Option<u64> {
    let date = httpdate::parse_http_date(std::str::from_utf8(date).ok()?.trim()).ok()?;
    date.duration_since(SystemTime::UNIX_EPOCH).ok().map(|since| since.as_secs())
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
        decide(&conditions, b"\"a,b\"", 784_111_777, 100)
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
}
