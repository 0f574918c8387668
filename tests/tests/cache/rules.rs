//! The rules of RFC 9111 one by one, in tables: raw bytes from the origin, and what the second request gets.

use std::collections::{HashMap, HashSet};
use std::fmt::Write as _;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use time::{Duration, OffsetDateTime};
use tollgate_tests::{Gate, Gateway, Origin, eventually};

use super::{answering, ask, digits, gateway, get};

/// Replaces `{+60}` by the date in 60 seconds, `{-60}` by the one 60 seconds ago.
pub(super) fn dated(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find("{+").or_else(|| rest.find("{-")) {
        let end = at + rest[at..].find('}').expect("the end of a date");
        out.push_str(&rest[..at]);
        let seconds: i64 = rest[at + 1..end].parse().expect("seconds");
        out.push_str(&date(OffsetDateTime::now_utc() + Duration::seconds(seconds)));
        rest = &rest[end + 1..];
    }
    out + rest
}

fn date(at: OffsetDateTime) -> String {
    let (weekday, month) = (at.weekday().to_string(), at.month().to_string());
    let (hour, minute, second) = at.to_hms();
    let day = format!("{}, {:02} {} {}", &weekday[..3], at.day(), &month[..3], at.year());
    format!("{day} {hour:02}:{minute:02}:{second:02} GMT")
}

/// A gateway before an origin that answers a request for `/N` with row N of a table. The body is the number of the
/// request for that target.
pub(super) struct Table {
    pub gateway: Gateway,
    pub origin: Origin,
}

impl Table {
    pub fn start(rows: Vec<(String, String)>, settings: &str) -> Self {
        let counts: Mutex<HashMap<String, usize>> = Mutex::default();
        let origin = answering(move |_, request| {
            let row: usize = request.target.trim_start_matches('/').parse().expect("a row");
            let mut counts = counts.lock().expect("no panic");
            let count = counts.entry(request.target.clone()).or_default();
            *count += 1;
            let (status, fields) = &rows[row];
            let fields = dated(fields);
            format!("HTTP/1.1 {status} X\r\n{fields}Content-Length: {}\r\n\r\n{count}", digits(*count))
        });
        let gateway = gateway(&origin, settings);
        Self { gateway, origin }
    }

    pub fn get(&self, row: usize, lines: &str) -> tollgate_tests::Response {
        get(&self.gateway, &format!("/{row}"), lines)
    }
}

/// Requests each row twice, and compares which rows the second request got from the store.
pub(super) fn reused(rows: &[(&str, &str, bool)], settings: &str) {
    let table = Table::start(
        rows.iter().map(|(status, fields, _)| ((*status).to_owned(), (*fields).to_owned())).collect(),
        settings,
    );
    let mut wrong = String::new();
    for (row, (status, fields, expected)) in rows.iter().enumerate() {
        let first = table.get(row, "");
        assert_eq!((first.status.to_string().as_str(), first.text().as_str()), (*status, "1"), "{fields}");
        let second = table.get(row, "");
        let was_reused = second.text() == "1";
        if was_reused != *expected {
            let _ = writeln!(wrong, "{status} {fields:?}: reused {was_reused}");
        }
        assert!(!was_reused || second.headers.all("Age").len() == 1, "{fields}: {second:?}");
    }
    assert!(wrong.is_empty(), "{wrong}");
}

