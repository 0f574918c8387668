//! Messages that are ready together are written together: requests to an endpoint, and responses to an HTTP/2 client.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Mutex;
use std::sync::mpsc::channel;

use tollgate_tests::frames::{END_HEADERS, END_STREAM, PREFACE, fields, frame, kind, pseudo};
use tollgate_tests::{DEADLINE, Gateway, Origin, OriginConn, Signal};

use super::rules::{first_request, head, next_of};

/// How many requests are ready together. An HTTP/2 connection starts at most 16 in one turn.
const TOGETHER: usize = 10;

/// Returns the streams of the HEADERS frames in `bytes`.
fn heads(mut bytes: &[u8]) -> Vec<u32> {
    let mut streams = Vec::new();
    while let [a, b, c, kind, _, d, e, f, g, rest @ ..] = bytes {
        let length = u32::from_be_bytes([0, *a, *b, *c]) as usize;
        if *kind == kind::HEADERS {
            streams.push(u32::from_be_bytes([*d, *e, *f, *g]));
        }
        bytes = rest.get(length..).unwrap_or_default();
    }
    streams
}

/// Answers `before` requests one by one. Then returns the streams of the requests that the next read brings.
fn after(conn: &mut OriginConn, before: usize) -> Option<Vec<u32>> {
    first_request(conn)?;
    conn.send(head(1, END_STREAM));
    for _ in 1..before {
        let next = next_of(conn, kind::HEADERS)?;
        conn.send(head(next.stream, END_STREAM));
    }
    conn.wire().fill().ok()?;
    Some(heads(&conn.wire().take_pending()))
}

/// Starts an endpoint that answers `before` requests one by one, and the requests of the next read with one write.
/// Sends how many these were.
fn endpoint(before: usize) -> (Origin, std::sync::mpsc::Receiver<usize>) {
    let (sender, counts) = channel();
    let sender = Mutex::new(sender);
    let origin = Origin::play(move |conn| {
        let Some(streams) = after(conn, before) else { return };
        let _ = sender.lock().expect("a sender").send(streams.len());
        conn.send(streams.iter().flat_map(|stream| head(*stream, END_STREAM)).collect::<Vec<_>>());
        while let Some(next) = next_of(conn, kind::HEADERS) {
            conn.send(head(next.stream, END_STREAM));
        }
    });
    (origin, counts)
}

fn gateway_to(origin: &Origin) -> Gateway {
    Gateway::start(&format!("workers: 1\nroutes:\n- {{match: /*, to: \"h2c://{}\"}}\n", origin.address()))
}

#[test]
fn requests_of_http_1_clients_go_out_in_one_write() {
    let (origin, counts) = endpoint(TOGETHER);
    let gateway = gateway_to(&origin);
    let mut clients: Vec<_> = (0..TOGETHER).map(|_| gateway.client()).collect();
    for client in &mut clients {
        assert_eq!(client.get("/").status, 200);
    }
    // While the gateway stands still, all requests arrive.
    gateway.signal(Signal::STOP);
    clients.iter_mut().for_each(|client| client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n"));
    gateway.signal(Signal::CONT);
    assert_eq!(counts.recv_timeout(DEADLINE).expect("a read"), TOGETHER);
    for client in &mut clients {
        assert_eq!(client.response().status, 200);
    }
    assert_eq!(origin.connections(), 1);
}

#[test]
fn requests_and_responses_of_an_http_2_client_are_one_write_each() {
    // A client is known, and may start many requests in one turn, once it has taken 32 pieces of responses.
    const KNOWN: usize = 40;
    let (origin, counts) = endpoint(KNOWN);
    let gateway = gateway_to(&origin);
    let mut client = TcpStream::connect(gateway.address()).expect("connected");
    client.set_read_timeout(Some(DEADLINE)).expect("a timeout");
    client.set_nodelay(true).expect("no delay");
    client.write_all(&[PREFACE, &frame(kind::SETTINGS, 0, 0, &[])].concat()).expect("sent");
    let asked = fields(&pseudo("/"));
    let ask = |stream: usize| frame(kind::HEADERS, END_HEADERS | END_STREAM, stream as u32, &asked);
    let mut buffer = [0; 16 * 1024];
    for at in 0..KNOWN {
        client.write_all(&ask(2 * at + 1)).expect("sent");
        loop {
            let count = client.read(&mut buffer).expect("read");
            assert!(count > 0, "closed");
            if !heads(&buffer[..count]).is_empty() {
                break;
            }
        }
    }
    let together: Vec<u8> = (KNOWN..KNOWN + TOGETHER).flat_map(|at| ask(2 * at + 1)).collect();
    client.write_all(&together).expect("sent");
    assert_eq!(counts.recv_timeout(DEADLINE).expect("a read"), TOGETHER);
    let count = client.read(&mut buffer).expect("read");
    assert_eq!(heads(&buffer[..count]).len(), TOGETHER, "one read brings all responses");
}
