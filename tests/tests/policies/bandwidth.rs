//! `bandwidth`: how fast bodies move, and that nothing else waits for them.
//!
//! A machine can delay a body, but no test passes because of that: each measures that a body is not too fast, and that
//! something else ends before it.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use tollgate_tests::http2::{get, request};
use tollgate_tests::{
    Authority, DEADLINE, Framing, Gateway, Http2Origin, Origin, ReadError, Signal, TlsPeer, eventually,
    tollgate,
};

const ASK: &str = "GET / HTTP/1.1\r\nHost: a.example\r\n\r\n";
const KIB: usize = 1024;

/// Bytes that differ at every place.
fn content(length: usize) -> Vec<u8> {
    (0..length).map(|at| (at.wrapping_mul(2_654_435_761) >> 16) as u8).collect()
}

/// Starts a gateway with one route to an endpoint, with this policy and further keys of the route and of the file.
fn gateway(to: &str, bandwidth: &str, route: &str, file: &str) -> Gateway {
    Gateway::start(&format!(
        "routes: [{{match: \"/*\", to: \"{to}\"{route}, policies: {{bandwidth: {bandwidth}}}}}]\n{file}\n"
    ))
}

/// Returns a response with this body, framed as the name says.
fn framed(framing: &str, body: &[u8]) -> Vec<u8> {
    let (line, body) = match framing {
        "length" => (format!("Content-Length: {}\r\n", body.len()), body.to_vec()),
        "chunks" => {
            let chunk = |data: &[u8]| [format!("{:x}\r\n", data.len()).as_bytes(), data, b"\r\n"].concat();
            let chunks = body.chunks(7000).flat_map(chunk).chain(*b"0\r\nT: 1\r\n\r\n").collect();
            ("Transfer-Encoding: chunked\r\nTrailer: T\r\n".to_owned(), chunks)
        }
        _ => ("Connection: close\r\n".to_owned(), body.to_vec()),
    };
    [b"HTTP/1.1 200 OK\r\n", line.as_bytes(), b"\r\n", &body].concat()
}

/// Gets `/` over HTTP/1, then over HTTP/2. Asserts that the body is this one, and that it took at least so long.
fn check(gateway: &Gateway, body: &[u8], least: Duration, what: &str) {
    let start = Instant::now();
    let response = gateway.client().ask(ASK);
    let took = start.elapsed();
    assert_eq!(response.status, 200, "{what}");
    assert!(response.body == body, "{what}: {} bytes of {}", response.body.len(), body.len());
    assert!(took >= least, "{what}: {} bytes took {took:?}", body.len());
    let start = Instant::now();
    let response = gateway.http2().get("/");
    let took = start.elapsed();
    assert!(response.body == body, "{what}, HTTP/2: {} bytes of {}", response.body.len(), body.len());
    assert!(took >= least, "{what}, HTTP/2: {} bytes took {took:?}", body.len());
}

/// 64 KiB at this rate take a second. The first interval's bytes come at once, and after the pause before them, once more.
const RATE: &str = "{rate: 64KiB}";
const LEAST: Duration = Duration::from_millis(800);

#[test]
fn a_response_of_any_framing_arrives_at_its_rate() {
    let body = content(64 * KIB);
    for framing in ["length", "chunks", "close"] {
        let bytes = framed(framing, &body);
        let origin = match framing {
            "close" => Origin::fixed_then_close(bytes),
            _ => Origin::fixed(bytes),
        };
        let gateway = gateway(&origin.address().to_string(), RATE, "", "");
        check(&gateway, &body, LEAST, framing);
        let records = gateway.wait_records(2);
        assert!(records.iter().all(|record| record["bytes_out"] == 64 * KIB), "{records:?}");
        gateway.reconcile(&[&origin]);
    }
}

