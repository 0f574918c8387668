//! Tests the validation of stored responses at the origin, and conditional requests of clients.

use tollgate_tests::{Client, Gate, Gateway, Origin, eventually};

use super::{answering, ask, digits, gateway, get, outcomes};

const STORED: &str =
    "Cache-Control: max-age=60\r\nETag: \"a\"\r\nLast-Modified: Tue, 15 Nov 1994 12:45:26 GMT\r\n";

#[test]
fn a_304_refreshes_what_is_stored() {
    let origin = answering(|number, request| {
        match request.headers.get("If-None-Match") {
        Some("\"a\"") => format!("HTTP/1.1 304 Not Modified\r\nETag: \"a\"\r\nCache-Control: max-age=60\r\nX-Seen: {number}\r\n\r\n"),
        _ => "HTTP/1.1 200 OK\r\nCache-Control: max-age=0\r\nETag: \"a\"\r\nX-Seen: 1\r\nX-Kept: yes\r\nContent-Length: 4\r\n\r\nbody".to_owned(),
    }
    });
    let gateway = gateway(&origin, "on");
    assert_eq!(get(&gateway, "/", "").header("X-Seen"), Some("1"));
    for _ in 0..2 {
        let response = get(&gateway, "/", "");
        assert_eq!(
            (response.status, response.text().as_str(), response.headers.all("X-Seen")),
            (200, "body", vec!["2"])
        );
        assert_eq!(response.header("X-Kept"), Some("yes"));
    }
    assert_eq!(origin.count(), 2);
    assert_eq!(outcomes(&gateway, 3), ["miss", "revalidated", "hit"]);
}

#[test]
fn another_answer_replaces_what_is_stored() {
    let origin = answering(|number, _| {
        format!(
            "HTTP/1.1 200 OK\r\nCache-Control: max-age=0\r\nETag: \"{number}\"\r\nContent-Length: {}\r\n\r\n{number}",
            digits(number)
        )
    });
    let gateway = gateway(&origin, "on");
    for number in 1..=3_usize {
        assert_eq!(get(&gateway, "/", "").text(), number.to_string());
    }
    let asked: Vec<_> =
        origin.requests().iter().map(|it| it.headers.get("If-None-Match").map(str::to_owned)).collect();
    assert_eq!(asked, [None, Some("\"1\"".to_owned()), Some("\"2\"".to_owned())]);
    assert_eq!(outcomes(&gateway, 3), ["miss", "expired", "expired"]);
}

#[test]
fn no_cache_validates_each_time() {
    let origin = answering(|_, request| match request.headers.has("If-None-Match") {
        true => "HTTP/1.1 304 Not Modified\r\n\r\n".to_owned(),
        false => "HTTP/1.1 200 OK\r\nCache-Control: no-cache\r\nETag: \"a\"\r\nContent-Length: 1\r\n\r\nx"
            .to_owned(),
    });
    let gateway = gateway(&origin, "on");
    for _ in 0..3 {
        assert_eq!(get(&gateway, "/", "").text(), "x");
    }
    assert_eq!(origin.count(), 3);
}

#[test]
fn a_hit_evaluates_the_clients_conditions() {
    let origin = answering(|_, _| {
        format!("HTTP/1.1 200 OK\r\n{STORED}Content-Type: text/plain\r\nContent-Length: 4\r\n\r\nbody")
    });
    let gateway = gateway(&origin, "on");
    get(&gateway, "/", "");
    for (lines, status) in [
        ("If-None-Match: \"a\"\r\n", 304),
        ("If-None-Match: \"b\", W/\"a\"\r\n", 304),
        ("If-None-Match: *\r\n", 304),
        ("If-None-Match: \"b\"\r\n", 200),
        ("If-Modified-Since: Tue, 15 Nov 1994 12:45:26 GMT\r\n", 304),
        ("If-Modified-Since: Tue, 15 Nov 1994 12:45:25 GMT\r\n", 200),
        ("If-None-Match: \"b\"\r\nIf-Modified-Since: Tue, 15 Nov 1994 12:45:26 GMT\r\n", 200),
    ] {
        for method in ["GET", "HEAD"] {
            let response = ask(&gateway, method, "/", lines);
            assert_eq!(response.status, status, "{method} {lines}");
            assert_eq!(response.header("ETag"), Some("\"a\""));
            let body = if status == 200 && method == "GET" { "body" } else { "" };
            assert_eq!(response.text(), body);
        }
    }
    assert_eq!(origin.count(), 1);
}

