//! Fields that policies add to every response are also in answers that an earlier policy gives.

use tollgate_tests::{Gateway, Origin, Response};

const ADDED: &str = "security_headers: on, headers: {response: {set: {X-Route: \"{route}\"}}}, \
    cookies: {http_only: on}, cors: {origins: \"https://app.example\"}";

fn is_complete(answer: &Response) -> bool {
    answer.headers.all("X-Frame-Options") == ["DENY"] && answer.headers.all("X-Route") == ["r"]
}

/// Starts a gateway whose route has these policies in addition to the common ones.
fn gateway(origin: &Origin, policies: &str) -> Gateway {
    let to = origin.address();
    Gateway::start(&format!(
        "routes:\n  - name: r\n    match: /*\n    to: {to}\n    \
         policies: {{{policies}, {ADDED}}}\n"
    ))
}

fn ask(line: &str, fields: &str) -> String {
    format!("{line} HTTP/1.1\r\nHost: a\r\nOrigin: https://app.example\r\n{fields}\r\n")
}

#[test]
fn a_refusal_has_them() {
    let origin = Origin::ok();
    for (policies, status) in
        [("api_key: on", 401), ("ip: {deny: 127.0.0.0/8}", 403), ("fault: {abort: {status: 503}}", 503)]
    {
        let gateway = gateway(&origin, policies);
        for answer in [gateway.client().ask(ask("GET /", "")), gateway.http2().get("/")] {
            assert!(answer.status == status && is_complete(&answer), "{policies}: {answer:?}");
        }
        let answer = gateway.client().ask(ask("GET /", ""));
        assert_eq!(
            answer.headers.all("Access-Control-Allow-Origin"),
            ["https://app.example"],
            "a page can read why: {policies}"
        );
    }
    assert_eq!(origin.count(), 0);
}

#[test]
fn a_preflight_has_them() {
    let origin = Origin::ok();
    let gateway = gateway(&origin, "api_key: on");
    let answer = gateway.client().ask(ask("OPTIONS /", "Access-Control-Request-Method: GET\r\n"));
    assert!(answer.status == 204 && is_complete(&answer), "{answer:?}");
    assert_eq!(answer.headers.all("Access-Control-Allow-Origin"), ["https://app.example"], "once");
}

#[test]
fn responses_of_a_service_are_changed_after_a_wait() {
    let origin = Origin::ok();
    let service = Origin::fixed(
        "HTTP/1.1 302 Found\r\nLocation: /login\r\nSet-Cookie: a=1\r\nX-Route: theirs\r\nContent-Length: 0\r\n\r\n",
    );
    let gateway =
        gateway(&origin, &format!("forward_auth: {{timeout: 10s, url: \"http://{}/\"}}", service.address()));
    let answer = gateway.client().ask(ask("GET /", ""));
    assert!(answer.status == 302 && is_complete(&answer), "{answer:?}");
    assert_eq!(answer.headers.all("Set-Cookie"), ["a=1; HttpOnly"]);
    assert_eq!(origin.count(), 0);
}
