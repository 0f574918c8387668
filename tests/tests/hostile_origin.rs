//! Attack class 12: an origin that breaks every rule harms only its own answer.

use std::time::Duration;

use tollgate_tests::{Gate, Gateway, Origin, ReadError, eventually};

/// Starts an origin that sends `bytes` for `/bad` (and then closes if `close` is set), and answers everything
/// else well.
fn bad_once(bytes: Vec<u8>, close: bool) -> Origin {
    Origin::play(move |conn| {
        while let Some(request) = conn.request() {
            if request.target == "/bad" {
                conn.send(&bytes);
                if close {
                    return;
                }
                conn.wait_close();
                return;
            }
            conn.ok("good");
        }
    })
}

/// Asserts that the gateway answers such a response with a 502 and `reason`, and keeps the client's
/// connection.
fn refused(bytes: &[u8], reason: &str, close: bool) {
    let shown = bytes[..bytes.len().min(100)].escape_ascii().to_string();
    let origin = bad_once(bytes.to_vec(), close);
    let gateway = Gateway::start(&format!(
        "routes: [{{match: \"/*\", to: \"{}\", retry: off}}]\ntimeouts: {{response_header: 5s}}",
        origin.address()
    ));
    let mut client = gateway.client();
    let response = client.get("/bad");
    assert_eq!((response.status, response.reason()), (502, reason), "{shown}");
    assert_eq!(client.get("/").text(), "good", "{shown}");
    eventually("the bad connection to be given up", || origin.open() <= 1);
    assert_eq!(origin.connections(), 2, "{shown}");
    gateway.reconcile(&[&origin]);
}

#[test]
fn malformed_heads() {
    for bytes in [
        &b"garbage\r\n\r\n"[..],
        b"\r\n\r\n",
        b"\0\0\0\0\r\n\r\n",
        b"HTTP/1.1\r\n\r\n",
        b"HTTP/1.1 \r\n\r\n",
        b"HTTP/1.1 abc OK\r\n\r\n",
        b"HTTP/1.1 20 OK\r\n\r\n",
        b"HTTP/1.1 2000 OK\r\n\r\n",
        b"HTTP/1.1 099 Low\r\n\r\n",
        b"HTTP/1.1 000 Low\r\n\r\n",
        b"HTTP/1.1  200 OK\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/2.0 200 OK\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.2 200 OK\r\nContent-Length: 0\r\n\r\n",
        b"http/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
        b"ICY 200 OK\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 200 OK\nContent-Length: 0\n\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 0\n\r\n",
        b"HTTP/1.1 200 O\0K\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nno colon\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n: no name\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nX y: z\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n : y\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nX: y\r\n folded\0\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n X: y\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nX: a\0b\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nX: a\rb\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nX(y): z\r\nContent-Length: 0\r\n\r\n",
    ] {
        refused(bytes, "http_protocol_error", false);
    }
}

#[test]
fn ambiguous_lengths() {
    for fields in [
        "Content-Length: 4\r\nTransfer-Encoding: chunked",
        "Transfer-Encoding: chunked\r\nContent-Length: 4",
        "Content-Length: 4\r\nContent-Length: 5",
        "Content-Length: 4, 5",
        "Content-Length: +4",
        "Content-Length: -4",
        "Content-Length: 0x4",
        "Content-Length: 4 4",
        "Content-Length:",
        "Content-Length: 18446744073709551616",
        "Content-Length: 99999999999999999999999",
        "Transfer-Encoding: xchunked",
        "Transfer-Encoding: chunked, gzip",
        "Transfer-Encoding: gzip, chunked",
        "Transfer-Encoding: identity",
        "Transfer-Encoding: ,chunked",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked",
        "Transfer-Encoding:",
        "Content-Length: 4\r\nTransfer-Encoding : chunked",
        "Content-Length: 4\r\n 5",
        "Content-Length: 0x4",
    ] {
        refused(
            format!("HTTP/1.1 200 OK\r\n{fields}\r\n\r\n4\r\nevil\r\n0\r\n\r\n").as_bytes(),
            "http_protocol_error",
            false,
        );
    }
    refused(
        b"HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nevil\r\n0\r\n\r\n",
        "http_protocol_error",
        false,
    );
}

