//! Message bodies: every framing, streaming in both directions, back-pressure, early answers, `Expect`.

use std::time::Duration;

use tollgate_tests::{Framing, Gate, Gateway, Origin, ReadError, Response, eventually};

/// Bytes that tell their own place, so that a lost or doubled piece shows.
fn pattern(length: usize) -> Vec<u8> {
    (0..length).map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8).collect()
}

fn chunked(body: &[u8], size: usize) -> Vec<u8> {
    let mut out = Vec::new();
    for piece in body.chunks(size) {
        out.extend_from_slice(format!("{:x}\r\n", piece.len()).as_bytes());
        out.extend_from_slice(piece);
        out.extend_from_slice(b"\r\n");
    }
    out.extend_from_slice(b"0\r\n\r\n");
    out
}

mod responses {
    use super::*;

    #[test]
    fn every_framing_arrives() {
        // Method, the origin's bytes, whether it closes, and the framing and body that the client gets.
        let cases: &[(&str, &str, bool, Framing, &str)] = &[
            ("GET", "200 OK\r\nContent-Length: 5\r\n\r\nhello", false, Framing::Length(5), "hello"),
            ("GET", "200 OK\r\nContent-Length: 0\r\n\r\n", false, Framing::Length(0), ""),
            ("GET", "200 OK\r\nContent-Length: 005\r\n\r\nhello", false, Framing::Length(5), "hello"),
            (
                "GET",
                "200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
                false,
                Framing::Chunked,
                "hello",
            ),
            (
                "GET",
                "200 OK\r\nTransfer-Encoding: Chunked\r\n\r\n2\r\nhe\r\n3;a=b\r\nllo\r\n00\r\n\r\n",
                false,
                Framing::Chunked,
                "hello",
            ),
            ("GET", "200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", false, Framing::Chunked, ""),
            ("GET", "200 OK\r\n\r\nhello", true, Framing::Chunked, "hello"),
            ("GET", "200 OK\r\n\r\n", true, Framing::Chunked, ""),
            ("GET", "204 No Content\r\n\r\n", false, Framing::None, ""),
            ("GET", "304 Not Modified\r\nContent-Length: 5\r\nETag: \"x\"\r\n\r\n", false, Framing::None, ""),
            ("GET", "304 Not Modified\r\nTransfer-Encoding: chunked\r\n\r\n", false, Framing::None, ""),
            ("HEAD", "200 OK\r\nContent-Length: 5\r\n\r\n", false, Framing::None, ""),
            ("HEAD", "200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", false, Framing::None, ""),
            ("HEAD", "200 OK\r\n\r\n", false, Framing::None, ""),
            (
                "POST",
                "201 Created\r\nLocation: /x\r\nContent-Length: 2\r\n\r\nok",
                false,
                Framing::Length(2),
                "ok",
            ),
            ("DELETE", "404 Not Found\r\nContent-Length: 2\r\n\r\nno", false, Framing::Length(2), "no"),
            ("GET", "599 Odd\r\nContent-Length: 2\r\n\r\nno", false, Framing::Length(2), "no"),
            ("GET", "200 \r\nContent-Length: 2\r\n\r\nok", false, Framing::Length(2), "ok"),
        ];
        for (method, response, closes, framing, body) in cases {
            let bytes = format!("HTTP/1.1 {response}");
            let origin = if *closes { Origin::fixed_then_close(bytes) } else { Origin::fixed(bytes) };
            let gateway = Gateway::to(&origin);
            let mut client = gateway.client();
            for _ in 0..2 {
                client.send(format!("{method} / HTTP/1.1\r\nHost: a\r\n\r\n"));
                let got = client.response_to(method);
                assert_eq!((got.framing, got.text().as_str()), (*framing, *body), "{method} {response:?}");
            }
            let kept = if *closes { 2 } else { 1 };
            assert_eq!(origin.connections(), kept, "{method} {response:?}");
            gateway.reconcile(&[&origin]);
        }
    }

    #[test]
    fn a_head_keeps_the_length_it_told() {
        let origin = Origin::fixed("HTTP/1.1 200 OK\r\nContent-Length: 12345\r\n\r\n");
        let gateway = Gateway::to(&origin);
        let mut client = gateway.client();
        client.send("HEAD / HTTP/1.1\r\nHost: a\r\n\r\n");
        assert_eq!(client.response_to("HEAD").header("Content-Length"), Some("12345"));
        client.expect_silence(Duration::from_millis(20));
    }

