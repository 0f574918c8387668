//! Attack class 11: stalls at every point. Each wait has an end, with its status and reason.
//!
//! Times are short so that the tests are quick. Only generous upper bounds decide whether a test passes.

use std::time::{Duration, Instant};

use tollgate_tests::{Gateway, Origin, ReadError, Signal, eventually, full_backlog};

const HEAD: &str = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";

#[test]
fn a_head_that_does_not_come() {
    let origin = Origin::ok();
    let gateway = Gateway::with(&origin, "timeouts: {header: 300ms}");
    for at in [1, 5, 16, 20, HEAD.len() - 1] {
        let mut client = gateway.client();
        client.send(&HEAD[..at]);
        let response = client.response();
        assert_eq!((response.status, response.reason()), (408, "header_timeout"), "stalled at {at}");
        assert!(response.says_close());
        client.expect_close();
    }
    // After an answered request as well.
    let mut client = gateway.client();
    assert_eq!(client.get("/").status, 200);
    client.send("GET /");
    assert_eq!(client.response().status, 408);
    client.expect_close();
    assert_eq!(origin.count(), 1);
    gateway.reconcile(&[&origin]);
}

#[test]
fn a_head_that_dribbles_wins_no_time() {
    let origin = Origin::ok();
    let gateway = Gateway::with(&origin, "timeouts: {header: 300ms}");
    let mut client = gateway.client();
    let start = Instant::now();
    client.send("GET / HTTP/1.1\r\nHost: a\r\n");
    while start.elapsed() < tollgate_tests::DEADLINE {
        client.send("X: y\r\n");
        std::thread::sleep(Duration::from_millis(20));
        client.wire().set_deadline(Duration::from_millis(1));
        if client.wire().wait_data() != Err(ReadError::TimedOut) {
            break;
        }
    }
    client.wire().set_deadline(tollgate_tests::DEADLINE);
    assert_eq!(client.response().status, 408);
    assert_eq!(origin.count(), 0);
}

#[test]
fn an_endpoint_has_its_time_from_when_it_is_asked() {
    // However long the client took to send the request, and whichever policy service was asked before.
    let slow = Origin::play(|conn| {
        while conn.request().is_some() {
            std::thread::sleep(Duration::from_millis(600));
            conn.send("HTTP/1.1 204 No Content\r\n\r\n");
        }
    });
    let asked = format!(", policies: {{forward_auth: {{url: \"http://{}\", timeout: 10s}}}}", slow.address());
    for timeout in ["timeouts: {response_header: 300ms}", "retry: {attempts: 1, per_try: 300ms}"] {
        for policy in ["", &asked] {
            let origin = Origin::ok();
            let to = origin.address();
            let gateway = Gateway::start(&format!("routes: [{{to: [{to}], {timeout}{policy}}}]"));
            let mut client = gateway.client();
            // A new connection to the endpoint has a timeout of its own; the next request reuses this
            // connection.
            assert_eq!(client.get("/").status, 200, "{timeout} {policy}");
            client.send("GET / HTTP/1.1\r\n");
            if policy.is_empty() {
                std::thread::sleep(Duration::from_millis(600));
            }
            client.send("Host: a\r\n\r\n");
            let response = client.response();
            assert_eq!((response.status, response.reason()), (200, "-"), "{timeout} {policy}");
            assert_eq!(origin.connections(), 1);
        }
    }
}

#[test]
fn an_idle_connection() {
    let origin = Origin::ok();
    let gateway = Gateway::with(&origin, "timeouts: {idle: 200ms}");
    // One client never sent a byte; the other did.
    let mut silent = gateway.client();
    let mut client = gateway.client();
    assert_eq!(client.get("/").status, 200);
    client.expect_close();
    silent.expect_close();
    gateway.reconcile(&[&origin]);
}

