//! Bodies of requests: every framing, streaming, back-pressure.

use std::time::Duration;

use tollgate_tests::{Framing, Gate, Gateway, Origin, ReadError, eventually};

use super::{chunked, pattern};

#[test]
fn every_framing_arrives() {
    let cases: &[(&str, &str, Framing, &str)] = &[
        ("POST", "Content-Length: 5\r\n\r\nhello", Framing::Length(5), "hello"),
        ("POST", "Content-Length: 0\r\n\r\n", Framing::Length(0), ""),
        ("POST", "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n", Framing::Chunked, "hello"),
        ("POST", "Transfer-Encoding: CHUNKED\r\n\r\n5\r\nhello\r\n0\r\n\r\n", Framing::Chunked, "hello"),
        ("POST", "transfer-encoding:chunked\r\n\r\n0005\r\nhello\r\n000\r\n\r\n", Framing::Chunked, "hello"),
        (
            "POST",
            "Transfer-Encoding: chunked\r\n\r\n2;x\r\nhe\r\n3;y=\"z;\"\r\nllo\r\n0;end\r\n\r\n",
            Framing::Chunked,
            "hello",
        ),
        (
            "POST",
            "Transfer-Encoding: chunked\r\n\r\na\r\n0123456789\r\nA\r\n0123456789\r\n0\r\n\r\n",
            Framing::Chunked,
            "01234567890123456789",
        ),
        ("POST", "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n", Framing::Chunked, ""),
        ("GET", "Content-Length: 5\r\n\r\nhello", Framing::Length(5), "hello"),
        ("HEAD", "Content-Length: 5\r\n\r\nhello", Framing::Length(5), "hello"),
        ("GET", "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n", Framing::Chunked, "hello"),
        ("DELETE", "Content-Length: 5\r\n\r\nhello", Framing::Length(5), "hello"),
        ("OPTIONS", "Content-Length: 5\r\n\r\nhello", Framing::Length(5), "hello"),
        ("PROPFIND", "Content-Length: 5\r\n\r\nhello", Framing::Length(5), "hello"),
        ("GET", "\r\n", Framing::None, ""),
    ];
    let origin = Origin::echo();
    let gateway = Gateway::to(&origin);
    let mut client = gateway.client();
    for (i, (method, rest, framing, body)) in cases.iter().enumerate() {
        let message = format!("{method} /{i} HTTP/1.1\r\nHost: a\r\n{rest}");
        for dribbled in [false, true] {
            if dribbled {
                client.dribble(&message);
            } else {
                client.send(&message);
            }
            let response = client.response_to(method);
            assert_eq!(response.status, 200, "{message:?}");
            let request = origin.requests().pop().expect("a request");
            assert_eq!(String::from_utf8_lossy(&request.body), *body, "{message:?}");
            assert_eq!(request.framing, *framing, "{message:?}");
            assert_eq!((request.method.as_str(), request.complete), (*method, true));
        }
    }
    assert_eq!(origin.connections(), 1);
    gateway.reconcile(&[&origin]);
}

#[test]
fn every_split_of_a_request_gives_the_same() {
    let origin = Origin::echo();
    let gateway = Gateway::to(&origin);
    for message in [
        "POST /chunked?x=1 HTTP/1.1\r\nHost: a.example\r\nX-A: b\r\nTransfer-Encoding: chunked\r\n\r\n3;e=\"q\"\r\nabc\r\n0\r\nT: v\r\n\r\n",
        "PUT /length HTTP/1.1\r\nHost: a.example\r\nContent-Length: 3\r\n\r\nabc",
    ] {
        let mut client = gateway.client();
        for at in 1..message.len() {
            client.send(&message[..at]);
            std::thread::sleep(Duration::from_micros(300));
            client.send(&message[at..]);
            let response = client.response();
            assert_eq!(response.status, 200, "split at {at}");
            assert!(response.text().ends_with(" abc"), "split at {at}: {:?}", response.text());
        }
    }
    gateway.reconcile(&[&origin]);
}

#[test]
fn trailers_reach_the_origin() {
    let origin = Origin::echo();
    let gateway = Gateway::to(&origin);
    let message = "POST / HTTP/1.1\r\nHost: a\r\nTrailer: X-Sum\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\nX-Sum: 7\r\n\r\n";
    assert_eq!(gateway.client().ask(message).status, 200);
    assert_eq!(origin.request().trailers.get("X-Sum"), Some("7"));
}

#[test]
fn trailers_that_would_change_the_message_do_not_get_through() {
    // RFC 9110, section 6.5.1: fields for framing, routing and authentication must not be in a trailer.
    for field in ["Content-Length: 5", "Transfer-Encoding: chunked", "Host: evil", "X-Forwarded-For: 1.2.3.4"]
    {
        let origin = Origin::echo();
        let gateway = Gateway::to(&origin);
        let mut client = gateway.client();
        let response = client.ask(format!(
            "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n{field}\r\n\r\n"
        ));
        assert!(response.status == 200 || response.status == 400, "{field}: {response:?}");
        let name = field.split(':').next().expect("a name");
        for request in origin.requests() {
            assert!(!request.trailers.has(name), "{field}: {request:?}");
        }
        gateway.reconcile(&[&origin]);
    }
}