    #[test]
    fn a_204_with_a_body_does_not_shift_the_next_answer() {
        let origin = Origin::fixed("HTTP/1.1 204 No Content\r\nContent-Length: 3\r\n\r\nbad");
        let gateway = Gateway::to(&origin);
        let mut client = gateway.client();
        for _ in 0..3 {
            let response = client.get("/");
            assert!(response.status == 204 || response.status == 502, "{response:?}");
        }
        assert_eq!(origin.connections(), 3);
        gateway.reconcile(&[&origin]);
    }

    #[test]
    fn every_split_of_an_answer_gives_the_same() {
        let bytes: &'static str = "HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\nHTTP/1.1 200 OK\r\nX-A: b\r\n\
            Transfer-Encoding: chunked\r\n\r\n3;e=\"q\"\r\nabc\r\nA\r\n0123456789\r\n0\r\nT: v\r\n\r\n";
        let cut = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
        let at = std::sync::Arc::clone(&cut);
        let origin = Origin::play(move |conn| {
            while conn.request().is_some() {
                let at = at.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
                if at == 0 {
                    conn.dribble(bytes);
                } else {
                    conn.send(&bytes[..at]);
                    conn.pause(Duration::from_millis(1));
                    conn.send(&bytes[at..]);
                }
            }
        });
        let gateway = Gateway::to(&origin);
        let mut client = gateway.client();
        for split in 0..bytes.len() {
            let response = client.get("/");
            assert_eq!(
                (response.status, response.text().as_str()),
                (200, "abc0123456789"),
                "split at {split}"
            );
            assert_eq!(response.interim.len(), 1, "split at {split}");
            assert_eq!(response.trailers.get("T"), Some("v"), "split at {split}");
        }
        assert_eq!(origin.connections(), 1);
        gateway.reconcile(&[&origin]);
    }

    #[test]
    fn trailers_reach_a_client_of_1_1() {
        let origin = Origin::fixed(
            "HTTP/1.1 200 OK\r\nTrailer: X-Sum, X-Two\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\nX-Sum: 9\r\nX-Two: z\r\n\r\n",
        );
        let gateway = Gateway::to(&origin);
        let response = gateway.client().get("/");
        assert_eq!(response.trailers.names(), ["X-Sum", "X-Two"]);
        assert_eq!(response.trailers.get("X-Sum"), Some("9"));
    }

    #[test]
    fn an_answer_flows_piece_by_piece() {
        let gates: Vec<Gate> = (0..3).map(|_| Gate::new()).collect();
        let steps = gates.clone();
        let origin = Origin::play(move |conn| {
            conn.request();
            conn.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
            for gate in &steps {
                gate.wait();
                conn.send("5\r\npiece\r\n");
            }
            conn.send("0\r\n\r\n");
            conn.wait_close();
        });
        let gateway = Gateway::to(&origin);
        let mut client = gateway.client();
        client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
        assert_eq!(client.head().status, 200);
        for gate in &gates {
            gate.open();
            assert_eq!(client.wire().chunk(), Ok(Ok(b"piece".to_vec())));
        }
        assert!(matches!(client.wire().chunk(), Ok(Err(_))));
    }

    #[test]
    fn a_large_download_is_byte_exact_in_little_memory() {
        const SIZE: usize = 32 << 20;
        for framing in ["length", "chunked", "close"] {
            let body = std::sync::Arc::new(pattern(SIZE));
            let origin = Origin::play({
                let body = std::sync::Arc::clone(&body);
                move |conn| {
                    conn.request();
                    match framing {
                        "length" => {
                            conn.send(format!("HTTP/1.1 200 OK\r\nContent-Length: {SIZE}\r\n\r\n"));
                            conn.send(&*body);
                            conn.wait_close();
                        }
                        "chunked" => {
                            conn.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
                            conn.send(chunked(&body, 100_000));
                            conn.wait_close();
                        }
                        _ => {
                            conn.send("HTTP/1.1 200 OK\r\n\r\n");
                            conn.send(&*body);
                        }
                    }
                }
            });
            let gateway = Gateway::to(&origin);
            let response = gateway.client().get("/");
            assert!(response.body == *body, "{framing}: bytes differ");
            assert!(gateway.memory_kib("VmHWM") < 32 << 10, "{framing}: {} KiB", gateway.memory_kib("VmHWM"));
            gateway.reconcile(&[&origin]);
        }
    }