#[test]
fn a_response_of_an_http2_endpoint_arrives_at_its_rate() {
    let body = content(64 * KIB);
    let sent = body.clone();
    let origin = Http2Origin::play(move |stream| {
        stream.head(200, &[], false);
        stream.send(sent.clone(), false);
        stream.trailers(&[("t", "1")]);
    });
    let gateway = gateway(&format!("h2c://{}", origin.address()), RATE, "", "");
    check(&gateway, &body, LEAST, "HTTP/2 endpoint");
    let response = gateway.http2().ask(request("GET", "/", &[("te", "trailers")]));
    assert_eq!(response.trailers.get("t"), Some("1"), "the trailers follow the body");
}

#[test]
fn the_first_bytes_come_at_full_speed() {
    let body = content(160 * KIB);
    let origin = Origin::fixed(framed("length", &body));
    let gateway = gateway(&origin.address().to_string(), "{rate: 32KiB, after: 96KiB}", "", "");
    let mut client = gateway.client();
    client.send(ASK);
    let response = client.head();
    let start = Instant::now();
    let (mut received, mut free_after) = (0, None);
    let rest = client.wire().body(response.framing, |piece| {
        received += piece.len();
        if received >= 96 * KIB {
            free_after.get_or_insert(start.elapsed());
        }
    });
    assert!(rest.is_ok() && received == body.len());
    // The other 64 KiB take two seconds, except for those of two intervals.
    let (free_after, whole_after) = (free_after.expect("96 KiB"), start.elapsed());
    assert!(whole_after - free_after >= Duration::from_millis(1500), "{free_after:?} of {whole_after:?}");
}

#[test]
fn a_delayed_response_holds_up_nothing_on_its_connection() {
    let body = content(192 * KIB);
    let slow = Origin::fixed(framed("length", &body));
    let fast = Origin::named("fast");
    let gateway = Gateway::start(&format!(
        "workers: 1\nroutes: [{{match: /slow, to: \"{}\", policies: {{bandwidth: {RATE}}}}}, {{to: \"{}\"}}]\n",
        slow.address(),
        fast.address()
    ));
    let start = Instant::now();
    let mut client = gateway.http2();
    let mut delayed = client.begin(get("/slow"), true).expect("a stream");
    let head = delayed.head().expect("a head");
    for _ in 0..20 {
        assert_eq!(client.get("/").text(), "fast");
    }
    let took = start.elapsed();
    let response = delayed.rest(head).expect("a whole answer");
    assert!(response.body == body);
    let whole = start.elapsed();
    assert!(whole >= Duration::from_millis(2700), "192 KiB took {whole:?}");
    assert!(took < whole / 2, "20 other requests took {took:?} of {whole:?}");
}

#[test]
fn each_source_of_a_response_has_the_rate() {
    let body = content(64 * KIB);
    let stored = b"HTTP/1.1 200 OK\r\nCache-Control: max-age=600\r\nContent-Length: 65536\r\n\r\n".as_slice();
    let origin = Origin::fixed([stored, &body].concat());
    let to = origin.address();
    for file in ["", "cache: {memory: 1MiB, disk: {path: $DIR/cache, size: 64MiB}}"] {
        let route = format!("match: \"/*\", to: \"{to}\", policies: {{bandwidth: {RATE}, cache: on}}");
        let mut gateway = Gateway::start(&format!("routes: [{{{route}}}]\n{file}\n"));
        let before = origin.count();
        // A miss, which is stored although its client is slow; then hits.
        check(&gateway, &body, LEAST, "a miss and a hit");
        assert_eq!(origin.count(), before + 1);
        let ranged =
            gateway.client().ask("GET / HTTP/1.1\r\nHost: a.example\r\nRange: bytes=100-199\r\n\r\n");
        assert!(ranged.status == 206 && ranged.body == body[100..200]);
        if !file.is_empty() {
            gateway.signal(Signal::TERM);
            gateway.wait_exit();
            gateway.restart();
            check(&gateway, &body, LEAST, "hits on disk");
        }
    }
    let site = std::env::temp_dir().join(format!("tollgate-bandwidth-{}", std::process::id()));
    std::fs::create_dir_all(&site).expect("a directory");
    std::fs::write(site.join("index.html"), &body).expect("a file");
    let gateway = Gateway::start(&format!(
        "routes: [{{match: \"/*\", files: {}, policies: {{bandwidth: {RATE}}}}}]\n",
        site.display()
    ));
    check(&gateway, &body, LEAST, "a file");
    std::fs::remove_dir_all(&site).expect("it is there");
    let text = "x".repeat(64 * KIB);
    let gateway = Gateway::start(&format!(
        "routes: [{{match: \"/*\", respond: {text}, policies: {{bandwidth: {RATE}}}}}]\n"
    ));
    check(&gateway, text.as_bytes(), LEAST, "a fixed response");
}