#[test]
fn heads_that_are_cut() {
    for bytes in [
        "",
        "H",
        "HTTP/1.1 200 OK",
        "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n",
        "HTTP/1.1 100 Continue\r\n\r\n",
    ] {
        refused(bytes.as_bytes(), "connection_terminated", true);
    }
}

#[test]
fn heads_without_end() {
    let many = format!("HTTP/1.1 200 OK\r\n{}\r\n", "X: y\r\n".repeat(1000));
    let long = format!("HTTP/1.1 200 OK\r\nX: {}\r\n\r\n", "y".repeat(40_000));
    let phrase = format!("HTTP/1.1 200 {}\r\n\r\n", "y".repeat(40_000));
    let endless =
        format!("HTTP/1.1 200 OK\r\n{}", "X-Endless: yyyyyyyyyyyyyyyyyyyyyyyyyy\r\n".repeat(50_000));
    for bytes in [many, long, phrase, endless] {
        refused(bytes.as_bytes(), "http_response_header_section_size", false);
    }
}

#[test]
fn interim_answers_without_end() {
    let origin = Origin::play(|conn| {
        if conn.request().is_some() {
            while conn
                .send("HTTP/1.1 103 Early Hints\r\nLink: </a>; rel=preload; as=style\r\n\r\n".repeat(100))
            {
            }
        }
    });
    let gateway = Gateway::with(&origin, "timeouts: {response_header: 2s}");
    let response = gateway.client().get("/");
    assert!(response.status == 502 || response.status == 504, "{:?}", response.status);
    eventually("the origin to be let go", || origin.open() == 0);
    assert!(gateway.peak_kib() < 32 << 10);
    gateway.reconcile(&[&origin]);
}

#[test]
fn bodies_that_are_cut_are_not_passed_off_as_whole() {
    for (head, reset) in [
        ("Content-Length: 10\r\n\r\n0123", false),
        ("Content-Length: 10\r\n\r\n0123", true),
        ("Content-Length: 10\r\n\r\n", false),
        ("Transfer-Encoding: chunked\r\n\r\n4\r\n0123\r\n", false),
        ("Transfer-Encoding: chunked\r\n\r\n4\r\n0123\r\n", true),
        ("Transfer-Encoding: chunked\r\n\r\n4\r\n01", false),
        ("Transfer-Encoding: chunked\r\n\r\n4\r\n0123\r\n0\r\n", false),
        ("Transfer-Encoding: chunked\r\n\r\n", false),
        // A body that the end of the connection delimits is complete only after an orderly end.
        ("X: close-delimited\r\n\r\n0123", true),
    ] {
        let gate = Gate::new();
        let opened = gate.clone();
        let origin = Origin::play(move |conn| {
            if conn.request().is_some() {
                conn.send(format!("HTTP/1.1 200 OK\r\n{head}"));
                opened.wait();
                if reset {
                    conn.reset();
                }
            }
        });
        let gateway = Gateway::to(&origin);
        let mut client = gateway.client();
        client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
        let mut response = match client.try_head("GET") {
            Ok(response) => response,
            Err(error) => panic!("{head:?}: {error:?}"),
        };
        gate.open();
        assert_eq!(
            client.try_body(&mut response),
            Err(ReadError::Truncated),
            "{head:?} reset {reset}: {response:?}"
        );
        let record = &gateway.wait_records(1)[0];
        assert_eq!(record["reason"], "http_response_incomplete", "{head:?} reset {reset}: {record}");
        gateway.reconcile(&[&origin]);
    }
}

