//! gRPC-Web: the messages that browsers send and read, on both versions of HTTP.

use std::sync::atomic::{AtomicU32, Ordering};

use h2::Reason;
use tollgate_tests::http2::{Cut, request};
use tollgate_tests::{Framing, Gateway, Http2Origin, Origin, ReadError, Response, eventually};

const MESSAGE: &[u8] = b"\0\0\0\0\x05hello";
/// The same message in base64.
const TEXT: &str = "AAAAAAVoZWxsbw==";
const TRAILERS: &[u8] = b"\x80\0\0\0\x20grpc-status:0\r\ngrpc-message:ok\r\n";

/// Starts an endpoint that echoes the message of each call. The method `Fail` gets a code alone, `Html` a
/// page, `Late` nothing, and `Stall` a message without an end.
fn origin() -> Http2Origin {
    Http2Origin::play(|stream| {
        stream.body();
        match stream.request.target.as_str() {
            "/a.B/Fail" => {
                let fields = [("content-type", "application/grpc+proto"), ("grpc-status", "7")];
                stream.head(200, &fields, true);
            }
            "/a.B/Html" => {
                stream.head(502, &[("content-type", "text/html")], false);
                stream.send(&b"<p>"[..], true);
            }
            "/a.B/Late" => {
                stream.wait_reset();
            }
            "/a.B/Stall" => {
                stream.head(200, &[("content-type", "application/grpc+proto")], false);
                stream.send(MESSAGE, false);
                stream.wait_reset();
            }
            _ => {
                stream.head(200, &[("content-type", "application/grpc+proto")], false);
                let body = stream.request.body.clone();
                // The body is sent in two pieces.
                let (first, rest) = body.split_at(body.len() / 2);
                stream.send(first.to_vec(), false);
                stream.send(rest.to_vec(), false);
                stream.trailers(&[("grpc-status", "0"), ("grpc-message", "ok")]);
            }
        }
    })
}

fn gateway(origin: &Http2Origin) -> Gateway {
    Gateway::start(&format!(
        "routes: [{{name: web, match: \"/*\", to: \"h2c://{}\", grpc_web: on}}]",
        origin.address()
    ))
}

/// Decodes base64 in padded pieces, one after another.
fn decoded(text: &[u8]) -> Vec<u8> {
    let value = |byte: u8| match byte {
        b'A'..=b'Z' => u32::from(byte - b'A'),
        b'a'..=b'z' => u32::from(byte - b'a') + 26,
        b'0'..=b'9' => u32::from(byte - b'0') + 52,
        b'+' => 62,
        b'/' => 63,
        b'=' => 0,
        other => panic!("not base64: {other}"),
    };
    assert_eq!(text.len() % 4, 0, "{text:?}");
    let groups = text.chunks(4).flat_map(|group| {
        let bits = group.iter().fold(0, |bits, byte| bits << 6 | value(*byte));
        let padding = group.iter().filter(|byte| **byte == b'=').count();
        bits.to_be_bytes()[1..4 - padding].to_vec()
    });
    groups.collect()
}

fn whole() -> Vec<u8> {
    [MESSAGE, TRAILERS].concat()
}

fn assert_call(origin: &Http2Origin, index: usize) {
    let got = &origin.requests()[index];
    assert_eq!(got.headers.get("content-type"), Some("application/grpc+proto"), "{got:?}");
    assert_eq!((got.headers.get("te"), got.body.as_slice()), (Some("trailers"), MESSAGE), "{got:?}");
}

fn head(kind: &str, more: &str) -> String {
    format!(
        "POST /a.B/C HTTP/1.1\r\nHost: a.example\r\nContent-Type: application/grpc-{kind}+proto\r\n{more}\r\n"
    )
}