#[test]
fn a_condition_on_a_miss_is_answered_from_what_was_fetched() {
    let origin = answering(|_, _| format!("HTTP/1.1 200 OK\r\n{STORED}Content-Length: 4\r\n\r\nbody"));
    let gateway = gateway(&origin, "on");
    assert_eq!(get(&gateway, "/", "If-None-Match: \"a\"\r\n").status, 304);
    assert!(!origin.requests()[0].headers.has("If-None-Match"), "the whole response is fetched");
    assert_eq!((get(&gateway, "/", "").text().as_str(), origin.count()), ("body", 1));
}

#[test]
fn a_head_request_is_answered_from_a_stored_get() {
    let origin = answering(|_, _| format!("HTTP/1.1 200 OK\r\n{STORED}Content-Length: 4\r\n\r\nbody"));
    let gateway = gateway(&origin, "on");
    assert_eq!(ask(&gateway, "HEAD", "/", "").status, 200);
    get(&gateway, "/", "");
    let head = ask(&gateway, "HEAD", "/", "");
    assert_eq!((head.status, head.header("Content-Length"), head.body.len()), (200, Some("4"), 0));
    assert!(head.header("Age").is_some() && origin.count() == 2, "{head:?}");
}

#[test]
fn an_unsafe_method_removes_what_is_stored() {
    let origin = answering(|number, request| {
        let status = if request.target == "/fails" { "500 X" } else { "200 OK" };
        let location = if request.method == "POST" { "Location: /other\r\n" } else { "" };
        format!(
            "HTTP/1.1 {status}\r\nCache-Control: max-age=60\r\n{location}Content-Length: {}\r\n\r\n{number}",
            digits(number)
        )
    });
    let gateway = gateway(&origin, "{ttl: {500: 1m}}");
    let text = |target: &str| get(&gateway, target, "").text();
    assert_eq!([text("/"), text("/other"), text("/fails"), text("/third")], ["1", "2", "3", "4"]);
    let none = "Content-Length: 0\r\n";
    assert_eq!(ask(&gateway, "POST", "/", none).text(), "5");
    assert_eq!(ask(&gateway, "DELETE", "/fails", none).status, 500);
    assert_eq!([text("/third"), text("/fails"), text("/"), text("/other")], ["4", "3", "7", "8"]);
    // A safe method removes nothing.
    assert_eq!(ask(&gateway, "OPTIONS", "/", "").status, 200);
    assert_eq!(text("/"), "7");
}

/// Starts an origin with two variants, `"de"` and `"en"`, that answers each validation with `validated`: the entity tag
/// and further lines.
fn variants(validated: &'static str) -> tollgate_tests::Origin {
    answering(move |_, request| {
        let language = request.headers.get("Accept-Language").unwrap_or("en").to_owned();
        match request.headers.has("If-None-Match") {
            true => format!(
                "HTTP/1.1 304 Not Modified\r\n{validated}Cache-Control: max-age=60\r\nVary: Accept-Language\r\n\r\n"
            ),
            false => format!(
                "HTTP/1.1 200 OK\r\nCache-Control: max-age=0\r\nVary: Accept-Language\r\nETag: \"{language}\"\r\nContent-Length: 2\r\n\r\n{language}"
            ),
        }
    })
}