#[test]
fn a_request_body_that_stalls() {
    for framing in [
        "Content-Length: 10\r\n\r\n0123",
        "Transfer-Encoding: chunked\r\n\r\n4\r\n0123\r\n",
        "Content-Length: 10\r\n\r\n",
    ] {
        let origin = Origin::ok();
        let gateway = Gateway::with(&origin, "timeouts: {body: 300ms}");
        let mut client = gateway.client();
        client.send(format!("POST / HTTP/1.1\r\nHost: a\r\n{framing}"));
        let response = client.response();
        assert_eq!((response.status, response.reason()), (408, "body_timeout"), "{framing:?}");
        client.expect_close();
        eventually("the origin to be let go", || origin.open() == 0);
        assert!(!origin.request().complete);
        gateway.reconcile(&[&origin]);
    }
}

#[test]
fn a_client_that_awaits_100_continue_is_not_blamed() {
    let origin = Origin::play(|conn| {
        conn.head();
        conn.wait_close();
    });
    let gateway = Gateway::with(&origin, "timeouts: {response_header: 300ms, body: 1h}");
    let mut client = gateway.client();
    client.send("POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 10\r\n\r\n");
    let response = client.response();
    assert_eq!((response.status, response.reason()), (504, "http_response_timeout"));
}

#[test]
fn a_slow_but_steady_body_is_no_stall() {
    let origin = Origin::echo();
    let gateway = Gateway::with(&origin, "timeouts: {body: 2s}");
    let mut client = gateway.client();
    client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 30\r\n\r\n");
    for _ in 0..30 {
        std::thread::sleep(Duration::from_millis(80));
        client.send("x");
    }
    assert_eq!(client.response().status, 200);
}

#[test]
fn a_connect_without_an_answer() {
    let (address, kept) = full_backlog();
    let gateway = Gateway::start(&format!(
        "timeouts: {{connect: 300ms}}\nroutes: [{{match: \"/*\", to: [{address}]}}]"
    ));
    let mut client = gateway.client();
    for _ in 0..2 {
        let response = client.get("/");
        assert_eq!((response.status, response.reason()), (504, "connection_timeout"));
    }
    drop(kept);
    let records = gateway.wait_records(2);
    assert_eq!(records[0]["reason"], "connection_timeout");
}

/// A pod that is gone does not refuse connections: it answers nothing. A request that waits for it goes on as soon as the
/// endpoint is removed. (Requests during a rolling restart waited for the whole timeout.)
#[test]
fn a_connect_to_an_endpoint_that_is_removed_does_not_wait() {
    let (gone, kept) = full_backlog();
    let origin = Origin::ok();
    let there = origin.address();
    let file = |endpoints: &str| {
        format!(
            "listen: $LISTEN\nroutes: [{{match: \"/*\", to: pods}}]\nupstreams: {{pods: [{endpoints}]}}\n"
        )
    };
    let gateway = Gateway::start(&file(&format!("\"{gone}\", \"{there}\"")));
    let begin = Instant::now();
    let mut clients: Vec<_> = (0..8).map(|_| gateway.client()).collect();
    for client in &mut clients {
        client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    }
    eventually("a request to be answered", || origin.count() >= 1);
    gateway.write_config(&file(&format!("\"{there}\"")));
    gateway.signal(Signal::HUP);
    for client in &mut clients {
        assert_eq!(client.response().status, 200);
    }
    assert!(begin.elapsed() < Duration::from_secs(3), "{:?}", begin.elapsed());
    drop(kept);
}

#[test]
fn a_response_head_that_does_not_come() {
    for part in ["", "H", "HTTP/1.1 200 OK\r\nContent-Le"] {
        let origin = Origin::play(move |conn| {
            if conn.request().is_some() {
                conn.send(part);
                conn.wait_close();
            }
        });
        let gateway = Gateway::with(&origin, "timeouts: {response_header: 300ms}");
        let mut client = gateway.client();
        for _ in 0..2 {
            let response = client.get("/");
            assert_eq!((response.status, response.reason()), (504, "http_response_timeout"), "{part:?}");
        }
        eventually("the origin to be let go", || origin.open() == 0);
        assert_eq!(origin.count(), 2, "{part:?}");
        gateway.reconcile(&[&origin]);
    }
}