#[test]
fn explicit_freshness() {
    reused(
        &[
            ("200", "Cache-Control: max-age=60\r\n", true),
            ("200", "Cache-Control: max-age=0\r\n", false),
            ("200", "Cache-Control: MaX-aGe=60\r\n", true),
            ("200", "cache-control: max-age=60\r\n", true),
            ("200", "Cache-Control: foo\r\nCache-Control: max-age=60\r\n", true),
            ("200", "Cache-Control: foo, max-age=60, bar=1, baz=\"2\"\r\n", true),
            ("200", "Cache-Control: ,, ,max-age=60,\r\n", true),
            ("200", "Cache-Control:max-age=60\t\r\n", true),
            ("200", "Cache-Control: max-age=\"60\"\r\n", true),
            ("200", "Cache-Control: max-age=0060\r\n", true),
            ("200", "Cache-Control: max-age=2147483647\r\n", true),
            ("200", "Cache-Control: max-age=2147483648\r\n", true),
            ("200", "Cache-Control: max-age=99999999999999999999\r\n", true),
            ("200", "Cache-Control: max-age='60'\r\n", false),
            ("200", "Cache-Control: max-age =60\r\n", false),
            ("200", "Cache-Control: max-age= 60\r\n", false),
            ("200", "Cache-Control: max-age=-60\r\n", false),
            ("200", "Cache-Control: max-age=+60\r\n", false),
            ("200", "Cache-Control: max-age=60.0\r\n", false),
            ("200", "Cache-Control: max-age=6e1\r\n", false),
            ("200", "Cache-Control: max-age=a60\r\n", false),
            ("200", "Cache-Control: max-age=60a\r\n", false),
            ("200", "Cache-Control: max-age\r\n", false),
            ("200", "Cache-Control: max-age=\r\n", false),
            ("200", "Cache-Control: xmax-age=60\r\n", false),
            ("200", "Cache-Control: max-age-x=60\r\n", false),
            // A directive inside the value of another one.
            ("200", "Cache-Control: foo=\"max-age=60\"\r\n", false),
            ("200", "Cache-Control: foo=\"a, max-age=60\"\r\n", false),
            ("200", "Cache-Control: foo=\"\\\", max-age=60\"\r\n", false),
            ("200", "Cache-Control: foo=\"bar\", max-age=60\r\n", true),
            // The first of two values counts.
            ("200", "Cache-Control: max-age=60, max-age=0\r\n", true),
            ("200", "Cache-Control: max-age=60\r\nCache-Control: max-age=0\r\n", true),
            ("200", "Cache-Control: max-age=0, max-age=60\r\n", false),
            // A shared cache prefers s-maxage.
            ("200", "Cache-Control: max-age=0, s-maxage=60\r\n", true),
            ("200", "Cache-Control: max-age=60, s-maxage=0\r\n", false),
            ("200", "Cache-Control: s-maxage=60, s-maxage=0\r\n", true),
            ("200", "Cache-Control: S-Maxage=60\r\n", true),
            // There is no default lifetime.
            ("200", "", false),
            ("200", "Cache-Control: public\r\n", false),
            ("200", "Cache-Control: immutable\r\n", false),
            ("200", "Cache-Control: max-age=60, immutable\r\n", true),
            ("200", "Pragma: no-cache\r\nCache-Control: max-age=60\r\n", true),
        ],
        "on",
    );
}

#[test]
fn expires() {
    reused(
        &[
            ("200", "Expires: {+60}\r\n", true),
            ("200", "Date: {+0}\r\nExpires: {+60}\r\n", true),
            ("200", "Date: {+0}\r\nExpires: {+0}\r\n", false),
            ("200", "Date: {+0}\r\nExpires: {-60}\r\n", false),
            ("200", "Expires: 0\r\n", false),
            ("200", "Expires: -1\r\n", false),
            ("200", "Expires: tomorrow\r\n", false),
            ("200", "Expires:\r\n", false),
            ("200", "Expires: Thu, 18 Aug 2050 02:01:18 GMT\r\n", true),
            ("200", "Expires: Thursday, 18-Aug-50 02:01:18 GMT\r\n", true),
            ("200", "Expires: Thu Aug 18 02:01:18 2050\r\n", true),
            ("200", "Expires: thu, 18 AUG 2050 02:01:18 gmt\r\n", true),
            ("200", "Expires: Thu, 18 Aug 2050 02:01:18 UTC\r\n", false),
            ("200", "Expires: Thu, 18 Aug 2050 02:01:18 AEST\r\n", false),
            ("200", "Expires: Thu, 18 Aug 2050 02:01:18\r\n", false),
            ("200", "Expires: Thu, 18 Aug 2050 02:01 GMT\r\n", false),
            ("200", "Expires: Thu, 18 Aug 2050 2:01:18 GMT\r\n", false),
            ("200", "Expires: Thu, 18 Aug 50 02:01:18 GMT\r\n", false),
            ("200", "Expires: Thu 18 Aug 2050 02:01:18 GMT\r\n", false),
            ("200", "Expires: Thu, 18  Aug  2050 02:01:18 GMT\r\n", false),
            ("200", "Expires: Thu, 18-Aug-2050 02:01:18 GMT\r\n", false),
            ("200", "Expires: Thu, 18 Aug 2050 02.01.18 GMT\r\n", false),
            ("200", "Expires: Thu, 18 Aug 2050 25:01:18 GMT\r\n", false),
            ("200", "Expires: 0\r\nExpires: {+60}\r\n", false),
            ("200", "Cache-Control: max-age=60\r\nExpires: 0\r\n", true),
            ("200", "Cache-Control: s-maxage=60\r\nExpires: {-60}\r\n", true),
            ("200", "Cache-Control: max-age=0\r\nExpires: {+60}\r\n", false),
            ("200", "Cache-Control: max-age=x\r\nExpires: {+60}\r\n", false),
            // The lifetime counts from the date of the response, not from the clock of the gateway.
            ("200", "Date: {-3600}\r\nExpires: {-3540}\r\n", false),
            ("200", "Date: {+3600}\r\nExpires: {+3660}\r\n", true),
            ("200", "Date: {+3600}\r\nExpires: {+3600}\r\n", false),
        ],
        "on",
    );
}

