//! Heads, interim responses, and responses without a body.

use std::io::{Read, Write};
use std::net::TcpListener;

use tollgate_tests::frames::{frame, kind};
use tollgate_tests::http2::{get, request};
use tollgate_tests::{DEADLINE, Framing, Gateway, Http2Origin, eventually};

use super::{reconcile, to};

#[test]
fn a_request_of_http_1_becomes_one_of_http_2() {
    let origin = Http2Origin::play(|stream| {
        stream.body();
        let fields = [("content-length", "2"), ("x-two", "a"), ("set-cookie", "c=1"), ("x-two", "b")];
        stream.head(200, &fields, false);
        stream.send("ok", true);
    });
    let gateway = to(&origin);
    let mut client = gateway.client();
    client.send(
        "GET /p/./q?r=s HTTP/1.1\r\nHost: a.example\r\nConnection: keep-alive, X-Own\r\nX-Own: 1\r\nX-A: 1\r\n\
         Keep-Alive: 5\r\nTE: trailers, deflate\r\nUpgrade: h2c\r\nX_Real_IP: 6.6.6.6\r\n\r\n",
    );
    let response = client.response();
    assert_eq!((response.status, response.text().as_str()), (200, "ok"));
    assert_eq!(response.headers.all("x-two"), ["a", "b"]);
    assert_eq!(response.headers.get("content-length"), Some("2"));
    assert!(response.headers.has("date") && !response.headers.has("transfer-encoding"), "{response:?}");
    let got = origin.request();
    assert_eq!((got.method.as_str(), got.target.as_str()), ("GET", "/p/q?r=s"));
    assert_eq!(got.headers.get(":scheme"), Some("http"));
    assert_eq!(got.headers.get(":authority"), Some("a.example"));
    assert_eq!((got.headers.get("x-a"), got.headers.get("te")), (Some("1"), Some("trailers")));
    assert_eq!(got.headers.get("x-forwarded-for"), Some("127.0.0.1"));
    for name in ["host", "connection", "keep-alive", "x-own", "upgrade", "x_real_ip", "transfer-encoding"] {
        assert!(!got.headers.has(name), "{name}: {got:?}");
    }
    assert_eq!(got.framing, Framing::None);
    reconcile(&gateway, &origin);
}

#[test]
fn both_sides_in_http_2() {
    let origin = Http2Origin::echo();
    let gateway = to(&origin);
    let mut client = gateway.http2();
    let response = client.ask(request("GET", "/x?y", &[("cookie", "a=1"), ("cookie", "b=2")]));
    assert_eq!((response.status, response.text().as_str()), (200, "GET /x?y "));
    assert_eq!(origin.request().headers.all("cookie"), ["a=1; b=2"]);
    let record = &gateway.wait_records(1)[0];
    assert_eq!((&record["protocol"], &record["attempts"]), (&"HTTP/2.0".into(), &1.into()), "{record}");
    reconcile(&gateway, &origin);
}

/// Returns the first byte of the representation (RFC 7541, 6.2) in which the gateway sends the field `x-key`
/// to an endpoint. `marked` is whether the client marked the field as never indexed.
fn representation(marked: bool) -> u8 {
    // `x-key` in Huffman code, after its length.
    const NAME: [u8; 5] = [0x84, 0xf2, 0xb7, 0x52, 0xfa];
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback");
    let address = listener.local_addr().expect("bound");
    let gateway = Gateway::start(&format!("workers: 1\nroutes:\n- {{match: /*, to: \"h2c://{address}\"}}\n"));
    let mut client = gateway.http2();
    let mut asked = request("GET", "/", &[("x-key", "secret")]);
    asked.headers_mut().get_mut("x-key").expect("it is there").set_sensitive(marked);
    let _stream = client.begin(asked, true).expect("begun");
    let (mut endpoint, _) = listener.accept().expect("a connection");
    endpoint.set_read_timeout(Some(DEADLINE)).expect("a timeout");
    endpoint.write_all(&frame(kind::SETTINGS, 0, 0, &[])).expect("sent");
    let (mut bytes, mut piece) = (Vec::new(), [0; 4096]);
    loop {
        if let Some(at) = bytes.windows(NAME.len()).position(|some| some == NAME) {
            return bytes[at - 1];
        }
        let count = endpoint.read(&mut piece).expect("the request");
        assert!(count > 0, "the gateway has gone");
        bytes.extend_from_slice(&piece[..count]);
    }
}

#[test]
fn never_indexed_fields_stay_never_indexed() {
    assert_eq!(representation(true), 0x10, "literal, never indexed");
    assert_eq!(representation(false), 0x40, "literal, with incremental indexing");
}

