//! The gateway's own answers: status, `Tollgate-Reason`, and a body in a format that the client accepts.

use serde_json::Value;
use tollgate_tests::{Gateway, Origin, refused_address};

const JSON: &str = "application/json";

#[test]
fn the_body_follows_accept() {
    let gateway = Gateway::start("routes: [{match: /only, respond: 204}]");
    let mut client = gateway.client();
    for (accept, expected) in [
        (Some("application/json"), "application/json"),
        (Some("text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"), "text/html"),
        (Some("text/html"), "text/html"),
        (Some("text/plain"), "text/plain"),
        (Some("image/png"), "text/plain"),
        (Some("*/*"), "text/plain"),
        (Some(""), "text/plain"),
        (Some(";;;,,,q=x"), "text/plain"),
        (None, "text/plain"),
    ] {
        let accept_field = accept.map_or(String::new(), |accept| format!("Accept: {accept}\r\n"));
        let response = client.ask(format!("GET /none HTTP/1.1\r\nHost: a\r\n{accept_field}\r\n"));
        assert_eq!((response.status, response.reason()), (404, "no_route"), "{accept:?}");
        let kind = response.header("Content-Type").unwrap_or_default().to_owned();
        assert!(kind.starts_with(expected), "Accept {accept:?} gave {kind}");
        assert!(response.text().contains("no_route") && response.text().contains("404"), "{response:?}");
        if expected == JSON {
            let value: serde_json::Value = serde_json::from_slice(&response.body).expect("JSON");
            assert_eq!((value["status"].as_u64(), value["reason"].as_str()), (Some(404), Some("no_route")));
        }
    }
    gateway.reconcile(&[]);
}

#[test]
fn a_refusal_that_is_no_matter_of_framing_keeps_the_connection() {
    let gateway = Gateway::start("routes: [{match: /only, respond: 204}]");
    let mut client = gateway.client();
    for _ in 0..3 {
        assert_eq!(client.get("/none").status, 404);
        assert_eq!(client.post("/none", b"a body of its own").status, 404);
        assert_eq!(client.get("/only").status, 204);
    }
    gateway.reconcile(&[]);
}