#[test]
fn the_age_of_a_response_that_arrives() {
    reused(
        &[
            ("200", "Cache-Control: max-age=60\r\nAge: 30\r\n", true),
            ("200", "Cache-Control: max-age=60\r\nAge: 60\r\n", false),
            ("200", "Cache-Control: max-age=60\r\nAge: 7200\r\n", false),
            ("200", "Cache-Control: max-age=60\r\nAge: 2147483648\r\n", false),
            ("200", "Cache-Control: max-age=60\r\nAge: 99999999999999\r\n", false),
            ("200", "Cache-Control: max-age=60\r\nAge: 0, 7200\r\n", true),
            ("200", "Cache-Control: max-age=60\r\nAge: 7200, 0\r\n", false),
            ("200", "Cache-Control: max-age=60\r\nAge: 0\r\nAge: 7200\r\n", true),
            ("200", "Cache-Control: max-age=60\r\nAge: 7200\r\nAge: 0\r\n", false),
            // A value that is not a number is ignored.
            ("200", "Cache-Control: max-age=60\r\nAge: abc\r\n", true),
            ("200", "Cache-Control: max-age=60\r\nAge: -7200\r\n", true),
            ("200", "Cache-Control: max-age=60\r\nAge: 7200.0\r\n", true),
            ("200", "Cache-Control: max-age=60\r\nAge: 7200s\r\n", true),
            ("200", "Expires: {+60}\r\nAge: 7200\r\n", false),
            // The date shows an age too.
            ("200", "Date: {-30}\r\nCache-Control: max-age=60\r\n", true),
            ("200", "Date: {-120}\r\nCache-Control: max-age=60\r\n", false),
            ("200", "Date: {-120}\r\nCache-Control: max-age=60\r\nAge: 0\r\n", false),
            ("200", "Date: {+3600}\r\nCache-Control: max-age=60\r\n", true),
            ("200", "Date: yesterday\r\nCache-Control: max-age=60\r\n", true),
            ("200", "Date: 0\r\nCache-Control: max-age=60\r\n", true),
        ],
        "on",
    );
}

#[test]
fn what_forbids_storing() {
    reused(
        &[
            ("200", "Cache-Control: no-store, max-age=60\r\n", false),
            ("200", "Cache-Control: max-age=60\r\nCache-Control: No-Store\r\n", false),
            ("200", "Cache-Control: max-age=60, foo, no-store\r\n", false),
            ("200", "Cache-Control: private, max-age=60\r\n", false),
            ("200", "Cache-Control: Private, s-maxage=60\r\n", false),
            ("200", "Cache-Control: max-age=60, private=\"X-A\"\r\n", true),
            ("200", "Cache-Control: no-cache, max-age=60\r\n", false),
            ("200", "Cache-Control: No-CaChE, max-age=60\r\n", false),
            ("200", "Cache-Control: no-cache=\"X-A\", max-age=60\r\n", true),
            ("200", "Cache-Control: foo=\"no-store\", max-age=60\r\n", true),
            ("200", "Cache-Control: max-age=60, no-store, must-understand\r\n", true),
            ("599", "Cache-Control: max-age=60, no-store, must-understand\r\n", false),
            ("599", "Cache-Control: max-age=60, must-understand\r\n", false),
            ("200", "Cache-Control: max-age=60, must-revalidate\r\n", true),
            ("200", "Cache-Control: max-age=60, proxy-revalidate\r\n", true),
            ("200", "Cache-Control: max-age=60, no-transform\r\n", true),
            ("200", "Cache-Control: max-age=60\r\nVary: *\r\n", false),
            ("200", "Cache-Control: max-age=60\r\nVary: , *\r\n", false),
            ("200", "Cache-Control: max-age=60\r\nVary: X-A, *\r\n", false),
            ("200", "Cache-Control: max-age=60\r\nVary: *, X-A\r\n", false),
            ("200", "Cache-Control: max-age=60\r\nVary: X-A\r\nVary: *\r\n", false),
            ("200", "Cache-Control: max-age=60\r\nVary:\r\n", true),
            ("200", "Cache-Control: max-age=60\r\nVary: X-A, ,X-B,\r\n", true),
            ("200", "Cache-Control: max-age=60\r\nSet-Cookie: a=b\r\n", false),
            ("200", "Cache-Control: max-age=60, no-cache=\"set-cookie\"\r\nSet-Cookie: a=b\r\n", true),
        ],
        "on",
    );
}