#[test]
fn a_fetch_does_not_wait_for_its_client() {
    let body = content(256 * KIB);
    let stored =
        b"HTTP/1.1 200 OK\r\nCache-Control: max-age=600\r\nContent-Length: 262144\r\n\r\n".as_slice();
    let origin = Origin::fixed([stored, &body].concat());
    let gateway = Gateway::start(&format!(
        "routes: [{{match: \"/*\", to: \"{}\", policies: {{cache: on, bandwidth: 32KiB}}}}]\n",
        origin.address()
    ));
    let start = Instant::now();
    let mut slow = gateway.client();
    slow.send(ASK);
    let mut head = slow.head();
    let end = gateway.client().ask("GET / HTTP/1.1\r\nHost: a.example\r\nRange: bytes=262044-262143\r\n\r\n");
    assert!(end.status == 206 && end.body == body[262_044..], "{}", end.status);
    let took = start.elapsed();
    slow.try_body(&mut head).expect("a whole body");
    assert!(head.body == body);
    assert!(start.elapsed() >= Duration::from_secs(7), "256 KiB took {:?}", start.elapsed());
    assert!(took < start.elapsed() / 2, "the other client took {took:?}");
    assert_eq!(origin.count(), 1);
}

/// Times that are shorter than a delay, and rates that are higher.
const SHORT_TIMES: &str = "timeouts: {write: 150ms, body: 150ms, send: 150ms, response_body: 150ms, response_header: 5s}\n\
                           limits: {response_rate: 1MiB, body_rate: 1MiB, rate_grace: 100ms}\n";

#[test]
fn the_delay_of_a_response_is_not_the_clients() {
    // Each piece waits for a second.
    let body = content(3 * KIB);
    let cached = format!("Cache-Control: max-age=600\r\nContent-Length: {}\r\n\r\n", body.len());
    let origin = Origin::fixed([b"HTTP/1.1 200 OK\r\n", cached.as_bytes(), &body].concat());
    for other in ["", ", cache: on"] {
        let gateway = Gateway::start(&format!(
            "routes: [{{match: \"/*\", to: \"{}\", policies: {{bandwidth: 1KiB{other}}}}}]\n{SHORT_TIMES}",
            origin.address()
        ));
        check(&gateway, &body, Duration::from_millis(1000), other);
        let records = gateway.wait_records(2);
        assert!(
            records.iter().all(|record| record["reason"].is_null() || record["reason"] == "-"),
            "{records:?}"
        );
    }
}

#[test]
fn a_client_that_takes_nothing_is_still_reset() {
    let origin = Origin::play(|conn| {
        if conn.request().is_some() {
            conn.send("HTTP/1.1 200 OK\r\nContent-Length: 500000000\r\n\r\n");
            while conn.send([b'x'; 65536]) {}
        }
    });
    let gateway = gateway(&origin.address().to_string(), "100MiB", "", "timeouts: {write: 400ms}");
    let mut client = gateway.small_client(16 << 10);
    client.send(ASK);
    eventually("the origin to be let go", || origin.count() == 1 && origin.open() == 0);
    assert_eq!(gateway.wait_records(1)[0]["reason"], "client_write_timeout");
    // The window of a stream that stays closed.
    let mut http2 = gateway.http2_with(20_000);
    let mut stream = http2.begin(get("/"), true).expect("a stream");
    stream.head().expect("a head");
    eventually("the origin to be let go", || origin.count() == 2 && origin.open() == 0);
    assert_eq!(gateway.wait_records(2)[1]["reason"], "client_write_timeout");
}

