//! Connections that stay open, on both sides (RFC 9112, section 9), and HTTP/1.0.

use std::time::Duration;

use tollgate_tests::{Framing, Gate, Gateway, Origin, ReadError, eventually};

#[test]
fn many_requests_share_one_connection_on_each_side() {
    let origin = Origin::echo();
    let gateway = Gateway::to(&origin);
    let mut client = gateway.client();
    for i in 0..200 {
        assert_eq!(client.get(&format!("/{i}")).text(), format!("GET /{i} "));
    }
    assert_eq!((origin.count(), origin.connections()), (200, 1));
    gateway.reconcile(&[&origin]);
}

#[test]
fn upstream_connections_are_shared_by_clients_that_come_after_each_other() {
    let origin = Origin::ok();
    let gateway = Gateway::to(&origin);
    for _ in 0..20 {
        let mut client = gateway.client();
        assert_eq!(client.get("/").status, 200);
    }
    assert_eq!(origin.connections(), 1);
}

#[test]
fn pipelined_requests_are_answered_in_order() {
    let origin = Origin::echo();
    let gateway = Gateway::to(&origin);
    let mut client = gateway.client();
    let mut all = String::new();
    for i in 0..50 {
        all += &match i % 3 {
            0 => format!("GET /{i} HTTP/1.1\r\nHost: a\r\n\r\n"),
            1 => format!("POST /{i} HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nbody"),
            _ => format!(
                "PUT /{i} HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nbody\r\n0\r\n\r\n"
            ),
        };
    }
    client.send(&all);
    for i in 0..50 {
        let expected = [format!("GET /{i} "), format!("POST /{i} body"), format!("PUT /{i} body")];
        assert_eq!(client.response().text(), expected[i % 3]);
    }
    assert_eq!(origin.count(), 50);
    gateway.reconcile(&[&origin]);
}

#[test]
fn a_pipelined_request_waits_for_the_answer_before_it() {
    let gate = Gate::new();
    let opened = gate.clone();
    let origin = Origin::play(move |conn| {
        while let Some(request) = conn.request() {
            if request.target == "/slow" {
                opened.wait();
            }
            conn.ok(&request.target);
        }
    });
    let gateway = Gateway::to(&origin);
    let mut client = gateway.client();
    client.send("GET /slow HTTP/1.1\r\nHost: a\r\n\r\nGET /fast HTTP/1.1\r\nHost: a\r\n\r\n");
    eventually("the slow request at the origin", || origin.count() >= 1);
    client.expect_silence(Duration::from_millis(50));
    gate.open();
    assert_eq!(client.response().text(), "/slow");
    assert_eq!(client.response().text(), "/fast");
    gateway.reconcile(&[&origin]);
}

#[test]
fn connection_close_ends_the_connection_after_the_answer() {
    for token in ["close", "Close", "keep-alive, close", "foo, CLOSE"] {
        let origin = Origin::ok();
        let gateway = Gateway::to(&origin);
        let mut client = gateway.client();
        let response = client.ask(format!("GET / HTTP/1.1\r\nHost: a\r\nConnection: {token}\r\n\r\n"));
        assert_eq!((response.status, response.says_close()), (200, true), "{token}");
        client.expect_close();
        // The client's `Connection: close` does not close the connection to the origin.
        assert_eq!(gateway.client().get("/").status, 200);
        assert_eq!(origin.connections(), 1, "{token}");
    }
}

