//! `cors`: which web pages may read the answers. Requests are those that browsers make.

use tollgate_tests::{Gateway, Origin, Response, http2};

const CORS: &str = "policies: {cors: {origins: [https://app.example, \"https://*.example.com\"], \
    regex: \"https://pr-[0-9]+\\\\.example\\\\.org\", methods: [GET, PUT], headers: [Content-Type, X-A], \
    expose: X-Id, credentials: on, max_age: 10m}}\n";

fn preflight(origin: &str) -> String {
    format!(
        "OPTIONS /x HTTP/1.1\r\nHost: a\r\nOrigin: {origin}\r\nAccess-Control-Request-Method: PUT\r\n\
         Access-Control-Request-Headers: content-type\r\n\r\n"
    )
}

fn simple(origin: &str) -> String {
    format!("GET /x HTTP/1.1\r\nHost: a\r\nOrigin: {origin}\r\n\r\n")
}

/// What a browser needs to see to let a page of this origin read the answer.
fn reads(answer: &Response, origin: &str) -> bool {
    answer.headers.all("Access-Control-Allow-Origin") == [origin]
        && answer.headers.all("Access-Control-Allow-Credentials") == ["true"]
}

/// Whether it says nothing that would let any page read it.
fn is_silent(answer: &Response) -> bool {
    answer.headers.names().iter().all(|name| !name.to_ascii_lowercase().starts_with("access-control-"))
}

#[test]
fn a_preflight_is_answered_and_goes_no_further() {
    let origin = Origin::ok();
    let gateway = Gateway::with(&origin, CORS);
    let mut client = gateway.client();
    for page in ["https://app.example", "https://x.example.com", "https://pr-17.example.org"] {
        let answer = client.ask(preflight(page));
        assert_eq!(answer.status, 204);
        assert!(reads(&answer, page), "{answer:?}");
        assert_eq!(answer.headers.get("Access-Control-Allow-Methods"), Some("GET, PUT"));
        assert_eq!(answer.headers.get("Access-Control-Allow-Headers"), Some("Content-Type, X-A"));
        assert_eq!(answer.headers.get("Access-Control-Max-Age"), Some("600"));
        assert!(answer.headers.lists("Vary", "Origin"), "{answer:?}");
    }
    for page in [
        "https://evil.example",
        "https://app.example.evil.example",
        "null",
        "https://evil.example#.example.com",
    ] {
        let answer = client.ask(preflight(page));
        assert!(
            answer.status == 204 && is_silent(&answer) && answer.headers.lists("Vary", "Origin"),
            "{answer:?}"
        );
    }
    assert_eq!(origin.count(), 0);
    let mut client = gateway.http2();
    let fields = [("origin", "https://app.example"), ("access-control-request-method", "GET")];
    let answer = client.ask(http2::request("OPTIONS", "/x", &fields));
    assert!(answer.status == 204 && reads(&answer, "https://app.example"), "{answer:?}");
}

#[test]
fn what_an_upstream_says_of_it_does_not_count() {
    let origin = Origin::fixed(
        "HTTP/1.1 200 OK\r\nAccess-Control-Allow-Origin: *\r\naccess-control-allow-credentials: true\r\nVary: Accept\r\n\
         Content-Length: 2\r\n\r\nhi",
    );
    let gateway = Gateway::with(&origin, CORS);
    let mut client = gateway.client();
    let answer = client.ask(simple("https://x.example.com"));
    assert!(reads(&answer, "https://x.example.com"), "{answer:?}");
    assert_eq!(answer.headers.get("Access-Control-Expose-Headers"), Some("X-Id"));
    assert_eq!(answer.headers.all("Vary"), ["Accept", "Origin"]);
    for request in [simple("https://evil.example"), "GET /x HTTP/1.1\r\nHost: a\r\n\r\n".to_owned()] {
        let answer = client.ask(request);
        assert!(answer.status == 200 && is_silent(&answer), "{answer:?}");
        assert_eq!(answer.headers.all("Vary"), ["Accept", "Origin"]);
    }
    let ordinary = client.ask("OPTIONS /x HTTP/1.1\r\nHost: a\r\nOrigin: https://app.example\r\n\r\n");
    assert_eq!((ordinary.status, origin.count()), (200, 4), "no preflight: it goes upstream");
}

#[test]
fn errors_can_be_read_and_every_origin_may_be_let_in() {
    let gateway =
        Gateway::start("policies: {cors: {origins: \"*\"}}\nroutes: [{match: /x, to: \"127.0.0.1:1\"}]\n");
    let answer = gateway.client().ask(simple("https://any.example"));
    assert_eq!((answer.status, answer.headers.all("Access-Control-Allow-Origin")), (502, vec!["*"]));
    assert!(
        !answer.headers.has("Access-Control-Allow-Credentials") && !answer.headers.has("Vary"),
        "{answer:?}"
    );
}
