//! `compression`: smaller response bodies for clients that accept an encoding.

use std::io::Read;

use tollgate_tests::{Gateway, Origin, Response, eventually, http2};

const ON: &str = "policies: {compression: {encodings: gzip, min_length: 20}}";

fn text() -> String {
    "a line of text\n".repeat(1_000)
}

fn origin(fields: &str) -> Origin {
    let text = text();
    Origin::fixed(format!("HTTP/1.1 200 OK\r\n{fields}Content-Length: {}\r\n\r\n{text}", text.len()))
}

fn ask(accepts: &str) -> String {
    format!("GET / HTTP/1.1\r\nHost: a\r\nAccept-Encoding: {accepts}\r\n\r\n")
}

/// Decodes a body with the tests' own decoder.
fn plain(answer: &Response) -> String {
    let mut out = String::new();
    flate2::read::GzDecoder::new(answer.body.as_slice()).read_to_string(&mut out).expect("gzip");
    out
}

#[test]
fn a_client_that_takes_it_gets_it() {
    let origin = origin("Content-Type: text/plain\r\nETag: \"a\"\r\nAccept-Ranges: bytes\r\n");
    let gateway = Gateway::with(&origin, ON);
    let mut client = gateway.client();
    for _ in 0..2 {
        let answer = client.ask(ask("br, gzip;q=0.5"));
        assert_eq!((answer.status, answer.headers.get("Content-Encoding")), (200, Some("gzip")));
        assert_eq!(
            (answer.headers.get("ETag"), answer.headers.get("Vary")),
            (Some("W/\"a\""), Some("Accept-Encoding"))
        );
        assert!(!answer.headers.has("Content-Length") && !answer.headers.has("Accept-Ranges"), "{answer:?}");
        assert!(answer.body.len() < 1_000 && plain(&answer) == text());
    }
    for accepts in ["identity", "gzip;q=0", "", "zstd"] {
        let answer = client.ask(ask(accepts));
        assert!(!answer.headers.has("Content-Encoding"), "{accepts}");
        assert_eq!((answer.text(), answer.headers.get("Vary")), (text(), Some("Accept-Encoding")));
        assert_eq!(answer.headers.get("ETag"), Some("\"a\""));
    }
    let mut client = gateway.http2();
    let answer = client.ask(http2::request("GET", "/", &[("accept-encoding", "gzip")]));
    assert!(answer.headers.get("content-encoding") == Some("gzip") && plain(&answer) == text());
    gateway.reconcile(&[&origin]);
}

#[test]
fn the_level_can_be_set() {
    let words = (0..4_000_u32).map(|n| format!("{:x} ", n.wrapping_mul(2_654_435_761) % 5_003));
    let text: String = words.collect();
    let origin = Origin::fixed(format!(
        "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: {}\r\n\r\n{text}",
        text.len()
    ));
    for encoding in ["gzip", "br", "zstd"] {
        let size = |level: &str| {
            let gateway = Gateway::with(
                &origin,
                &format!("policies: {{compression: {{encodings: {encoding}, level: {level}}}}}"),
            );
            let answer = gateway.client().ask(ask(encoding));
            assert_eq!(answer.headers.get("Content-Encoding"), Some(encoding));
            answer.body.len()
        };
        let (quick, hard) = (size("1"), size("9"));
        assert!(hard < quick, "{encoding}: {quick} at level 1, {hard} at level 9");
        assert_eq!(size(&format!("{{{encoding}: 9}}")), hard, "{encoding}");
    }
}

#[test]
fn all_encodings_by_the_clients_liking() {
    let origin = origin("Content-Type: application/json\r\n");
    let gateway = Gateway::with(&origin, "policies: {compression: on}");
    let mut client = gateway.client();
    for (accepts, encoding) in
        [("gzip, deflate, br, zstd", "zstd"), ("gzip, deflate, br", "br"), ("zstd;q=0.1, gzip", "gzip")]
    {
        let answer = client.ask(ask(accepts));
        assert_eq!(answer.headers.get("Content-Encoding"), Some(encoding));
        assert!(answer.body.len() < 1_000, "{encoding}: {}", answer.body.len());
    }
}

