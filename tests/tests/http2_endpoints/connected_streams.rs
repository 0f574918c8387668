//! Only DATA may follow the heads of an accepted CONNECT, besides frames that manage the stream (RFC 9113, 8.5).

use std::sync::Mutex;
use std::sync::mpsc::channel;

use tollgate_tests::frames::{END_HEADERS, END_STREAM, Frames, fields, frame, kind};
use tollgate_tests::{DEADLINE, Gateway, Origin, ReadError};

use super::rules::{first_request_with, head, next_of};
use super::websocket::ask;

const PROTOCOL_ERROR: u32 = 1;
const CANCEL: u32 = 8;

/// Starts an endpoint that accepts a WebSocket, sends `then`, and reports the code with which the gateway resets the stream.
fn accepting(then: Vec<u8>) -> (Origin, std::sync::mpsc::Receiver<Option<u32>>) {
    let (sender, resets) = channel();
    let sender = Mutex::new(sender);
    let origin = Origin::play(move |conn| {
        if first_request_with(conn, &[(8, 1)]).is_some() {
            conn.send([head(1, 0), then.clone()].concat());
            let reset = next_of(conn, kind::RST_STREAM);
            let _ = sender.lock().expect("a sender").send(reset.map(|reset| reset.code()));
        }
    });
    (origin, resets)
}

#[test]
fn an_endpoint_sends_no_trailers() {
    let (origin, resets) =
        accepting(frame(kind::HEADERS, END_HEADERS | END_STREAM, 1, &fields(&[("x", "1")])));
    let gateway = Gateway::start(&format!("routes:\n- {{match: /*, to: \"h2c://{}\"}}\n", origin.address()));
    let mut client = gateway.client();
    client.send(ask("/"));
    let response = client.head();
    if response.status == 101 {
        // The head was forwarded before the trailers arrived.
        assert_eq!(client.wire().fill(), Err(ReadError::Truncated), "no orderly end");
    } else {
        assert_eq!((response.status, response.reason()), (502, "http_protocol_error"));
    }
    assert_eq!(resets.recv_timeout(DEADLINE).expect("a reset"), Some(PROTOCOL_ERROR));
}

#[test]
fn a_client_sends_no_trailers() {
    let (origin, resets) = accepting(Vec::new());
    let gateway = Gateway::start(&format!("routes:\n- {{match: /*, to: \"h2c://{}\"}}\n", origin.address()));
    let mut client = Frames::connect(gateway.address(), &[]);
    let connect = [
        (":method", "CONNECT"),
        (":protocol", "websocket"),
        (":scheme", "http"),
        (":path", "/"),
        (":authority", "a.example"),
        ("sec-websocket-version", "13"),
    ];
    assert!(client.send(kind::HEADERS, END_HEADERS, 1, &fields(&connect)));
    let accepted = client.wait_for(|frame| frame.kind == kind::HEADERS).expect("a head");
    assert_eq!(accepted.status(), Some(200));
    assert!(client.send(kind::HEADERS, END_HEADERS | END_STREAM, 1, &fields(&[("x", "1")])));
    let reset = client.wait_for(|frame| frame.kind == kind::RST_STREAM).expect("a reset");
    assert_eq!((reset.stream, reset.code()), (1, PROTOCOL_ERROR));
    assert_eq!(
        resets.recv_timeout(DEADLINE).expect("a reset"),
        Some(CANCEL),
        "the endpoint's stream is not ended"
    );
}