#[test]
fn targeted_fields() {
    reused(
        &[
            ("200", "CDN-Cache-Control: max-age=60\r\n", true),
            ("200", "CDN-Cache-Control: max-age=60\r\nCache-Control: max-age=0, no-store\r\n", true),
            ("200", "CDN-Cache-Control: max-age=60\r\nExpires: 0\r\n", true),
            ("200", "CDN-Cache-Control: max-age=60\r\nCache-Control: private\r\n", true),
            ("200", "CDN-Cache-Control: max-age=0\r\nCache-Control: max-age=60\r\n", false),
            ("200", "CDN-Cache-Control: no-store\r\nCache-Control: max-age=60\r\n", false),
            ("200", "CDN-Cache-Control: no-cache\r\nCache-Control: max-age=60\r\n", false),
            ("200", "CDN-Cache-Control: private\r\nCache-Control: max-age=60\r\n", false),
            ("200", "CDN-Cache-Control: max-age=60, foo, bar=\"x\"\r\nCache-Control: no-store\r\n", true),
            ("200", "CDN-Cache-Control: max-age=60;foo=1\r\nCache-Control: no-store\r\n", true),
            (
                "200",
                "CDN-Cache-Control: foo\r\nCDN-Cache-Control: max-age=60\r\nCache-Control: no-store\r\n",
                true,
            ),
            ("200", "CDN-Cache-Control: max-age=60\r\nAge: 120\r\nCache-Control: max-age=600\r\n", false),
            // A field that does not parse is ignored as a whole, and so is an empty field.
            ("200", "CDN-Cache-Control: max-age=60, &\r\nCache-Control: no-store\r\n", false),
            ("200", "CDN-Cache-Control: Max-Age=0\r\nCache-Control: max-age=60\r\n", true),
            ("200", "CDN-Cache-Control:\r\nCache-Control: max-age=60\r\n", true),
            // A value of another type is ignored.
            ("200", "CDN-Cache-Control: max-age=\"60\"\r\nCache-Control: max-age=60\r\n", false),
        ],
        "on",
    );
}

#[test]
fn statuses() {
    let fresh = "Cache-Control: max-age=60\r\n";
    let explicit = [
        "200", "201", "202", "203", "299", "300", "301", "302", "303", "307", "308", "400", "403", "404",
        "405", "410", "414", "418", "451", "499", "500", "501", "502", "503", "504", "599",
    ];
    let rows: Vec<(&str, &str, bool)> = explicit.iter().map(|status| (*status, fresh, true)).collect();
    reused(&rows, "on");
    // Without an explicit lifetime, only statuses that are cacheable by default get a heuristic lifetime.
    let guessed = "Last-Modified: {-100000}\r\n";
    let mut rows: Vec<(&str, &str, bool)> =
        ["200", "203", "300", "301", "308", "404", "405", "410", "414", "501"]
            .iter()
            .map(|status| (*status, guessed, true))
            .collect();
    rows.extend(
        ["201", "202", "302", "303", "307", "400", "403", "418", "500", "502", "503", "504", "599"]
            .map(|status| (status, guessed, false)),
    );
    let public = "Cache-Control: public\r\nLast-Modified: {-100000}\r\n";
    rows.extend(["201", "302", "403", "599"].map(|status| (status, public, true)));
    rows.extend([
        ("200", "Last-Modified: {+100000}\r\n", false),
        ("200", "Last-Modified: yesterday\r\n", false),
        ("200", "Cache-Control: max-age=0\r\nLast-Modified: {-100000}\r\n", false),
        ("200", "Expires: 0\r\nLast-Modified: {-100000}\r\n", false),
        ("200", "Cache-Control: no-store\r\nLast-Modified: {-100000}\r\n", false),
    ]);
    reused(&rows, "on");
}

#[test]
fn a_default_lifetime_is_not_for_errors() {
    let mut rows: Vec<(&str, &str, bool)> =
        ["200", "301", "404", "410"].map(|status| (status, "", true)).to_vec();
    rows.extend(["400", "403", "429", "431", "500", "503"].map(|status| (status, "", false)));
    rows.push(("200", "Cache-Control: no-store\r\n", false));
    reused(&rows, "{default_ttl: 1m}");
}