#[test]
fn a_client_that_leaves_ends_it() {
    let origin = Origin::play(|conn| {
        if conn.request().is_some() {
            conn.send("HTTP/1.1 200 OK\r\nContent-Length: 500000000\r\n\r\n");
            while conn.send([b'x'; 65536]) {}
        }
    });
    let gateway = gateway(&origin.address().to_string(), "1KiB", "", "");
    let mut client = gateway.client();
    client.send(ASK);
    client.head();
    client.reset();
    eventually("the origin to be let go", || origin.count() == 1 && origin.open() == 0);
    assert_eq!(gateway.wait_records(1)[0]["reason"], "client_closed");
    let mut http2 = gateway.http2();
    let mut stream = http2.begin(get("/"), true).expect("a stream");
    stream.head().expect("a head");
    stream.reset();
    eventually("the origin to be let go", || origin.count() == 2 && origin.open() == 0);
}

#[test]
fn a_buffered_response_frees_its_endpoint() {
    let body = content(16 << 20);
    let origin = Origin::fixed_then_close(framed("length", &body));
    let buffered = ", buffer: {response: {memory: 64KiB, file: 32MiB}}";
    for (route, is_freed) in [(buffered, true), ("", false)] {
        let gateway = gateway(&origin.address().to_string(), "64KiB", route, "");
        let mut client = gateway.client();
        let before = origin.count();
        client.send(ASK);
        let response = client.head();
        assert_eq!(response.framing, Framing::Length(16 << 20));
        if is_freed {
            eventually("the endpoint to be free", || origin.count() > before && origin.open() == 0);
        } else {
            std::thread::sleep(Duration::from_millis(500));
            assert_eq!(origin.open(), 1, "the gateway holds one piece only");
        }
        assert!(gateway.peak_kib() < 64 << 10, "{} KiB", gateway.peak_kib());
        client.reset();
        eventually("the endpoint to be free", || origin.open() == 0);
    }
}

#[test]
fn a_drain_ends_it_like_other_slow_responses() {
    let origin = Origin::fixed(framed("length", &content(256 * KIB)));
    let mut gateway = gateway(&origin.address().to_string(), "1KiB", "", "timeouts: {drain: 300ms}");
    let mut client = gateway.client();
    client.send(ASK);
    let mut response = client.head();
    let mut http2 = gateway.http2();
    let mut stream = http2.begin(get("/"), true).expect("a stream");
    stream.head().expect("a head");
    let start = Instant::now();
    gateway.signal(Signal::TERM);
    assert_eq!(gateway.wait_exit().code(), Some(0));
    assert!(start.elapsed() < DEADLINE / 2, "{:?}", start.elapsed());
    assert!(matches!(client.try_body(&mut response), Err(ReadError::Truncated | ReadError::Closed)));
    assert_eq!(gateway.records().len(), 2, "the exchanges that were cut have their records");
}

#[test]
fn the_total_timeout_bounds_it() {
    let origin = Origin::fixed(framed("length", &content(64 * KIB)));
    let gateway = gateway(&origin.address().to_string(), "1KiB", "", "timeouts: {total: 500ms}");
    let mut client = gateway.client();
    client.send(ASK);
    let mut response = client.head();
    assert!(client.try_body(&mut response).is_err());
    assert_eq!(gateway.wait_records(1)[0]["reason"], "request_timeout");
}

