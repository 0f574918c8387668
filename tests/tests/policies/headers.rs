//! `headers`: fields that the gateway adds to and removes from messages.

use tollgate_tests::{Gateway, Origin, http2, tollgate};

const CHANGES: &str = "policies:\n  headers:\n    request: {remove: [X-Secret, cookie], set: {X-Env: prod}, add: {X-Tag: t}}\n    \
    response: {remove: Server, set: {X-Frame-Options: DENY}, add: {Vary: Origin}}\n";

#[test]
fn fields_come_and_go_in_both_directions() {
    let response = "HTTP/1.1 200 OK\r\nServer: x\r\nVary: Accept\r\nx-frame-options: ALLOW\r\nContent-Length: 2\r\n\r\nhi";
    let origin = Origin::fixed(response);
    let gateway = Gateway::with(&origin, CHANGES);
    let mut client = gateway.client();
    for _ in 0..2 {
        let answer = client.ask(
            "GET / HTTP/1.1\r\nHost: a\r\nX-SECRET: 1\r\nCookie: a=b\r\nX-Env: dev\r\nX-Secret: 2\r\nX-Tag: s\r\n\r\n",
        );
        assert_eq!((answer.status, answer.body.as_slice()), (200, &b"hi"[..]));
        assert_eq!(answer.headers.all("Vary"), ["Accept", "Origin"]);
        assert_eq!(answer.headers.all("X-Frame-Options"), ["DENY"]);
        assert!(!answer.headers.has("Server"));
    }
    for request in origin.requests() {
        assert!(!request.headers.has("X-Secret") && !request.headers.has("Cookie"), "{request:?}");
        assert_eq!(request.headers.all("X-Env"), ["prod"]);
        assert_eq!(request.headers.all("X-Tag"), ["s", "t"]);
    }
    gateway.reconcile(&[&origin]);
}

#[test]
fn errors_of_the_gateway_have_the_fields() {
    let origin = Origin::ok();
    let gateway = Gateway::start(&format!(
        "{CHANGES}routes: [{{to: \"{}\", limits: {{body: 1}}}}]\n",
        origin.address()
    ));
    let answer = gateway.client().post("/", b"too much");
    assert_eq!((answer.status, answer.headers.get("X-Frame-Options")), (413, Some("DENY")));
}

#[test]
fn a_client_cannot_keep_a_field_away_by_naming_it_in_connection() {
    let origin = Origin::ok();
    let gateway = Gateway::with(&origin, CHANGES);
    gateway.client().ask("GET / HTTP/1.1\r\nHost: a\r\nConnection: x-env\r\nX-Env: dev\r\n\r\n");
    assert_eq!(origin.request().headers.all("X-Env"), ["prod"]);
}

#[test]
fn http2_responses_have_the_fields() {
    let origin = Origin::ok();
    let gateway = Gateway::with(&origin, CHANGES);
    let answer = gateway.http2().get("/");
    assert_eq!((answer.status, answer.headers.get("x-frame-options")), (200, Some("DENY")));
    assert_eq!(origin.request().headers.all("X-Env"), ["prod"]);
}

#[test]
fn values_have_parts_of_the_request_in_them() {
    let origin = Origin::ok();
    let gateway = Gateway::start(&format!(
        "policies:\n  headers:\n    request: {{remove: X-Old, set: {{X-New: \"{{header.X-Old}}\", X-From: \"{{client}} {{method}} \
         {{path}} {{scheme}} {{route}} {{{{}}}}\", X-Nobody: \"{{consumer}}\"}}}}\n    response: {{set: {{X-Said: \
         \"{{header.X-Old}}\", X-Id: \"{{request_id}}\"}}}}\nroutes: [{{name: r, to: \"{}\"}}]\n",
        origin.address()
    ));
    let ask = "GET /a/./b HTTP/1.1\r\nHost: a\r\nX-Old: v 1\r\nX-Nobody: me\r\n\r\n";
    let answer = gateway.client().ask(ask);
    let request = origin.request();
    assert_eq!(request.headers.all("X-New"), ["v 1"]);
    assert_eq!(request.headers.all("X-From"), ["127.0.0.1 GET /a/b http r {}"]);
    assert!(!request.headers.has("X-Old") && !request.headers.has("X-Nobody"), "{request:?}");
    assert_eq!(answer.headers.get("X-Said"), Some("v 1"));
    assert_eq!(answer.headers.get("X-Id"), request.headers.get("X-Request-Id"));
}

#[test]
fn fields_go_by_how_their_names_begin() {
    let response = "HTTP/1.1 200 OK\r\nX-Powered-By: php\r\nx-debug: 1\r\nXtra: 1\r\nContent-Type: a/b\r\nContent-Length: 2\r\n\r\nhi";
    let origin = Origin::fixed(response);
    let policies = "policies: {headers: {request: {remove: [\"X-*\", \"Con*\"]}, response: {remove: [\"X-*\", \"Con*\"], set: {X-Own: o}}}}";
    let gateway = Gateway::with(&origin, policies);
    let request = "POST / HTTP/1.1\r\nHost: a\r\nX-A: 1\r\nx_b: 2\r\nX-Forwarded-Prefix: p\r\nXtra: 1\r\nContent-Type: c\r\n\
        Content-Length: 2\r\n\r\nhi";
    for answer in [
        gateway.client().ask(request),
        gateway.http2().ask(http2::request(
            "GET",
            "/",
            &[("x-a", "1"), ("xtra", "1"), ("content-type", "c")],
        )),
    ] {
        assert_eq!((answer.status, answer.body.as_slice()), (200, &b"hi"[..]));
        assert!(
            !answer.headers.has("X-Powered-By")
                && !answer.headers.has("X-Debug")
                && answer.headers.has("Xtra")
        );
        assert!(!answer.headers.has("Content-Type"));
        assert_eq!(answer.headers.all("X-Own"), ["o"]);
    }
    for request in origin.requests() {
        for gone in ["X-A", "x_b", "X-Forwarded-Prefix", "Content-Type"] {
            assert!(!request.headers.has(gone), "{gone}: {request:?}");
        }
        assert!(request.headers.has("Xtra") && request.headers.has("X-Forwarded-For"), "{request:?}");
    }
    assert_eq!(origin.requests()[0].headers.get("Content-Length"), Some("2"));
}

#[test]
fn a_star_where_one_field_is_named_is_refused() {
    for policies in [
        "headers: {response: {remove: \"*\"}}",
        "headers: {response: {remove: \"X-*-Id\"}}",
        "headers: {request: {set: {\"X-*\": a}}}",
        "cors: {origins: \"*\", headers: \"X-*\"}",
        "cookies: {remove: \"a*\"}",
        "query: {set: {\"utm_*\": a}}",
        "query: {remove: \"*\"}",
        "forward_auth: {url: \"http://127.0.0.1:1/\", request_headers: \"X-*\"}",
    ] {
        let file = std::env::temp_dir().join(format!("tollgate-e2e-star-{}", std::process::id()));
        let text =
            format!("listen: 127.0.0.1:8080\nroutes:\n- to: 127.0.0.1:1\n  policies: {{{policies}}}\n");
        std::fs::write(&file, text).expect("written");
        let ran = tollgate(&["check", file.to_str().expect("text")]);
        std::fs::remove_file(&file).expect("removed");
        assert_eq!(ran.code, Some(1), "{policies}: {ran:?}");
        assert!(ran.all().contains('^'), "{policies}: {ran:?}");
    }
}