#[test]
fn directives_of_requests() {
    let fresh = "Cache-Control: max-age=60\r\nAge: 20\r\nETag: \"a\"\r\n";
    let stale = "Cache-Control: max-age=60\r\nAge: 70\r\nETag: \"a\"\r\n";
    let strict = "Cache-Control: max-age=60, must-revalidate\r\nAge: 70\r\nETag: \"a\"\r\n";
    let shared = "Cache-Control: s-maxage=60\r\nAge: 70\r\nETag: \"a\"\r\n";
    let rows = [
        (fresh, "", true),
        (fresh, "Cache-Control: foo\r\n", true),
        (fresh, "Cache-Control: no-cache\r\n", false),
        (fresh, "Cache-Control: NO-CACHE\r\n", false),
        (fresh, "Cache-Control: no-store\r\n", false),
        (fresh, "Cache-Control: max-age=0\r\n", false),
        (fresh, "Cache-Control: max-age=10\r\n", false),
        (fresh, "Cache-Control: max-age=30\r\n", true),
        (fresh, "Cache-Control: max-age=\"30\"\r\n", true),
        (fresh, "Cache-Control: max-age=30\r\nCache-Control: max-age=10\r\n", false),
        (fresh, "Cache-Control: max-age=x\r\n", false),
        (fresh, "Cache-Control: min-fresh=30\r\n", true),
        (fresh, "Cache-Control: min-fresh=50\r\n", false),
        (fresh, "Cache-Control: only-if-cached\r\n", true),
        (fresh, "Pragma: no-cache\r\n", false),
        (fresh, "Pragma: foo\r\n", true),
        (fresh, "Pragma: no-cache\r\nCache-Control: foo\r\n", true),
        (stale, "", false),
        (stale, "Cache-Control: max-stale\r\n", true),
        (stale, "Cache-Control: max-stale=30\r\n", true),
        (stale, "Cache-Control: max-stale=5\r\n", false),
        (stale, "Cache-Control: max-stale=30, max-age=60\r\n", true),
        (stale, "Cache-Control: max-age=600\r\n", false),
        (strict, "Cache-Control: max-stale\r\n", false),
        (shared, "Cache-Control: max-stale\r\n", false),
        (fresh, "Authorization: Basic YTpi\r\n", false),
        ("Cache-Control: max-age=60, public\r\n", "Authorization: Basic YTpi\r\n", true),
    ];
    let table = Table::start(
        rows.iter().map(|(fields, ..)| ("200".to_owned(), (*fields).to_owned())).collect(),
        "on",
    );
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
    let only = get(&table.gateway, "/17", "Cache-Control: only-if-cached\r\n");
    assert_eq!((only.status, table.origin.count()), (504, before), "nothing that may be served");
}

#[test]
fn requests_choose_by_the_fields_that_vary() {
    let rows = [
        ("X-A", "X-A: 1\r\n", "X-A: 1\r\n", true),
        ("x-a", "X-A: 1\r\n", "x-A: 1\r\n", true),
        ("X-A", "X-A: 1\r\n", "X-A: 2\r\n", false),
        ("X-A", "X-A: 1\r\n", "X-A: 12\r\n", false),
        ("X-A", "X-A: 1\r\n", "", false),
        ("X-A", "", "X-A: 1\r\n", false),
        ("X-A", "", "X-A:\r\n", false),
        ("X-A", "", "X-B: 1\r\n", true),
        ("X-A, X-B", "X-A: 1\r\nX-B: 2\r\n", "X-B: 2\r\nX-A: 1\r\n", true),
        ("X-A, X-B", "X-A: 1\r\nX-B: 2\r\n", "X-A: 2\r\nX-B: 1\r\n", false),
        ("X-A, X-B", "X-A: 1\r\n", "X-A: 1\r\nX-B: 2\r\n", false),
        ("X-A\r\nVary: X-B", "X-A: 1\r\nX-B: 2\r\n", "X-A: 1\r\nX-B: 3\r\n", false),
        ("X-A", "X-A: 1, 2\r\n", "X-A: 1\r\nX-A: 2\r\n", true),
        ("X-A", "X-A: 1, 2\r\n", "X-A: 2, 1\r\n", false),
        ("Accept-Language", "Accept-Language: en, de\r\n", "Accept-Language: en ,de\r\n", true),
        ("Accept-Language", "Accept-Language: en, de\r\n", "Accept-Language: de, en\r\n", false),
        ("Cookie", "Cookie: a=1\r\n", "Cookie: a=2\r\n", false),
    ];
    let table = Table::start(
        rows.iter()
            .map(|(vary, ..)| ("200".to_owned(), format!("Cache-Control: max-age=60\r\nVary: {vary}\r\n")))
            .collect(),
        "on",
    );
    for (row, (vary, first, second, expected)) in rows.iter().enumerate() {
        assert_eq!(table.get(row, first).text(), "1");
        assert_eq!(table.get(row, second).text() == "1", *expected, "{vary}: {first:?} {second:?}");
        assert_eq!(table.get(row, first).text(), "1", "the first variant stays: {vary}");
    }
}

#[test]
fn fields_of_the_connection_and_withheld_ones_are_not_stored() {
    let origin = Origin::fixed(
        "HTTP/1.1 200 OK\r\nCache-Control: max-age=60, no-cache=\"X-A, x-b\", private=x-c\r\nConnection: X-Hop, keep-alive\r\n\
         X-Hop: 1\r\nKeep-Alive: timeout=9\r\nProxy-Authenticate: Basic\r\nProxy-Authentication-Info: x\r\nX-A: 1\r\nX-B: 1\r\n\
         X-C: 1\r\nX-D: 1\r\nX-D: 2\r\nContent-Foo: 1\r\nStrict-Transport-Security: max-age=1\r\nContent-Type: text/plain\r\n\
         Content-Length: 2\r\n\r\nok",
    );
    let gateway = gateway(&origin, "on");
    get(&gateway, "/", "");
    let stored = get(&gateway, "/", "");
    for gone in
        ["X-Hop", "Keep-Alive", "Proxy-Authenticate", "Proxy-Authentication-Info", "X-A", "X-B", "X-C"]
    {
        assert!(!stored.headers.has(gone), "{gone}: {stored:?}");
    }
    assert_eq!(stored.headers.all("X-D"), ["1", "2"]);
    for kept in ["Content-Foo", "Strict-Transport-Security", "Content-Type", "Date"] {
        assert!(stored.headers.has(kept), "{kept}: {stored:?}");
    }
    assert_eq!(origin.count(), 1);
}