#[test]
fn malformed_chunks_cut_the_answer() {
    let extension = format!("4;{}\r\nevil\r\n0\r\n\r\n", "x".repeat(65536));
    for body in [
        "0x4\r\nevil\r\n0\r\n\r\n",
        "-4\r\nevil\r\n0\r\n\r\n",
        "4\nevil\r\n0\r\n\r\n",
        "4\r\nevilX\r\n0\r\n\r\n",
        "3\r\nevil\r\n0\r\n\r\n",
        "g\r\n",
        "10000000000000004\r\nevil\r\n0\r\n\r\n",
        "4\r\nevil\r\n0\r\nbad trailer\r\n\r\n",
        extension.as_str(),
    ] {
        let shown: String = body.chars().take(30).collect();
        let origin =
            bad_once(format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{body}").into(), false);
        let gateway = Gateway::to(&origin);
        let mut client = gateway.client();
        client.send("GET /bad HTTP/1.1\r\nHost: a\r\n\r\n");
        match client.try_response("GET") {
            Ok(response) => {
                assert_eq!((response.status, response.reason()), (502, "http_protocol_error"), "{shown:?}");
            }
            Err(error) => assert_eq!(error, ReadError::Truncated, "{shown:?}"),
        }
        eventually("the bad connection to be given up", || origin.open() == 0);
        assert_eq!(gateway.client().get("/").text(), "good");
        gateway.reconcile(&[&origin]);
    }
}

#[test]
fn an_answer_that_comes_before_the_request() {
    let origin = Origin::play(|conn| {
        let answer = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\neager";
        conn.send(format!("{answer}{answer}{answer}"));
        while conn.request().is_some() {}
    });
    let gateway = Gateway::to(&origin);
    for i in 1..=5 {
        let mut client = gateway.client();
        let response = client.get("/");
        assert!(response.status == 200 || response.status == 502, "{response:?}");
        assert!(origin.connections() <= 2 * i, "connections are tried without end");
    }
    // The surplus answers reached no client: no connection carried two requests. The list is read once,
    // because a request may reach the origin after its eager answer reached the client.
    let carried: Vec<usize> = origin.requests().iter().map(|request| request.connection).collect();
    let different: std::collections::BTreeSet<&usize> = carried.iter().collect();
    assert_eq!(different.len(), carried.len(), "{carried:?}");
}

#[test]
fn bytes_after_the_end_are_not_passed_on() {
    for (response, framing) in [
        ("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokEXTRA", "length"),
        ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\nEXTRA", "chunked"),
        ("HTTP/1.1 204 No Content\r\n\r\nEXTRA", "none"),
        ("HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\nEXTRA", "not modified"),
    ] {
        let origin = Origin::fixed(response);
        let gateway = Gateway::to(&origin);
        let mut client = gateway.client();
        for _ in 0..3 {
            let got = client.get("/");
            assert!(!got.text().contains("EXTRA"), "{framing}");
            assert!(got.status < 400, "{framing}: {got:?}");
        }
        client.expect_silence(Duration::from_millis(20));
        assert_eq!(origin.connections(), 3, "{framing}");
        gateway.reconcile(&[&origin]);
    }
}

#[test]
fn a_reset_instead_of_an_answer() {
    let origin = Origin::play(|conn| {
        if conn.request().is_some() {
            conn.reset();
        }
    });
    let gateway = Gateway::to(&origin);
    let mut client = gateway.client();
    for _ in 0..3 {
        let response = client.get("/");
        assert_eq!((response.status, response.reason()), (502, "connection_terminated"));
    }
    // Each request was tried twice.
    assert_eq!(origin.count(), 6);
    gateway.reconcile(&[&origin]);
}

#[test]
fn an_unrequested_flood_costs_no_memory() {
    let origin = Origin::play(|conn| {
        conn.request();
        conn.ok("ok");
        for _ in 0..1000 {
            if !conn.send([b'x'; 65536]) {
                return;
            }
        }
    });
    let gateway = Gateway::to(&origin);
    let mut client = gateway.client();
    assert_eq!(client.get("/").text(), "ok");
    eventually("the flood to be cut off", || origin.open() == 0);
    assert!(gateway.peak_kib() < 32 << 10);
    assert_eq!(client.get("/").text(), "ok");
}