#[test]
fn a_304_may_name_another_stored_variant() {
    let (de, en) = ("Accept-Language: de\r\n", "Accept-Language: en\r\n");
    // The endpoint decided that German readers get the English page.
    let origin = variants("ETag: \"en\"\r\n");
    let gateway = gateway(&origin, "on");
    assert_eq!([get(&gateway, "/", de).text(), get(&gateway, "/", en).text()], ["de", "en"]);
    let validated = get(&gateway, "/", de);
    assert_eq!(
        (validated.status, validated.text().as_str(), validated.header("ETag")),
        (200, "en", Some("\"en\""))
    );
    assert_eq!(origin.count(), 3);
    let hit = get(&gateway, "/", de);
    assert_eq!((hit.text().as_str(), origin.count()), ("en", 3), "it is stored for German too");
}

#[test]
fn a_304_that_names_nothing_stored_is_asked_again_without_conditions() {
    let origin = variants("ETag: \"fr\"\r\n");
    let gateway = gateway(&origin, "on");
    assert_eq!(get(&gateway, "/", "").text(), "en");
    let again = get(&gateway, "/", "");
    assert_eq!((again.status, again.text().as_str()), (200, "en"));
    let conditions: Vec<bool> = origin.requests().iter().map(|it| it.headers.has("If-None-Match")).collect();
    assert_eq!(conditions, [false, true, false]);
    // The response that could not be validated was removed, so the next request stores a new one.
    assert_eq!(get(&gateway, "/", "").text(), "en");
    assert!(!origin.requests()[3].headers.has("If-None-Match"));
}

#[test]
fn a_304_updates_only_what_it_may() {
    let origin = answering(|_, request| {
        match request.headers.has("If-None-Match") {
        true => "HTTP/1.1 304 Not Modified\r\nETag: W/\"a\"\r\nCache-Control: max-age=60\r\nX-New: 1\r\nX-A: new\r\n\
                 Content-Encoding: br\r\nContent-Range: bytes 0-0/9\r\nContent-Type: text/html\r\nConnection: X-Hop\r\n\
                 X-Hop: new\r\nKeep-Alive: 1\r\n\r\n"
            .to_owned(),
        false => "HTTP/1.1 200 OK\r\nCache-Control: max-age=0\r\nETag: \"a\"\r\nX-A: old\r\nX-A: older\r\nX-Kept: 1\r\n\
                  X-Hop: old\r\nContent-Type: text/plain\r\nContent-Length: 4\r\n\r\nbody"
            .to_owned(),
    }
    });
    let gateway = gateway(&origin, "on");
    get(&gateway, "/", "");
    for _ in 0..2 {
        let updated = get(&gateway, "/", "");
        assert_eq!((updated.status, updated.text().as_str()), (200, "body"));
        for (name, values) in [
            ("X-A", &["new"][..]),
            ("X-New", &["1"]),
            ("X-Kept", &["1"]),
            ("X-Hop", &["old"]),
            ("Content-Type", &["text/html"]),
            ("Content-Encoding", &[]),
            ("Content-Range", &[]),
            ("Content-Length", &["4"]),
            ("Keep-Alive", &[]),
            ("Cache-Control", &["max-age=60"]),
        ] {
            assert_eq!(updated.headers.all(name), values, "{name}");
        }
    }
    assert_eq!(origin.count(), 2);
}

#[test]
fn a_304_that_forbids_storing_answers_once_more() {
    let origin = answering(|_, request| match request.headers.has("If-None-Match") {
        true => "HTTP/1.1 304 Not Modified\r\nETag: \"a\"\r\nCache-Control: no-store\r\n\r\n".to_owned(),
        false => {
            "HTTP/1.1 200 OK\r\nCache-Control: max-age=0\r\nETag: \"a\"\r\nContent-Length: 4\r\n\r\nbody"
                .to_owned()
        }
    });
    let gateway = gateway(&origin, "on");
    for _ in 0..2 {
        assert_eq!(get(&gateway, "/", "").text(), "body");
    }
}

