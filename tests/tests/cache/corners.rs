//! Corners of the RFCs, by section: malformed members, repeated fields, obsolete forms, and what a 304 may change.

use std::fmt::Write as _;

use tollgate_tests::Response;

use super::rules::{Table, dated, reused};
use super::{answering, ask, digits, gateway, get, outcomes};

/// RFC 9111, 5.2 and 4.2.1: a syntax error must not make a response more widely usable than its author wanted.
#[test]
fn a_malformed_member_counts_only_against_the_cache() {
    reused(
        &[
            ("200", "Cache-Control: no-store; max-age=60\r\nExpires: {+60}\r\n", false),
            ("200", "Cache-Control: private; max-age=60\r\nExpires: {+60}\r\n", false),
            ("200", "Cache-Control: max-age=60; private\r\nLast-Modified: {-100000}\r\n", false),
            ("200", "Cache-Control: max-age=60 no-store\r\nExpires: {+60}\r\n", false),
            ("200", "Cache-Control: No-Cache; foo\r\nExpires: {+60}\r\n", false),
            ("200", "Cache-Control: private =\"X-A\"\r\nExpires: {+60}\r\n", false),
            ("200", "Cache-Control: max-age=60, private=\r\n", false),
            ("200", "Cache-Control: max-age=60, foo=\"no-store\r\n", false),
            // A lifetime that cannot be parsed is invalid, not absent.
            ("200", "Cache-Control: max-age=0; must-revalidate\r\nLast-Modified: {-100000}\r\n", false),
            ("200", "Cache-Control: max-age =60\r\nLast-Modified: {-100000}\r\n", false),
            ("200", "Cache-Control: max-age=60; foo\r\nExpires: {+60}\r\n", false),
            // It has no restriction.
            ("200", "Cache-Control: public; foo\r\nExpires: {+60}\r\n", true),
            ("200", "Cache-Control: max-age=60, x-private; no-stores\r\n", true),
            ("200", "Cache-Control: max-age=60, foo=bar=baz\r\n", true),
            ("200", "Cache-Control: max-age=60, foo=\"no-store\", bar=\"private\"\r\n", true),
            ("200", "Cache-Control: max-age=60, =, ==, \"\"\r\n", true),
        ],
        "on",
    );
}

#[test]
fn arguments_that_a_directive_does_not_have_or_has_twice() {
    reused(
        &[
            ("200", "Cache-Control: max-age=60, no-store=1\r\n", false),
            ("200", "Cache-Control: max-age=60, no-store=\"X-A\"\r\n", false),
            ("200", "Cache-Control: max-age=60, private=\"\"\r\n", false),
            ("200", "Cache-Control: max-age=60, private=\" , \"\r\n", false),
            ("200", "Cache-Control: max-age=60, no-cache=\"\"\r\n", false),
            ("200", "Cache-Control: max-age=60, private=\"X-A\", private\r\n", false),
            ("200", "Cache-Control: max-age=60, must-revalidate=x, public=y\r\n", true),
            ("200", "Cache-Control: max-age=60, foo=1, foo=2, FOO\r\n", true),
            ("200", "Cache-Control: s-maxage=x, max-age=60\r\n", false),
            ("200", "Cache-Control: s-maxage=\"60\"\r\n", true),
            ("200", "Cache-Control: max-age=\"6\\0\"\r\n", true),
            ("200", "Cache-Control: max-age=\"\"\r\n", false),
            ("200", "Cache-Control: max-age=\" 60\"\r\n", false),
            ("200", "Cache-Control: max-age=60\r\nCache-Control:\r\n", true),
            ("200", "Cache-Control: max-age=60\r\nCache-Control: foo\r\nCache-Control: private\r\n", false),
            ("200", "Cache-Control: max-age=60, Stale-While-Revalidate=x\r\n", true),
            ("200", "Expires: {+60}\r\nExpires: 0\r\n", true),
        ],
        "on",
    );
}

