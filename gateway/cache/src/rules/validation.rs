//! Validates stored responses (RFC 9111, 4.3).

use std::sync::Arc;

use tollgate_http::{Field, Name, RequestHead, ResponseHead, is_entity_tag, parse_date};

use super::admit::{Admission, build, is_of_use, may_be_stored};
use super::age::Received;
use super::facts::Facts;
use super::vary::Vary;
use crate::stored_head::{Lines, is_left_out};
use crate::{Moment, Stored, StoredHead};

/// Appends the conditions with which the worker asks an endpoint whether stored responses are current (4.3.1): the
/// entity tags of all of them, and the date of the first one. `stored` begins with the response that the request
/// selects; others of the same key may follow, so that the endpoint can name one of these instead. The client's own
/// conditions must not be sent with them. Returns false if there is nothing to ask with.
pub fn write_conditions(stored: &[Arc<Stored>], lines: &mut Vec<u8>) -> bool {
    let mut has_tag = false;
    for tag in stored.iter().filter_map(|stored| stored.head().etag()) {
        lines.extend_from_slice(if has_tag { &b", "[..] } else { b"If-None-Match: " });
        lines.extend_from_slice(tag);
        has_tag = true;
    }
    if has_tag {
        lines.extend_from_slice(b"\r\n");
    }
    // The value as the endpoint wrote it.
    let modified = stored.first().and_then(|stored| stored.head().get(b"last-modified"));
    let modified = modified.filter(|value| parse_date(value).is_some());
    if let Some(modified) = modified {
        for part in [&b"If-Modified-Since: "[..], modified, b"\r\n"] {
            lines.extend_from_slice(part);
        }
    }
    has_tag || modified.is_some()
}

/// Returns the stored response of a key that a 304 validates (4.3.4): the one with its entity tag, else with its date,
/// else the first one, if the 304 has neither. The first one, which the request selects, takes precedence over the
/// others; among these, the newest does. `None`: the 304 validates none of them.
#[must_use]
pub fn select_validated<'s>(
    stored: &'s [Arc<Stored>],
    not_modified: &ResponseHead,
) -> Option<&'s Arc<Stored>> {
    let head = &not_modified.head;
    let of_newest = |is_meant: &dyn Fn(&StoredHead) -> bool| {
        let first = stored.first().filter(|first| is_meant(first.head()));
        // Of two with the same date, the earlier one in the list is newer.
        let others = stored.iter().rev().filter(|stored| is_meant(stored.head()));
        first.or_else(|| others.max_by_key(|stored| stored.head().date()))
    };
    if let Some(tag) = head.get_by_text(b"etag").filter(|tag| is_entity_tag(tag)) {
        // Endpoints that compress drop or add `W/` on the way, so without an equal tag a similar one counts.
        let equal = of_newest(&|stored| stored.etag() == Some(tag));
        return equal
            .or_else(|| of_newest(&|stored| stored.etag().is_some_and(|own| opaque(own) == opaque(tag))));
    }
    if let Some(date) = head.get_by_text(b"last-modified").and_then(parse_date) {
        return of_newest(&|stored| stored.modified() == Some(date));
    }
    stored.first()
}

/// The head of a stored response after a 304.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Updated {
    /// The new head.
    pub head: StoredHead,
    /// Whether the response may be stored with it. Otherwise it answers the request that was forwarded, and no other.
    pub may_be_stored: bool,
}

