//! Answers the conditions and the range of a request from a stored response (RFC 9111, 4.3.2; RFC 9110, 13 and 14).

use tollgate_http::{Answer, Conditions, RequestHead, Selected, evaluate};

use crate::{Stored, StoredHead};

/// Decides what is sent of a stored response that may be used. [`Answer::Whole`] stands for its own status; 206, 304
/// and 416 can only replace a 200. `None`: the request has `If-Match` or `If-Unmodified-Since`, which only the
/// endpoint can evaluate, so the request must be forwarded.
///
/// A HEAD is answered like a GET, without the body; it has no ranges.
#[must_use]
pub fn answer(stored: &Stored, request: &RequestHead) -> Option<Answer> {
    answer_for(stored.head(), stored.length(), request)
}

/// The same for a response with this head, whose body has this length.
#[must_use]
pub fn answer_for(head: &StoredHead, length: u64, request: &RequestHead) -> Option<Answer> {
    let mut conditions = Conditions::read(request);
    if conditions.if_match.is_some() || conditions.if_unmodified_since.is_some() {
        return None;
    }
    // RFC 9110, 13.2.1 and 14.2: conditions matter only to a response that would be successful without them, and a
    // range to a 200.
    if head.status() != 200 {
        conditions.range = None;
    }
    if !(200..300).contains(&head.status()) || conditions == Conditions::default() {
        return Some(Answer::Whole);
    }
    let selected = Selected {
        etag: head.etag(),
        // 4.3.2: without `Last-Modified`, the date of the response takes its place.
        modified: head.modified().or(head.date()),
        has_strong_date: has_strong_date(head),
        length,
    };
    Some(evaluate(&conditions, &selected))
}

/// Whether `Last-Modified` is a strong validator: the response was made a second later at least (RFC 9110, 8.8.2.2).
fn has_strong_date(head: &StoredHead) -> bool {
    matches!((head.modified(), head.date()), (Some(modified), Some(date)) if date > modified)
}

/// Appends the field lines of a 304 that is answered from a stored response: fields that guide caches, and others that
/// do not describe the content (RFC 9110, 15.4.5).
pub fn not_modified_lines(head: &StoredHead, lines: &mut Vec<u8>) {
    let has_etag = head.etag().is_some();
    head.write_lines(lines, |name| !is_of_content(name, has_etag));
}

/// Whether a field describes the content of a response, so that a 304 does not have it. `has_etag`: the response has an entity
/// tag, which takes the place of `Last-Modified`.
#[must_use]
pub fn is_of_content(name: &[u8], has_etag: bool) -> bool {
    let is_content = name.get(..8).is_some_and(|begin| begin.eq_ignore_ascii_case(b"content-"));
    is_content && !name.eq_ignore_ascii_case(b"content-location") && !is_policy(name)
        || name.eq_ignore_ascii_case(b"accept-ranges")
        || name.eq_ignore_ascii_case(b"last-modified") && has_etag
}

