//! WebSockets: the close frames and other work of the gateway in addition to carrying bytes; and events,
//! which must not wait.

use std::net::TcpStream;

use tollgate_tests::{Client, Gate, Gateway, Origin, Signal, eventually};

const ASK: &str = "GET /ws HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n";

fn echo(protocol: &'static str) -> Origin {
    Origin::play(move |conn| {
        if conn.request().is_some() {
            conn.send(format!(
                "HTTP/1.1 101 Switching Protocols\r\nUpgrade: {protocol}\r\nConnection: Upgrade\r\n\r\n"
            ));
            conn.echo_bytes();
        }
    })
}

fn open(gateway: &Gateway) -> Client {
    let mut client = gateway.client();
    client.send(ASK);
    assert_eq!(client.head().status, 101);
    client
}

const GOING_AWAY: [u8; 4] = [0x88, 2, 3, 0xe9];

#[test]
fn both_sides_get_a_close_frame_before_a_drain_ends() {
    let origin = echo("WebSocket");
    let mut gateway = Gateway::with(&origin, "timeouts: {drain: 2s}");
    let mut client = open(&gateway);
    client.send([0x81, 2, b'h', b'i']);
    assert_eq!(client.wire().take(4), Ok(vec![0x81, 2, b'h', b'i']));
    gateway.signal(Signal::TERM);
    assert_eq!(client.wire().take(4), Ok(GOING_AWAY.to_vec()), "to the client");
    eventually("the endpoint is told", || {
        let bytes = origin.bytes(0);
        let [0x88, 0x82, mask @ .., one, two] = &bytes[bytes.len().saturating_sub(8)..] else { return false };
        matches!(mask, [a, b, _, _] if [one ^ a, two ^ b] == [3, 0xe9])
    });
    // The endpoint has echoed the close frame as its answer; the client answers here.
    client.send([0x88, 0x82, 0, 0, 0, 0, 3, 0xe9]);
    client.expect_close();
    assert_eq!(gateway.wait_exit().code(), Some(0));
}

#[test]
fn a_frame_that_is_under_way_ends_first() {
    let gate = Gate::new();
    let held = gate.clone();
    let origin = Origin::play(move |conn| {
        if conn.request().is_some() {
            conn.send(
                "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n",
            );
            conn.send([0x82, 5, b'a', b'b']);
            held.wait();
            // The rest of the frame, and the start of another that must not be forwarded.
            conn.send([b'c', b'd', b'e', 0x82, 3, b'x']);
            conn.wait_close();
        }
    });
    let idle = echo("websocket");
    let mut gateway = Gateway::start(&format!(
        "timeouts: {{drain: 6s}}\nroutes: [{{match: /idle, to: [{}]}}, {{match: \"/*\", to: [{}]}}]\n",
        idle.address(),
        origin.address()
    ));
    let mut other = gateway.client();
    other.send(ASK.replace("/ws", "/idle"));
    assert_eq!(other.head().status, 101);
    let mut client = open(&gateway);
    assert_eq!(client.wire().take(4), Ok(vec![0x82, 5, b'a', b'b']));
    gateway.signal(Signal::TERM);
    assert_eq!(other.wire().take(4), Ok(GOING_AWAY.to_vec()));
    gate.open();
    let rest = client.wire().take(7);
    assert_eq!(rest, Ok([&b"cde"[..], &GOING_AWAY].concat()), "{:?}", client.wire().pending());
    assert_eq!(gateway.wait_exit().code(), Some(0));
    client.expect_close();
}

#[test]
fn other_protocols_get_no_close_frame() {
    let origin = echo("other");
    let mut gateway = Gateway::start(&format!(
        "timeouts: {{drain: 1s}}\nroutes: [{{match: \"/*\", to: [{}], upgrade: [other]}}]\n",
        origin.address()
    ));
    let mut client = gateway.client();
    client.send(ASK.replace("websocket", "other"));
    assert_eq!(client.head().status, 101);
    gateway.signal(Signal::TERM);
    eventually("the drain to begin", || TcpStream::connect(gateway.address()).is_err());
    assert_eq!(gateway.wait_exit().code(), Some(0));
    client.expect_close();
    assert_eq!(origin.bytes(0).last(), Some(&b'\n'), "nothing came behind the head");
}

#[test]
fn the_first_event_passes_before_there_is_a_second() {
    let gate = Gate::new();
    let held = gate.clone();
    let origin = Origin::play(move |conn| {
        if conn.request().is_some() {
            conn.send(
                "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n",
            );
            held.wait();
            conn.send("9\r\ndata: 1\n\n\r\n");
            held.wait();
            conn.send("0\r\n\r\n");
        }
    });
    let gateway = Gateway::to(&origin);
    let mut client = gateway.client();
    client.send("GET /events HTTP/1.1\r\nHost: a\r\n\r\n");
    let head = client.head();
    assert_eq!(head.headers.get("Content-Type"), Some("text/event-stream"), "the head comes alone");
    gate.open();
    assert_eq!(client.wire().chunk(), Ok(Ok(b"data: 1\n\n".to_vec())));
}