#[test]
fn binary_over_http_1() {
    let origin = origin();
    let gateway = gateway(&origin);
    let mut client = gateway.client();
    client.send([head("web", "Content-Length: 10\r\n").as_bytes(), MESSAGE].concat());
    let response = client.response();
    assert_eq!((response.status, response.header("content-type")), (200, Some("application/grpc-web+proto")));
    assert_eq!((response.framing, response.body), (Framing::Chunked, whole()));
    assert!(response.trailers.0.is_empty(), "they are in the body");
    // The connection stays open, and chunks work as well.
    client.send(head("web", "Transfer-Encoding: chunked\r\n"));
    for byte in MESSAGE {
        client.send([b"1\r\n", &[*byte][..], b"\r\n"].concat());
    }
    client.send("0\r\n\r\n");
    assert_eq!(client.response().body, whole());
    assert_call(&origin, 0);
    assert_call(&origin, 1);
    assert_eq!(gateway.wait_records(2)[1]["grpc_status"], 0);
    let labels = "route=\"web\",grpc_status=\"0\"";
    assert_eq!(gateway.metrics().sum("tollgate_grpc_requests_total", labels), Some(2.0));
}

#[test]
fn fields_of_the_gateway_cannot_come_as_trailers() {
    let origin = origin();
    let gateway = Gateway::start(&format!(
        "routes: [{{match: \"/*\", to: \"h2c://{}\", grpc_web: on, policies: {{headers: {{request: {{set: {{X-Env: test}}}}}}}}}}]",
        origin.address()
    ));
    let mut client = gateway.client();
    client.send(head("web", "Transfer-Encoding: chunked\r\n"));
    client.send([b"a\r\n", MESSAGE, b"\r\n0\r\nX-Env: root\r\nx_env: root\r\nX-Fine: 1\r\n\r\n"].concat());
    assert_eq!(client.response().body, whole());
    let got = &origin.requests()[0];
    assert_eq!(got.headers.all("x-env"), ["test"], "{got:?}");
    let behind: Vec<_> = got.trailers.0.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(behind, ["x-fine"], "{got:?}");
}

#[test]
fn base64_over_http_1() {
    let origin = origin();
    let gateway = gateway(&origin);
    let mut client = gateway.client();
    let check = |response: Response| {
        assert_eq!(response.header("content-type"), Some("application/grpc-web-text+proto"), "{response:?}");
        assert_eq!(decoded(&response.body), whole());
    };
    let request = format!("{}{TEXT}", head("web-text", "Content-Length: 16\r\n"));
    check(client.ask(&request));
    // Byte by byte, and two requests in one segment.
    client.dribble(&request);
    check(client.response());
    client.send(format!("{request}{request}"));
    check(client.response());
    check(client.response());
    // In chunks with arbitrary boundaries, followed by the next request.
    client.send(head("web-text", "Transfer-Encoding: chunked\r\n"));
    for part in ["3\r\nAAA\r\n", "6\r\nAAAVoZ\r\n", "7\r\nWxsbw==\r\n"] {
        client.send(part);
    }
    client.send(format!("0\r\n\r\n{request}"));
    check(client.response());
    check(client.response());
    // Pieces with padding of their own.
    client.send(format!("{}AAAAAAU=aGVsbG8=", head("web-text", "Content-Length: 16\r\n")));
    check(client.response());
    for index in 0..7 {
        assert_call(&origin, index);
    }
    // A client that accepts the other form gets it.
    client.send(format!(
        "{}{TEXT}",
        head("web-text", "Accept: application/grpc-web\r\nContent-Length: 16\r\n")
    ));
    let response = client.response();
    assert_eq!(response.header("content-type"), Some("application/grpc-web+proto"));
    assert_eq!(response.body, whole());
}

#[test]
fn both_over_http_2() {
    let origin = origin();
    let gateway = gateway(&origin);
    let mut client = gateway.http2();
    for (kind, parts) in [
        ("application/grpc-web+proto", vec![&MESSAGE[..3], &MESSAGE[3..]]),
        ("application/grpc-web-text+proto", vec![&b"AAAAA"[..], b"AVoZWxsb", b"w=="]),
    ] {
        let fields = [("content-type", kind)];
        let mut stream = client.begin(request("POST", "/a.B/C", &fields), false).expect("begun");
        for part in parts {
            stream.send(part.to_vec(), false).expect("sent");
        }
        stream.send("", true).expect("sent");
        let response = stream.response().expect("an answer");
        assert_eq!(response.header("content-type"), Some(kind));
        let body = if kind.contains("text") { decoded(&response.body) } else { response.body.clone() };
        assert_eq!(body, whole());
        assert!(response.trailers.0.is_empty(), "{response:?}");
    }
    assert_call(&origin, 0);
    assert_call(&origin, 1);
}