    #[test]
    fn a_slow_reader_holds_the_origin_back() {
        let sent = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
        let count = std::sync::Arc::clone(&sent);
        let origin = Origin::play(move |conn| {
            conn.request();
            conn.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
            let piece = chunked(&[b'x'; 65536], 65536);
            let piece = &piece[..piece.len() - 5];
            for _ in 0..2000 {
                if !conn.send(piece) {
                    return;
                }
                count.fetch_add(65536, std::sync::atomic::Ordering::SeqCst);
            }
        });
        let gateway = Gateway::to(&origin);
        let mut client = gateway.small_client(16 << 10);
        client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
        assert_eq!(client.head().status, 200);
        // Wait until the origin's writes stall: no progress over a while.
        let mut last = usize::MAX;
        eventually("the origin to stall", || {
            std::thread::sleep(Duration::from_millis(150));
            let now = sent.load(std::sync::atomic::Ordering::SeqCst);
            std::mem::replace(&mut last, now) == now
        });
        assert!(last < 64 << 20, "the gateway took {last} bytes that nobody reads");
        assert!(gateway.memory_kib("VmHWM") < 32 << 10, "{} KiB", gateway.memory_kib("VmHWM"));
        client.reset();
        eventually("the origin to be let go", || origin.open() == 0);
    }
}

mod requests {
    use super::*;

