//! `aggregate`: one JSON document from the answers of several upstreams.

use std::fmt::Display;

use serde_json::{Value, json};
use tollgate_tests::{
    Gate, Gateway, Http2Origin, Origin, Response, eventually, http2, refused_address, tollgate,
};

use super::api_key::{ALICE, hashed};

/// Starts a gateway with a route `/page/*` with these parts, and with further keys of the policy.
fn gateway(parts: &str, more: &str, upstreams: &[(&str, &dyn Display)]) -> Gateway {
    let upstreams: Vec<_> = upstreams.iter().map(|(name, at)| format!("{name}: {at}")).collect();
    Gateway::start(&format!(
        "routes: [{{name: r, match: /page/*, respond: 404, policies: {{aggregate: {{parts: {{{parts}}}{more}}}}}}}]\n\
         upstreams: {{{}}}\n",
        upstreams.join(", ")
    ))
}

fn says(content_type: &str, body: &str) -> Origin {
    let length = body.len();
    Origin::fixed(format!(
        "HTTP/1.1 200 OK\r\nContent-Type: {content_type}\r\nContent-Length: {length}\r\n\r\n{body}"
    ))
}

fn json(response: &Response) -> Value {
    assert_eq!((response.status, response.headers.get("Content-Type")), (200, Some("application/json")));
    serde_json::from_slice(&response.body).expect("JSON")
}

fn events(gateway: &Gateway, event: &str) -> f64 {
    gateway.metrics().sum("tollgate_policy_events_total", &format!("event=\"{event}\"")).unwrap_or(0.0)
}

#[test]
fn responses_of_upstreams_form_one_document() {
    let user = says("application/json", "{\"name\": \"ann\", \"id\": 12345678901234567890}\n");
    let orders = says("application/vnd.shop+json", "[1, 2]");
    let news = says("text/plain", "no \"news\"\n");
    let parts = "user: {to: user, path: '/users/{header.x-user}?full=1&lang={cookie.lang}'}, \
                 orders: {to: orders}, news: {to: news, path: '/v2{path}', host: news.internal}";
    let shape = ", shape: {page: {user: $user, lists: [$orders]}, news: $news, failed: $failed, price: $$5}";
    let upstreams: [(&str, &dyn Display); 3] =
        [("user", &user.address()), ("orders", &orders.address()), ("news", &news.address())];
    let gateway = gateway(parts, shape, &upstreams);
    let expected = "{\"page\":{\"user\":{\"name\": \"ann\", \"id\": 12345678901234567890},\"lists\":[[1, 2]]},\
                    \"news\":\"no \\\"news\\\"\\n\",\"failed\":[],\"price\":\"$5\"}";
    let fields = "X-User: a b?c\r\nCookie: lang=d&e\r\nAccept: text/html\r\nAccept-Encoding: gzip\r\nIf-None-Match: x\r\n\
                  Authorization: Basic eA==\r\nRange: bytes=0-1\r\nConnection: X-Gone\r\nX-Gone: 1\r\n";
    let mut client = gateway.client();
    for _ in 0..3 {
        let answer = client.ask(format!("GET /page/x?y=z HTTP/1.1\r\nHost: a\r\n{fields}\r\n"));
        assert_eq!(
            (answer.text().as_str(), answer.headers.get("Cache-Control")),
            (expected, Some("no-store"))
        );
        json(&answer);
    }
    let mut second = gateway.http2();
    let answer = second.ask(http2::request(
        "GET",
        "/page/x?y=z",
        &[("x-user", "a b?c"), ("cookie", "lang=d&e"), ("authorization", "Basic eA==")],
    ));
    assert_eq!((answer.status, answer.text().as_str()), (200, expected));
    for request in user.requests() {
        assert_eq!(request.target, "/users/a%20b%3Fc?full=1&lang=d%26e");
        assert_eq!(request.headers.all("Accept"), ["application/json"]);
        assert_eq!(request.headers.get("Authorization"), Some("Basic eA=="));
        for gone in ["Accept-Encoding", "If-None-Match", "Range", "X-Gone"] {
            assert!(!request.headers.has(gone), "{gone}");
        }
    }
    for request in orders.requests() {
        assert_eq!((request.method.as_str(), request.target.as_str()), ("GET", "/page/x?y=z"));
        assert_eq!(request.headers.get("Host").map(|host| host == "news.internal"), Some(false));
    }
    for request in news.requests() {
        assert_eq!(
            (request.target.as_str(), request.headers.get("Host")),
            ("/v2/page/x", Some("news.internal"))
        );
    }
    assert_eq!((user.count(), orders.count(), news.count(), events(&gateway, "whole")), (4, 4, 4, 4.0));
    assert!(user.connections() < 4, "connections are kept");
    // A request with a body works too; its body is dropped.
    let post =
        "POST /page/x HTTP/1.1\r\nHost: a\r\nX-User: ann\r\nCookie: lang=d\r\nContent-Length: 4\r\n\r\nbody";
    assert_eq!(client.ask(post).status, 200);
    gateway.reconcile(&[]);
}

