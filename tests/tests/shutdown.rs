//! SIGTERM and SIGINT: requests in progress end, no new ones start, exit code 0.

use std::net::TcpStream;

use tollgate_tests::{Client, Gate, Gateway, Origin, ReadError, Signal, eventually};

#[test]
fn an_idle_gateway_ends_at_once() {
    for signal in [Signal::TERM, Signal::INT] {
        let origin = Origin::ok();
        let mut gateway = Gateway::to(&origin);
        let mut idle = gateway.client();
        assert_eq!(idle.get("/").status, 200);
        let mut silent = gateway.client();
        gateway.signal(signal);
        assert_eq!(gateway.wait_exit().code(), Some(0));
        idle.expect_close();
        silent.expect_close();
        eventually("the pool to be closed", || origin.open() == 0);
    }
}

/// Starts an origin that holds every request until the gate opens.
fn held(gate: &Gate) -> Origin {
    let gate = gate.clone();
    Origin::play(move |conn| {
        while conn.request().is_some() {
            gate.wait();
            conn.ok("finished");
        }
    })
}

/// Starts a gateway with a request that waits for the gate.
fn in_flight(gate: &Gate) -> (Origin, Gateway, Client) {
    let origin = held(gate);
    let gateway = Gateway::to(&origin);
    let mut client = gateway.client();
    client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    eventually("the request", || origin.count() == 1);
    (origin, gateway, client)
}

#[test]
fn requests_in_flight_end_first() {
    let gate = Gate::new();
    let (origin, mut gateway, mut client) = in_flight(&gate);
    gateway.signal(Signal::TERM);
    eventually("new connections to be refused", || TcpStream::connect(gateway.address()).is_err());
    gate.open();
    let response = client.response();
    assert_eq!((response.text().as_str(), response.says_close()), ("finished", true));
    client.expect_close();
    assert_eq!(gateway.wait_exit().code(), Some(0));
    assert_eq!(gateway.records().len(), 1);
    gateway.reconcile(&[&origin]);
}

#[test]
fn an_upload_in_flight_ends_first() {
    let origin = Origin::echo();
    let mut gateway = Gateway::to(&origin);
    let mut client = gateway.client();
    client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\n01234");
    eventually("the request", || origin.count() == 1);
    gateway.signal(Signal::TERM);
    eventually("new connections to be refused", || TcpStream::connect(gateway.address()).is_err());
    client.send("56789");
    assert_eq!(client.response().text(), "POST / 0123456789");
    assert_eq!(gateway.wait_exit().code(), Some(0));
}

#[test]
fn unfinished_requests_are_cut_at_the_deadline() {
    let gate = Gate::new();
    let origin = held(&gate);
    let mut gateway = Gateway::with(&origin, "timeouts: {drain: 300ms}");
    let mut client = gateway.client();
    client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    eventually("the request", || origin.count() == 1);
    gateway.signal(Signal::TERM);
    assert_eq!(gateway.wait_exit().code(), Some(0));
    match client.try_response("GET") {
        Ok(response) => assert_eq!((response.status, response.reason()), (503, "shutting_down")),
        Err(error) => assert!(matches!(error, ReadError::Closed | ReadError::Truncated), "{error:?}"),
    }
    gate.open();
    assert_eq!(gateway.records().len(), 1, "the exchange that was cut has its record");
}

#[test]
fn readiness_ends_before_health() {
    let gate = Gate::new();
    let (_origin, mut gateway, mut client) = in_flight(&gate);
    gateway.signal(Signal::TERM);
    eventually("unreadiness", || gateway.admin("/readyz").status == 503);
    assert_eq!(gateway.admin("/healthz").status, 200);
    gate.open();
    assert_eq!(client.response().status, 200);
    assert_eq!(gateway.wait_exit().code(), Some(0));
}

#[test]
fn a_second_signal_does_not_wait() {
    let gate = Gate::new();
    let (_origin, mut gateway, _client) = in_flight(&gate);
    gateway.signal(Signal::TERM);
    eventually("the drain to begin", || TcpStream::connect(gateway.address()).is_err());
    gateway.signal(Signal::TERM);
    // Any way to end is acceptable, if it comes well before the drain deadline of 30 s.
    let _ = gateway.wait_exit();
    gate.open();
}