    #[test]
    fn every_framing_arrives() {
        let cases: &[(&str, &str, Framing, &str)] = &[
            ("POST", "Content-Length: 5\r\n\r\nhello", Framing::Length(5), "hello"),
            ("POST", "Content-Length: 0\r\n\r\n", Framing::Length(0), ""),
            ("POST", "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n", Framing::Chunked, "hello"),
            ("POST", "Transfer-Encoding: CHUNKED\r\n\r\n5\r\nhello\r\n0\r\n\r\n", Framing::Chunked, "hello"),
            (
                "POST",
                "transfer-encoding:chunked\r\n\r\n0005\r\nhello\r\n000\r\n\r\n",
                Framing::Chunked,
                "hello",
            ),
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
                    client.dribble(&message)
                } else {
                    client.send(&message)
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
        // RFC 9110, section 6.5.1: framing, routing and authentication have no place in a trailer.
        for field in
            ["Content-Length: 5", "Transfer-Encoding: chunked", "Host: evil", "X-Forwarded-For: 1.2.3.4"]
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
            assert!(gateway.memory_kib("VmHWM") < 32 << 10, "{framing}: {} KiB", gateway.memory_kib("VmHWM"));
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
        assert!(gateway.memory_kib("VmHWM") < 32 << 10, "{} KiB", gateway.memory_kib("VmHWM"));
        drop(stream);
        client.reset();
        gate.open();
    }

    /// Writes until nothing more is taken for a while; returns how much was.
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
        let mut client = gateway.client();
        for _ in 0..2 {
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
}

mod early_answers {
    //! Attack class 4: an answer before the request has been read, then the connection used again.

    use super::*;

    /// Answers 401 to `POST /early` without reading the body, and echoes everything else.
    fn impatient(close: bool) -> Origin {
        Origin::play(move |conn| {
            while let Some(mut request) = conn.head() {
                if request.target == "/early" {
                    let connection = if close { "Connection: close\r\n" } else { "" };
                    conn.send(format!(
                        "HTTP/1.1 401 Unauthorized\r\n{connection}Content-Length: 2\r\n\r\nno"
                    ));
                    if close {
                        return;
                    }
                    // Whatever comes now must be the body's rest or nothing: never another request.
                }
                if !conn.body(&mut request) {
                    return;
                }
                if request.target != "/early" {
                    conn.ok(&format!("{} {}", request.target, String::from_utf8_lossy(&request.body)));
                }
            }
        })
    }

    const SMUGGLED: &str = "GET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n";

    #[test]
    fn the_client_gets_it_and_no_connection_is_used_wrongly() {
        for close in [false, true] {
            let origin = impatient(close);
            let gateway = Gateway::to(&origin);
            let mut client = gateway.client();
            // Half of the body is sent; it looks like a request.
            let length = SMUGGLED.len() * 2;
            client.send(format!(
                "POST /early HTTP/1.1\r\nHost: a\r\nContent-Length: {length}\r\n\r\n{SMUGGLED}"
            ));
            let response = client.response();
            assert_eq!((response.status, response.text().as_str()), (401, "no"), "close {close}");
            // Now the rest. Either the gateway takes it as the body and the connection goes on, or it closes.
            client.send(SMUGGLED);
            client.send("GET /next HTTP/1.1\r\nHost: a\r\n\r\n");
            match client.try_response("GET") {
                Ok(response) => assert_eq!(response.text(), "/next "),
                Err(error) => assert!(matches!(error, ReadError::Closed | ReadError::Truncated), "{error:?}"),
            }
            assert_eq!(gateway.client().get("/other").text(), "/other ");
            for request in origin.requests() {
                assert_ne!(request.target, "/smuggled", "close {close}");
            }
            gateway.reconcile(&[&origin]);
        }
    }

    #[test]
    fn it_reaches_a_client_that_is_still_uploading() {
        // 413 to an upload of 64 MiB of which the origin reads nothing.
        let origin = Origin::play(|conn| {
            if conn.head().is_some() {
                conn.send(
                    "HTTP/1.1 413 Content Too Large\r\nConnection: close\r\nContent-Length: 3\r\n\r\nbig",
                );
                conn.wait_close();
            }
        });
        let gateway = Gateway::to(&origin);
        let mut client = gateway.client();
        client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 67108864\r\n\r\n");
        let mut writer = client.wire().stream().expect("open").try_clone().expect("clone");
        let uploading = std::thread::spawn(move || {
            use std::io::Write;
            for _ in 0..1024 {
                if writer.write_all(&[b'x'; 65536]).is_err() {
                    break;
                }
            }
        });
        let response = client.response();
        assert_eq!((response.status, response.text().as_str()), (413, "big"));
        drop(client);
        uploading.join().expect("the upload ends");
        gateway.reconcile(&[&origin]);
    }

    #[test]
    fn an_origin_that_answers_and_resets_is_still_heard() {
        let origin = Origin::play(|conn| {
            if conn.head().is_some() {
                conn.send("HTTP/1.1 429 Too Many Requests\r\nContent-Length: 4\r\n\r\nslow");
                conn.pause(Duration::from_millis(50));
                conn.reset();
            }
        });
        let gateway = Gateway::to(&origin);
        let mut client = gateway.client();
        client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\npart");
        let response = client.response();
        assert_eq!((response.status, response.text().as_str()), (429, "slow"));
        gateway.reconcile(&[&origin]);
    }
}

mod expect {
    //! Attack class 6: `Expect: 100-continue` in all its variants, and 1xx.

    use super::*;

    fn head(version: &str, expect: &str) -> String {
        format!("POST /x HTTP/{version}\r\nHost: a\r\nExpect: {expect}\r\nContent-Length: 4\r\n\r\n")
    }

    fn with_100() -> Origin {
        Origin::play(|conn| {
            while let Some(mut request) = conn.head() {
                if request.headers.lists("Expect", "100-continue") {
                    conn.send("HTTP/1.1 100 Continue\r\n\r\n");
                }
                if !conn.body(&mut request) {
                    return;
                }
                conn.ok(&String::from_utf8_lossy(&request.body));
            }
        })
    }

    #[test]
    fn a_client_that_waits_gets_100_exactly_once() {
        for expect in ["100-continue", "100-Continue", "100-CONTINUE"] {
            let origin = with_100();
            let gateway = Gateway::to(&origin);
            let mut client = gateway.client();
            for _ in 0..3 {
                client.send(head("1.1", expect));
                assert_eq!(client.interim().status, 100);
                client.send("body");
                let response = client.response();
                assert_eq!((response.text().as_str(), response.interim.len()), ("body", 0));
            }
            gateway.reconcile(&[&origin]);
        }
    }

    #[test]
    fn a_client_that_waits_is_not_left_waiting_by_an_origin_without_100() {
        // An origin of old ignores the expectation and waits for the body. The gateway either speaks for it or the
        // client goes on by itself after a while, as RFC 9110, section 10.1.1 tells it to.
        let origin = Origin::echo();
        let gateway = Gateway::to(&origin);
        let mut client = gateway.client();
        client.send(head("1.1", "100-continue"));
        client.wire().set_deadline(Duration::from_millis(300));
        match client.wire().response_head("POST") {
            Ok(interim) => assert_eq!(interim.status, 100),
            Err(error) => assert_eq!(error, ReadError::TimedOut),
        }
        client.wire().set_deadline(tollgate_tests::DEADLINE);
        client.send("body");
        let response = client.response();
        assert_eq!(response.text(), "POST /x body");
        client.expect_alive();
    }

    #[test]
    fn a_client_that_does_not_wait_is_answered() {
        let origin = with_100();
        let gateway = Gateway::to(&origin);
        let mut client = gateway.client();
        for _ in 0..3 {
            client.send(head("1.1", "100-continue") + "body");
            let response: Response = client.response();
            assert_eq!(response.text(), "body");
            assert!(response.interim.len() <= 1, "{response:?}");
        }
        gateway.reconcile(&[&origin]);
    }

    #[test]
    fn a_final_answer_instead_of_100_is_passed_on() {
        // The next bytes are the body or a new request: nobody knows. The gateway must not guess.
        let origin = Origin::play(|conn| {
            if conn.head().is_some() {
                conn.send("HTTP/1.1 401 Unauthorized\r\nContent-Length: 2\r\n\r\nno");
                conn.wait_close();
            }
        });
        let gateway = Gateway::to(&origin);
        let mut client = gateway.client();
        client.send("POST /x HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 37\r\n\r\n");
        let response = client.response();
        if response.interim.is_empty() {
            assert_eq!((response.status, response.text().as_str()), (401, "no"));
        }
        client.send("GET /smuggled HTTP/1.1\r\nHost: aaaa\r\n\r\n");
        match client.try_response("GET") {
            Err(error) => assert!(matches!(error, ReadError::Closed | ReadError::Truncated), "{error:?}"),
            Ok(response) => panic!("the body was answered as a request: {response:?}"),
        }
        assert_eq!(origin.count(), 1);
        gateway.reconcile(&[&origin]);
    }

    #[test]
    fn other_expectations_fail() {
        for expect in ["200-ok", "100-continue, 200-ok", "100-continue=1", "100continue"] {
            let origin = Origin::echo();
            let gateway = Gateway::to(&origin);
            let mut client = gateway.client();
            client.send(head("1.1", expect));
            let response = client.response();
            assert_eq!((response.status, response.reason()), (417, "expectation_failed"), "{expect}");
            client.expect_close();
            assert_eq!(origin.count(), 0, "{expect}");
            gateway.reconcile(&[&origin]);
        }
    }

    #[test]
    fn an_expectation_of_1_0_is_ignored() {
        let origin = Origin::play(|conn| {
            while let Some(request) = conn.request() {
                conn.ok(&String::from_utf8_lossy(&request.body));
            }
        });
        let gateway = Gateway::to(&origin);
        let response = gateway.client().ask(head("1.0", "100-continue") + "body");
        assert_eq!((response.text().as_str(), response.interim.len()), ("body", 0));
    }

    #[test]
    fn an_expectation_without_a_body_does_no_harm() {
        let origin = Origin::echo();
        let gateway = Gateway::to(&origin);
        let mut client = gateway.client();
        for _ in 0..2 {
            let response = client.ask("GET /x HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\n\r\n");
            assert_eq!(response.text(), "GET /x ");
        }
        gateway.reconcile(&[&origin]);
    }

    #[test]
    fn the_gateway_s_own_refusal_comes_before_100() {
        let gateway = Gateway::start("limits: {body: 10}\nroutes: [{match: /x, respond: 204}]");
        let mut client = gateway.client();
        client.send("POST /none HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 4\r\n\r\n");
        let response = client.response();
        assert_eq!((response.status, response.interim.len()), (404, 0));
        let mut client = gateway.client();
        client.send("POST /x HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 11\r\n\r\n");
        let response = client.response();
        assert_eq!((response.status, response.interim.len()), (413, 0));
        gateway.reconcile(&[]);
    }

    #[test]
    fn interim_answers_pass_in_order() {
        let origin = Origin::fixed(
            "HTTP/1.1 102 Processing\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </a.css>; rel=preload\r\n\r\n\
             HTTP/1.1 103 Early Hints\r\nLink: </b.css>; rel=preload\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
        );
        let gateway = Gateway::to(&origin);
        let mut client = gateway.client();
        for _ in 0..2 {
            let response = client.get("/");
            let interim: Vec<_> = response.interim.iter().map(|r| (r.status, r.header("Link"))).collect();
            assert_eq!(
                interim,
                [(102, None), (103, Some("</a.css>; rel=preload")), (103, Some("</b.css>; rel=preload"))]
            );
            assert_eq!(response.text(), "ok");
        }
        assert_eq!(origin.connections(), 1);
        gateway.reconcile(&[&origin]);
    }
}
