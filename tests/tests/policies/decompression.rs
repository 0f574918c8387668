//! `decompression`: the gateway decodes encoded bodies.

use std::io::{Read, Write};

use tollgate_tests::{Gate, Gateway, Origin, eventually, http2};

const REQUESTS: &str = "policies: {decompression: {responses: off, limit: 1MiB}}";
const RESPONSES: &str = "policies: {decompression: {requests: off, response_limit: 1MiB}}";

fn gzip(data: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    encoder.write_all(data).expect("memory");
    encoder.finish().expect("memory")
}

fn text() -> String {
    (0..20_000).map(|n| format!("line {n}\n")).collect()
}

fn head(framing: &str) -> Vec<u8> {
    format!("POST /x HTTP/1.1\r\nHost: a\r\nContent-Encoding: gzip\r\nContent-Digest: x=:AA==:\r\n{framing}\r\n\r\n")
        .into_bytes()
}

#[test]
fn a_request_goes_upstream_decoded() {
    let origin = Origin::echo();
    let gateway = Gateway::with(&origin, REQUESTS);
    for text in ["hello".to_owned(), text(), String::new()] {
        let encoded = gzip(text.as_bytes());
        let (begin, rest) = encoded.split_at(encoded.len() / 2);
        let expected = format!("POST /x {text}");
        let mut client = gateway.client();
        // Whole, in pieces, chunked, followed directly by the next request, and once more on the same
        // connection.
        let whole = [&head(&format!("Content-Length: {}", encoded.len())), &encoded[..]].concat();
        assert!(client.ask(&whole).text() == expected);
        client.send(&whole[..whole.len() - 3]);
        eventually("some of it is read", || origin.bytes_received() > 0);
        client.send([&whole[whole.len() - 3..], b"GET /next HTTP/1.1\r\nHost: a\r\n\r\n"].concat());
        assert!(client.response().text() == expected);
        assert_eq!(client.response().text(), "GET /next ");
        let mut chunked = head("Transfer-Encoding: chunked");
        for piece in [begin, rest] {
            chunked.extend_from_slice(format!("{:x}\r\n", piece.len()).as_bytes());
            chunked.extend_from_slice(piece);
            chunked.extend_from_slice(b"\r\n");
        }
        chunked.extend_from_slice(b"0\r\nX-T: 1\r\n\r\n");
        assert!(client.ask(&chunked).text() == expected);
        let mut second = gateway.http2();
        let fields = [("content-encoding", "gzip")];
        let mut stream = second.begin(http2::request("POST", "/x", &fields), false).expect("a stream");
        stream.send(begin.to_vec(), false).expect("sent");
        stream.send(rest.to_vec(), true).expect("sent");
        assert!(stream.response().expect("an answer").text() == expected);
    }
    for request in origin.requests().iter().filter(|request| request.method == "POST") {
        assert!(
            !request.headers.has("Content-Encoding") && !request.headers.has("Content-Digest"),
            "{request:?}"
        );
    }
    // A body without an encoding, or with another one, stays as it is.
    let mut client = gateway.client();
    assert_eq!(client.post("/x", b"plain").text(), "POST /x plain");
    let other = b"POST /x HTTP/1.1\r\nHost: a\r\nContent-Encoding: compress\r\nContent-Length: 3\r\n\r\nabc";
    assert_eq!(client.ask(other).text(), "POST /x abc");
    assert_eq!(
        origin
            .requests()
            .last()
            .and_then(|request| request.headers.get("Content-Encoding").map(str::to_owned))
            .as_deref(),
        Some("compress")
    );
    gateway.reconcile(&[&origin]);
}

#[test]
fn a_request_that_becomes_too_large_or_is_broken_is_refused() {
    let origin = Origin::echo();
    let gateway = Gateway::with(&origin, REQUESTS);
    let bomb = gzip(&vec![0; 64 << 20]);
    let large =
        gzip(&(0..400_000_u32).flat_map(|n| n.wrapping_mul(2_654_435_761).to_le_bytes()).collect::<Vec<_>>());
    let good = gzip(text().as_bytes());
    let cut = &good[..good.len() - 5];
    let followed = [&good[..], b"and more of it"].concat();
    for (body, status, reason) in [
        (&bomb[..], 413, "body_too_large"),
        (&large, 413, "body_too_large"),
        (cut, 400, "bad_content_coding"),
        (&followed, 400, "bad_content_coding"),
        (b"this is plain text", 400, "bad_content_coding"),
    ] {
        let mut client = gateway.client();
        client.send([&head(&format!("Content-Length: {}", body.len())), body].concat());
        let answer = client.response();
        assert_eq!((answer.status, answer.reason()), (status, reason));
        let mut second = gateway.http2();
        let fields = [("content-encoding", "gzip")];
        let mut stream = second.begin(http2::request("POST", "/x", &fields), false).expect("a stream");
        // The gateway may have answered before the whole body was sent.
        let _ = stream.send(body.to_vec(), true);
        let answer = stream.response().expect("an answer");
        assert_eq!((answer.status, answer.reason()), (status, reason));
    }
    assert!(origin.bytes_received() < 16 << 20);
}