/// Starts an origin whose responses to GET have `max-age=0`, and whose responses to HEAD have these lines. Sends a GET
/// and a HEAD, waits, and returns the lines of another GET.
fn after_head(stored: &'static str, head: &'static str) -> (tollgate_tests::Response, usize) {
    let origin = answering(move |number, request| match request.method.as_str() {
        "HEAD" => format!("HTTP/1.1 200 OK\r\n{head}\r\n"),
        _ => format!("HTTP/1.1 200 OK\r\n{stored}X-Number: {number}\r\nContent-Length: 4\r\n\r\nbody"),
    });
    let gateway = gateway(&origin, "on");
    get(&gateway, "/", "");
    let forced = "Cache-Control: no-cache\r\n";
    assert_eq!(ask(&gateway, "HEAD", "/", forced).status, 200);
    assert_eq!(origin.count(), 2, "a HEAD that must be validated is forwarded");
    (get(&gateway, "/", ""), origin.count())
}

#[test]
fn a_head_refreshes_what_is_stored_or_ends_its_freshness() {
    const STALE: &str = "Cache-Control: max-age=0\r\nETag: \"a\"\r\n";
    const FRESH: &str = "Cache-Control: max-age=60\r\nETag: \"a\"\r\n";
    // The length and validators agree, so fields and lifetime are new.
    let (response, asked) =
        after_head(STALE, "Cache-Control: max-age=60\r\nETag: \"a\"\r\nContent-Length: 4\r\nX-New: 1\r\n");
    assert_eq!(
        (response.text().as_str(), response.header("X-New"), response.header("X-Number"), asked),
        ("body", Some("1"), Some("1"), 2)
    );
    // Without validators, the length decides.
    let (response, asked) = after_head(
        "Cache-Control: max-age=60\r\n",
        "Cache-Control: max-age=60\r\nContent-Length: 4\r\nX-New: 1\r\n",
    );
    assert_eq!((response.header("X-New"), asked), (Some("1"), 2));
    for contradiction in [
        "Cache-Control: max-age=60\r\nETag: \"b\"\r\nContent-Length: 4\r\n",
        "Cache-Control: max-age=60\r\nETag: \"a\"\r\nContent-Length: 5\r\n",
        "Cache-Control: max-age=60\r\nLast-Modified: Tue, 15 Nov 1994 12:45:26 GMT\r\nContent-Length: 4\r\n",
    ] {
        let (response, asked) = after_head(FRESH, contradiction);
        assert_eq!((response.text().as_str(), asked), ("body", 3), "{contradiction}");
    }
}

/// Starts an origin that sends the head with an entity tag and the first half of the body, and the rest once the gate is
/// open.
fn in_halves(gate: &Gate) -> Origin {
    let gate = gate.clone();
    Origin::play(move |conn| {
        while conn.request().is_some() {
            conn.send("HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nETag: \"b\"\r\nContent-Length: 11\r\n\r\nfirst");
            gate.wait();
            if !conn.send("second") {
                return;
            }
        }
    })
}

fn sending(gateway: &Gateway, lines: &str) -> Client {
    let mut client = gateway.client();
    client.send(format!("GET / HTTP/1.1\r\nHost: a.example\r\n{lines}\r\n"));
    client
}

/// RFC 9110, 13.2.2: a condition that does not hold changes nothing, so it must not delay the response either.
#[test]
fn a_condition_that_does_not_hold_delays_nothing() {
    let gate = Gate::new();
    let origin = in_halves(&gate);
    let gateway = gateway(&origin, "on");
    let old = "If-None-Match: \"a\"\r\n";
    let mut leader = sending(&gateway, old);
    assert_eq!(leader.head().status, 200, "the first half is enough");
    // The same for those who follow, and an answer that needs no body does not wait for it.
    for (lines, status) in [
        (old, 200),
        ("If-None-Match: \"b\"\r\n", 304),
        ("If-Modified-Since: Tue, 15 Nov 1994 12:45:26 GMT\r\n", 200),
        ("Range: bytes=1-2\r\n", 206),
        ("Range: bytes=1-2\r\nIf-Range: \"a\"\r\n", 200),
        ("Range: bytes=11-\r\n", 416),
    ] {
        let mut client = sending(&gateway, lines);
        let mut response = client.head();
        assert_eq!(response.status, status, "{lines}");
        if status == 206 {
            client.try_body(&mut response).expect("the range is there");
            assert_eq!(
                (response.text().as_str(), response.header("Content-Range")),
                ("ir", Some("bytes 1-2/11"))
            );
        }
    }
    gate.open();
    assert_eq!((get(&gateway, "/", "").text().as_str(), origin.count()), ("firstsecond", 1));
}

