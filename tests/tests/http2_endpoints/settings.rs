//! Endpoints that change their SETTINGS while requests are in progress (RFC 9113, 6.5.2 and 6.9.2; RFC 7541, 4.2).

use std::sync::Mutex;
use std::sync::mpsc::channel;

use tollgate_tests::frames::{END_STREAM, INITIAL_WINDOW_SIZE, frame, kind};
use tollgate_tests::{DEADLINE, Gate, Gateway, Origin, OriginConn, eventually};

use super::rules::{first_request_with, head, next_frame, next_of, settings};

const HEADER_TABLE_SIZE: u16 = 1;
const MAX_CONCURRENT_STREAMS: u16 = 3;
/// The flag on SETTINGS and PING.
const ACK: u8 = 1;

const GET: &str = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";

/// Starts a gateway with one endpoint and further keys of the upstream.
fn gateway_to(origin: &Origin, keys: &str) -> Gateway {
    Gateway::start(&format!(
        "workers: 1\nroutes: [{{match: /*, to: up}}]\nupstreams:\n  up:\n    endpoints: \"h2c://{}\"\n\
         \x20   outlier: off\n    retry: off\n{keys}",
        origin.address()
    ))
}

/// Reads frames until the gateway has acknowledged SETTINGS.
fn await_ack(conn: &mut OriginConn) -> Option<()> {
    while !next_of(conn, kind::SETTINGS).map(|got| got.flags & ACK != 0)? {}
    Some(())
}

/// Sends two PINGs in sequence. Returns how many bytes of DATA arrive before the second one's acknowledgement, with the
/// bytes that earlier frames released.
fn data_until_quiet(conn: &mut OriginConn) -> Option<usize> {
    let mut bytes = 0;
    for _ in 0..2 {
        conn.send(frame(kind::PING, 0, 0, &[1; 8]));
        loop {
            let got = next_frame(conn)?;
            match got.kind {
                kind::DATA => bytes += got.payload.len(),
                kind::PING => break,
                _ => {}
            }
        }
    }
    Some(bytes)
}

#[test]
fn streams_that_the_endpoint_adds_go_to_waiting_requests() {
    let (begun, more, done) = (Gate::new(), Gate::new(), Gate::new());
    let gates = (begun.clone(), more.clone(), done.clone());
    let origin = Origin::play(move |conn| {
        if first_request_with(conn, &[(MAX_CONCURRENT_STREAMS, 1)]).is_none() {
            return;
        }
        gates.0.open();
        gates.1.wait();
        conn.send(settings(&[(MAX_CONCURRENT_STREAMS, 3)]));
        for _ in 0..2 {
            if let Some(next) = next_of(conn, kind::HEADERS) {
                conn.send(head(next.stream, END_STREAM));
            }
        }
        gates.2.wait();
        conn.send(head(1, END_STREAM));
        conn.wait_close();
    });
    let gateway = gateway_to(&origin, "    limits: {connections: 1}\n    queue: {size: 6, timeout: 15s}\n");
    let mut first = gateway.client();
    first.send(GET);
    begun.wait();
    let mut waiting = [gateway.client(), gateway.client()];
    waiting.iter_mut().for_each(|client| client.send(GET));
    eventually("the others to wait", || {
        gateway.metrics().sum("tollgate_upstream_queue_length", "").is_some_and(|count| count >= 2.0)
    });
    more.open();
    for client in &mut waiting {
        assert_eq!(client.response().status, 200, "next to the first request, which goes on");
    }
    done.open();
    assert_eq!(first.response().status, 200);
    assert_eq!(origin.connections(), 1);
}

#[test]
fn fewer_streams_than_requests_in_progress_stop_only_further_ones() {
    for most in [0, 1] {
        let gate = Gate::new();
        let held = gate.clone();
        let origin = Origin::play(move |conn| {
            if first_request_with(conn, &[]).is_none() {
                return;
            }
            if conn.index() > 0 {
                conn.send(head(1, END_STREAM));
                conn.wait_close();
                return;
            }
            if next_of(conn, kind::HEADERS).is_none() {
                return;
            }
            conn.send(settings(&[(MAX_CONCURRENT_STREAMS, most)]));
            if await_ack(conn).is_some() {
                held.open();
                conn.wait_close();
            }
        });
        let gateway = gateway_to(&origin, "");
        // Both requests are on the way when the settings arrive.
        let mut both = [gateway.client(), gateway.client()];
        both.iter_mut().for_each(|client| client.send(GET));
        gate.wait();
        assert_eq!(gateway.client().get("/").status, 200, "on another connection");
        assert_eq!(origin.connections(), 2);
        drop(both);
    }
}