#[test]
fn the_log_can_be_rotated_during_a_drain() {
    let gate = Gate::new();
    let (_origin, mut gateway, mut client) = in_flight(&gate);
    gateway.signal(Signal::TERM);
    eventually("the drain to begin", || TcpStream::connect(gateway.address()).is_err());
    std::fs::rename(gateway.log_file(), gateway.directory().join("rotated.log")).expect("a log");
    gateway.signal(Signal::USR1);
    eventually("a new log", || gateway.log_file().exists());
    gate.open();
    assert_eq!(client.response().status, 200);
    assert_eq!(gateway.wait_exit().code(), Some(0));
    assert_eq!(gateway.records().len(), 1);
}

#[test]
fn a_tunnel_may_go_on_until_the_deadline() {
    let origin = Origin::play(|conn| {
        if conn.request().is_some() {
            conn.send(
                "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n",
            );
            conn.echo_bytes();
        }
    });
    let mut gateway = Gateway::with(&origin, "timeouts: {drain: 1s}");
    let mut client = gateway.client();
    client.send("GET / HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n");
    assert_eq!(client.head().status, 101);
    gateway.signal(Signal::TERM);
    eventually("new connections to be refused", || TcpStream::connect(gateway.address()).is_err());
    client.send("still here");
    assert_eq!(client.wire().take(10), Ok(b"still here".to_vec()));
    assert_eq!(gateway.wait_exit().code(), Some(0));
    client.expect_close();
    eventually("the origin to be let go", || origin.open() == 0);
    assert_eq!(gateway.records().len(), 1);
}

#[test]
fn a_busy_client_gets_connection_close_and_loses_nothing() {
    let origin = Origin::echo();
    let mut gateway = Gateway::to(&origin);
    let clients: Vec<_> = (0..4)
        .map(|_| {
            let mut client = gateway.client();
            std::thread::spawn(move || {
                let mut answers = 0;
                loop {
                    let answer = client.try_exchange("/x").unwrap_or_else(|error| {
                        panic!("an answer was lost after {answers}: {error:?}");
                    });
                    answers += 1;
                    if answer.says_close() {
                        return answers;
                    }
                    std::thread::sleep(std::time::Duration::from_millis(20));
                }
            })
        })
        .collect();
    eventually("traffic", || origin.count() > 20);
    gateway.signal(Signal::TERM);
    let answers: usize = clients.into_iter().map(|client| client.join().expect("told, not cut off")).sum();
    assert_eq!(gateway.wait_exit().code(), Some(0));
    assert_eq!(gateway.records().len(), answers);
}

#[test]
fn with_a_delay_new_clients_are_still_served() {
    let origin = Origin::ok();
    let mut gateway = Gateway::with(&origin, "timeouts: {drain_delay: 1s}");
    let mut kept = gateway.client();
    assert!(!kept.get("/").says_close());
    gateway.signal(Signal::TERM);
    eventually("unreadiness", || gateway.admin("/readyz").status == 503);
    // A client that has not checked readiness yet still connects, and is served.
    let answer = gateway.client().get("/");
    assert_eq!((answer.status, answer.says_close()), (200, true));
    let answer = kept.get("/");
    assert_eq!((answer.status, answer.says_close()), (200, true), "kept connections are told at once");
    eventually("new connections to be refused", || TcpStream::connect(gateway.address()).is_err());
    assert_eq!(gateway.wait_exit().code(), Some(0));
    gateway.reconcile(&[&origin]);
}

#[test]
fn a_second_signal_ends_the_delay_too() {
    let origin = Origin::ok();
    let mut gateway = Gateway::with(&origin, "timeouts: {drain_delay: 1h}");
    gateway.signal(Signal::TERM);
    eventually("unreadiness", || gateway.admin("/readyz").status == 503);
    gateway.signal(Signal::TERM);
    assert_eq!(gateway.wait_exit().code(), Some(0));
}