#[test]
fn conditions_are_evaluated_whatever_the_framing() {
    let origin = answering(|_, _| {
        "HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nETag: \"a\"\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nbody\r\n0\r\n\r\n"
            .to_owned()
    });
    let gateway = gateway(&origin, "on");
    for (number, (target, lines, status)) in [
        ("/1", "If-None-Match: \"a\"\r\n", 304),
        ("/2", "If-None-Match: \"b\"\r\n", 200),
        // The length is not known yet, and a server may ignore a range (RFC 9110, 14.2).
        ("/3", "Range: bytes=0-1\r\n", 200),
        ("/4", "If-None-Match: W/\"a\"\r\nRange: bytes=0-1\r\n", 304),
    ]
    .into_iter()
    .enumerate()
    {
        assert_eq!(get(&gateway, target, lines).status, status, "{lines}");
        assert_eq!((get(&gateway, target, "").text().as_str(), origin.count()), ("body", number + 1));
    }
}

/// RFC 5861, 3 allows a stale response while it is validated, and the endpoint may find that it is gone.
#[test]
fn what_the_endpoint_has_replaced_is_not_served_any_longer() {
    for answer in [
        "HTTP/1.1 404 X\r\nContent-Length: 4\r\n\r\nnone",
        "HTTP/1.1 410 X\r\nContent-Length: 4\r\n\r\nnone",
        "HTTP/1.1 200 OK\r\nCache-Control: private\r\nContent-Length: 4\r\n\r\nnone",
        "HTTP/1.1 302 X\r\nLocation: /other\r\nContent-Length: 4\r\n\r\nnone",
    ] {
        let origin = answering(move |number, _| {
            match number {
            1 => "HTTP/1.1 200 OK\r\nCache-Control: max-age=0, stale-while-revalidate=600\r\nETag: \"a\"\r\nContent-Length: 3\r\n\r\nold"
                .to_owned(),
            _ => answer.to_owned(),
        }
        });
        let gateway = gateway(&origin, "on");
        assert_eq!([get(&gateway, "/", "").text(), get(&gateway, "/", "").text()], ["old", "old"]);
        eventually("the new response", || get(&gateway, "/", "").text() == "none");
    }
    // An error that one odd request causes says nothing about what is stored.
    let origin = answering(|number, request| match request.headers.has("X-Odd") {
        true => "HTTP/1.1 400 X\r\nContent-Length: 3\r\n\r\nodd".to_owned(),
        false => format!(
            "HTTP/1.1 200 OK\r\nCache-Control: max-age=0, stale-if-error=600\r\nETag: \"{number}\"\r\nContent-Length: 1\r\n\r\n{number}"
        ),
    });
    let gateway = gateway(&origin, "on");
    assert_eq!([get(&gateway, "/", "").text(), get(&gateway, "/", "X-Odd: 1\r\n").text()], ["1", "odd"]);
    drop(origin);
    assert_eq!(get(&gateway, "/", "").text(), "1");
}

/// A HEAD brings no body, so it cannot refresh what is stored.
#[test]
fn a_stale_response_to_head_is_not_fetched_again_by_head() {
    let origin = answering(|number, _| {
        format!(
            "HTTP/1.1 200 OK\r\nCache-Control: max-age=0, stale-while-revalidate=600\r\nETag: \"{number}\"\r\nContent-Length: 1\r\n\r\n{number}"
        )
    });
    let gateway = gateway(&origin, "on");
    get(&gateway, "/", "");
    assert_eq!(ask(&gateway, "HEAD", "/", "").status, 200);
    assert_eq!(get(&gateway, "/", "").text(), "1");
    eventually("the new response", || get(&gateway, "/", "").text() == "2");
    assert!(origin.requests().iter().all(|request| request.method == "GET"));
}