#[test]
fn windows_that_shrink_below_zero_open_again_byte_by_byte() {
    let (sender, seen) = channel();
    let sender = Mutex::new(sender);
    let origin = Origin::play(move |conn| {
        let mut play = || {
            let stream = first_request_with(conn, &[(INITIAL_WINDOW_SIZE, 1_000)])?.stream;
            let mut seen = vec![data_until_quiet(conn)?];
            // 600 bytes below nothing, then nothing.
            conn.send(settings(&[(INITIAL_WINDOW_SIZE, 400)]));
            conn.send(frame(kind::WINDOW_UPDATE, 0, stream, &600_u32.to_be_bytes()));
            seen.push(data_until_quiet(conn)?);
            conn.send(frame(kind::WINDOW_UPDATE, 0, stream, &1_u32.to_be_bytes()));
            seen.push(data_until_quiet(conn)?);
            // Below nothing again, and SETTINGS that open the window.
            conn.send(settings(&[(INITIAL_WINDOW_SIZE, 0)]));
            seen.push(data_until_quiet(conn)?);
            conn.send(settings(&[(INITIAL_WINDOW_SIZE, 402)]));
            seen.push(data_until_quiet(conn)?);
            conn.send(settings(&[(INITIAL_WINDOW_SIZE, 10_000)]));
            // The end may follow in a frame of its own, which needs no window.
            let mut rest = 0;
            loop {
                let data = next_of(conn, kind::DATA)?;
                rest += data.payload.len();
                if data.flags & END_STREAM != 0 {
                    break;
                }
            }
            seen.push(rest);
            conn.send(head(stream, END_STREAM));
            Some(seen)
        };
        let _ = sender.lock().expect("a sender").send(play());
        conn.wait_close();
    });
    let gateway = gateway_to(&origin, "");
    assert_eq!(gateway.client().post("/", &[b'x'; 3_000]).status, 200);
    let seen = seen.recv_timeout(DEADLINE).expect("a request");
    assert_eq!(seen, Some(vec![1_000, 0, 1, 0, 2, 1_997]));
}

#[test]
fn a_window_that_never_opens_is_a_timeout() {
    let origin = Origin::play(|conn| {
        if first_request_with(conn, &[(INITIAL_WINDOW_SIZE, 0)]).is_none() {
            return;
        }
        while let Some(got) = next_frame(conn) {
            if got.kind == kind::HEADERS {
                conn.send(head(got.stream, END_STREAM));
            }
        }
    });
    let gateway = Gateway::start(&format!(
        "workers: 1\ntimeouts: {{send: 300ms}}\nroutes: [{{match: /*, to: \"h2c://{}\"}}]\n",
        origin.address()
    ));
    let response = gateway.client().post("/", b"body");
    assert_eq!((response.status, response.reason()), (504, "connection_write_timeout"));
}

#[test]
fn the_size_of_the_table_follows_the_endpoint() {
    let (sender, blocks) = channel();
    let sender = Mutex::new(sender);
    let origin = Origin::play(move |conn| {
        let sender = sender.lock().expect("a sender");
        // Each change applies to the next block, which announces it (RFC 7541, 4.2): the least size first.
        let Some(mut asked) = first_request_with(conn, &[(HEADER_TABLE_SIZE, 0)]) else { return };
        for change in [
            settings(&[(HEADER_TABLE_SIZE, 100)]),
            settings(&[(HEADER_TABLE_SIZE, 0), (HEADER_TABLE_SIZE, 4_096)]),
            [settings(&[(HEADER_TABLE_SIZE, 50)]), settings(&[(HEADER_TABLE_SIZE, 1 << 30)])].concat(),
            // A size that is in use already, and settings that the gateway does not know.
            settings(&[(HEADER_TABLE_SIZE, 1 << 20), (0xabc, 7), (0, u32::MAX)]),
        ] {
            conn.send([head(asked.stream, END_STREAM), change].concat());
            // Before the next request, the gateway has processed the change.
            if await_ack(conn).is_none() {
                return;
            }
            let _ = sender.send(asked.payload);
            match next_of(conn, kind::HEADERS) {
                Some(next) => asked = next,
                None => return,
            }
        }
        conn.send(head(asked.stream, END_STREAM));
        let _ = sender.send(asked.payload);
    });
    let gateway = gateway_to(&origin, "");
    let mut client = gateway.client();
    let mut starts = Vec::new();
    for _ in 0..5 {
        assert_eq!(client.get("/").status, 200);
        let block = blocks.recv_timeout(DEADLINE).expect("a block");
        // Updates of the size have the prefix 001.
        let end = block.iter().position(|byte| *byte == 0x82).expect(":method: GET");
        starts.push(block[..end].to_vec());
    }
    const LARGE: [u8; 3] = [0x3f, 0xe1, 0x1f];
    assert_eq!(
        starts,
        [
            vec![0x20],
            vec![0x3f, 69],
            [&[0x20][..], &LARGE].concat(),
            [&[0x3f, 19][..], &LARGE].concat(),
            vec![]
        ]
    );
}