#[test]
fn interim_answers_win_no_time() {
    let origin = Origin::play(|conn| {
        if conn.request().is_some() {
            while conn.send("HTTP/1.1 102 Processing\r\n\r\n") {
                conn.pause(Duration::from_millis(20));
            }
        }
    });
    let gateway = Gateway::with(&origin, "timeouts: {response_header: 400ms}");
    let response = gateway.client().get("/");
    assert!(response.status == 504 || response.status == 502, "{response:?}");
    eventually("the origin to be let go", || origin.open() == 0);
    gateway.reconcile(&[&origin]);
}

#[test]
fn a_response_body_that_stalls_is_cut() {
    for framing in ["Content-Length: 10\r\n\r\n0123", "Transfer-Encoding: chunked\r\n\r\n4\r\n0123\r\n"] {
        let origin = Origin::play(move |conn| {
            if conn.request().is_some() {
                conn.send(format!("HTTP/1.1 200 OK\r\n{framing}"));
                conn.wait_close();
            }
        });
        let gateway = Gateway::with(&origin, "timeouts: {response_body: 300ms}");
        let mut client = gateway.client();
        client.send(HEAD);
        assert_eq!(
            client.try_response("GET").expect_err("the answer is cut"),
            ReadError::Truncated,
            "{framing:?}"
        );
        eventually("the origin to be let go", || origin.open() == 0);
        assert_eq!(gateway.wait_records(1)[0]["reason"], "connection_read_timeout");
        gateway.reconcile(&[&origin]);
    }
}

#[test]
fn an_origin_that_takes_no_byte_of_the_request() {
    let origin = Origin::play(|conn| {
        conn.head();
        conn.pause(Duration::from_secs(15));
    });
    let gateway = Gateway::with(&origin, "timeouts: {send: 400ms}");
    let mut client = gateway.client();
    client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 500000000\r\n\r\n");
    let mut writer = client.wire().stream().expect("open").try_clone().expect("clone");
    let sending = std::thread::spawn(move || {
        use std::io::Write;
        while writer.write_all(&[b'x'; 65536]).is_ok() {}
    });
    let response = client.response();
    assert_eq!((response.status, response.reason()), (504, "connection_write_timeout"));
    client.reset();
    sending.join().expect("no panic");
    gateway.reconcile(&[&origin]);
}

#[test]
fn a_client_that_reads_nothing_is_reset() {
    let origin = Origin::play(|conn| {
        if conn.request().is_some() {
            conn.send("HTTP/1.1 200 OK\r\nContent-Length: 500000000\r\n\r\n");
            while conn.send([b'x'; 65536]) {}
        }
    });
    let gateway = Gateway::with(&origin, "timeouts: {write: 400ms}");
    let mut client = gateway.small_client(16 << 10);
    client.send(HEAD);
    eventually("the origin to be let go", || origin.count() == 1 && origin.open() == 0);
    assert_eq!(gateway.wait_records(1)[0]["reason"], "client_write_timeout");
    assert!(client.try_response("GET").is_err());
}

mod total {
    use super::*;

    #[test]
    fn before_the_answer_is_a_504() {
        let origin = Origin::play(|conn| {
            conn.request();
            conn.wait_close();
        });
        let gateway = Gateway::with(&origin, "timeouts: {total: 300ms}");
        let mut client = gateway.client();
        let response = client.get("/");
        assert_eq!((response.status, response.reason()), (504, "request_timeout"));
        eventually("the origin to be let go", || origin.open() == 0);
        gateway.reconcile(&[&origin]);
    }

    /// Starts an origin that never answers.
    fn silent() -> Origin {
        Origin::play(|conn| {
            conn.request();
            conn.wait_close();
        })
    }

    /// Returns how often an endpoint was ejected. One failure is enough for that.
    fn ejections(gateway: &Gateway) -> f64 {
        gateway.metrics().sum("tollgate_upstream_ejections_total", "upstream=\"u\"").expect("the metric")
    }