#[test]
fn only_a_success_of_an_unsafe_method_removes_what_is_stored() {
    // The target names the status that the unsafe method gets.
    let origin = answering(|number, request| {
        let status = if request.method == "GET" { "200" } else { &request.target[1..4] };
        format!(
            "HTTP/1.1 {status} X\r\nCache-Control: max-age=60\r\nContent-Length: {}\r\n\r\n{number}",
            digits(number)
        )
    });
    let gateway = gateway(&origin, "on");
    for method in ["POST", "PUT", "DELETE", "PATCH", "M-SEARCH", "FOO"] {
        for (status, is_removed) in
            [("200", true), ("201", true), ("303", true), ("400", false), ("404", false), ("500", false)]
        {
            let target = format!("/{status}/{method}");
            let before = get(&gateway, &target, "").text();
            assert_eq!(ask(&gateway, method, &target, "Content-Length: 0\r\n").status.to_string(), status);
            assert_eq!(get(&gateway, &target, "").text() != before, is_removed, "{method} {status}");
        }
    }
    for method in ["OPTIONS", "HEAD", "PROPFIND", "REPORT", "SEARCH"] {
        let target = format!("/200/{method}");
        let before = get(&gateway, &target, "").text();
        ask(&gateway, method, &target, "");
        assert_eq!(get(&gateway, &target, "").text(), before, "{method}");
    }
}

#[test]
fn named_targets_of_the_same_host_are_removed() {
    let origin = answering(|number, request| {
        let query = request.target.split_once('?').map(|(_, query)| query.to_owned());
        let named = match (request.method.as_str(), query) {
            ("POST", Some(query)) => format!("{query}\r\n"),
            _ => String::new(),
        };
        format!(
            "HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\n{named}Content-Length: {}\r\n\r\n{number}",
            digits(number)
        )
    });
    let gateway = gateway(&origin, "on");
    for (named, is_removed) in [
        ("Location:/x/named", true),
        ("Content-Location:/x/named", true),
        ("Content-Location:named", true),
        ("Location:http://a.example/x/named", true),
        ("Location:HTTP://A.EXAMPLE:80/x/named", true),
        // As the key is made of a normal path.
        ("Location:/x/./%6eamed", true),
        ("Location:/y/../x//named", true),
        ("Location:http://b.example/x/named", false),
        ("Location:https://a.example/x/named", false),
        ("Location:/x/other", false),
    ] {
        let before = get(&gateway, "/x/named", "").text();
        ask(&gateway, "POST", &format!("/x/post?{named}"), "Content-Length: 0\r\n");
        assert_eq!(get(&gateway, "/x/named", "").text() != before, is_removed, "{named}");
    }
}

#[test]
fn a_response_to_post_is_neither_stored_nor_served() {
    let origin = answering(|number, _| {
        format!(
            "HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nContent-Location: /\r\nContent-Length: {}\r\n\r\n{number}",
            digits(number)
        )
    });
    let gateway = gateway(&origin, "on");
    let none = "Content-Length: 0\r\n";
    assert_eq!(
        [ask(&gateway, "POST", "/", none).text(), ask(&gateway, "POST", "/", none).text()],
        ["1", "2"]
    );
    assert_eq!([get(&gateway, "/", "").text(), ask(&gateway, "POST", "/", none).text()], ["3", "4"]);
}

#[test]
fn an_interim_response_leaves_nothing_in_the_store() {
    let origin = Origin::play(|conn| {
        while conn.request().is_some() {
            conn.send(
                "HTTP/1.1 103 Early Hints\r\nLink: </a.css>\r\nX-Early: 1\r\nCache-Control: max-age=600\r\n\r\n\
                 HTTP/1.1 102 Processing\r\n\r\n\
                 HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nX-Late: 1\r\nContent-Length: 2\r\n\r\nok",
            );
        }
    });
    let gateway = gateway(&origin, "on");
    let mut client = gateway.client();
    client.send("GET / HTTP/1.1\r\nHost: a.example\r\n\r\n");
    let mut first = client.head();
    while first.status < 200 {
        first = client.head();
    }
    assert!(first.status == 200 && !first.headers.has("X-Early"), "{first:?}");
    let second = get(&gateway, "/", "");
    assert_eq!((second.status, second.text().as_str(), origin.count()), (200, "ok", 1));
    assert!(
        !second.headers.has("X-Early") && !second.headers.has("Link") && second.headers.has("X-Late"),
        "{second:?}"
    );
}