/// `Content-Security-Policy` and its like describe no content.
fn is_policy(name: &[u8]) -> bool {
    const POLICY: &[u8] = b"content-security-policy";
    name.get(..POLICY.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(POLICY))
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use tollgate_http::ByteRange;

    use super::*;
    use crate::store::body::Body;
    use crate::test_messages::{request, response};
    use crate::{Admission, Moment, Received, RequestControl, admit};

    const DATE: &str = "Date: Sun, 06 Nov 1994 08:49:40 GMT\r\n";
    const FRESH: &str = "Cache-Control: max-age=60\r\n";

    fn stored(status: u16, fields: &str) -> Stored {
        let received = response(status, &format!("{DATE}{FRESH}{fields}"));
        let now = Moment::from_seconds(784_111_780);
        let times = Received { requested: now, received: now };
        let (asked, control) = (request("GET", "/", ""), RequestControl::default());
        let head = admit(&asked, &control, &received, &Admission::default(), times).expect("stored");
        Stored::response(1, b"key", head, Body::new(vec![Bytes::from_static(b"0123456789")]))
    }

    #[test]
    fn conditions_of_rfc_9111_4_3_2() {
        const MODIFIED: &str = "Last-Modified: Sun, 06 Nov 1994 08:49:37 GMT\r\n";
        const JUST_NOW: &str = "Last-Modified: Sun, 06 Nov 1994 08:49:40 GMT\r\n";
        const TAG: &str = "ETag: \"a\"\r\n";
        let part = || Some(Answer::Ranges(vec![ByteRange { start: 2, end: 4 }]));
        let whole = Some(Answer::Whole);
        let unchanged = Some(Answer::NotModified);
        for (method, status, fields, asked, expected) in [
            ("GET", 200, TAG, "", whole.clone()),
            ("GET", 200, TAG, "If-None-Match: \"a\"\r\n", unchanged.clone()),
            ("HEAD", 200, TAG, "If-None-Match: W/\"a\"\r\n", unchanged.clone()),
            (
                "GET",
                200,
                TAG,
                "If-None-Match: \"b\"\r\nIf-Modified-Since: Sun, 06 Nov 1994 08:49:59 GMT\r\n",
                whole.clone(),
            ),
            ("GET", 200, "", "If-None-Match: \"a\"\r\n", whole.clone()),
            ("GET", 404, TAG, "If-None-Match: \"a\"\r\n", whole.clone()),
            ("GET", 203, TAG, "If-None-Match: \"a\"\r\n", unchanged.clone()),
            ("GET", 203, TAG, "Range: bytes=2-3\r\n", whole.clone()),
            ("GET", 302, TAG, "If-None-Match: \"a\"\r\n", whole.clone()),
            ("GET", 200, MODIFIED, "If-Modified-Since: Sun, 06 Nov 1994 08:49:37 GMT\r\n", unchanged.clone()),
            ("GET", 200, MODIFIED, "If-Modified-Since: Sun, 06 Nov 1994 08:49:36 GMT\r\n", whole.clone()),
            // The date of the response takes the place of Last-Modified.
            ("GET", 200, "", "If-Modified-Since: Sun, 06 Nov 1994 08:49:40 GMT\r\n", unchanged),
            ("GET", 200, "", "If-Modified-Since: Sun, 06 Nov 1994 08:49:39 GMT\r\n", whole.clone()),
            ("GET", 200, TAG, "If-Match: \"a\"\r\n", None),
            ("GET", 200, TAG, "If-Unmodified-Since: Sun, 06 Nov 1994 08:49:37 GMT\r\n", None),
            // RFC 9110, 14.
            ("GET", 200, TAG, "Range: bytes=2-3\r\n", part()),
            ("HEAD", 200, TAG, "Range: bytes=2-3\r\n", whole.clone()),
            ("GET", 404, TAG, "Range: bytes=2-3\r\n", whole.clone()),
            ("GET", 200, TAG, "Range: bytes=10-\r\n", Some(Answer::NotSatisfiable)),
            ("GET", 200, TAG, "Range: bytes=2-3\r\nIf-Range: \"a\"\r\n", part()),
            ("GET", 200, TAG, "Range: bytes=2-3\r\nIf-Range: \"b\"\r\n", whole.clone()),
            ("GET", 200, MODIFIED, "Range: bytes=2-3\r\nIf-Range: Sun, 06 Nov 1994 08:49:37 GMT\r\n", part()),
            (
                "GET",
                200,
                JUST_NOW,
                "Range: bytes=2-3\r\nIf-Range: Sun, 06 Nov 1994 08:49:40 GMT\r\n",
                whole.clone(),
            ),
            ("GET", 200, "", "Range: bytes=2-3\r\nIf-Range: Sun, 06 Nov 1994 08:49:40 GMT\r\n", whole),
        ] {
            let result = answer(&stored(status, fields), &request(method, "/", asked));
            assert_eq!(result, expected, "{method} {status} {fields} {asked}");
        }
    }

    #[test]
    fn lines_of_a_304() {
        let fields = "Content-Type: text/plain\r\nContent-Location: /x\r\nContent-Encoding: gzip\r\nAccept-Ranges: bytes\r\n\
             Content-Security-Policy: x\r\nLast-Modified: Sun, 06 Nov 1994 08:49:37 GMT\r\nVary: X-A\r\nX-B: 1\r\n";
        let mut lines = Vec::new();
        not_modified_lines(stored(200, fields).head(), &mut lines);
        let modified = "Last-Modified: Sun, 06 Nov 1994 08:49:37 GMT\r\n";
        let rest = "Content-Location: /x\r\nContent-Security-Policy: x\r\n";
        let expected = format!("{DATE}{FRESH}{rest}{modified}Vary: X-A\r\nX-B: 1\r\n");
        assert_eq!(String::from_utf8_lossy(&lines), expected);
        lines.clear();
        not_modified_lines(stored(200, &format!("ETag: \"a\"\r\n{modified}")).head(), &mut lines);
        assert_eq!(String::from_utf8_lossy(&lines), format!("{DATE}{FRESH}ETag: \"a\"\r\n"));
    }
}
