//! Bodies that the gateway collects before it passes them on, if a route enables this.

use std::time::Duration;

use tollgate_tests::{Framing, Gate, Gateway, Origin, eventually};

fn gateway(origin: &Origin, buffer: &str) -> Gateway {
    Gateway::start(&format!(
        "routes: [{{match: \"/*\", to: [\"{}\"], buffer: {{{buffer}}}}}]",
        origin.address()
    ))
}

mod requests {
    use super::*;

    #[test]
    fn reach_the_origin_only_when_they_are_whole() {
        let origin = Origin::echo();
        let gateway = gateway(&origin, "request: on");
        for (head, body) in [
            ("Content-Length: 10\r\n\r\n", ["01234", "56789"]),
            ("Transfer-Encoding: chunked\r\n\r\n", ["5\r\n01234\r\n", "5\r\n56789\r\n0\r\n\r\n"]),
        ] {
            let before = origin.count();
            let mut client = gateway.client();
            client.send(format!("POST / HTTP/1.1\r\nHost: a\r\n{head}{}", body[0]));
            client.expect_silence(Duration::from_millis(50));
            assert_eq!(origin.count(), before, "{head:?}");
            client.send(body[1]);
            assert_eq!(client.response().text(), "POST / 0123456789");
            let request = origin.requests().pop().expect("a request");
            assert_eq!(request.body, b"0123456789");
        }
        gateway.reconcile(&[&origin]);
    }

    #[test]
    fn that_are_cut_never_reach_it() {
        let origin = Origin::echo();
        let gateway = gateway(&origin, "request: on");
        let mut client = gateway.client();
        client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\n01234");
        client.half_close();
        if let Ok(response) = client.try_response("POST") {
            assert_eq!(response.reason(), "incomplete_request");
        }
        let mut client = gateway.client();
        client.send("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n01234\r\nzz\r\n");
        assert_eq!(client.response().reason(), "bad_chunk");
        assert_eq!(origin.count(), 0);
        gateway.reconcile(&[&origin]);
    }

    #[test]
    fn go_to_a_file_past_the_memory_and_are_refused_past_both() {
        let origin = Origin::play(|conn| {
            while let Some(request) = conn.request() {
                let sum = request.body.iter().fold(0_u64, |sum, b| sum.wrapping_mul(31) + u64::from(*b));
                conn.ok(&format!("{} {sum}", request.body.len()));
            }
        });
        let gateway = gateway(&origin, "request: {memory: 64KiB, file: 8MiB}");
        let body: Vec<u8> = (0..8 << 20).map(|i: u32| (i >> 3) as u8).collect();
        let sum = body.iter().fold(0_u64, |sum, b| sum.wrapping_mul(31) + u64::from(*b));
        let response = gateway.client().post("/", &body);
        assert_eq!(response.text(), format!("{} {sum}", body.len()));
        assert!(gateway.peak_kib() < 32 << 10, "{} KiB", gateway.peak_kib());
        let mut client = gateway.client();
        client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9000000\r\n\r\n");
        let response = client.response();
        assert_eq!((response.status, response.reason()), (413, "body_too_large"));
        let mut client = gateway.client();
        client.send("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n");
        for _ in 0..150 {
            client.send(format!("10000\r\n{}\r\n", "x".repeat(65536)));
        }
        let response = client.response();
        assert_eq!((response.status, response.reason()), (413, "body_too_large"));
        assert_eq!(origin.count(), 1);
        gateway.reconcile(&[&origin]);
    }

    #[test]
    fn that_are_whole_can_be_sent_again() {
        // A buffered PUT that hit a stale connection is replayed with its body.
        let origin = Origin::play(|conn| {
            while let Some(request) = conn.request() {
                if conn.index() == 0 && request.target == "/second" {
                    return;
                }
                conn.ok(&format!("{} {}", conn.index(), String::from_utf8_lossy(&request.body)));
            }
        });
        let gateway = gateway(&origin, "request: on");
        let mut client = gateway.client();
        assert_eq!(client.get("/first").status, 200);
        let response = client.ask("PUT /second HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nbody");
        assert_eq!(response.text(), "1 body");
        gateway.reconcile(&[&origin]);
    }

    #[test]
    fn expect_is_answered_by_the_gateway() {
        let origin = Origin::echo();
        let gateway = gateway(&origin, "request: on");
        let mut client = gateway.client();
        client.send("POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 4\r\n\r\n");
        assert_eq!(client.interim().status, 100);
        assert_eq!(origin.count(), 0);
        client.send("body");
        assert_eq!(client.response().text(), "POST / body");
        gateway.reconcile(&[&origin]);
    }
}

mod responses {
    use super::*;

    #[test]
    fn let_the_origin_go_before_the_client_has_read() {
        const SIZE: usize = (16 << 20) + 1;
        let origin = Origin::play(|conn| {
            while let Some(request) = conn.request() {
                if request.target == "/big" {
                    conn.send(format!("HTTP/1.1 200 OK\r\nContent-Length: {SIZE}\r\n\r\n"));
                    conn.send(vec![b'z'; SIZE]);
                } else {
                    conn.ok("small");
                }
            }
        });
        let gateway = gateway(&origin, "response: {memory: 64KiB, file: 64MiB}");
        let mut slow = gateway.small_client(16 << 10);
        slow.send("GET /big HTTP/1.1\r\nHost: a\r\n\r\n");
        // The connection that carried the large answer is free again for the next client.
        eventually("the connection to be used again", || {
            gateway.metrics().sum("tollgate_upstream_connections", "state=\"idle\"").is_some_and(|n| n >= 1.0)
        });
        assert_eq!(gateway.client().get("/small").text(), "small");
        assert_eq!(origin.connections(), 1);
        assert!(gateway.peak_kib() < 32 << 10, "{} KiB", gateway.peak_kib());
        let response = slow.response();
        assert!(response.body.len() == SIZE && response.body.iter().all(|b| *b == b'z'), "bytes differ");
        gateway.reconcile(&[&origin]);
    }

    #[test]
    fn stream_on_past_the_bounds() {
        let gate = Gate::new();
        let opened = gate.clone();
        let origin = Origin::play(move |conn| {
            conn.request();
            conn.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
            for _ in 0..4 {
                conn.send(format!("10000\r\n{}\r\n", "x".repeat(65536)));
            }
            opened.wait();
            conn.send("3\r\nend\r\n0\r\n\r\n");
            conn.wait_close();
        });
        let gateway = gateway(&origin, "response: {memory: 16KiB, file: 64KiB}");
        let mut client = gateway.client();
        client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
        // More bytes have arrived than the bounds permit, so the gateway passes them on before the end.
        let mut head = client.head();
        gate.open();
        assert_eq!(client.try_body(&mut head), Ok(()));
        assert_eq!(head.body.len(), 4 * 65536 + 3);
        gateway.reconcile(&[&origin]);
    }

    #[test]
    fn every_framing_still_arrives() {
        for (bytes, close) in [
            ("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", false),
            ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\nT: v\r\n\r\n", false),
            ("HTTP/1.1 200 OK\r\n\r\nok", true),
        ] {
            let origin = if close { Origin::fixed_then_close(bytes) } else { Origin::fixed(bytes) };
            let gateway = gateway(&origin, "request: on, response: on");
            let mut client = gateway.client();
            for _ in 0..2 {
                let response = client.post("/", b"body");
                assert_eq!(response.text(), "ok", "{bytes:?}");
                assert_ne!(response.framing, Framing::Close);
            }
            gateway.reconcile(&[&origin]);
        }
    }
}
