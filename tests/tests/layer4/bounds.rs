//! Timeouts and limits of streams, and the memory of idle ones.

use std::io::{ErrorKind, Write};
use std::time::{Duration, Instant};

use tollgate_tests::eventually;

use super::{Relay, Server, expect, rest};

#[test]
fn an_idle_stream_ends_and_a_busy_one_goes_on() {
    let server = Server::echo();
    let more = format!("streams: [{{listeners: l4, to: \"{}\", timeouts: {{idle: 500ms}}}}]", server.address);
    let relay = Relay::start("", &more);
    let mut client = relay.connect();
    let started = Instant::now();
    while started.elapsed() < Duration::from_millis(1200) {
        client.write_all(b"x").expect("written");
        expect(&mut client, "x");
        std::thread::sleep(Duration::from_millis(100));
    }
    let silent = Instant::now();
    assert_eq!(rest(&mut client).expect("an end"), b"");
    assert!(silent.elapsed() > Duration::from_millis(300), "{:?}", silent.elapsed());
    assert_eq!(relay.record(1)["reason"], "idle_timeout");
}

#[test]
fn no_stream_lasts_longer_than_its_total() {
    let server = Server::echo();
    let more =
        format!("streams: [{{listeners: l4, to: \"{}\", timeouts: {{total: 500ms}}}}]", server.address);
    let relay = Relay::start("", &more);
    let mut client = relay.connect();
    let started = Instant::now();
    while client.write_all(b"x").is_ok() && started.elapsed() < Duration::from_secs(5) {
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(started.elapsed() < Duration::from_secs(5));
    assert_eq!(relay.record(1)["reason"], "total_timeout");
}

#[test]
fn a_connection_beyond_the_limit_of_the_gateway_is_reset() {
    let server = Server::named("here");
    let relay = Relay::start(&format!("to: {:?}", server.address.to_string()), "limits: {connections: 1}");
    let mut held = relay.connect();
    expect(&mut held, "here");
    assert_eq!(rest(&mut relay.connect()).expect_err("a reset").kind(), ErrorKind::ConnectionReset);
}

#[test]
fn a_stream_has_a_bound_of_its_own_and_one_for_each_address() {
    let server = Server::named("here");
    let more = |limits: &str| {
        format!("streams: [{{name: db, listeners: l4, to: \"{}\", limits: {{{limits}}}}}]", server.address)
    };
    for (limits, reason) in [("connections: 2", "stream_limit"), ("per_address: 2", "address_limit")] {
        let relay = Relay::start("", &more(limits));
        let mut held = [relay.connect(), relay.connect()];
        held.iter_mut().for_each(|stream| expect(stream, "here"));
        assert_eq!(rest(&mut relay.connect()).expect_err("a reset").kind(), ErrorKind::ConnectionReset);
        assert_eq!(relay.record(1)["reason"], reason);
        assert_eq!(relay.sum("tollgate_streams_total", &format!("reason=\"{reason}\"")), 1.0);
        let [first, _second] = held;
        drop(first);
        relay.await_active(1);
        expect(&mut relay.connect(), "here");
    }
}

#[test]
fn the_process_has_a_limit_of_connections() {
    let server = Server::named("here");
    let relay = Relay::start(&format!("to: \"{}\"", server.address), "limits: {connections: 2}");
    eventually("the readiness check has closed its connections", || {
        relay.sum("tollgate_client_connections", "") == 0.0
    });
    let mut held = [relay.connect(), relay.connect()];
    held.iter_mut().for_each(|stream| expect(stream, "here"));
    // No answer of HTTP, which the client would not understand.
    assert_eq!(rest(&mut relay.connect()).unwrap_or_default(), b"");
    assert_eq!(server.accepted(), 2);
}

#[test]
fn an_upstreams_limit_queues_streams() {
    let server = Server::named("here");
    let more = format!(
        "upstreams: {{db: {{endpoints: [\"{}\"], limits: {{connections: 1}}, queue: {{size: 1, timeout: 10s}}}}}}",
        server.address
    );
    let relay = Relay::start("to: db", &more);
    let mut first = relay.connect();
    expect(&mut first, "here");
    let mut second = relay.connect();
    relay.await_active(2);
    assert_eq!(server.accepted(), 1, "the second waits");
    assert!(rest(&mut relay.connect()).is_err(), "the third finds the queue full");
    assert_eq!(relay.record(1)["reason"], "connection_limit_reached");
    drop(first);
    expect(&mut second, "here");
}

#[test]
fn an_idle_stream_costs_little_memory() {
    // The first ones fill tables that grow in steps of two.
    const FIRST: usize = 2_200;
    const MORE: usize = 1_800;
    let server = Server::play(|stream| {
        // One thread for each connection would be the test's memory, not the gateway's.
        std::mem::forget(stream);
    });
    let relay = Relay::to(&server);
    // In sequence: connecting takes more memory than an idle stream, and a burst leaves holes in the heap.
    let open = |number: usize| {
        let one = |_| {
            let before = server.accepted();
            let stream = relay.connect();
            eventually("the server accepts", || server.accepted() > before);
            stream
        };
        (0..number).map(one).collect::<Vec<_>>()
    };
    let warm = open(FIRST);
    let before = relay.gateway.memory_kib("RssAnon");
    let held = open(MORE);
    let each = relay.gateway.memory_kib("RssAnon").saturating_sub(before) as f64 / MORE as f64;
    assert!(each <= 2.0, "{each} KiB");
    drop((warm, held));
}
