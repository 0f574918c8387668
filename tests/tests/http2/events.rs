//! Events (`text/event-stream`): the gateway forwards each at once, whichever side speaks HTTP/2.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tollgate_tests::http2::get;
use tollgate_tests::{Gate, Gateway, Headers, Http2Origin, Origin, Response};

const FIRST: &str = "data: 1\n\n";
const SECOND: &str = "data: 2\n\n";

/// The gates before each of the two events, and how many events the origin has started.
#[derive(Clone, Default)]
struct Turns {
    gates: [Gate; 2],
    begun: Arc<AtomicUsize>,
}

impl Turns {
    /// Waits until the test releases this event.
    fn wait(&self, event: usize) {
        self.gates[event].wait();
        self.begun.fetch_add(1, Ordering::SeqCst);
    }

    /// Asserts how many events the origin has started. A gate opens on its own after a deadline; the count
    /// shows whether an event arrived before the next was sent.
    fn assert_begun(&self, events: usize) {
        assert_eq!(self.begun.load(Ordering::SeqCst), events, "events that the origin has come to");
    }
}

fn http_1(turns: &Turns) -> Origin {
    let turns = turns.clone();
    Origin::play(move |conn| {
        if conn.request().is_some() {
            conn.send(
                "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n",
            );
            turns.wait(0);
            conn.send(format!("9\r\n{FIRST}\r\n"));
            turns.wait(1);
            conn.send(format!("9\r\n{SECOND}\r\n0\r\n\r\n"));
        }
    })
}

fn http_2(turns: &Turns) -> Http2Origin {
    let turns = turns.clone();
    Http2Origin::play(move |stream| {
        stream.head(200, &[("content-type", "text/event-stream")], false);
        turns.wait(0);
        stream.send(FIRST, false);
        turns.wait(1);
        stream.send(SECOND, true);
    })
}

fn to(origin: &Http2Origin) -> Gateway {
    Gateway::start(&format!("routes: [{{match: /*, to: \"h2c://{}\"}}]\n", origin.address()))
}

/// Asserts that an HTTP/2 client gets the head before the first event, and the first event before the second.
fn come_at_once(gateway: &Gateway, turns: &Turns) {
    let mut client = gateway.http2();
    let mut stream = client.begin(get("/events"), true).expect("begun");
    let head = stream.head().expect("a head");
    turns.assert_begun(0);
    assert_eq!((head.status, head.header("content-type")), (200, Some("text/event-stream")));
    turns.gates[0].open();
    let first = stream.data().expect("no cut");
    turns.assert_begun(1);
    assert_eq!(first.as_deref(), Some(FIRST.as_bytes()));
    turns.gates[1].open();
    assert_eq!(stream.rest(Response::default()).expect("an end").text(), SECOND);
}

#[test]
fn they_come_at_once_from_an_endpoint_of_http_1() {
    let turns = Turns::default();
    let origin = http_1(&turns);
    let gateway = Gateway::to(&origin);
    come_at_once(&gateway, &turns);
    gateway.reconcile(&[&origin]);
}

#[test]
fn they_come_at_once_from_an_endpoint_of_http_2() {
    let turns = Turns::default();
    let origin = http_2(&turns);
    let gateway = to(&origin);
    come_at_once(&gateway, &turns);
    gateway.reconcile_with(|| origin.count());
}

#[test]
fn they_come_at_once_from_an_endpoint_of_http_2_to_a_client_of_http_1() {
    let turns = Turns::default();
    let origin = http_2(&turns);
    let gateway = to(&origin);
    let mut client = gateway.client();
    client.send("GET /events HTTP/1.1\r\nHost: a\r\n\r\n");
    let head = client.head();
    turns.assert_begun(0);
    assert_eq!((head.status, head.header("content-type")), (200, Some("text/event-stream")));
    turns.gates[0].open();
    let first = client.wire().chunk();
    turns.assert_begun(1);
    assert_eq!(first, Ok(Ok(FIRST.as_bytes().to_vec())));
    turns.gates[1].open();
    assert_eq!(client.wire().chunk(), Ok(Ok(SECOND.as_bytes().to_vec())));
    assert_eq!(client.wire().chunk(), Ok(Err(Headers::default())));
    gateway.reconcile_with(|| origin.count());
}