#[test]
fn failures() {
    let origin = origin();
    let gateway = gateway(&origin);
    let mut client = gateway.client();
    let ask = |path: &str, body: &str| {
        let length = body.len();
        head("web-text", &format!("Content-Length: {length}\r\n")).replace("/a.B/C", path) + body
    };
    // A code alone stays in the head.
    let failed = client.ask(ask("/a.B/Fail", TEXT));
    assert_eq!((failed.status, failed.header("grpc-status")), (200, Some("7")), "{failed:?}");
    assert_eq!(failed.header("content-type"), Some("application/grpc-web-text+proto"));
    assert!(failed.body.is_empty());
    // A response that is not gRPC is not translated.
    let page = client.ask(ask("/a.B/Html", TEXT));
    assert_eq!((page.status, page.text().as_str()), (502, "<p>"));
    // A body that is not base64 is refused.
    let bad = client.ask(ask("/a.B/C", "AAAAA@==AAAA"));
    assert_eq!((bad.status, bad.header("tollgate-reason")), (400, Some("bad_chunk")), "{bad:?}");
    // The end of the body is certain, so the connection stays open.
    assert!(!bad.says_close());
    client.expect_silence(std::time::Duration::from_millis(20));
    assert_eq!(origin.count(), 2);
}

#[test]
fn behind_a_head_that_has_no_body_is_nothing() {
    let origin = Http2Origin::play(|stream| {
        stream.body();
        let fields = [("content-type", "application/grpc")];
        match stream.request.target.as_str() {
            "/a.B/204" => stream.head(204, &fields, true),
            "/a.B/304" => stream.head(304, &fields, true),
            _ => stream.head(200, &fields, true),
        }
    });
    let gateway = gateway(&origin);
    let mut client = gateway.client();
    let call = |method: &str| {
        let body = format!("Content-Length: 16\r\n\r\n{TEXT}");
        format!("POST /a.B/{method} HTTP/1.1\r\nHost: a\r\nContent-Type: application/grpc-web-text\r\n{body}")
    };
    for status in [204, 304] {
        let response = client.ask(call(&status.to_string()));
        assert_eq!((response.status, response.body.as_slice()), (status, &b""[..]), "{response:?}");
    }
    client.send("HEAD /a.B/C HTTP/1.1\r\nHost: a\r\nContent-Type: application/grpc-web\r\n\r\n");
    assert_eq!(client.response_to("HEAD").status, 200);
    // If one of them had a body, this response would start with its bytes.
    let response = client.ask(call("C"));
    assert_eq!((response.status, decoded(&response.body)), (200, b"\x80\0\0\0\0".to_vec()), "{response:?}");
    gateway.reconcile_with(|| origin.count());
}

#[test]
fn the_declared_length_is_dropped() {
    let origin = Http2Origin::play(|stream| {
        stream.body();
        let fields = [("content-type", "application/grpc"), ("grpc-status", "0"), ("content-length", "3")];
        stream.head(200, &fields, false);
        stream.send("abc", true);
    });
    let gateway = gateway(&origin);
    let mut client = gateway.client();
    for _ in 0..2 {
        let response = client.ask(format!("{}{TEXT}", head("web-text", "Content-Length: 16\r\n")));
        assert_eq!((response.framing, response.text().as_str()), (Framing::Chunked, "YWJj"), "{response:?}");
    }
    gateway.reconcile_with(|| origin.count());
}

#[test]
fn only_on_configured_routes_and_to_http2() {
    let (h1, h2) = (Origin::echo(), origin());
    let gateway = Gateway::start(&format!(
        "routes:\n- {{match: /a.B/C, to: \"h2c://{}\"}}\n- {{match: /a.B/D, to: \"{}\", grpc_web: on}}\n",
        h2.address(),
        h1.address()
    ));
    let mut client = gateway.client();
    let untouched = client.ask(format!("{}{TEXT}", head("web-text", "Content-Length: 16\r\n")));
    assert_eq!(untouched.header("content-type"), Some("application/grpc+proto"), "{untouched:?}");
    assert_eq!(h2.request().headers.get("content-type"), Some("application/grpc-web-text+proto"));
    let request = head("web", "Content-Length: 10\r\n").replace("/a.B/C", "/a.B/D");
    let refused = client.ask([request.as_bytes(), MESSAGE].concat());
    assert_eq!((refused.status, refused.header("grpc-status")), (200, Some("12")), "{refused:?}");
    assert_eq!(refused.header("content-type"), Some("application/grpc-web"));
    assert_eq!(h1.count(), 0);
}