#[test]
fn requests_after_connection_close_are_ignored() {
    let origin = Origin::ok();
    let gateway = Gateway::to(&origin);
    let mut client = gateway.client();
    client.send("GET /1 HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\nGET /2 HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(client.response().status, 200);
    client.expect_close();
    assert_eq!(origin.count(), 1);
    gateway.reconcile(&[&origin]);
}

mod http_1_0 {
    use super::*;

    #[test]
    fn closes_unless_asked_to_keep() {
        let origin = Origin::ok();
        let gateway = Gateway::to(&origin);
        let mut client = gateway.client();
        assert_eq!(client.ask("GET / HTTP/1.0\r\n\r\n").text(), "ok");
        client.expect_close();

        let mut client = gateway.client();
        for _ in 0..3 {
            let response = client.ask("GET / HTTP/1.0\r\nHost: a\r\nConnection: keep-alive\r\n\r\n");
            assert_eq!(response.text(), "ok");
            assert!(response.headers.lists("Connection", "keep-alive"), "{response:?}");
        }
        gateway.reconcile(&[&origin]);
    }

    #[test]
    fn the_origin_gets_http_1_1() {
        let origin = Origin::ok();
        let gateway = Gateway::to(&origin);
        assert_eq!(gateway.client().ask("GET /x HTTP/1.0\r\nHost: a\r\n\r\n").status, 200);
        let request = origin.request();
        assert_eq!(request.version, "HTTP/1.1");
        assert_eq!(request.headers.get("Host"), Some("a"));
    }

    #[test]
    fn never_gets_a_chunked_answer() {
        let origin = Origin::fixed(
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: T\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\nT: v\r\n\r\n",
        );
        let gateway = Gateway::to(&origin);
        for connection in ["close", "keep-alive"] {
            let mut client = gateway.client();
            let response =
                client.ask(format!("GET / HTTP/1.0\r\nHost: a\r\nConnection: {connection}\r\n\r\n"));
            assert_eq!((response.framing, response.text().as_str()), (Framing::Close, "abcde"));
        }
        gateway.reconcile(&[&origin]);
    }

    #[test]
    fn never_gets_an_interim_answer() {
        let origin = Origin::fixed(
            "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
        );
        let gateway = Gateway::to(&origin);
        let response = gateway.client().ask("GET / HTTP/1.0\r\nHost: a\r\n\r\n");
        assert_eq!((response.status, response.interim.len()), (200, 0));
    }

    #[test]
    fn an_http10_origin_is_kept_only_with_keep_alive() {
        let origin = Origin::play(|conn| {
            if conn.request().is_some() {
                conn.send("HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok");
                // The origin sends nothing more: a request that reused the connection would hang.
                conn.wait_close();
            }
        });
        let gateway = Gateway::to(&origin);
        let mut client = gateway.client();
        for _ in 0..3 {
            let response = client.get("/");
            assert_eq!((response.version.as_str(), response.text().as_str()), ("HTTP/1.1", "ok"));
        }
        assert_eq!(origin.connections(), 3);
        eventually("the gateway to close what it cannot use", || origin.open() == 0);
        gateway.reconcile(&[&origin]);
    }

    #[test]
    fn the_end_of_an_origin_s_connection_ends_the_body() {
        let origin =
            Origin::fixed_then_close("HTTP/1.0 200 OK\r\nContent-Type: text/plain\r\n\r\nuntil the end");
        let gateway = Gateway::to(&origin);
        let mut client = gateway.client();
        for _ in 0..2 {
            let response = client.get("/");
            assert_eq!((response.framing, response.text().as_str()), (Framing::Chunked, "until the end"));
        }
        gateway.reconcile(&[&origin]);
    }
}

#[test]
fn empty_lines_before_a_request_are_skipped() {
    // RFC 9112, section 2.2: a server SHOULD ignore at least one empty line.
    let origin = Origin::ok();
    let gateway = Gateway::to(&origin);
    let mut client = gateway.client();
    client.send("\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(client.response().status, 200);
    client.send("\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(client.response().status, 200);
}

#[test]
fn endless_empty_lines_are_refused() {
    let origin = Origin::ok();
    let gateway = Gateway::to(&origin);
    let mut client = gateway.client();
    client.send("\r\n".repeat(100_000));
    match client.try_response("GET") {
        Ok(response) => assert!((400..500).contains(&response.status), "{response:?}"),
        Err(error) => assert!(matches!(error, ReadError::Closed | ReadError::Truncated), "{error:?}"),
    }
    client.expect_close();
    assert_eq!(origin.count(), 0);
}

#[test]
fn requests_a_connection_are_limited() {
    let origin = Origin::ok();
    let gateway = Gateway::with(&origin, "limits: {requests_per_connection: 3}");
    let mut client = gateway.client();
    assert!(!client.get("/").says_close());
    assert!(!client.get("/").says_close());
    assert!(client.get("/").says_close());
    client.expect_close();
}

#[test]
fn requests_a_connection_are_limited_whatever_the_answers() {
    // No process listens on this port.
    let gateway = Gateway::start(
        "limits: {requests_per_connection: 3}\nroutes: [{match: \"/*\", to: \"127.0.0.1:1\"}]\n",
    );
    let mut client = gateway.client();
    for last in [false, false, true] {
        let response = client.get("/");
        assert_eq!((response.status, response.says_close()), (502, last), "{response:?}");
    }
    client.expect_close();
}

#[test]
fn an_origin_that_closes_does_not_close_the_client() {
    for response in [
        "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok",
        "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nok",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n2\r\nok\r\n0\r\n\r\n",
    ] {
        let origin = Origin::fixed_then_close(response);
        let gateway = Gateway::to(&origin);
        let mut client = gateway.client();
        for _ in 0..3 {
            let got = client.get("/");
            assert_eq!((got.text().as_str(), got.says_close()), ("ok", false), "{response:?}");
        }
        assert_eq!((origin.count(), origin.connections()), (3, 3));
        gateway.reconcile(&[&origin]);
    }
}

mod stale {
    use super::*;

    /// Starts an origin that answers the first request of the first connection, and closes that connection on
    /// its second request. Every other connection works.
    fn forgetful() -> Origin {
        Origin::play(|conn| {
            while let Some(request) = conn.request() {
                if conn.index() == 0 && request.target != "/first" {
                    return;
                }
                conn.ok(&format!("{} {}", conn.index(), request.target));
            }
        })
    }

    #[test]
    fn a_get_that_met_a_closing_connection_is_sent_again_once() {
        for method in ["GET", "OPTIONS", "DELETE", "PUT"] {
            let origin = forgetful();
            let gateway = Gateway::to(&origin);
            let mut client = gateway.client();
            assert_eq!(client.get("/first").text(), "0 /first");
            let response = client.ask(format!("{method} /second HTTP/1.1\r\nHost: a\r\n\r\n"));
            assert_eq!(response.text(), "1 /second", "{method}");
            let seen = origin.requests();
            let targets: Vec<_> = seen.iter().map(|r| (r.connection, r.target.as_str())).collect();
            assert_eq!(targets, [(0, "/first"), (0, "/second"), (1, "/second")], "{method}");
            assert_eq!(seen[1].headers, seen[2].headers);
            gateway.reconcile(&[&origin]);
        }
    }

    #[test]
    fn a_post_whose_bytes_were_written_is_not_sent_again() {
        for request in [
            "POST /second HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nbody",
            "POST /second HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n",
            "POST /second HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nbody\r\n0\r\n\r\n",
            "PATCH /second HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nbody",
        ] {
            let origin = forgetful();
            let gateway = Gateway::to(&origin);
            let mut client = gateway.client();
            assert_eq!(client.get("/first").text(), "0 /first");
            let response = client.ask(request);
            assert_eq!((response.status, response.reason()), (502, "connection_terminated"), "{request:?}");
            assert_eq!(origin.count(), 2, "{request:?}");
            gateway.reconcile(&[&origin]);
        }
    }

    #[test]
    fn an_idle_connection_that_the_origin_closed_is_not_used() {
        // The end of the connection reaches the gateway before the request does: even a POST goes to a new
        // one.
        let origin = Origin::play(|conn| {
            if conn.request().is_some() {
                conn.ok("ok");
            }
        });
        let gateway = Gateway::to(&origin);
        let mut client = gateway.client();
        for round in 1..=5 {
            assert_eq!(client.post("/", b"body").status, 200);
            eventually("the origin to close", || origin.open() == 0);
            // The origin has sent the FIN; the gateway's worker needs a turn to see it.
            eventually("the gateway to see it", || {
                gateway.metrics().sum("tollgate_upstream_connections", "").is_none_or(|n| n == 0.0)
            });
            assert_eq!(origin.connections(), round);
        }
        gateway.reconcile(&[&origin]);
    }

    #[test]
    fn a_fresh_connection_that_closes_is_not_stale() {
        let origin = Origin::play(|conn| {
            conn.request();
        });
        let gateway =
            Gateway::start(&format!("routes: [{{match: \"/*\", to: \"{}\", retry: off}}]", origin.address()));
        let mut client = gateway.client();
        let response = client.get("/");
        assert_eq!((response.status, response.reason()), (502, "connection_terminated"));
        assert_eq!(origin.count(), 1);
        gateway.reconcile(&[&origin]);
    }

    #[test]
    fn a_second_stale_connection_is_not_met_by_the_second_try() {
        // Two idle connections, both about to close: the request is sent at most twice, the second time on a
        // new connection.
        let gate = Gate::new();
        let opened = gate.clone();
        let origin = Origin::play(move |conn| {
            while let Some(request) = conn.request() {
                if request.target == "/second" && conn.index() < 2 {
                    return;
                }
                if request.target == "/first" {
                    opened.wait();
                }
                conn.ok(&format!("{}", conn.index()));
            }
        });
        let gateway = Gateway::to(&origin);
        let (mut a, mut b) = (gateway.client(), gateway.client());
        for client in [&mut a, &mut b] {
            client.send("GET /first HTTP/1.1\r\nHost: a\r\n\r\n");
        }
        eventually("both at the origin", || origin.count() == 2);
        gate.open();
        assert_eq!((a.response().status, b.response().status), (200, 200));
        assert_eq!(a.get("/second").text(), "2");
        assert_eq!(origin.count(), 4);
        gateway.reconcile(&[&origin]);
    }
}

mod unasked {
    use super::*;

    const EVIL: &str = "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil";

    #[test]
    fn bytes_right_after_an_answer_never_answer_the_next_request() {
        for evil in [EVIL, "x", "\r\n", "HTTP/1.1 200 OK\r\n"] {
            let origin = Origin::play(move |conn| {
                while let Some(request) = conn.request() {
                    let body = &request.target;
                    conn.send(format!(
                        "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}{evil}",
                        body.len()
                    ));
                }
            });
            let gateway = Gateway::to(&origin);
            let (mut a, mut b) = (gateway.client(), gateway.client());
            for i in 0..5 {
                assert_eq!(a.get(&format!("/a{i}")).text(), format!("/a{i}"), "{evil:?}");
                assert_eq!(b.get(&format!("/b{i}")).text(), format!("/b{i}"), "{evil:?}");
            }
            assert_eq!(origin.connections(), 10, "a connection was used again after {evil:?}");
            gateway.reconcile(&[&origin]);
        }
    }

    #[test]
    fn bytes_on_an_idle_connection_destroy_it() {
        let (gate, sent) = (Gate::new(), Gate::new());
        let (go, done) = (gate.clone(), sent.clone());
        let origin = Origin::play(move |conn| {
            if conn.index() == 0 {
                conn.request();
                conn.ok("first");
                go.wait();
                conn.send(EVIL);
                done.open();
                conn.wait_close();
            } else {
                while conn.request().is_some() {
                    conn.ok("good");
                }
            }
        });
        let gateway = Gateway::to(&origin);
        let mut client = gateway.client();
        assert_eq!(client.get("/").text(), "first");
        gate.open();
        sent.wait();
        assert_eq!(client.get("/").text(), "good");
        eventually("the connection to be destroyed", || origin.open() == 1);
        gateway.reconcile(&[&origin]);
    }

    #[test]
    fn a_second_answer_to_head_is_unasked() {
        // The body that an origin wrongly sends after a HEAD must not become the next answer.
        let origin =
            Origin::fixed(format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{EVIL}", EVIL.len()));
        let gateway = Gateway::to(&origin);
        let mut client = gateway.client();
        client.send("HEAD / HTTP/1.1\r\nHost: a\r\n\r\n");
        assert_eq!(client.response_to("HEAD").body, b"");
        assert_eq!(client.get("/").text(), EVIL);
        assert_eq!(origin.connections(), 2);
    }
}

/// A listener whose clients may end their direction before their answers arrive.
const HALF_CLOSE: &str = "listen: {bind: $LISTEN, half_close: on}";

#[test]
fn half_closed_clients_get_their_answer() {
    let gate = Gate::new();
    let opened = gate.clone();
    let origin = Origin::play(move |conn| {
        while let Some(request) = conn.request() {
            opened.wait();
            conn.ok(&String::from_utf8_lossy(&request.body));
        }
    });
    let gateway = Gateway::with(&origin, HALF_CLOSE);
    let mut client = gateway.client();
    client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nbody");
    client.half_close();
    eventually("the request at the origin", || origin.count() == 1);
    gate.open();
    assert_eq!(client.response().text(), "body");
    client.expect_close();
    gateway.reconcile(&[&origin]);
}

#[test]
fn a_half_closed_client_gets_all_its_pipelined_answers() {
    let origin = Origin::echo();
    let gateway = Gateway::with(&origin, HALF_CLOSE);
    let mut client = gateway.client();
    client.send("GET /1 HTTP/1.1\r\nHost: a\r\n\r\nGET /2 HTTP/1.1\r\nHost: a\r\n\r\n");
    client.half_close();
    assert_eq!(client.response().text(), "GET /1 ");
    assert_eq!(client.response().text(), "GET /2 ");
    client.expect_close();
    gateway.reconcile(&[&origin]);
}

#[test]
fn a_reset_by_the_client_cancels_the_exchange() {
    let closed = Gate::new();
    let seen = closed.clone();
    let origin = Origin::play(move |conn| {
        if conn.index() > 0 {
            while conn.request().is_some() {
                conn.ok("next");
            }
        } else if conn.request().is_some() && conn.wait_close() {
            seen.open();
        }
    });
    let gateway = Gateway::to(&origin);
    let mut client = gateway.client();
    client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    eventually("the request at the origin", || origin.count() == 1);
    client.reset();
    closed.wait();
    eventually("the origin's connection to end", || origin.open() == 0);
    assert_eq!(gateway.client().get("/").text(), "next");
    let records = gateway.wait_records(2);
    assert!(records.iter().any(|record| record["reason"] == "client_closed"), "{records:#?}");
    gateway.reconcile(&[&origin]);
}

#[test]
fn a_client_that_pipelines_and_never_reads_is_held_back() {
    use std::io::Write;
    let origin =
        Origin::fixed(format!("HTTP/1.1 200 OK\r\nContent-Length: 10000\r\n\r\n{}", "x".repeat(10_000)));
    let gateway = Gateway::to(&origin);
    let mut client = gateway.small_client(16 << 10);
    let stream = client.wire().stream().expect("open");
    stream.set_write_timeout(Some(Duration::from_millis(500))).expect("timeout");
    let requests = "GET / HTTP/1.1\r\nHost: a\r\n\r\n".repeat(1000);
    let mut written = 0;
    while let Ok(n) = (&*stream).write(requests.as_bytes()) {
        written += n;
        assert!(written < 100 << 20, "the gateway reads on for answers that nobody takes");
    }
    assert!(gateway.peak_kib() < 32 << 10, "{} KiB", gateway.peak_kib());
    // Other clients are served during this.
    assert_eq!(gateway.client().get("/").status, 200);
    client.reset();
}