impl StoredHead {
    /// Returns this head updated by a 304 (3.2 and 4.3.4): the fields of the 304 replace the ones with the same name,
    /// and lifetime and age start over. `None`: the 304 has another entity tag.
    #[must_use]
    pub fn updated_by(
        &self,
        request: &RequestHead,
        not_modified: &ResponseHead,
        admission: &Admission,
        times: Received,
    ) -> Option<Updated> {
        let head = &not_modified.head;
        let new_tag = head.get_by_text(b"etag").filter(|tag| is_entity_tag(tag));
        // An invalid entity tag replaces none.
        let mut keeps_tag = new_tag.is_none();
        if let (Some(new), Some(own)) = (new_tag, self.etag()) {
            if opaque(new) != opaque(own) {
                return None;
            }
            // The strong tag may name other bytes than the ones stored under the weak tag.
            keeps_tag = is_weak(own) && !is_weak(new);
        }
        let may_update = |name: &[u8]| may_update(name) && !(keeps_tag && name.eq_ignore_ascii_case(b"etag"));
        let mut lines = Lines::with_capacity(self.lines().len() + head.bytes().len());
        for (name, value) in self.fields() {
            // A 304 without a date is as new as its arrival (RFC 9110, 6.6.1).
            let is_sent = |field: &&Field| head.slice(field.name).eq_ignore_ascii_case(name);
            // A field of the connection replaces nothing.
            let is_replaced = may_update(name)
                && head.fields().iter().find(is_sent).is_some_and(|field| !not_modified.is_nominated(field));
            if !is_replaced && !name.eq_ignore_ascii_case(b"date") {
                lines.push(name, value);
            }
        }
        for field in head.fields() {
            let (name, value) = (head.slice(field.name), head.slice(field.value));
            if may_update(name) && !is_left_out(field.id, name) && !not_modified.is_nominated(field) {
                lines.push(name, value);
            }
        }
        let block = lines.clone();
        let mut facts = Facts::read(block.fields(), admission);
        facts.age = head.get_by_text(b"age");
        facts.control.withheld_fields.iter().for_each(|name| lines.remove(name));
        let is_allowed = may_be_stored(request, self.status(), &facts, admission).is_ok();
        let vary = Vary::new(facts.vary.iter().copied(), &request.head, &admission.vary);
        let may_be_stored = is_allowed && vary.is_some();
        let mut head = build(self.status(), lines, &facts, vary.unwrap_or_default(), admission, times);
        if head.tags.is_none() {
            head.tags.clone_from(&self.tags);
        }
        let may_be_stored = may_be_stored && is_of_use(&head, &facts);
        Some(Updated { head, may_be_stored })
    }

    /// Returns whether the response to a HEAD shows that this response is outdated (4.3.5): its length or a
    /// validator differs. Then it must be [purged](crate::Store::purge).
    #[must_use]
    pub fn is_contradicted_by(&self, length: u64, head: &ResponseHead) -> bool {
        let differs =
            |name: &[u8], own: Option<&[u8]>| head.head.get_by_text(name).is_some_and(|new| own != Some(new));
        head.status == self.status()
            && (head.head.get(Name::ContentLength).is_some_and(|new| new != length.to_string().as_bytes())
                || differs(b"etag", self.get(b"etag"))
                || differs(b"last-modified", self.get(b"last-modified")))
    }

    /// The head of a mark that is valid for some seconds.
    pub(crate) fn mark(now: Moment, seconds: u32) -> Self {
        let freshness = super::freshness::Freshness::of_mark(now, seconds);
        Self::new(0, Vec::new(), freshness, Vary::default(), Vec::new())
    }
}

fn is_weak(tag: &[u8]) -> bool {
    tag.starts_with(b"W/")
}

/// An entity tag without `W/`.
fn opaque(tag: &[u8]) -> &[u8] {
    tag.strip_prefix(b"W/").unwrap_or(tag)
}