#[test]
fn uncompressible_responses_are_unchanged() {
    for fields in [
        "Content-Type: image/png\r\n",
        "Content-Type: text/plain\r\nContent-Encoding: br\r\n",
        "Content-Type: text/plain\r\nCache-Control: no-transform\r\n",
    ] {
        let origin = origin(fields);
        let answer = Gateway::with(&origin, ON).client().ask(ask("gzip"));
        assert!(
            answer.text() == text() && answer.headers.get("Content-Encoding") != Some("gzip"),
            "{fields}"
        );
        assert_eq!(answer.headers.get("Content-Length"), Some("15000"));
    }
    let origin = origin("Content-Type: text/plain\r\n");
    let gateway = Gateway::with(&origin, ON);
    let mut client = gateway.client();
    // The answer to HEAD does not announce a length that a GET would not get.
    for (accepts, length) in [("gzip", None), ("identity", Some("15000"))] {
        client.send(format!("HEAD / HTTP/1.1\r\nHost: a\r\nAccept-Encoding: {accepts}\r\n\r\n"));
        let head = client.response_to("HEAD");
        assert!(
            !head.headers.has("Content-Encoding") && head.headers.get("Content-Length") == length,
            "{head:?}"
        );
    }
    // The gateway's own answers are not compressed, also not for HEAD.
    let own = format!(
        "policies: {{compression: on}}\nroutes: [{{match: \"/*\", respond: {}}}]\n",
        "x".repeat(2000)
    );
    let gateway = Gateway::start(&own);
    for (method, bytes) in [("GET", 2000), ("HEAD", 0)] {
        let mut client = gateway.client();
        client.send(format!("{method} / HTTP/1.1\r\nHost: a\r\nAccept-Encoding: gzip\r\n\r\n"));
        let answer = client.response_to(method);
        assert_eq!(
            (answer.headers.get("Content-Length"), answer.body.len()),
            (Some("2000"), bytes),
            "{answer:?}"
        );
    }
    for status in [
        "204 No Content\r\nContent-Type: text/plain\r\n\r\n",
        "304 Not Modified\r\nContent-Type: text/plain\r\nETag: \"a\"\r\n\r\n",
    ] {
        let origin = Origin::fixed(format!("HTTP/1.1 {status}"));
        let answer = Gateway::with(&origin, ON).client().ask(ask("gzip"));
        assert!(answer.body.is_empty() && !answer.headers.has("Content-Encoding"), "{answer:?}");
    }
    let partial = "HTTP/1.1 206 Partial\r\nContent-Type: text/plain\r\nContent-Range: bytes 0-29/90\r\nContent-Length: 30\r\n\r\n";
    let origin = Origin::fixed(format!("{partial}{}", "x".repeat(30)));
    let answer = Gateway::with(&origin, ON).client().ask(ask("gzip"));
    assert!(
        answer.body == "x".repeat(30).as_bytes() && !answer.headers.has("Content-Encoding"),
        "{answer:?}"
    );
}

/// Starts an origin with one page with the tag `"a"`. A client that already has it gets a 304. The origin
/// compares tags weakly, as RFC 9110, 13.1.2 requires.
fn with_a_tag() -> Origin {
    Origin::play(|connection| {
        while let Some(request) = connection.request() {
            let known = request.headers.get("If-None-Match").unwrap_or_default();
            if known.trim_start_matches("W/") == "\"a\"" {
                connection.send("HTTP/1.1 304 Not Modified\r\nETag: \"a\"\r\n\r\n");
                continue;
            }
            let text = text();
            let length = text.len();
            let fields = format!("Content-Type: text/plain\r\nETag: \"a\"\r\nContent-Length: {length}\r\n");
            let body = if request.method == "HEAD" { "" } else { text.as_str() };
            connection.send(format!("HTTP/1.1 200 OK\r\n{fields}\r\n{body}"));
        }
    })
}