#[test]
fn all_parts_are_requested_at_once() {
    // Neither upstream answers before both have a request.
    let gate = Gate::default();
    let holding = |gate: Gate| {
        Origin::play(move |connection| {
            while connection.request().is_some() {
                gate.wait();
                connection.ok("x");
            }
        })
    };
    let (one, two) = (holding(gate.clone()), holding(gate.clone()));
    let upstreams: [(&str, &dyn Display); 2] = [("one", &one.address()), ("two", &two.address())];
    let gateway = gateway("a: {to: one}, b: {to: two}", ", timeout: 60s", &upstreams);
    let mut client = gateway.client();
    client.send("GET /page/ HTTP/1.1\r\nHost: a\r\n\r\n");
    eventually("both are asked", || one.count() == 1 && two.count() == 1);
    gate.open();
    assert_eq!(json(&client.response()), json!({"a": "x", "b": "x", "failed": []}));
}

#[test]
fn a_failed_optional_part_has_its_fallback_and_is_reported() {
    let (good, bad) = (says("application/json", "1"), says("application/json", "{\"a\":1}, \"b\": {}"));
    let missing = Origin::fixed("HTTP/1.1 404 No\r\nContent-Length: 0\r\n\r\n");
    let silent = Origin::play(|connection| {
        connection.request();
        connection.wait_close();
    });
    let refused = refused_address();
    let parts = "good: {to: good}, dead: {to: dead, fallback: {items: [], more: off}}, late: {to: silent, timeout: 100ms, required: off}, \
                 missing: {to: missing, fallback: 7}, broken: {to: bad, required: off}, long: {to: bad, limit: 5, fallback: \"5\"}";
    let upstreams: [(&str, &dyn Display); 5] = [
        ("good", &good.address()),
        ("bad", &bad.address()),
        ("missing", &missing.address()),
        ("silent", &silent.address()),
        ("dead", &refused),
    ];
    let gateway = gateway(parts, "", &upstreams);
    let expected = json!({
        "good": 1, "dead": {"items": [], "more": "off"}, "late": null, "missing": 7, "broken": null, "long": "5",
        "failed": ["dead", "late", "missing", "broken", "long"],
    });
    assert_eq!(json(&gateway.client().get("/page/")), expected);
    let answer = gateway.http2().ask(http2::request("GET", "/page/", &[]));
    assert_eq!(serde_json::from_slice::<Value>(&answer.body).expect("JSON"), expected);
    assert_eq!(events(&gateway, "partial"), 2.0);
    eventually("who is too late is called off", || silent.open() == 0);
    gateway.reconcile(&[]);
}

#[test]
fn a_required_part_that_fails_has_the_request_fail() {
    let good = says("application/json", "1");
    let missing = Origin::fixed("HTTP/1.1 404 No\r\nContent-Length: 0\r\n\r\n");
    let silent = Origin::play(|connection| {
        connection.request();
        connection.wait_close();
    });
    let coded = Origin::fixed(
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Encoding: gzip\r\nContent-Length: 1\r\n\r\n1",
    );
    let cut = Origin::fixed_then_close("HTTP/1.1 200 OK\r\nContent-Length: 9\r\nConnection: close\r\n\r\n1");
    let refused = refused_address();
    let upstreams: [(&str, &dyn Display); 6] = [
        ("good", &good.address()),
        ("missing", &missing.address()),
        ("silent", &silent.address()),
        ("coded", &coded.address()),
        ("cut", &cut.address()),
        ("dead", &refused),
    ];
    for (part, status, reason) in [
        ("{to: missing}", 502, "part_failed"),
        ("{to: silent, timeout: 100ms}", 504, "request_timeout"),
        ("{to: dead}", 502, "connection_refused"),
        ("{to: coded}", 502, "part_failed"),
        ("{to: cut}", 502, "http_response_incomplete"),
        ("{to: good, path: '/{header.x-user}'}", 502, "part_failed"),
        ("{to: good, limit: 1, path: '/..{consumer}'}", 502, "part_failed"),
    ] {
        let gateway = gateway(&format!("a: {{to: good}}, b: {part}"), "", &upstreams);
        let mut client = gateway.client();
        let answer = client.get("/page/");
        assert_eq!((answer.status, answer.headers.get("Tollgate-Reason")), (status, Some(reason)), "{part}");
        let answer = gateway.http2().ask(http2::request("GET", "/page/", &[]));
        assert_eq!((answer.status, answer.headers.get("tollgate-reason")), (status, Some(reason)), "{part}");
        assert_eq!(events(&gateway, "failed"), 2.0);
        gateway.reconcile(&[]);
    }
}