#[test]
fn old_origins_are_cached_by_their_framing() {
    for (response, is_reused) in [
        ("HTTP/1.0 200 OK\r\nCache-Control: max-age=60\r\nContent-Length: 2\r\n\r\nok", true),
        ("HTTP/1.0 200 OK\r\nCache-Control: max-age=60\r\n\r\nok", true),
        ("HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nConnection: close\r\n\r\nok", true),
        ("HTTP/1.0 200 OK\r\nExpires: Thu, 18 Aug 2050 02:01:18 GMT\r\n\r\nok", true),
        // Cut: shorter than announced.
        ("HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nContent-Length: 3\r\n\r\nok", false),
        (
            "HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n",
            false,
        ),
        ("HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nok", false),
        (
            "HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n",
            false,
        ),
    ] {
        let origin = Origin::fixed_then_close(response);
        let gateway = gateway(&origin, "on");
        for _ in 0..2 {
            let answer = gateway.client().try_exchange("/");
            assert_eq!(answer.is_ok_and(|answer| answer.text() == "ok"), is_reused, "{response}");
        }
        assert_eq!(origin.count(), if is_reused { 1 } else { 2 }, "{response}");
    }
}

#[test]
fn trailers_are_not_stored() {
    let origin = Origin::fixed(
        "HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nTrailer: X-Sum\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\nX-Sum: 1\r\n\r\n",
    );
    let gateway = gateway(&origin, "on");
    get(&gateway, "/", "");
    let stored = get(&gateway, "/", "");
    assert!(
        stored.text() == "ok" && !stored.headers.has("X-Sum") && !stored.headers.has("Trailer"),
        "{stored:?}"
    );
    assert_eq!(origin.count(), 1);
}

#[test]
fn cache_status_says_why_a_request_was_forwarded() {
    let origin = answering(|number, _| {
        format!(
            "HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nVary: X-A\r\nETag: \"{number}\"\r\nContent-Length: {}\r\n\r\n{number}",
            digits(number)
        )
    });
    let gateway = gateway(&origin, "on");
    let status =
        |lines: &str| get(&gateway, "/", lines).header("Cache-Status").map(str::to_owned).unwrap_or_default();
    assert_eq!(status(""), "\"tollgate\"; fwd=uri-miss; stored");
    assert!(status("").starts_with("\"tollgate\"; hit; ttl="));
    assert_eq!(status("X-A: 1\r\n"), "\"tollgate\"; fwd=vary-miss; stored");
    assert_eq!(status("Cache-Control: no-cache\r\n"), "\"tollgate\"; fwd=request; stored");
    let soft = r#"{"all": true, "soft": true}"#;
    tollgate_tests::api::call(&gateway, "POST", "/cache/purge", tollgate_tests::api::JSON, soft);
    assert_eq!(status(""), "\"tollgate\"; fwd=stale; stored");
}

/// RFC 9111, 4.4: the response makes what is stored invalid when it is received. A client that has its head may ask at
/// once.
#[test]
fn what_is_stored_is_removed_before_the_response_to_an_unsafe_method_is_sent() {
    let gate = Gate::new();
    let origin = {
        let (gate, count) = (gate.clone(), AtomicUsize::new(0));
        Origin::play(move |conn| {
            while let Some(request) = conn.request() {
                let number = count.fetch_add(1, Ordering::SeqCst) + 1;
                if request.method == "POST" {
                    conn.send("HTTP/1.1 200 OK\r\nLocation: /named\r\nContent-Length: 4\r\n\r\nab");
                    gate.wait();
                    conn.send("cd");
                    continue;
                }
                conn.send(format!(
                    "HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nContent-Length: {}\r\n\r\n{number}",
                    digits(number)
                ));
            }
        })
    };
    let gateway = gateway(&origin, "on");
    let text = |target: &str| get(&gateway, target, "").text();
    assert_eq!([text("/"), text("/named")], ["1", "2"]);
    let mut client = gateway.client();
    client.send("POST / HTTP/1.1\r\nHost: a.example\r\nContent-Length: 0\r\n\r\n");
    let mut response = client.head();
    assert_eq!((response.status, text("/").as_str(), text("/named").as_str()), (200, "4", "5"));
    gate.open();
    client.try_body(&mut response).expect("a whole body");
    assert_eq!([text("/"), text("/named")], ["4", "5"], "once");
}

