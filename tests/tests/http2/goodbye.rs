//! How connections end: drains, reloads, limits and silence.

use std::time::{Duration, Instant};

use tollgate_tests::frames::{PREFACE, kind, pseudo};
use tollgate_tests::http2::get;
use tollgate_tests::{Gate, Gateway, Origin, Signal, eventually};

fn held(gate: &Gate) -> Origin {
    let gate = gate.clone();
    Origin::play(move |conn| {
        while let Some(request) = conn.request() {
            if request.target == "/slow" {
                gate.wait();
            }
            conn.ok("finished");
        }
    })
}

#[test]
fn a_drain_sends_goaway_and_waits_for_open_streams() {
    let gate = Gate::new();
    let origin = held(&gate);
    let mut gateway = Gateway::to(&origin);
    let mut idle = gateway.http2();
    assert_eq!(idle.get("/").status, 200);
    let mut busy = gateway.http2();
    let stream = busy.begin(get("/slow"), true).expect("begun");
    eventually("the request", || origin.count() == 2);
    gateway.signal(Signal::TERM);
    assert!(idle.wait_close().is_ok(), "an idle one is told, and ends in order");
    eventually("the client to hear of it", || busy.try_ask(get("/")).is_err());
    gate.open();
    assert_eq!(stream.response().expect("an answer").text(), "finished");
    assert!(busy.wait_close().is_ok());
    assert_eq!(gateway.wait_exit().code(), Some(0));
    gateway.reconcile(&[&origin]);
}

#[test]
fn a_closed_listener_sends_goaway() {
    let gate = Gate::new();
    let origin = held(&gate);
    let to = format!("routes: [{{match: /*, to: \"{}\"}}]\n", origin.address());
    let gateway = Gateway::start(&to);
    let mut client = gateway.http2();
    let stream = client.begin(get("/slow"), true).expect("begun");
    eventually("the request", || origin.count() == 1);
    gateway.write_config(&format!("listen: 127.0.0.1:0\n{to}"));
    gateway.signal(Signal::HUP);
    eventually("the client to hear of it", || client.try_ask(get("/")).is_err());
    gate.open();
    assert_eq!(stream.response().expect("an answer").text(), "finished");
    assert!(client.wait_close().is_ok());
}

#[test]
fn a_reload_leaves_connections_alone() {
    let origin = Origin::ok();
    let gateway = Gateway::to(&origin);
    let mut client = gateway.http2();
    assert_eq!(client.get("/").status, 200);
    gateway.write_config("routes: [{match: /*, respond: 204}]\n");
    gateway.signal(Signal::HUP);
    eventually("the new plan", || client.get("/").status == 204);
}

#[test]
fn requests_per_connection_are_limited() {
    let origin = Origin::ok();
    let gateway = Gateway::with(&origin, "limits: {requests_per_connection: 3}");
    let mut client = gateway.http2();
    for _ in 0..3 {
        assert_eq!(client.get("/").status, 200);
    }
    assert!(client.wait_close().is_ok());
    gateway.reconcile(&[&origin]);
}

#[test]
fn a_client_that_ignores_goaway_is_closed() {
    let origin = Origin::ok();
    let gateway = Gateway::with(&origin, "limits: {requests_per_connection: 3}");
    let (mut deaf, begun) = (gateway.frames(&[]), Instant::now());
    // The client does not answer the gateway's PING, and continues to send requests.
    let mut stream = 1;
    while deaf.ask(stream, &pseudo("/")) {
        assert!(begun.elapsed() < Duration::from_secs(30), "stream {stream} is taken yet");
        stream += 2;
        std::thread::sleep(Duration::from_millis(50));
    }
    // Only the requests within the two seconds that a client has to react were served.
    assert!((3..=200).contains(&origin.count()), "{}", origin.count());
}

#[test]
fn silence_ends_a_connection() {
    let origin = Origin::ok();
    let gateway = Gateway::with(&origin, "timeouts: {idle: 200ms, header: 200ms}");
    let mut idle = gateway.frames(&[]);
    idle.ask(1, &pseudo("/"));
    assert_eq!(idle.goodbye(), Some(0), "NO_ERROR");
    let mut silent = gateway.frames(&[]);
    assert_eq!(silent.goodbye(), Some(0));
    // A preface that never ends.
    let mut half = tollgate_tests::frames::Frames::connect_silent(gateway.address());
    half.send_bytes(&PREFACE[..20]);
    assert_eq!(half.goodbye(), None);
    // A head that never ends; PINGs do not extend its time.
    let mut slow = gateway.frames(&[]);
    slow.send(kind::HEADERS, 0, 1, &[]);
    slow.goodbye();
}

#[test]
fn a_preface_may_come_in_pieces() {
    let origin = Origin::ok();
    let gateway = Gateway::to(&origin);
    for size in [1, 3, 16, 17, 23] {
        let mut frames = tollgate_tests::frames::Frames::connect_silent(gateway.address());
        for piece in PREFACE.chunks(size) {
            frames.send_bytes(piece);
            std::thread::sleep(Duration::from_millis(1));
        }
        frames.send(kind::SETTINGS, 0, 0, &[]);
        frames.ask(1, &pseudo("/"));
        let head = frames.wait_for(|frame| frame.kind == kind::HEADERS).expect("an answer");
        assert_eq!(head.status(), Some(200), "pieces of {size}");
    }
    assert_eq!(gateway.wait_records(5).len(), 5, "no record of a preface");
    eventually("no request under way", || {
        gateway.metrics().sum("tollgate_requests_in_flight", "") == Some(0.0)
    });
}