#[test]
fn sizes_are_bounded_each_and_in_all() {
    let ten = says("text/plain", "0123456789");
    let endless = Origin::play(|connection| {
        if connection.request().is_some() {
            connection.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
            let chunk = format!("10000\r\n{}\r\n", "x".repeat(65_536));
            while connection.send(&chunk) {}
        }
    });
    let upstreams: [(&str, &dyn Display); 2] = [("ten", &ten.address()), ("endless", &endless.address())];
    for (parts, more, passes) in [
        ("a: {to: ten, limit: 10}, b: {to: ten}", ", limit: 20", true),
        ("a: {to: ten, limit: 9}, b: {to: ten}", "", false),
        ("a: {to: ten}, b: {to: ten}", ", limit: 19", false),
        ("a: {to: endless}", "", false),
    ] {
        let gateway = gateway(parts, more, &upstreams);
        let answer = gateway.client().get("/page/");
        let expected = if passes { (200, None) } else { (502, Some("http_response_body_size")) };
        assert_eq!((answer.status, answer.headers.get("Tollgate-Reason")), expected, "{parts}{more}");
    }
    eventually("nobody reads on", || endless.open() == 0);
}

#[test]
fn the_policies_of_a_parts_upstream_hold() {
    let origin = says("application/json", "1");
    let gateway = Gateway::start(&format!(
        "consumers: {{ann: {{api_keys: \"{1}\"}}}}\n\
         routes: [{{match: /page/*, to: open, policies: {{api_key: on, headers: {{response: {{set: {{X-A: b}}}}}}, \
         aggregate: {{parts: {{a: {{to: shut, required: off}}, b: {{to: anns}}, c: {{to: open}}}}}}}}}}]\n\
         upstreams: {{open: \"{0}\", shut: {{endpoints: \"{0}\", policies: {{ip: {{deny: 127.0.0.0/8}}}}}}, \
         anns: {{endpoints: \"{0}\", policies: {{authorize: {{allow: {{consumers: ann}}}}, headers: {{request: {{set: {{X-U: u}}}}}}}}}}}}\n",
        origin.address(),
        hashed(ALICE)
    ));
    let mut client = gateway.client();
    let answer = client.ask(format!("GET /page/ HTTP/1.1\r\nHost: a\r\nX-API-Key: {ALICE}\r\n\r\n"));
    assert_eq!(json(&answer), json!({"a": null, "b": 1, "c": 1, "failed": ["a"]}));
    assert_eq!(answer.headers.get("X-A"), Some("b"), "the route's other policies see the answer");
    assert!(origin.requests().iter().any(|request| request.headers.get("X-U") == Some("u")));
    assert_eq!(client.get("/page/").status, 401);
    assert_eq!(origin.count(), 2);
}

#[test]
fn a_part_may_speak_http2_and_a_client_may_go() {
    let (one, silent) = (
        Http2Origin::echo(),
        Origin::play(|connection| {
            connection.request();
            connection.wait_close();
        }),
    );
    let h2c = format!("'h2c://{}'", one.address());
    let upstreams: [(&str, &dyn Display); 2] = [("one", &h2c), ("silent", &silent.address())];
    let gateway =
        gateway("a: {to: one, required: off}, b: {to: silent, timeout: 60s, required: off}", "", &upstreams);
    let mut client = gateway.client();
    client.send("GET /page/ HTTP/1.1\r\nHost: a\r\n\r\n");
    eventually("both are asked", || one.requests().len() == 1 && silent.count() == 1);
    client.reset();
    eventually("what is under way is called off", || silent.open() == 0);
    // The borrowed request state of cancelled parts is reusable.
    let gateway = self::gateway("a: {to: one}", "", &upstreams);
    let mut client = gateway.client();
    for _ in 0..3 {
        assert_eq!(client.get("/page/").status, 200);
    }
}

#[test]
fn explain_tells_who_would_be_asked() {
    let file = std::env::temp_dir().join(format!("tollgate-aggregate-{}.yaml", std::process::id()));
    let text = "listen: 127.0.0.1:8080\nroutes: [{name: r, to: one, policies: {aggregate: {parts: {a: {to: one}, b: {to: two}}}}}]\n\
                upstreams: {one: '127.0.0.1:1', two: '127.0.0.1:2'}\n";
    std::fs::write(&file, text).expect("the file is written");
    let reported = tollgate(&["explain", file.to_str().expect("text"), "GET", "http://a/"]).out;
    let line = "aggregate of route/r (a of one, b of two): asks upstreams, and answers with what they say";
    assert!(reported.contains(line), "{reported}");
    std::fs::remove_file(file).expect("it is there");
}