#[test]
fn an_expired_deadline_is_reported_in_the_head() {
    let origin = origin();
    let gateway = gateway(&origin);
    let assert_late = |late: &Response, kind: &str| {
        assert_eq!((late.status, late.header("content-type")), (200, Some(kind)), "{late:?}");
        assert_eq!((late.header("grpc-status"), late.reason()), (Some("4"), "request_timeout"), "{late:?}");
        assert_eq!(late.header("grpc-message"), Some("504 Gateway Timeout: request_timeout"));
        assert!(late.body.is_empty() && late.trailers.0.is_empty(), "{late:?}");
    };
    let mut http2 = gateway.http2();
    let fields = [("content-type", "application/grpc-web+proto"), ("grpc-timeout", "2S")];
    let mut stream = http2.begin(request("POST", "/a.B/Late", &fields), false).expect("begun");
    stream.send(MESSAGE, true).expect("sent");
    let mut client = gateway.client();
    let ask = |kind: &str, length: usize| {
        let more = format!("grpc-timeout: 2S\r\nContent-Length: {length}\r\n");
        head(kind, &more).replace("/a.B/C", "/a.B/Late")
    };
    let late = client.ask([ask("web", MESSAGE.len()).as_bytes(), MESSAGE].concat());
    assert_late(&late, "application/grpc-web");
    // The connection stays open.
    let late = client.ask(ask("web-text", TEXT.len()) + TEXT);
    assert_late(&late, "application/grpc-web-text");
    assert_late(&stream.response().expect("an answer"), "application/grpc-web");
    eventually("the endpoint to be told", || origin.resets().len() == 3);
    for call in origin.requests() {
        // The remaining time, in a finer unit.
        let reported = call.headers.get("grpc-timeout").expect("a deadline");
        assert!(reported.ends_with(['u', 'n']), "{call:?}");
    }
    let records = gateway.wait_records(3);
    assert!(records.iter().all(|record| record["grpc_status"] == 4), "{records:?}");
    gateway.reconcile_with(|| origin.count());
}

#[test]
fn a_deadline_that_passes_behind_a_message_cuts_the_body() {
    let origin = origin();
    let gateway = gateway(&origin);
    let mut http2 = gateway.http2();
    let fields = [("content-type", "application/grpc-web+proto"), ("grpc-timeout", "2S")];
    let mut stream = http2.begin(request("POST", "/a.B/Stall", &fields), false).expect("begun");
    stream.send(MESSAGE, true).expect("sent");
    let mut client = gateway.client();
    let ask = head("web", "grpc-timeout: 2S\r\nContent-Length: 10\r\n").replace("/a.B/C", "/a.B/Stall");
    client.send([ask.as_bytes(), MESSAGE].concat());
    assert_eq!(stream.head().expect("a head").status, 200);
    assert_eq!(stream.data().expect("a message").as_deref(), Some(MESSAGE));
    let mut response = client.head();
    assert_eq!((response.status, response.framing), (200, Framing::Chunked));
    assert_eq!(client.try_body(&mut response), Err(ReadError::Truncated));
    assert_eq!(response.body, MESSAGE, "no trailers: nobody takes it for whole");
    assert_eq!(stream.data(), Err(Cut::Reset(Reason::INTERNAL_ERROR)));
    let records = gateway.wait_records(2);
    assert!(records.iter().all(|record| record["reason"] == "request_timeout"), "{records:?}");
}