#[test]
fn a_large_upload_is_byte_exact_in_little_memory() {
    const SIZE: usize = 64 << 20;
    let body = pattern(SIZE);
    for framing in ["length", "chunked"] {
        let sum = |bytes: &[u8], sum: u64| {
            bytes.iter().fold(sum, |s, b| s.wrapping_mul(31).wrapping_add(u64::from(*b)))
        };
        let origin = Origin::play(move |conn| {
            while let Some(head) = conn.head() {
                let (mut total, mut length) = (0, 0);
                let outcome = conn.wire().body(head.framing, |piece| {
                    total = sum(piece, total);
                    length += piece.len();
                });
                assert!(outcome.is_ok(), "{outcome:?}");
                conn.ok(&format!("{length} {total}"));
            }
        });
        let gateway = Gateway::to(&origin);
        let mut client = gateway.client();
        if framing == "length" {
            client.send(format!("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: {SIZE}\r\n\r\n"));
            client.send(&body);
        } else {
            client.send("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n");
            client.send(chunked(&body, 123_456));
        }
        assert_eq!(client.response().text(), format!("{SIZE} {}", sum(&body, 0)), "{framing}");
        assert!(gateway.peak_kib() < 32 << 10, "{framing}: {} KiB", gateway.peak_kib());
        gateway.reconcile(&[&origin]);
    }
}

#[test]
fn an_origin_that_does_not_read_holds_the_client_back() {
    let gate = Gate::new();
    let opened = gate.clone();
    let origin = Origin::play(move |conn| {
        conn.head();
        opened.wait();
    });
    let gateway = Gateway::to(&origin);
    let mut client = gateway.client();
    client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000000\r\n\r\n");
    let stream = client.wire().stream().expect("open").try_clone().expect("clone");
    let written = stall(&stream);
    assert!(written < 64 << 20, "the gateway took {written} bytes that nobody reads");
    assert!(gateway.peak_kib() < 32 << 10, "{} KiB", gateway.peak_kib());
    drop(stream);
    client.reset();
    gate.open();
}

/// Writes until the peer accepts nothing for a while. Returns how many bytes it accepted.
fn stall(mut stream: &std::net::TcpStream) -> usize {
    use std::io::Write;
    stream.set_write_timeout(Some(Duration::from_millis(300))).expect("timeout");
    let piece = [b'x'; 65536];
    let mut written = 0;
    while let Ok(n) = stream.write(&piece) {
        written += n;
        assert!(written < 500_000_000, "no back-pressure");
    }
    written
}

#[test]
fn a_body_streams_to_the_origin_as_it_comes() {
    let origin = Origin::echo();
    let gateway = Gateway::to(&origin);
    let mut client = gateway.client();
    client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\n01234");
    eventually("the first half at the origin", || {
        origin.connections() == 1 && origin.bytes(0).ends_with(b"01234")
    });
    client.send("56789");
    assert_eq!(client.response().text(), "POST / 0123456789");

    client.send("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nabcde\r\n");
    eventually("the first chunk at the origin", || origin.bytes(0).ends_with(b"abcde\r\n"));
    client.send("0\r\n\r\n");
    assert_eq!(client.response().text(), "POST / abcde");
    gateway.reconcile(&[&origin]);
}

#[test]
fn the_answer_flows_before_the_request_has_ended() {
    let origin = Origin::play(|conn| {
        while let Some(mut request) = conn.head() {
            let first = conn.wire().take(5);
            conn.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nearly\r\n");
            request.framing = Framing::Length(5);
            if first.is_err() || !conn.body(&mut request) {
                return;
            }
            conn.send("4\r\nlate\r\n0\r\n\r\n");
        }
    });
    let gateway = Gateway::to(&origin);
    for _ in 0..2 {
        let mut client = gateway.client();
        client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\n01234");
        let head = client.head();
        assert_eq!(head.status, 200);
        assert_eq!(client.wire().chunk(), Ok(Ok(b"early".to_vec())));
        client.send("56789");
        assert_eq!(client.wire().chunk(), Ok(Ok(b"late".to_vec())));
        assert!(matches!(client.wire().chunk(), Ok(Err(_))));
    }
    assert_eq!(origin.connections(), 1);
    gateway.reconcile(&[&origin]);
}

#[test]
fn a_cut_request_is_never_completed() {
    for (message, cut) in [
        ("Content-Length: 10\r\n\r\n01234", "half of a length"),
        ("Transfer-Encoding: chunked\r\n\r\n5\r\n01234\r\n", "before the last chunk"),
        ("Transfer-Encoding: chunked\r\n\r\n5\r\n012", "within a chunk"),
        ("Transfer-Encoding: chunked\r\n\r\n5\r\n01234\r\n0\r\n", "within the trailer"),
    ] {
        for reset in [false, true] {
            let origin = Origin::echo();
            let gateway = Gateway::to(&origin);
            let mut client = gateway.client();
            client.send(format!("POST / HTTP/1.1\r\nHost: a\r\n{message}"));
            eventually("the head at the origin", || origin.count() == 1);
            if reset {
                client.reset();
            } else {
                client.half_close();
                match client.try_response("POST") {
                    Ok(response) => {
                        assert_eq!(
                            (response.status, response.reason()),
                            (400, "incomplete_request"),
                            "{cut}"
                        );
                        client.expect_close();
                    }
                    Err(error) => assert!(matches!(error, ReadError::Closed), "{cut}: {error:?}"),
                }
            }
            eventually("the origin's connection to end", || origin.open() == 0);
            assert!(!origin.request().complete, "{cut}");
            assert_eq!(gateway.wait_records(1).len(), 1);
        }
    }
}

#[test]
fn trailers_of_the_connection_stay_on_it() {
    let origin = Origin::echo();
    let gateway = Gateway::to(&origin);
    let mut client = gateway.client();
    let message = "POST / HTTP/1.1\r\nHost: a\r\nConnection: X-Hop\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\
                   x-hop: 1\r\nX-Kept: 2\r\nX-Hop: 3\r\n\r\n";
    client.ask(message);
    client.dribble(message);
    client.response();
    for request in origin.requests() {
        assert_eq!(request.trailers.names(), ["X-Kept"], "{request:?}");
    }
    gateway.reconcile(&[&origin]);
}