#[test]
fn bytes_that_http_2_has_no_place_for_are_escaped() {
    let origin = Http2Origin::echo();
    let gateway = to(&origin);
    let mut client = gateway.client();
    client.send(b"GET /a`b?c=<d>&e=%41 HTTP/1.1\r\nHost: a.example\r\n\r\n");
    assert_eq!(client.response().text(), "GET /a%60b?c=%3Cd%3E&e=%41 ");
    reconcile(&gateway, &origin);
}

#[test]
fn responses_without_a_body_leave_the_client_at_the_next_request() {
    let origin = Http2Origin::play(|stream| match stream.request.target.as_str() {
        "/204" => stream.head(204, &[], true),
        "/304" => stream.head(304, &[("content-length", "5"), ("etag", "\"a\"")], true),
        "/none" => stream.head(200, &[("content-length", "0")], true),
        "/undeclared" => stream.head(200, &[], true),
        "/late" => {
            stream.head(200, &[("content-length", "0")], false);
            stream.send("", true);
        }
        _ => stream.head(200, &[("content-length", "7")], true),
    });
    let gateway = to(&origin);
    let mut client = gateway.client();
    let mut http2 = gateway.http2();
    for (method, path, status, length) in [
        ("GET", "/204", 204, None),
        ("GET", "/304", 304, Some("5")),
        ("GET", "/none", 200, Some("0")),
        ("GET", "/undeclared", 200, None),
        ("GET", "/late", 200, Some("0")),
        ("HEAD", "/head", 200, Some("7")),
        ("HEAD", "/undeclared", 200, None),
    ] {
        client.send(format!("{method} {path} HTTP/1.1\r\nHost: a.example\r\n\r\n"));
        let response = client.response_to(method);
        assert_eq!((response.status, response.header("content-length")), (status, length), "{path}");
        assert!(response.body.is_empty(), "{path}");
        let response = http2.ask(request(method, path, &[]));
        assert_eq!((response.status, response.header("content-length")), (status, length), "{path}");
        assert!(response.body.is_empty(), "{path}");
    }
    reconcile(&gateway, &origin);
}

#[test]
fn interim_responses_go_on_and_so_does_expect() {
    let origin = Http2Origin::play(|stream| {
        stream.interim(103, &[("link", "</a>")]);
        if stream.request.headers.has("expect") {
            stream.interim(100, &[]);
        }
        stream.body();
        stream.ok("ok");
    });
    let gateway = to(&origin);
    let mut client = gateway.client();
    client.send("POST / HTTP/1.1\r\nHost: a.example\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n");
    eventually("the head to go before the body", || origin.count() == 1);
    let hints = client.interim();
    assert_eq!((hints.status, hints.header("link")), (103, Some("</a>")));
    assert_eq!(client.interim().status, 100);
    client.send("hi");
    assert_eq!(client.response().text(), "ok");
    let mut http2 = gateway.http2();
    let response = http2.ask(get("/"));
    assert_eq!(response.interim.iter().map(|one| one.status).collect::<Vec<_>>(), [103]);
    assert_eq!(response.text(), "ok");
    reconcile(&gateway, &origin);
}

#[test]
fn heads_without_an_http2_form_are_refused() {
    let (first, second) = (Http2Origin::echo(), Http2Origin::echo());
    for hedge in ["off", "{after: 10s}"] {
        let gateway = Gateway::start(&format!(
            "workers: 1\nlimits: {{request_line: 100KiB}}\nroutes: [{{match: /*, to: up}}]\nupstreams:\n  up:\n\
             \x20   endpoints: [\"h2c://{}\", \"h2c://{}\"]\n    hedge: {hedge}\n",
            first.address(),
            second.address()
        ));
        let mut client = gateway.client();
        for _ in 0..2 {
            assert_eq!(client.get("/").text(), "GET / ");
        }
        let before = first.count() + second.count();
        // Each `<` becomes `%3C`, and the HTTP/2 library accepts only targets of less than 64 KiB.
        let refused = client.get(&format!("/?{}", "<".repeat(22_000)));
        assert_eq!((refused.status, refused.reason()), (414, "request_line_too_long"), "hedge: {hedge}");
        assert_eq!(first.count() + second.count(), before);
        assert_eq!(client.get("/").text(), "GET / ", "the worker and the connection go on");
        let attempts: Vec<_> =
            gateway.wait_records(4).iter().map(|record| record["attempts"].clone()).collect();
        assert_eq!(attempts, [1, 1, 0, 1], "hedge: {hedge}");
    }
}