fn says(fields: &str, body: &[u8]) -> Origin {
    let head = format!("HTTP/1.1 200 OK\r\n{fields}Content-Length: {}\r\n\r\n", body.len());
    Origin::fixed([head.as_bytes(), body].concat())
}

fn ask(accepts: &str) -> String {
    format!("GET / HTTP/1.1\r\nHost: a\r\n{accepts}\r\n")
}

#[test]
fn a_client_that_does_not_take_it_gets_it_plain() {
    let encoded = gzip(text().as_bytes());
    let origin = says("Content-Encoding: gzip\r\nContent-Type: text/plain\r\nETag: \"a\"\r\n", &encoded);
    let gateway = Gateway::with(&origin, RESPONSES);
    let mut client = gateway.client();
    for accepts in ["", "Accept-Encoding: br\r\n", "Accept-Encoding: gzip;q=0\r\n"] {
        let answer = client.ask(ask(accepts));
        assert!(answer.text() == text(), "{accepts}");
        assert!(
            !answer.headers.has("Content-Encoding") && !answer.headers.has("Content-Length"),
            "{answer:?}"
        );
        assert_eq!(
            (answer.headers.get("Vary"), answer.headers.get("ETag")),
            (Some("Accept-Encoding"), Some("W/\"a\""))
        );
    }
    let answer = client.ask(ask("Accept-Encoding: gzip\r\n"));
    assert_eq!(
        (answer.headers.get("Content-Encoding"), answer.headers.get("Vary")),
        (Some("gzip"), Some("Accept-Encoding"))
    );
    assert!(answer.body == encoded);
    let answer = gateway.http2().ask(http2::request("GET", "/", &[]));
    assert!(answer.text() == text() && !answer.headers.has("content-encoding"));
    gateway.reconcile(&[&origin]);
    // From one encoding to another.
    let both =
        Gateway::with(&origin, "policies: {decompression: on, compression: {encodings: [zstd, gzip]}}");
    let answer = both.client().ask(ask("Accept-Encoding: zstd\r\n"));
    assert_eq!(answer.headers.get("Content-Encoding"), Some("zstd"));
    assert_eq!(answer.headers.all("Vary"), ["Accept-Encoding"]);
    assert!(answer.body.starts_with(&[0x28, 0xb5, 0x2f, 0xfd]), "zstd's magic number");
}

#[test]
fn a_response_that_becomes_too_large_or_is_broken_is_cut() {
    let bomb = gzip(&vec![0; 64 << 20]);
    let good = gzip(text().as_bytes());
    for (body, reason) in [
        (&bomb[..], "http_response_body_size"),
        (&good[..good.len() - 5], "http_response_content_coding"),
        (b"this is plain text", "http_response_content_coding"),
    ] {
        let origin = says("Content-Encoding: gzip\r\n", body);
        let gateway = Gateway::with(&origin, RESPONSES);
        let mut client = gateway.client();
        client.send(ask(""));
        assert!(client.try_response("GET").is_err(), "{reason}");
        let mut second = gateway.http2();
        assert!(second.try_ask(http2::request("GET", "/", &[])).is_err(), "{reason}");
        let records = gateway.wait_records(2);
        assert!(records.iter().all(|record| record["reason"] == reason), "{records:?}");
    }
}

#[test]
fn a_stream_does_not_wait() {
    let gate = Gate::default();
    let held = gate.clone();
    let origin = Origin::play(move |connection| {
        if connection.request().is_none() {
            return;
        }
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(b"data: 1\n\n").expect("memory");
        encoder.flush().expect("memory");
        let first = std::mem::take(encoder.get_mut());
        encoder.write_all(b"data: 2\n\n").expect("memory");
        let second = encoder.finish().expect("memory");
        let chunk = |piece: &[u8]| [format!("{:x}\r\n", piece.len()).as_bytes(), piece, b"\r\n"].concat();
        connection.send("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n\r\n");
        connection.send(chunk(&first));
        held.wait();
        connection.send(chunk(&second));
        connection.send("0\r\n\r\n");
    });
    let gateway = Gateway::with(&origin, RESPONSES);
    let mut client = gateway.http2();
    let mut stream = client.begin(http2::request("GET", "/", &[]), true).expect("a stream");
    stream.head().expect("a head");
    let mut got = Vec::new();
    while got.len() < 9 {
        got.extend_from_slice(&stream.data().expect("no cut").expect("not the end"));
    }
    assert_eq!(got, b"data: 1\n\n", "while the second is held back");
    gate.open();
    while let Some(data) = stream.data().expect("no cut") {
        got.extend_from_slice(&data);
    }
    assert_eq!(got, b"data: 1\n\ndata: 2\n\n");
    // A foreign decoder can read the output of the tests' own encoder.
    let mut plain = String::new();
    flate2::read::GzDecoder::new(gzip(b"x").as_slice()).read_to_string(&mut plain).expect("gzip");
    assert_eq!(plain, "x");
}