#[test]
fn head_gets_no_body() {
    let gateway = Gateway::start("routes: [{match: /only, respond: 204}]");
    let mut client = gateway.client();
    client.send("HEAD /none HTTP/1.1\r\nHost: a\r\n\r\nGET /only HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(client.response_to("HEAD").status, 404);
    assert_eq!(client.response().status, 204);
}

#[test]
fn a_refused_connection() {
    let gateway = Gateway::start(&format!("routes: [{{match: \"/*\", to: [{}]}}]", refused_address()));
    let mut client = gateway.client();
    for method in ["GET", "POST"] {
        let response = client.ask(format!("{method} / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n"));
        assert_eq!((response.status, response.reason()), (502, "connection_refused"));
    }
    let records = gateway.wait_records(2);
    assert!(
        records.iter().all(|r| r["reason"] == "connection_refused" && r["status"] == 502),
        "{records:#?}"
    );
}

#[test]
fn a_name_that_does_not_resolve() {
    let gateway = Gateway::start("routes: [{match: \"/*\", to: [\"no-such-host.invalid:80\"]}]");
    let response = gateway.client().get("/");
    assert_eq!((response.status, response.reason()), (502, "dns_error"));
}

#[test]
fn a_missing_unix_socket() {
    let gateway = Gateway::start("routes: [{match: \"/*\", to: [\"unix:$DIR/none.sock\"]}]");
    let response = gateway.client().get("/");
    assert_eq!((response.status, response.reason()), (502, "connection_refused"));
}

#[test]
fn bodies_can_be_replaced() {
    let gateway = Gateway::start(
        "errors:\n  json: '{\"code\": {status}, \"why\": \"{reason}\"}'\n  html: '<b>{status} {title}</b>'\n  text: 'sorry: {reason}'\n\
         routes: [{match: /only, respond: 204}]",
    );
    let mut client = gateway.client();
    for (accept, body) in [
        ("application/json", "{\"code\": 404, \"why\": \"no_route\"}"),
        ("text/html", "<b>404 Not Found</b>"),
        ("text/plain", "sorry: no_route"),
    ] {
        let response = client.ask(format!("GET /x HTTP/1.1\r\nHost: a\r\nAccept: {accept}\r\n\r\n"));
        assert_eq!(response.text(), body);
    }
}

#[test]
fn an_origin_s_errors_are_its_own() {
    for status in [
        "400 Bad Request",
        "404 Not Found",
        "500 Internal Server Error",
        "502 Bad Gateway",
        "503 Service Unavailable",
    ] {
        let origin = Origin::fixed(format!("HTTP/1.1 {status}\r\nContent-Length: 4\r\n\r\nmine"));
        let gateway = Gateway::to(&origin);
        let response = gateway.client().get("/");
        assert_eq!((response.text().as_str(), response.header("Tollgate-Reason")), ("mine", None));
        assert_eq!(gateway.wait_records(1)[0]["reason"], Value::Null);
    }
}

#[test]
fn an_answer_to_head_has_no_body_whatever_is_wrong() {
    use tollgate_tests::frames::{END_STREAM, kind, pseudo_of};
    let origin = Origin::ok();
    let gateway = Gateway::with(&origin, "limits: {request_line: 256B, headers: 1KiB}");
    let (long, many) = ("x".repeat(2_000), "X: y\r\n".repeat(200));
    for (text, status) in [
        ("HEAD /a b HTTP/1.1\r\nHost: a\r\n\r\n".to_owned(), 400),
        ("HEAD /a%00 HTTP/1.1\r\nHost: a\r\n\r\n".to_owned(), 400),
        ("HEAD /a#b HTTP/1.1\r\nHost: a\r\n\r\n".to_owned(), 400),
        ("HEAD a HTTP/1.1\r\nHost: a\r\n\r\n".to_owned(), 400),
        ("HEAD / HTTP/1.1\nHost: a\n\n".to_owned(), 400),
        ("HEAD / HTTP/3.0\r\nHost: a\r\n\r\n".to_owned(), 505),
        (format!("HEAD /{long} HTTP/1.1\r\nHost: a\r\n\r\n"), 414),
        (format!("HEAD / HTTP/1.1\r\nHost: a\r\nX: {long}\r\n\r\n"), 431),
        (format!("HEAD / HTTP/1.1\r\nHost: a\r\n{many}\r\n"), 431),
        ("HEAD / HTTP/1.1\r\n\r\n".to_owned(), 400),
        ("HEAD / HTTP/1.1\r\nHost: a\r\nX : y\r\n\r\n".to_owned(), 400),
        ("HEAD / HTTP/1.1\r\nHost: a\r\nContent-Length: x\r\n\r\n".to_owned(), 400),
        ("HEAD / HTTP/1.1\r\nHost: a\r\nExpect: b\r\n\r\n".to_owned(), 417),
    ] {
        let mut client = gateway.client();
        client.send(&text);
        let response = client.response_to("HEAD");
        let shown: String = text.chars().take(60).collect();
        assert_eq!(response.status, status, "{shown:?}");
        assert!(response.header("Content-Length").is_some_and(|length| length != "0"), "{shown:?}");
        assert!(response.headers.has("Content-Type") && response.headers.has("Tollgate-Reason"), "{shown:?}");
        // No bytes follow the answer.
        if response.says_close() {
            client.expect_close();
        } else {
            client.expect_silence(std::time::Duration::from_millis(20));
        }
    }
    for (stream, path, more) in [
        (1, "a b", None),
        (3, "/a%00", None),
        (5, "/", Some(("Upper", "case"))),
        (7, "/", Some(("host", "b"))),
        (9, "/", Some(("content-length", "+1"))),
    ] {
        let mut frames = gateway.frames(&[]);
        let fields: Vec<_> = pseudo_of("HEAD", path).into_iter().chain(more).collect();
        frames.ask(stream, &fields);
        let head = frames.wait_for(|frame| frame.stream == stream && frame.kind == kind::HEADERS);
        let head = head.expect("an answer");
        assert_eq!((head.status(), head.flags & END_STREAM), (Some(400), END_STREAM), "{path} {more:?}");
    }
}