#[test]
fn a_call_is_tried_again_by_its_code() {
    let turn = AtomicU32::new(0);
    let origin = Http2Origin::play(move |stream| {
        stream.body();
        let kind = ("content-type", "application/grpc+proto");
        if turn.fetch_add(1, Ordering::SeqCst).is_multiple_of(2) {
            let code = stream.request.headers.get("x-want").unwrap_or("14").to_owned();
            return stream.head(200, &[kind, ("grpc-status", &code)], true);
        }
        stream.head(200, &[kind], false);
        stream.send(MESSAGE, false);
        stream.trailers(&[("grpc-status", "0"), ("grpc-message", "ok")]);
    });
    let gateway = Gateway::start(&format!(
        "routes: [{{match: \"/*\", to: u, grpc_web: on, buffer: {{request: 1KiB}}}}]\nupstreams: {{u: {{endpoints: \"h2c://{}\", \
         outlier: off, retry: {{on: [unavailable], backoff: 1ms}}}}}}",
        origin.address()
    ));
    let mut client = gateway.client();
    let answer = client.ask(head("web-text", "Content-Length: 16\r\n") + TEXT);
    assert_eq!((decoded(&answer.body), origin.count()), (whole(), 2), "{answer:?}");
    let mut http2 = gateway.http2();
    let fields = [("content-type", "application/grpc-web+proto")];
    let mut stream = http2.begin(request("POST", "/a.B/C", &fields), false).expect("begun");
    stream.send(MESSAGE, true).expect("sent");
    assert_eq!((stream.response().expect("an answer").body, origin.count()), (whole(), 4));
    // The endpoint received the same call each time.
    (0..4).for_each(|index| assert_call(&origin, index));
    let failed = client.ask(head("web-text", "X-Want: 13\r\nContent-Length: 16\r\n") + TEXT);
    assert_eq!((failed.header("grpc-status"), origin.count()), (Some("13"), 5), "no code to try again by");
    let records = gateway.wait_records(3);
    let reported: Vec<_> =
        records.iter().map(|record| format!("{} {}", record["attempts"], record["grpc_status"])).collect();
    assert_eq!(reported, ["2 0", "2 0", "1 13"]);
    gateway.reconcile_with(|| origin.count());
}

#[test]
fn cors_admits_pages_of_another_origin() {
    let origin = origin();
    let gateway = Gateway::start(&format!(
        "routes:\n- match: {{grpc: a.B}}\n  to: \"h2c://{}\"\n  grpc_web: on\n  policies:\n    cors: {{origins: https://app.example, \
         headers: [Content-Type, X-Grpc-Web], expose: [Grpc-Status, Grpc-Message]}}\n",
        origin.address()
    ));
    let asks = [
        ("origin", "https://app.example"),
        ("access-control-request-method", "POST"),
        ("access-control-request-headers", "content-type,x-grpc-web"),
    ];
    let lines: String = asks.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    let mut client = gateway.client();
    let of_http_1 = client.ask(format!("OPTIONS /a.B/C HTTP/1.1\r\nHost: a.example\r\n{lines}\r\n"));
    let of_http_2 = gateway.http2().ask(request("OPTIONS", "/a.B/C", &asks));
    for preflight in [of_http_1, of_http_2] {
        assert_eq!((preflight.status, preflight.body.len()), (204, 0), "{preflight:?}");
        for (name, value) in [
            ("access-control-allow-origin", "https://app.example"),
            ("access-control-allow-methods", "GET, HEAD, POST"),
            ("access-control-allow-headers", "Content-Type, X-Grpc-Web"),
        ] {
            assert_eq!(preflight.headers.all(name), [value], "{preflight:?}");
        }
    }
    assert_eq!(origin.count(), 0, "it goes no further");
    let own = "Origin: https://app.example\r\nX-Grpc-Web: 1\r\nContent-Length: 16\r\n";
    let answer = client.ask(head("web-text", own) + TEXT);
    assert_eq!(decoded(&answer.body), whole());
    // If there is no message, the page reads the status in the head.
    let failed = client.ask(head("web-text", own).replace("/a.B/C", "/a.B/Fail") + TEXT);
    assert_eq!(failed.header("grpc-status"), Some("7"), "{failed:?}");
    for answer in [answer, failed] {
        assert_eq!(answer.headers.all("access-control-allow-origin"), ["https://app.example"], "{answer:?}");
        let exposed = answer.headers.all("access-control-expose-headers");
        assert_eq!(exposed, ["Grpc-Status, Grpc-Message"], "{answer:?}");
    }
    gateway.reconcile_with(|| origin.count());
}