/// Whether a 304 may replace a field. Fields that describe the stored bytes stay (3.2).
fn may_update(name: &[u8]) -> bool {
    !name.eq_ignore_ascii_case(b"content-encoding") && !name.eq_ignore_ascii_case(b"content-range")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::body::Body;
    use crate::test_messages::{request, response};
    use crate::{RequestControl, admit};

    fn times(seconds: u64) -> Received {
        Received { requested: Moment::from_seconds(seconds), received: Moment::from_seconds(seconds) }
    }

    fn head(fields: &str) -> StoredHead {
        let (asked, received) = (request("GET", "/", ""), response(200, fields));
        let control = RequestControl::default();
        admit(&asked, &control, &received, &Admission::default(), times(1_000_000_000)).expect("stored")
    }

    fn stored(fields: &str) -> Arc<Stored> {
        Arc::new(Stored::response(1, b"key", head(fields), Body::default()))
    }

    /// The head that a 304 leaves in the store.
    fn stored_again(old: &StoredHead, asked: &RequestHead, new: &ResponseHead) -> Option<StoredHead> {
        let updated = old.updated_by(asked, new, &Admission::default(), times(1_000_000_600))?;
        updated.may_be_stored.then_some(updated.head)
    }

    fn conditions(stored: &[Arc<Stored>]) -> (bool, String) {
        let mut lines = Vec::new();
        let can_ask = write_conditions(stored, &mut lines);
        (can_ask, String::from_utf8(lines).expect("text"))
    }

    const EARLY: &str = "Last-Modified: Sun, 06 Nov 1994 08:49:37 GMT\r\n";
    const LATE: &str = "Last-Modified: Sun, 06 Nov 1994 08:49:38 GMT\r\n";

    #[test]
    fn conditions_of_rfc_9111_4_3_1() {
        let both = stored(&format!("ETag: \"a\"\r\n{EARLY}"));
        let tag = stored("ETag: W/\"b\"\r\nCache-Control: max-age=1\r\n");
        let none = stored("Cache-Control: max-age=1\r\n");
        let since = "If-Modified-Since: Sun, 06 Nov 1994 08:49:37 GMT\r\n";
        assert_eq!(
            conditions(std::slice::from_ref(&both)),
            (true, format!("If-None-Match: \"a\"\r\n{since}"))
        );
        assert_eq!(
            conditions(&[both, tag.clone()]),
            (true, format!("If-None-Match: \"a\", W/\"b\"\r\n{since}"))
        );
        assert_eq!(conditions(&[tag]), (true, "If-None-Match: W/\"b\"\r\n".to_owned()));
        assert_eq!(conditions(&[stored(EARLY)]), (true, since.to_owned()));
        assert_eq!(conditions(&[none]), (false, String::new()));
        let broken = stored("ETag: a\r\nLast-Modified: x\r\nCache-Control: max-age=1\r\n");
        assert_eq!(conditions(&[broken]), (false, String::new()));
    }

    #[test]
    fn the_response_that_a_304_means() {
        let one =
            |tag: &str, date: &str| stored(&format!("ETag: {tag}\r\n{date}Cache-Control: max-age=1\r\n"));
        let all = [
            one("\"a\"", EARLY),
            one("W/\"a\"", LATE),
            one("\"a\"", "Date: Sun, 09 Sep 2001 01:46:40 GMT\r\n"),
            one("\"b\"", "Date: Sun, 09 Sep 2001 01:46:38 GMT\r\n"),
            one("\"b\"", "Date: Sun, 09 Sep 2001 01:46:39 GMT\r\n"),
        ];
        for (fields, expected) in [
            ("ETag: \"a\"\r\n", Some(0)),
            ("ETag: W/\"a\"\r\n", Some(1)),
            ("ETag: W/\"b\"\r\n", Some(4)),
            ("ETag: \"b\"\r\n", Some(4)),
            ("ETag: \"c\"\r\n", None),
            (LATE, Some(1)),
            ("Last-Modified: Sun, 06 Nov 1994 08:49:39 GMT\r\n", None),
            ("", Some(0)),
            ("ETag: x\r\n", Some(0)),
        ] {
            let found = select_validated(&all, &response(304, fields));
            let at = found.and_then(|found| all.iter().position(|stored| Arc::ptr_eq(stored, found)));
            assert_eq!(at, expected, "{fields}");
        }
    }

    #[test]
    fn a_304_updates_fields_and_lifetime() {
        let old = head(
            "Date: Sun, 09 Sep 2001 01:46:40 GMT\r\nCache-Control: max-age=10\r\nX-A: 1\r\nx-a: 2\r\nX-B: 3\r\nX-Hop: 0\r\n\
             Content-Encoding: gzip\r\nContent-Type: text/plain\r\nETag: \"a\"\r\n",
        );
        let new = response(
            304,
            "Date: Sun, 09 Sep 2001 01:56:40 GMT\r\nCache-Control: max-age=20\r\nX-A: 9\r\nContent-Encoding: br\r\n\
             Content-Length: 7\r\nConnection: x-hop\r\nX-Hop: 1\r\nContent-Type: text/html\r\nX-New: 1\r\nAge: 4\r\n",
        );
        let asked = request("GET", "/", "");
        let updated = stored_again(&old, &asked, &new).expect("stored");
        assert_eq!(
            String::from_utf8_lossy(updated.lines()),
            "X-B: 3\r\nX-Hop: 0\r\nContent-Encoding: gzip\r\nETag: \"a\"\r\nDate: Sun, 09 Sep 2001 01:56:40 GMT\r\n\
             Cache-Control: max-age=20\r\nX-A: 9\r\nContent-Type: text/html\r\nX-New: 1\r\n"
        );
        assert_eq!((updated.status(), updated.freshness().lifetime_seconds()), (200, 20));
        assert_eq!(updated.age(Moment::from_seconds(1_000_000_605)), 9);
    }

    #[test]
    fn a_304_without_fields_renews_the_lifetime() {
        let old = head("Date: Sun, 09 Sep 2001 01:46:40 GMT\r\nCache-Control: max-age=10\r\nETag: \"a\"\r\n");
        let (asked, new) = (request("GET", "/", ""), response(304, ""));
        let updated = stored_again(&old, &asked, &new).expect("stored");
        assert!(updated.freshness().is_fresh(Moment::from_seconds(1_000_000_609)));
        assert_eq!(updated.date(), Some(1_000_000_600));
    }

    #[test]
    fn a_304_can_end_storing() {
        let old = head("Cache-Control: max-age=10\r\nETag: \"a\"\r\n");
        let asked = request("GET", "/", "");
        for (fields, is_stored) in [
            ("ETag: W/\"a\"\r\n", true),
            ("ETag: \"b\"\r\n", false),
            ("Cache-Control: no-store\r\n", false),
            ("Cache-Control: private\r\n", false),
            ("Vary: *\r\n", false),
        ] {
            let updated = stored_again(&old, &asked, &response(304, fields));
            assert_eq!(updated.is_some(), is_stored, "{fields}");
        }
        // The request that was forwarded gets the new fields.
        let private = response(304, "Cache-Control: private, max-age=5\r\nSet-Cookie: a=1\r\n");
        let once = old.updated_by(&asked, &private, &Admission::default(), times(1_000_000_600));
        let Some(Updated { head, may_be_stored: false }) = once else { panic!("{once:?}") };
        assert_eq!(
            (head.get(b"cache-control"), head.get(b"set-cookie"), head.etag()),
            (Some(&b"private, max-age=5"[..]), Some(&b"a=1"[..]), Some(&b"\"a\""[..]))
        );
    }

    #[test]
    fn a_304_makes_no_weak_tag_strong() {
        let asked = request("GET", "/", "");
        for (own, new, expected) in
            [("W/\"a\"", "\"a\"", "W/\"a\""), ("\"a\"", "W/\"a\"", "W/\"a\""), ("\"a\"", "\"a\"", "\"a\"")]
        {
            let old = head(&format!("Cache-Control: max-age=10\r\nETag: {own}\r\n"));
            let new = response(304, &format!("ETag: {new}\r\n"));
            let updated = stored_again(&old, &asked, &new).expect("stored");
            assert_eq!(updated.etag(), Some(expected.as_bytes()), "{own}");
            assert_eq!(updated.fields().filter(|(name, _)| name.eq_ignore_ascii_case(b"etag")).count(), 1);
        }
    }

    #[test]
    fn a_head_can_contradict() {
        let old = head("ETag: \"a\"\r\nCache-Control: max-age=10\r\n");
        for (status, fields, expected) in [
            (200, "ETag: \"a\"\r\nContent-Length: 7\r\n", false),
            (200, "", false),
            (200, "ETag: \"b\"\r\n", true),
            (200, "Content-Length: 8\r\n", true),
            (200, EARLY, true),
            (404, "ETag: \"b\"\r\n", false),
        ] {
            assert_eq!(old.is_contradicted_by(7, &response(status, fields)), expected, "{status} {fields}");
        }
    }
}