#[test]
fn a_304_has_the_tag_that_the_client_sent() {
    let origin = with_a_tag();
    let gateway = Gateway::with(&origin, ON);
    let mut client = gateway.client();
    let says = |answer: &Response| {
        let all = |name| answer.headers.all(name).join("; ");
        (answer.status, all("ETag"), all("Vary"))
    };
    for (accepts, tag) in [("gzip", "W/\"a\""), ("identity", "\"a\"")] {
        let expected = |status| (status, tag.to_owned(), "Accept-Encoding".to_owned());
        assert_eq!(says(&client.ask(ask(accepts))), expected(200));
        let fields = format!("Host: a\r\nAccept-Encoding: {accepts}\r\n");
        let again = client.ask(format!("GET / HTTP/1.1\r\n{fields}If-None-Match: {tag}\r\n\r\n"));
        assert_eq!(says(&again), expected(304));
        client.send(format!("HEAD / HTTP/1.1\r\n{fields}\r\n"));
        assert_eq!(says(&client.response_to("HEAD")), expected(200));
        let fields = [("accept-encoding", accepts), ("if-none-match", tag)];
        assert_eq!(says(&gateway.http2().ask(http2::request("GET", "/", &fields))), expected(304));
    }
    gateway.reconcile(&[&origin]);
}

#[test]
fn a_304_by_a_route_without_the_policy_stays_as_it_is() {
    let origin = with_a_tag();
    let gateway = Gateway::to(&origin);
    let ask = "GET / HTTP/1.1\r\nHost: a\r\nAccept-Encoding: gzip\r\nIf-None-Match: \"a\"\r\n\r\n";
    let answer = gateway.client().ask(ask);
    assert_eq!((answer.status, answer.headers.get("ETag")), (304, Some("\"a\"")));
    assert!(!answer.headers.has("Vary"), "{answer:?}");
}

#[test]
fn an_old_client_and_a_body_of_unknown_length() {
    let origin = Origin::fixed(
        "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n6\r\n world\r\n0\r\n\r\n",
    );
    let gateway = Gateway::with(&origin, ON);
    let answer = gateway.client().ask(ask("gzip"));
    assert_eq!(plain(&answer), "hello world");
    let old = gateway.client().ask("GET / HTTP/1.0\r\nHost: a\r\nAccept-Encoding: gzip\r\n\r\n");
    assert_eq!(old.text(), "hello world");
}

#[test]
fn a_stream_does_not_wait() {
    let gate = tollgate_tests::Gate::new();
    let held = gate.clone();
    let origin = Origin::play(move |connection| {
        while connection.request().is_some() {
            connection.send("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n9\r\ndata: 1\n\n\r\n");
            held.wait();
            connection.send("9\r\ndata: 2\n\n\r\n0\r\n\r\n");
        }
    });
    let gateway = Gateway::with(&origin, ON);
    let mut client = gateway.http2();
    let mut stream =
        client.begin(http2::request("GET", "/", &[("accept-encoding", "gzip")]), true).expect("a stream");
    stream.head().expect("a head");
    let mut got = Vec::new();
    let mut first = String::new();
    eventually("the first event, decoded, while the second is held back", || {
        got.extend_from_slice(&stream.data().expect("no cut").expect("not the end"));
        let mut buffer = [0; 64];
        let count = flate2::read::GzDecoder::new(got.as_slice()).read(&mut buffer).unwrap_or(0);
        first = String::from_utf8_lossy(&buffer[..count]).into_owned();
        count > 0
    });
    assert_eq!(first, "data: 1\n\n");
    gate.open();
    while let Some(data) = stream.data().expect("no cut") {
        got.extend_from_slice(&data);
    }
    let mut all = String::new();
    flate2::read::GzDecoder::new(got.as_slice()).read_to_string(&mut all).expect("gzip");
    assert_eq!(all, "data: 1\n\ndata: 2\n\n");
}