#[test]
fn what_a_transform_makes_has_the_rate_over_tls_too() {
    let authority = Authority::new();
    let own = authority.issue(&["localhost"]);
    let folder = std::env::temp_dir().join(format!("tollgate-bandwidth-tls-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a directory");
    let file = |name: &str, text: &str| -> PathBuf {
        std::fs::write(folder.join(name), text).expect("a file");
        folder.join(name)
    };
    let (certificate, key) = (file("certificate.pem", &own.chain), file("key.pem", &own.key));
    // A megabyte of one letter is about a kilobyte when it is compressed.
    let letters = vec![b'a'; 1 << 20];
    let plain = content(64 * KIB);
    let head = |length: usize| {
        format!("HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: {length}\r\n\r\n")
    };
    let answers = [
        [head(letters.len()).as_bytes(), &letters].concat(),
        [head(plain.len()).as_bytes(), &plain].concat(),
    ];
    let origin = Origin::play(move |conn| {
        while let Some(request) = conn.request() {
            conn.send(&answers[usize::from(request.target == "/plain")]);
        }
    });
    let gateway = Gateway::start(&format!(
        "listen: {{bind: $LISTEN, tls: {{certificate: {}, key: {}}}}}\n\
         routes: [{{match: \"/*\", to: \"{}\", policies: {{compression: on, bandwidth: {RATE}}}}}]\n",
        certificate.display(),
        key.display(),
        origin.address()
    ));
    let ask = |path: &str, line: &str| {
        let mut client =
            TlsPeer::trusting(&authority).connect(gateway.address(), "localhost").expect("a handshake");
        let start = Instant::now();
        client.send(
            format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{line}\r\n").as_bytes(),
        );
        let answer = client.rest().expect("an answer");
        (answer, start.elapsed())
    };
    let (answer, took) = ask("/plain", "");
    assert!(answer.ends_with(&plain), "{} bytes", answer.len());
    assert!(took >= LEAST, "{took:?}");
    // At 64 KiB a second, the whole letters would take 16 s.
    let (answer, took) = ask("/letters", "Accept-Encoding: gzip\r\n");
    assert!(answer.len() < 64 * KIB && took < Duration::from_secs(8), "{} bytes took {took:?}", answer.len());
    std::fs::remove_dir_all(&folder).expect("it is there");
}

#[test]
fn requests_of_a_key_share_the_rate() {
    let body = content(64 * KIB);
    let origin = Origin::fixed(framed("length", &body));
    let to = origin.address().to_string();
    let gateway = gateway(&to, "{rate: 64KiB, by: header X-A}", "", "workers: 2");
    let start = Instant::now();
    let mut clients: Vec<_> = ["a", "a", "b"].map(|key| (gateway.client(), key)).into();
    for (client, key) in &mut clients {
        client.send(format!("GET / HTTP/1.1\r\nHost: a.example\r\nX-A: {key}\r\n\r\n"));
    }
    let took = |(mut client, _): (tollgate_tests::Client, &str)| {
        assert!(client.response().body == body);
        start.elapsed()
    };
    // Each in a thread, so that none is read later than it arrives.
    let took: Vec<_> = std::thread::scope(|scope| {
        let all: Vec<_> = clients.into_iter().map(|client| scope.spawn(move || took(client))).collect();
        all.into_iter().map(|one| one.join().expect("no panic")).collect()
    });
    // 128 KiB for `a`, except for the first interval's bytes.
    let later = took[0].max(took[1]);
    assert!(later >= Duration::from_millis(1700), "{took:?}");
    assert!(took[2] >= LEAST && took[2] < later, "{took:?}");
    // The rate is free again.
    let start = Instant::now();
    let response = gateway.client().ask("GET / HTTP/1.1\r\nHost: a.example\r\nX-A: a\r\n\r\n");
    assert!(response.body == body && start.elapsed() < later, "{:?} of {later:?}", start.elapsed());
}

#[test]
fn uploads_move_at_their_rate() {
    let origin = Origin::play(|conn| {
        while let Some(request) = conn.request() {
            let sum = request.body.iter().fold(0_u64, |sum, byte| sum.wrapping_mul(31) + u64::from(*byte));
            conn.ok(&sum.to_string());
        }
    });
    let body = content(64 * KIB);
    let sum = body.iter().fold(0_u64, |sum, byte| sum.wrapping_mul(31) + u64::from(*byte)).to_string();
    for route in ["", ", buffer: request"] {
        let gateway = gateway(&origin.address().to_string(), "{upload: 64KiB}", route, SHORT_TIMES);
        // The body comes after the head, whose part of it would not be delayed.
        let mut client = gateway.client();
        client.send(format!(
            "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\nExpect: 100-continue\r\n\r\n",
            body.len()
        ));
        if !route.is_empty() {
            assert_eq!(client.interim().status, 100);
        } else {
            eventually("the head", || origin.bytes_received() > 0);
        }
        let start = Instant::now();
        client.send(&body);
        let response = client.response();
        assert_eq!((response.status, response.text()), (200, sum.clone()), "{route}");
        assert!(start.elapsed() >= LEAST, "{route}: {:?}", start.elapsed());

        let mut http2 = gateway.http2();
        let mut stream = http2.begin(request("POST", "/", &[]), false).expect("a stream");
        let start = Instant::now();
        for piece in body.chunks(8 * KIB) {
            stream.send(piece.to_vec(), false).expect("sent");
        }
        stream.send(Vec::new(), true).expect("sent");
        let response = stream.response().expect("an answer");
        assert_eq!((response.status, response.text()), (200, sum.clone()), "{route}, HTTP/2");
        // A part may have come with the head.
        assert!(start.elapsed() < DEADLINE);
    }
}

#[test]
fn an_upload_that_stalls_is_still_a_timeout() {
    let origin = Origin::echo();
    let gateway = gateway(&origin.address().to_string(), "{upload: 1MiB}", "", "timeouts: {body: 300ms}");
    let mut client = gateway.client();
    client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100000\r\n\r\n");
    client.send([b'x'; 70_000]);
    let response = client.response();
    assert_eq!((response.status, response.reason()), (408, "body_timeout"));
}

#[test]
fn the_bytes_of_another_protocol_are_not_delayed() {
    let origin = Origin::play(|conn| {
        if conn.request().is_some() {
            conn.send(
                "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n",
            );
            conn.echo_bytes();
        }
    });
    let gateway = gateway(&origin.address().to_string(), "{rate: 1KiB, upload: 1KiB}", "", "");
    let mut client = gateway.client();
    client.send("GET / HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n");
    assert_eq!(client.head().status, 101);
    let start = Instant::now();
    client.send([b'x'; 20_000]);
    assert_eq!(client.wire().take(20_000).map(|echo| echo.len()), Ok(20_000));
    assert!(start.elapsed() < Duration::from_secs(10), "{:?}", start.elapsed());
}

#[test]
fn explain_shows_the_rates() {
    let file = std::env::temp_dir().join(format!("tollgate-bandwidth-{}.yaml", std::process::id()));
    let text = "listen: 127.0.0.1:8080\nroutes: [{name: r, to: u, policies: {bandwidth: {rate: 1MiB, after: 10MiB}}}]\n\
                upstreams: {u: {endpoints: a:80, policies: {bandwidth: {upload: 500KB}}}}\n";
    std::fs::write(&file, text).expect("the file is written");
    let shown = tollgate(&["explain", file.to_str().expect("text"), "GET", "http://a/"]).out;
    for line in [
        "bandwidth of route/r (a response at 1 MiB a second after 10 MiB): continues",
        "bandwidth of upstream/u (a request at 500000 B a second): continues",
    ] {
        assert!(shown.contains(line), "{line} is not in\n{shown}");
    }
    std::fs::remove_file(file).expect("it is there");
}