    #[test]
    fn an_upload_that_uses_it_up_is_not_the_endpoints_fault() {
        const POST: &str = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\n";
        for (upstream, route) in [
            ("", ""),
            ("", ", buffer: request"),
            (", hedge: {after: 20s, methods: [POST]}", ", buffer: request"),
        ] {
            // The only endpoint would never be ejected.
            let origins = [silent(), silent()];
            let gateway = Gateway::start(&format!(
                "timeouts: {{total: 1500ms}}\nroutes: [{{match: \"/*\", to: u{route}}}]\n\
                 upstreams: {{u: {{endpoints: [{}, {}], retry: off, outlier: {{consecutive_5xx: 1, \
                 consecutive_gateway_errors: 1, max_ejected: 100%}}{upstream}}}}}\n",
                origins[0].address(),
                origins[1].address()
            ));
            let mut client = gateway.client();
            client.send(POST);
            for _ in 0..10 {
                std::thread::sleep(Duration::from_millis(110));
                client.send("x");
            }
            let response = client.response();
            assert_eq!((response.status, response.reason()), (504, "request_timeout"), "{upstream}{route}");
            eventually("the endpoint to be let go", || origins.iter().all(|origin| origin.open() == 0));
            assert_eq!(ejections(&gateway), 0.0, "{upstream}{route}");
            // With a quick upload it is.
            let mut client = gateway.client();
            client.send(POST);
            std::thread::sleep(Duration::from_millis(10));
            client.send("xxxxxxxxxx");
            assert_eq!(client.response().status, 504, "{upstream}{route}");
            eventually("the ejection", || ejections(&gateway) == 1.0);
        }
    }

    #[test]
    fn within_the_answer_cuts_it() {
        let origin = Origin::play(|conn| {
            if conn.request().is_some() {
                conn.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
                while conn.send("1\r\nx\r\n") {
                    conn.pause(Duration::from_millis(10));
                }
            }
        });
        let gateway = Gateway::with(&origin, "timeouts: {total: 400ms}");
        let mut client = gateway.client();
        client.send(HEAD);
        assert_eq!(client.try_response("GET").expect_err("the answer is cut"), ReadError::Truncated);
        assert_eq!(gateway.wait_records(1)[0]["reason"], "request_timeout");
        gateway.reconcile(&[&origin]);
    }
}

#[test]
fn a_route_s_timeout_wins_over_the_upstream_s_and_that_over_the_gateway_s() {
    let origin = Origin::play(|conn| {
        while let Some(request) = conn.request() {
            if request.target == "/patient" {
                conn.pause(Duration::from_millis(500));
                conn.ok("late");
            } else {
                conn.wait_close();
            }
        }
    });
    let gateway = Gateway::start(&format!(
        "timeouts: {{response_header: 300s}}\n\
         routes:\n\
         \x20 - {{match: /patient, to: u, timeouts: {{response_header: off}}}}\n\
         \x20 - {{match: /route, to: u, timeouts: {{response_header: 100ms}}}}\n\
         \x20 - {{match: \"/*\", to: u}}\n\
         upstreams:\n\
         \x20 u: {{endpoints: [{}], timeouts: {{response_header: 200ms}}}}\n",
        origin.address()
    ));
    let mut client = gateway.client();
    assert_eq!(client.get("/patient").text(), "late");
    assert_eq!(client.get("/route").reason(), "http_response_timeout");
    assert_eq!(client.get("/other").reason(), "http_response_timeout");
    gateway.reconcile(&[&origin]);
}

#[test]
fn stalled_clients_do_not_hold_up_others() {
    let origin = Origin::ok();
    let gateway = Gateway::to(&origin);
    let mut stalled = Vec::new();
    for i in 0..100 {
        let mut client = gateway.client();
        match i % 3 {
            0 => client.send(""),
            1 => client.send("GET / HT"),
            _ => client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\nhalf"),
        }
        stalled.push(client);
    }
    let mut client = gateway.client();
    for _ in 0..100 {
        assert_eq!(client.get("/").status, 200);
    }
}