#[test]
fn obsolete_and_odd_dates_and_ages() {
    reused(
        &[
            // RFC 9110, 5.6.7: two digits of a year mean at most 50 years ahead.
            ("200", "Expires: Monday, 18-Aug-70 02:01:18 GMT\r\n", true),
            ("200", "Expires: Sunday, 06-Nov-94 08:49:37 GMT\r\n", false),
            ("200", "Expires: Sun Aug  7 02:01:18 2050\r\n", true),
            ("200", "Expires: Sun Nov  6 08:49:37 1994\r\n", false),
            ("200", "Date: Sunday, 06-Nov-94 08:49:37 GMT\r\nCache-Control: max-age=60\r\n", false),
            ("200", "Date: {+0}\r\nDate: {-7200}\r\nCache-Control: max-age=60\r\n", true),
            ("200", "Last-Modified: Sunday, 06-Nov-94 08:49:37 GMT\r\n", true),
            ("200", "Cache-Control: max-age=60\r\nAge: 2147483647\r\n", false),
            ("200", "Cache-Control: max-age=60\r\nAge: 2147483649\r\n", false),
            ("200", "Cache-Control: max-age=2147483648\r\nAge: 2147483648\r\n", false),
            ("200", "Cache-Control: max-age=60\r\nAge: 00000030\r\n", true),
            ("200", "Cache-Control: max-age=60\r\nAge:\r\n", true),
            ("200", "Cache-Control: max-age=60\r\nAge: \"7200\"\r\n", true),
            ("200", "Cache-Control: max-age=60\r\nAge: x, 7200\r\n", true),
        ],
        "on",
    );
}

#[test]
fn targeted_fields_name_fields_in_strings() {
    reused(
        &[
            ("200", "CDN-Cache-Control: max-age=60, private=\"X-A\"\r\nCache-Control: no-store\r\n", true),
            ("200", "CDN-Cache-Control: max-age=60, private=?0\r\nCache-Control: no-store\r\n", true),
            ("200", "CDN-Cache-Control: max-age=60, private=?1\r\n", false),
            ("200", "CDN-Cache-Control: max-age=60, private=\"\"\r\n", false),
            ("200", "CDN-Cache-Control: s-maxage=60\r\nCache-Control: no-store\r\n", true),
            ("200", "CDN-Cache-Control: max-age=60.5\r\nCache-Control: max-age=60\r\n", false),
            (
                "200",
                "CDN-Cache-Control: max-age=60\r\nCDN-Cache-Control: &\r\nCache-Control: max-age=0\r\n",
                false,
            ),
            (
                "200",
                "CDN-Cache-Control: max-age=60, must-revalidate;x=(1)\r\nCache-Control: no-store\r\n",
                false,
            ),
            ("200", "CDN-Cache-Control: max-age=0, max-age=60\r\nCache-Control: no-store\r\n", true),
        ],
        "on",
    );
    let origin = tollgate_tests::Origin::fixed(
        "HTTP/1.1 200 OK\r\nCDN-Cache-Control: max-age=60, private=\"X-A\", no-cache=x-b\r\nX-A: 1\r\nX-B: 1\r\nX-C: 1\r\n\
         Content-Length: 2\r\n\r\nok",
    );
    let gateway = gateway(&origin, "on");
    assert!(get(&gateway, "/", "").headers.has("X-A"));
    let stored = get(&gateway, "/", "");
    assert!(
        !stored.headers.has("X-A") && !stored.headers.has("X-B") && stored.headers.has("X-C"),
        "{stored:?}"
    );
    assert_eq!(origin.count(), 1);
}

