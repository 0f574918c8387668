//! Syntax errors in endpoints' responses that a proxy may repair (RFC 9112, 4, 5.1, 5.2 and 7.1.1), and what
//! the gateway passes on.

use tollgate_tests::http2::get;
use tollgate_tests::{Framing, Gateway, Origin};

/// Sends a `GET` and returns the raw bytes of the whole answer.
fn raw(gateway: &Gateway) -> String {
    let mut client = gateway.client();
    client.send("GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    let mut bytes = Vec::new();
    while client.wire().fill() == Ok(true) {
        bytes.extend(client.wire().take_pending());
    }
    bytes.extend(client.wire().take_pending());
    String::from_utf8_lossy(&bytes).into_owned()
}

#[test]
fn a_status_line_without_the_blank_behind_the_status_gets_one() {
    for (line, status) in [("HTTP/1.1 200", "200"), ("HTTP/1.0 404", "404"), ("HTTP/1.1 599", "599")] {
        let origin = Origin::fixed_then_close(format!("{line}\r\nContent-Length: 2\r\n\r\nok"));
        let gateway = Gateway::to(&origin);
        let got = raw(&gateway);
        assert!(got.starts_with(&format!("HTTP/1.1 {status} \r\n")), "{line}: {got:?}");
        assert!(got.ends_with("\r\n\r\nok"), "{got:?}");
        assert_eq!(gateway.http2().ask(get("/")).text(), "ok");
    }
    // An interim response gets a blank after its status too.
    let origin = Origin::fixed("HTTP/1.1 103\r\nLink: a\r\n\r\nHTTP/1.1 200\r\nContent-Length: 0\r\n\r\n");
    let got = raw(&Gateway::to(&origin));
    assert!(got.starts_with("HTTP/1.1 103 \r\nLink: a\r\n\r\nHTTP/1.1 200 \r\n"), "{got:?}");
}

#[test]
fn white_space_before_a_colon_goes_and_folds_become_blanks() {
    let origin = Origin::fixed(
        "HTTP/1.1 200 OK\r\nX-Foo : bar\r\nX-Tab\t \t: a b\r\nX-Fold: c\r\n\td\r\n   e\r\nSet-Cookie : f=1\r\n\
         Content-Length : 0002\r\n\r\nok",
    );
    let gateway = Gateway::to(&origin);
    let got = raw(&gateway);
    for line in ["X-Foo: bar", "X-Tab: a b", "Set-Cookie: f=1", "Content-Length: 2"] {
        assert!(got.contains(&format!("\r\n{line}\r\n")), "{line}: {got:?}");
    }
    let mut client = gateway.client();
    for _ in 0..2 {
        let response = client.get("/");
        assert_eq!((response.text().as_str(), response.header("X-Foo")), ("ok", Some("bar")));
        let folded: Vec<_> = response.header("X-Fold").unwrap_or_default().split_ascii_whitespace().collect();
        assert_eq!(folded, ["c", "d", "e"], "{response:?}");
    }
    let response = gateway.http2().ask(get("/"));
    assert_eq!((response.header("x-foo"), response.header("content-length")), (Some("bar"), Some("2")));
    assert_eq!(response.text(), "ok");
}

#[test]
fn repaired_fields_frame_the_message() {
    for head in ["Transfer-Encoding : chunked", "Transfer-Encoding:\r\n chunked"] {
        let origin = Origin::fixed(format!("HTTP/1.1 200 OK\r\n{head}\r\n\r\n2\r\nok\r\n0\r\n\r\n"));
        let gateway = Gateway::to(&origin);
        let mut client = gateway.client();
        for _ in 0..2 {
            let response = client.get("/");
            assert_eq!((response.text().as_str(), response.framing), ("ok", Framing::Chunked), "{head:?}");
        }
        assert_eq!(origin.connections(), 1);
    }
}

#[test]
fn endpoints_may_pad_their_chunks_and_name_extensions_with_blanks() {
    for body in [
        "2  \r\nok\r\n0 \r\n\r\n",
        "2\t\r\nok\r\n000\r\n\r\n",
        "2 ; a=b\r\nok\r\n0;c = \"d;e\" ;f\r\n\r\n",
        "2;a=b \r\nok\r\n0\r\nX-Sum : 1\r\n\r\n",
    ] {
        let origin = Origin::fixed(format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{body}"));
        let gateway = Gateway::to(&origin);
        let mut client = gateway.client();
        for _ in 0..2 {
            let response = client.get("/");
            assert_eq!((response.status, response.text().as_str()), (200, "ok"), "{body:?}");
            assert_eq!(response.trailers.get("X-Sum"), body.contains("X-Sum").then_some("1"), "{body:?}");
        }
        assert_eq!(origin.connections(), 1, "the end was found: {body:?}");
        gateway.reconcile(&[&origin]);
    }
    for line in ["2;", "2; ", "2;a[b", "2;a=\"", "2;a=", " 2", "2 a", "2;a b"] {
        let text = format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{line}\r\nok\r\n0\r\n\r\n");
        let origin = Origin::fixed(text);
        let gateway = Gateway::to(&origin);
        let response = gateway.client().get("/");
        assert_eq!((response.status, response.reason()), (502, "http_protocol_error"), "{line:?}");
        let detail = gateway.wait_records(1)[0]["detail"].as_str().unwrap_or_default().to_owned();
        assert_eq!(detail, line.escape_default().to_string(), "the bytes at fault are in the log");
    }
}

#[test]
fn upgrade_required_names_the_protocol() {
    let answer = "HTTP/1.1 426 Upgrade Required\r\nUpgrade: HTTP/2.0, TLS/1.3\r\nConnection: Upgrade\r\n\
                  Content-Length: 0\r\n\r\n";
    let origin = Origin::fixed(answer);
    let gateway = Gateway::to(&origin);
    let mut client = gateway.client();
    for _ in 0..2 {
        let response = client.get("/");
        assert_eq!((response.status, response.header("Upgrade")), (426, Some("HTTP/2.0, TLS/1.3")));
        assert!(response.headers.lists("Connection", "upgrade"), "{response:?}");
    }
    let response = client.ask("GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    assert!(response.says_close() && response.headers.lists("Connection", "upgrade"), "{response:?}");
    // HTTP/2 has no `Upgrade` field (RFC 9113, 8.2.2).
    let response = gateway.http2().ask(get("/"));
    assert_eq!((response.status, response.header("upgrade")), (426, None));
    assert!(!response.headers.has("connection"));
    // With another status the gateway removes the field.
    let origin = Origin::fixed(answer.replace("426 Upgrade Required", "200 OK"));
    assert_eq!(Gateway::to(&origin).client().get("/").header("Upgrade"), None);
}

#[test]
fn a_write_without_a_body_in_http_2_has_a_length_in_http_1() {
    use tollgate_tests::http2::request;
    let origin = Origin::ok();
    let gateway = Gateway::to(&origin);
    let mut client = gateway.http2();
    for (method, length) in [
        ("POST", Some("0")),
        ("PUT", Some("0")),
        ("PATCH", Some("0")),
        ("GET", None),
        ("DELETE", None),
        ("OPTIONS", None),
    ] {
        assert_eq!(client.ask(request(method, "/", &[])).status, 200);
        let seen = origin.requests().pop().expect("a request");
        assert_eq!((seen.method.as_str(), seen.headers.get("Content-Length")), (method, length));
        assert!(!seen.headers.has("Transfer-Encoding"), "{seen:?}");
    }
    assert_eq!(client.ask(request("POST", "/", &[("content-length", "0")])).status, 200);
    assert_eq!(origin.requests().pop().expect("a request").headers.all("Content-Length"), ["0"]);
    // The gateway adds no length that an HTTP/1 client did not send.
    gateway.client().ask("POST / HTTP/1.1\r\nHost: a\r\n\r\n");
    assert!(!origin.requests().pop().expect("a request").headers.has("Content-Length"));
    gateway.reconcile(&[&origin]);
}
