//! Bodies of responses: every framing, streaming, back-pressure.

use std::time::Duration;

use tollgate_tests::{Framing, Gate, Gateway, Origin, eventually};

use super::{chunked, pattern};

#[test]
fn every_framing_arrives() {
    // Method, the origin's bytes, whether it closes, and the framing and body that the client receives.
    let cases: &[(&str, &str, bool, Framing, &str)] = &[
        ("GET", "200 OK\r\nContent-Length: 5\r\n\r\nhello", false, Framing::Length(5), "hello"),
        ("GET", "200 OK\r\nContent-Length: 0\r\n\r\n", false, Framing::Length(0), ""),
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
fn a_head_response_keeps_its_declared_length() {
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
        assert_eq!((response.status, response.text().as_str()), (200, "abc0123456789"), "split at {split}");
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
        assert!(gateway.peak_kib() < 32 << 10, "{framing}: {} KiB", gateway.peak_kib());
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
    // Waits until the origin's writes stall: no progress over a while.
    let mut last = usize::MAX;
    eventually("the origin to stall", || {
        std::thread::sleep(Duration::from_millis(150));
        let now = sent.load(std::sync::atomic::Ordering::SeqCst);
        std::mem::replace(&mut last, now) == now
    });
    assert!(last < 64 << 20, "the gateway took {last} bytes that nobody reads");
    assert!(gateway.peak_kib() < 32 << 10, "{} KiB", gateway.peak_kib());
    client.reset();
    eventually("the origin to be let go", || origin.open() == 0);
}

#[test]
fn trailers_that_would_steer_are_dropped() {
    let origin = Origin::fixed(
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\nX-Kept: 1\r\nContent-Range: bytes 0-1/2\r\n\
         Set-Cookie: a=b\r\nVary: *\r\nRetry-After: 1\r\nServer-Timing: db\r\nTollgate-Reason: mine\r\n\r\n",
    );
    let gateway = Gateway::to(&origin);
    let ask = "GET / HTTP/1.1\r\nHost: a\r\nTE: trailers\r\nConnection: TE\r\n\r\n";
    let response = gateway.client().ask(ask);
    assert_eq!(
        (response.text().as_str(), response.trailers.names()),
        ("ok", vec!["X-Kept", "Server-Timing"])
    );
}

#[test]
fn trailers_of_the_connection_stay_on_it() {
    let origin = Origin::fixed(
        "HTTP/1.1 200 OK\r\nConnection: X-Hop, x-other\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\
         X-Kept: 1\r\nx-hop: 2\r\nX-Other: 3\r\nKeep-Alive: 4\r\nX-Hopper: 5\r\n\r\n",
    );
    let gateway = Gateway::to(&origin);
    for _ in 0..2 {
        let response =
            gateway.client().ask("GET / HTTP/1.1\r\nHost: a\r\nTE: trailers\r\nConnection: TE\r\n\r\n");
        assert_eq!((response.text().as_str(), response.trailers.names()), ("ok", vec!["X-Kept", "X-Hopper"]));
    }
}

#[test]
fn trailers_of_the_connection_may_come_in_pieces() {
    let head = "HTTP/1.1 200 OK\r\nConnection: X-Hop\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n";
    let trailers = "X-Hop: 1\r\nA: 2\r\nx-hop: 3\r\nB: 4\r\n\r\n";
    let origin = Origin::play(move |conn| {
        while let Some(request) = conn.request() {
            let at: usize = request.target[1..].parse().expect("a number");
            conn.send([head, &trailers[..at]].concat());
            conn.pause(Duration::from_millis(20));
            conn.send(&trailers[at..]);
        }
    });
    let gateway = Gateway::to(&origin);
    let mut client = gateway.client();
    for at in 0..trailers.len() {
        let response =
            client.ask(format!("GET /{at} HTTP/1.1\r\nHost: a\r\nTE: trailers\r\nConnection: TE\r\n\r\n"));
        assert_eq!((response.text().as_str(), response.trailers.names()), ("ok", vec!["A", "B"]), "{at}");
    }
    gateway.reconcile(&[&origin]);
}