#[test]
fn directives_of_requests_in_odd_forms() {
    let fresh = "Cache-Control: max-age=60\r\nAge: 20\r\nETag: \"a\"\r\n";
    let stale = "Cache-Control: max-age=60\r\nAge: 70\r\nETag: \"a\"\r\n";
    let constant = "Cache-Control: max-age=60, immutable\r\nAge: 20\r\nETag: \"a\"\r\n";
    let rows = [
        (fresh, "Cache-Control: no-cache; foo\r\n", false),
        (fresh, "Cache-Control: max-age =30\r\n", false),
        (fresh, "Cache-Control: max-age=30, max-age=10\r\n", false),
        (fresh, "Cache-Control: max-age=99999999999999\r\n", true),
        // RFC 8246, 2: a reload does not validate an immutable response; only `no-cache` does.
        (constant, "Cache-Control: max-age=0\r\n", true),
        (constant, "Cache-Control: no-cache\r\n", false),
        (constant, "Cache-Control: max-age=0, no-cache\r\n", false),
        (fresh, "Cache-Control: min-fresh=x\r\n", true),
        (fresh, "Cache-Control: min-fresh=99999999999999\r\n", false),
        (fresh, "Cache-Control: foo=\"no-cache\"\r\n", true),
        (fresh, "Cache-Control: public, private, must-revalidate\r\n", true),
        (fresh, "Cache-Control:\r\nPragma: no-cache\r\n", true),
        (fresh, "Pragma: foo, No-Cache\r\n", false),
        (fresh, "Pragma: foo\r\nPragma: no-cache\r\n", false),
        // RFC 9111, 5.2.1.5: the directive does not apply to stored responses, and this client accepts nothing else.
        (fresh, "Cache-Control: no-store, only-if-cached\r\n", true),
        (stale, "Cache-Control: max-stale=x\r\n", false),
        (stale, "Cache-Control: max-stale; foo\r\n", false),
        (stale, "Cache-Control: max-stale=\"30\"\r\n", true),
        (stale, "Cache-Control: max-stale=99999999999999\r\n", true),
        (stale, "Cache-Control: max-stale=30, max-stale=5\r\n", false),
        (stale, "Cache-Control: max-stale=30, min-fresh=1\r\n", false),
        (stale, "Cache-Control: max-stale=30, no-cache\r\n", false),
    ];
    let table = Table::start(rows.map(|(fields, ..)| ("200".to_owned(), fields.to_owned())).to_vec(), "on");
    let mut wrong = String::new();
    for (row, (fields, lines, expected)) in rows.iter().enumerate() {
        assert_eq!(table.get(row, "").text(), "1");
        let was_reused = table.get(row, lines).text() == "1";
        if was_reused != *expected {
            let _ = writeln!(wrong, "{fields:?} {lines:?}: reused {was_reused}");
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
    let before = table.origin.count();
    let only = get(&table.gateway, "/0?x", "Cache-Control: no-store, only-if-cached\r\n");
    assert_eq!((only.status, table.origin.count()), (504, before));
}

#[test]
fn a_client_that_forces_validation_renews_what_others_get() {
    let origin = answering(|number, _| {
        format!(
            "HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nContent-Length: {}\r\n\r\n{number}",
            digits(number)
        )
    });
    let gateway = gateway(&origin, "on");
    for (lines, expected) in [
        ("", "1"),
        ("Cache-Control: no-cache\r\n", "2"),
        ("", "2"),
        ("Cache-Control: max-age=0\r\n", "3"),
        ("", "3"),
        // This request stores nothing.
        ("Cache-Control: no-store\r\n", "4"),
        ("", "3"),
    ] {
        assert_eq!(get(&gateway, "/", lines).text(), expected, "{lines}");
    }
}

/// RFC 9110, 9.1: methods are case-sensitive, so this one is unknown, and may be unsafe (RFC 9111, 4.4).
#[test]
fn a_method_in_lower_case_is_another_method() {
    let origin = answering(|number, _| {
        format!(
            "HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nContent-Length: {}\r\n\r\n{number}",
            digits(number)
        )
    });
    let gateway = gateway(&origin, "on");
    assert_eq!([get(&gateway, "/", "").text(), get(&gateway, "/", "").text()], ["1", "1"]);
    assert_eq!(ask(&gateway, "get", "/", "Content-Length: 0\r\n").text(), "2");
    assert_eq!(origin.requests()[1].method, "get");
    assert_eq!(get(&gateway, "/", "").text(), "3", "its success has removed what was stored");
}

#[test]
fn responses_without_a_body_are_stored() {
    let origin = answering(|number, request| {
        let status = &request.target[1..];
        format!(
            "HTTP/1.1 {status} X\r\nLast-Modified: Sun, 06 Nov 1994 08:49:37 GMT\r\nX-Number: {number}\r\n\r\n"
        )
    });
    let gateway = gateway(&origin, "on");
    let first = get(&gateway, "/204", "");
    let second = get(&gateway, "/204", "");
    for response in [&first, &second] {
        assert_eq!((response.status, response.header("X-Number")), (204, Some("1")));
        assert!(!response.headers.has("Content-Length") && !response.headers.has("Transfer-Encoding"));
    }
    assert!(second.headers.has("Age") && !first.headers.has("Age"));
}

/// RFC 5861, 4: a stale response may replace 500, 502, 503 and 504, and no other status.
#[test]
fn statuses_that_a_stale_response_replaces() {
    let origin = answering(|_, request| {
        let status = &request.target[1..];
        match request.headers.has("If-None-Match") {
            true => format!("HTTP/1.1 {status} X\r\nContent-Length: 3\r\n\r\nbad"),
            false => "HTTP/1.1 200 OK\r\nCache-Control: max-age=0, stale-if-error=60\r\nETag: \"a\"\r\nContent-Length: 4\r\n\r\ngood"
                .to_owned(),
        }
    });
    let gateway = gateway(&origin, "on");
    for (status, is_replaced) in [
        ("500", true),
        ("502", true),
        ("503", true),
        ("504", true),
        ("501", false),
        ("505", false),
        ("511", false),
        ("599", false),
        ("400", false),
        ("404", false),
        ("410", false),
        ("429", false),
    ] {
        let target = format!("/{status}");
        assert_eq!(get(&gateway, &target, "").text(), "good");
        let second = get(&gateway, &target, "");
        let expected = if is_replaced { ("200", "good") } else { (status, "bad") };
        assert_eq!((second.status.to_string().as_str(), second.text().as_str()), expected);
    }
}

/// RFC 9111, 4.2.4 and 5.2.2.2: these are never served stale, even if no endpoint answers.
#[test]
fn what_must_be_validated_is_not_served_when_it_cannot_be() {
    for directives in [
        "max-age=0, must-revalidate",
        "max-age=0, proxy-revalidate",
        "s-maxage=0",
        "max-age=60, no-cache",
        "max-age=0, Must-Revalidate, stale-if-error=60",
    ] {
        let origin = tollgate_tests::Origin::fixed(format!(
            "HTTP/1.1 200 OK\r\nCache-Control: {directives}\r\nETag: \"a\"\r\nContent-Length: 4\r\n\r\ngood"
        ));
        let gateway = gateway(&origin, "{stale_if_error: 1m, stale_while_revalidate: 1m}");
        assert_eq!(get(&gateway, "/", "").text(), "good");
        drop(origin);
        for lines in ["", "Cache-Control: max-stale\r\n", "Cache-Control: stale-if-error=60\r\n"] {
            let response = get(&gateway, "/", lines);
            assert!(
                response.status >= 500 && response.text() != "good",
                "{directives} {lines}: {response:?}"
            );
            // RFC 9211, 2: a response of the gateway itself says nothing about the cache.
            assert!(!response.headers.has("Cache-Status"), "{response:?}");
        }
    }
}

/// Starts an origin whose first response and whose 304 have these lines, and returns the second response and the
/// origin's number of requests after a third.
fn after_304(first: &'static str, validated: &'static str) -> (Response, Response, usize) {
    let origin = answering(move |_, request| {
        match request.headers.has("If-None-Match") || request.headers.has("If-Modified-Since") {
            true => dated(&format!("HTTP/1.1 304 Not Modified\r\n{validated}\r\n")),
            false => dated(&format!("HTTP/1.1 200 OK\r\n{first}Content-Length: 4\r\n\r\nbody")),
        }
    });
    let gateway = gateway(&origin, "on");
    get(&gateway, "/", "");
    (get(&gateway, "/", ""), get(&gateway, "/", ""), origin.count())
}

/// RFC 9111, 4.3.4: the client whose request was forwarded gets the fields of the 304, even if they forbid storing.
#[test]
fn fields_of_a_304_that_may_not_be_stored_reach_its_client() {
    const STALE: &str = "Cache-Control: max-age=0\r\nETag: \"a\"\r\nX-Old: 1\r\n";
    let (second, third, asked) =
        after_304(STALE, "ETag: \"a\"\r\nCache-Control: max-age=60\r\nSet-Cookie: session=1\r\nX-New: 1\r\n");
    for response in [&second, &third] {
        assert_eq!((response.status, response.text().as_str()), (200, "body"));
        assert_eq!(response.header("Set-Cookie"), Some("session=1"), "each client gets its cookie");
        assert!(response.headers.has("X-Old") && response.headers.has("X-New"), "{response:?}");
    }
    assert_eq!(asked, 3);
    let (second, _, asked) = after_304(STALE, "ETag: \"a\"\r\nCache-Control: private, max-age=60\r\n");
    assert_eq!((second.header("Cache-Control"), asked), (Some("private, max-age=60"), 3));
    let (second, _, asked) = after_304(STALE, "ETag: \"a\"\r\nCache-Control: max-age=60\r\nVary: *\r\n");
    assert_eq!((second.header("Vary"), asked), (Some("*"), 3));
}

#[test]
fn validators_and_ages_of_a_304() {
    const WEAK: &str = "Cache-Control: max-age=0\r\nETag: W/\"a\"\r\n";
    const STRONG: &str = "Cache-Control: max-age=0\r\nETag: \"a\"\r\n";
    // RFC 9111, 4.3.4: a strong tag may name other bytes than the ones stored under a weak tag.
    let (second, third, asked) = after_304(WEAK, "ETag: \"a\"\r\nCache-Control: max-age=60\r\n");
    assert_eq!((second.header("ETag"), third.header("ETag"), asked), (Some("W/\"a\""), Some("W/\"a\""), 2));
    let (second, _, asked) = after_304(STRONG, "ETag: W/\"a\"\r\nCache-Control: max-age=60\r\n");
    assert_eq!((second.header("ETag"), asked), (Some("W/\"a\""), 2));
    let (second, _, asked) = after_304(STRONG, "Cache-Control: max-age=60\r\nETag: a\r\n");
    assert_eq!((second.text().as_str(), asked), ("body", 2), "what is no tag names nothing");
    // The age of the 304 counts.
    let (_, _, asked) = after_304(STRONG, "ETag: \"a\"\r\nCache-Control: max-age=60\r\nAge: 70\r\n");
    assert_eq!(asked, 3);
    let (_, _, asked) = after_304(STRONG, "ETag: \"a\"\r\nCache-Control: max-age=60\r\nDate: {-70}\r\n");
    assert_eq!(asked, 3);
    let (second, _, asked) = after_304(STRONG, "ETag: \"a\"\r\nExpires: {+60}\r\n");
    assert_eq!((second.status, asked), (200, 3), "the stored max-age=0 still counts before Expires");
    // A date is enough.
    let (_, _, asked) = after_304(
        "Cache-Control: max-age=0\r\nLast-Modified: Sun, 06 Nov 1994 08:49:37 GMT\r\n",
        "Cache-Control: max-age=60\r\n",
    );
    assert_eq!(asked, 2);
}

#[test]
fn conditions_in_odd_forms() {
    const MODIFIED: &str = "Sun, 06 Nov 1994 08:49:37 GMT";
    let origin = answering(|_, request| {
        let status = if request.target == "/203" { 203 } else { 200 };
        format!(
            "HTTP/1.1 {status} X\r\nCache-Control: max-age=60\r\nETag: \"a,b\"\r\nLast-Modified: {MODIFIED}\r\nContent-Length: 4\r\n\r\nbody"
        )
    });
    let gateway = gateway(&origin, "on");
    get(&gateway, "/", "");
    get(&gateway, "/203", "");
    for (target, lines, status) in [
        ("/", "If-None-Match: \"x\"\r\nIf-None-Match: \"a,b\"\r\n", 304),
        ("/", "If-None-Match: \"a, \"b\"\r\n", 200),
        ("/", "If-None-Match: \"a,b\r\n", 200),
        ("/", "If-None-Match: ,, W/\"a,b\" ,\r\n", 304),
        ("/", "If-None-Match: w/\"a,b\"\r\n", 200),
        ("/", "If-None-Match: a,b\r\n", 200),
        ("/", "If-None-Match:\r\n", 200),
        ("/203", "If-None-Match: \"a,b\"\r\n", 304),
        ("/203", "Range: bytes=0-1\r\n", 203),
        ("/", "If-Modified-Since: Sunday, 06-Nov-94 08:49:37 GMT\r\n", 304),
        ("/", "If-Modified-Since: Sun Nov  6 08:49:37 1994\r\n", 304),
        ("/", "If-Modified-Since: Sun, 06 Nov 1994 08:49:37 UTC\r\n", 200),
        (
            "/",
            "If-Modified-Since: Sun, 06 Nov 1994 08:49:37 GMT\r\nIf-Modified-Since: Sun, 06 Nov 1994 08:49:37 GMT\r\n",
            200,
        ),
        ("/", "Range: bytes=0-1\r\nIf-Range: Sun, 06 Nov 1994 08:49:37 GMT\r\n", 206),
        ("/", "Range: bytes=0-1\r\nIf-Range: Sun, 06 Nov 1994 08:49:38 GMT\r\n", 200),
        ("/", "Range: bytes=0-1\r\nIf-Range: W/\"a,b\"\r\n", 200),
        ("/", "Range: bytes=0-1\r\nIf-Range: \"a,b\", \"c\"\r\n", 200),
        ("/", "If-Range: \"x\"\r\n", 200),
        ("/", "Range: bytes=0-1\r\nRange: bytes=2-3\r\n", 200),
        ("/", "Range: bytes=0-0, 2-2\r\n", 206),
        ("/", "Range: bytes=0-2, 2-3\r\n", 200),
        ("/", "Range: bytes=0-0, 9-\r\n", 206),
        ("/", "Range: BYTES=0-0\r\n", 206),
        ("/", "Range: bytes=-0\r\n", 416),
        ("/", "Range: bytes=4-\r\n", 416),
        ("/", "Range: bytes=99999999999999999999-\r\n", 416),
        ("/", "Range: bytes=0-1\r\nIf-None-Match: \"a,b\"\r\n", 304),
    ] {
        assert_eq!(get(&gateway, target, lines).status, status, "{lines}");
    }
    assert_eq!(origin.count(), 2);
    // RFC 9110, 6.6.1: an error has a date too.
    let beyond = get(&gateway, "/", "Range: bytes=4-\r\n");
    assert_eq!((beyond.headers.all("Date").len(), beyond.header("Content-Range")), (1, Some("bytes */4")));
}

/// RFC 9110, 14.4: the field has no meaning in a 200, and would contradict the gateway's own in a 206.
#[test]
fn a_stored_content_range_does_not_contradict_that_of_a_part() {
    let origin = tollgate_tests::Origin::fixed(
        "HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nContent-Range: bytes 7-8/9\r\nX-A: 1\r\nContent-Length: 4\r\n\r\nbody",
    );
    let gateway = gateway(&origin, "on");
    get(&gateway, "/", "");
    let part = get(&gateway, "/", "Range: bytes=1-2\r\n");
    assert_eq!((part.status, part.text().as_str()), (206, "od"));
    assert_eq!((part.headers.all("Content-Range"), part.header("X-A")), (vec!["bytes 1-2/4"], Some("1")));
}

/// RFC 9111, 4.1: some endpoints omit `Vary` from their default response.
#[test]
fn a_default_response_without_vary_does_not_replace_the_variants() {
    let origin = answering(|number, request| {
        let vary = if request.headers.has("Accept-Language") { "Vary: Accept-Language\r\n" } else { "" };
        format!(
            "HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\n{vary}Content-Length: {}\r\n\r\n{number}",
            digits(number)
        )
    });
    let gateway = gateway(&origin, "on");
    let (de, en) = ("Accept-Language: de\r\n", "Accept-Language: en\r\n");
    let text = |lines: &str| get(&gateway, "/", lines).text();
    assert_eq!([text(de), text(en), text("")], ["1", "2", "3"]);
    assert_eq!([text(de), text(en), text("")], ["1", "2", "3"]);
    assert_eq!(outcomes(&gateway, 6)[3..], ["hit", "hit", "hit"]);
}

/// RFC 9110, 7.6.1: a field that `Connection` names is for the gateway, which obeys it and does not forward it.
#[test]
fn directives_that_connection_names_are_obeyed_and_not_stored() {
    reused(
        &[
            ("200", "Connection: Cache-Control\r\nCache-Control: no-store\r\nExpires: {+60}\r\n", false),
            ("200", "Connection: Cache-Control\r\nCache-Control: max-age=60\r\n", true),
            ("200", "Connection: Vary\r\nVary: *\r\nCache-Control: max-age=60\r\n", false),
            ("200", "Connection: Set-Cookie\r\nSet-Cookie: a=1\r\nCache-Control: max-age=60\r\n", false),
        ],
        "on",
    );
}

/// RFC 9211, 2: each cache appends its member, so the first one is the origin's.
#[test]
fn the_status_of_a_cache_behind_the_gateway_is_kept() {
    let origin = tollgate_tests::Origin::fixed(
        "HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nCache-Status: Origin; hit; ttl=9\r\nContent-Length: 2\r\n\r\nok",
    );
    let gateway = gateway(&origin, "on");
    for own in ["\"tollgate\"; fwd=uri-miss; stored", "\"tollgate\"; hit; ttl="] {
        let response = get(&gateway, "/", "");
        let members = response.headers.all("Cache-Status");
        assert!(
            members.len() == 2 && members[0] == "Origin; hit; ttl=9" && members[1].starts_with(own),
            "{members:?}"
        );
    }
}