/// RFC 9111, 4.4: all that is stored for the URL goes, whichever route and upstream it came from.
#[test]
fn an_unsafe_method_removes_what_a_get_of_its_url_would_find() {
    let origin = super::numbered("Cache-Control: max-age=60\r\n");
    let to = origin.address();
    let none = "Content-Length: 0\r\n";
    for (number, routes) in [
        // A route for each method.
        format!(
            "routes:\n- {{name: read, match: {{path: \"/*\", method: [GET, HEAD]}}, to: \"{to}\"}}\n- {{name: write, match: \"/*\", to: \"{to}\"}}\n"
        ),
        // A key of its own for what is read.
        format!(
            "routes:\n- {{name: read, match: {{path: \"/*\", method: [GET, HEAD]}}, to: \"{to}\", policies: {{cache: {{key: {{query: off}}}}}}}}\n- {{name: write, match: \"/*\", to: \"{to}\"}}\n"
        ),
        // Two upstreams.
        format!(
            "upstreams: {{a: \"{to}\", b: \"{to}\"}}\nroutes:\n- {{name: r, match: \"/*\", to: [{{upstream: a, weight: 1}}, {{upstream: b, weight: 1}}]}}\n"
        ),
    ]
    .iter()
    .enumerate()
    {
        let gateway = Gateway::start(&format!("policies: {{cache: on}}\n{routes}"));
        let all = || -> HashSet<String> { (0..20).map(|_| get(&gateway, "/x?y", "").text()).collect() };
        let before = all();
        assert_eq!(ask(&gateway, "POST", "/x?y", none).status, 200);
        let after = all();
        assert!(before.is_disjoint(&after), "{number}: {before:?} {after:?}");
    }
}

/// RFC 9211, 2.2.
#[test]
fn cache_status_of_requests_that_are_forwarded_for_other_causes() {
    let origin = answering(|number, request| {
        let has_condition = request.headers.has("If-None-Match");
        match (request.target.as_str(), number) {
            ("/error", _) if has_condition => "HTTP/1.1 503 X\r\nContent-Length: 3\r\n\r\nbad".to_owned(),
            _ if has_condition => "HTTP/1.1 304 X\r\nETag: \"a\"\r\n\r\n".to_owned(),
            ("/error", _) => "HTTP/1.1 200 OK\r\nCache-Control: max-age=0, stale-if-error=60\r\nETag: \"a\"\r\nContent-Length: 4\r\n\r\ngood".to_owned(),
            _ => "HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nETag: \"a\"\r\nContent-Length: 4\r\n\r\ngood".to_owned(),
        }
    });
    let gateway = gateway(&origin, "{bypass: {cookies: session}}");
    let status = |method: &str, target: &str, lines: &str| {
        ask(&gateway, method, target, lines).header("Cache-Status").map(str::to_owned).unwrap_or_default()
    };
    get(&gateway, "/", "");
    get(&gateway, "/error", "");
    for (method, target, lines, expected) in [
        ("GET", "/", "Cache-Control: no-cache\r\n", "\"tollgate\"; fwd=request; fwd-status=304; ttl="),
        ("GET", "/", "Cache-Control: no-store\r\n", "\"tollgate\"; fwd=request"),
        ("GET", "/", "If-Match: \"a\"\r\n", "\"tollgate\"; fwd=request"),
        ("GET", "/", "Cookie: session=1\r\n", "\"tollgate\"; fwd=bypass"),
        ("GET", "/error", "", "\"tollgate\"; fwd=stale; fwd-status=503; ttl=-"),
        ("HEAD", "/other", "", "\"tollgate\"; fwd=uri-miss"),
        ("OPTIONS", "/", "", "\"tollgate\"; fwd=method"),
        ("POST", "/", "Content-Length: 0\r\n", "\"tollgate\"; fwd=method"),
    ] {
        let written = status(method, target, lines);
        let is_whole = written == expected || expected.ends_with(['=', '-']) && written.starts_with(expected);
        assert!(is_whole, "{method} {target} {lines}: {written}");
    }
    drop(origin);
    let stale = status("GET", "/error", "");
    assert!(stale.starts_with("\"tollgate\"; fwd=stale; ttl=-"), "without a response, no status: {stale}");
}

#[test]
fn an_unsafe_method_removes_what_is_stored_for_other_values_of_the_key() {
    let origin = super::numbered("Cache-Control: max-age=60\r\n");
    let gateway = gateway(&origin, "{key: {headers: X-Tenant, cookies: lang}}");
    let clients = ["", "X-Tenant: a\r\n", "X-Tenant: b\r\n", "Cookie: lang=de\r\n"];
    let all = |target: &str| clients.map(|lines| get(&gateway, target, lines).text());
    let (before, other) = (all("/x"), all("/other"));
    assert_eq!(all("/x"), before);
    assert_eq!(ask(&gateway, "POST", "/x", "X-Tenant: a\r\nContent-Length: 0\r\n").status, 200);
    assert_ne!(get(&gateway, "/x", clients[1]).text(), before[1], "its own at once");
    eventually("the removal of the others", || {
        clients.iter().zip(&before).all(|(lines, before)| get(&gateway, "/x", lines).text() != *before)
    });
    assert_eq!(all("/other"), other, "another URL");
}
