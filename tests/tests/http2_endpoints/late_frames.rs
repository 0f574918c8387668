//! Frames for closed streams (RFC 9113, 5.1): frames that may still be in flight are no error, all others are.

use std::sync::Mutex;
use std::sync::mpsc::channel;

use tollgate_tests::frames::{END_HEADERS, END_STREAM, fields, frame, kind};
use tollgate_tests::{DEADLINE, Gate, Gateway, Origin};

use super::rules::{first_request, head, next_frame, next_of};

const STREAM_CLOSED: u32 = 5;
const CANCEL: u32 = 8;

fn gateway_to(origin: &Origin) -> Gateway {
    Gateway::start(&format!(
        "workers: 1\nroutes: [{{match: /*, to: up}}]\nupstreams:\n  up: {{endpoints: [\"h2c://{}\"], outlier: off}}\n",
        origin.address()
    ))
}

#[test]
fn a_response_to_a_cancelled_request_is_no_error() {
    let (begun, cancelled) = (Gate::new(), Gate::new());
    let gates = (begun.clone(), cancelled.clone());
    let origin = Origin::play(move |conn| {
        if first_request(conn).is_none() {
            return;
        }
        gates.0.open();
        let reset = next_of(conn, kind::RST_STREAM);
        assert!(reset.is_some_and(|reset| (reset.stream, reset.code()) == (1, CANCEL)));
        // The field enters the table of the connection, although no request takes this head.
        let late = [&[0x88, 0x40, 6][..], b"x-late", &[1], b"1"].concat();
        let data = frame(kind::DATA, 8, 1, &[&[100][..], &[0; 400]].concat());
        conn.send(
            [
                frame(kind::HEADERS, END_HEADERS, 1, &late),
                data.repeat(50),
                frame(kind::WINDOW_UPDATE, 0, 1, &[0, 0, 0, 1]),
                frame(kind::HEADERS, END_HEADERS | END_STREAM, 1, &fields(&[("x", "1")])),
                frame(kind::RST_STREAM, 0, 1, &[0; 4]),
            ]
            .concat(),
        );
        gates.1.open();
        if let Some(next) = next_of(conn, kind::HEADERS) {
            conn.send(frame(kind::HEADERS, END_HEADERS | END_STREAM, next.stream, &[0x88, 0xbe]));
        }
        conn.wait_close();
    });
    let gateway = gateway_to(&origin);
    let mut client = gateway.client();
    client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    begun.wait();
    client.reset();
    cancelled.wait();
    let response = gateway.client().get("/");
    assert_eq!((response.status, response.header("x-late")), (200, Some("1")), "the tables agree");
    assert_eq!(origin.connections(), 1);
}

/// Sends `late` for the first stream, whose response is complete, before the response to a second request. Returns the
/// status of the second request, and the first RST_STREAM or GOAWAY with its stream.
fn after_the_end(late: Vec<u8>) -> (u16, Option<(u32, u32)>) {
    let (sender, ends) = channel();
    let sender = Mutex::new(sender);
    let origin = Origin::play(move |conn| {
        if first_request(conn).is_none() {
            return;
        }
        conn.send(head(1, END_STREAM));
        if next_of(conn, kind::HEADERS).is_none() {
            return;
        }
        // The PING shows that the frames before it were processed.
        conn.send([late.clone(), frame(kind::PING, 0, 0, &[7; 8])].concat());
        let mut found = None;
        while let Some(got) = next_frame(conn) {
            match got.kind {
                kind::RST_STREAM | kind::GOAWAY => found = found.or(Some((got.stream, got.code()))),
                kind::PING => break,
                _ => {}
            }
        }
        let _ = sender.lock().expect("a sender").send(found);
        conn.send(head(3, END_STREAM));
        conn.wait_close();
    });
    let gateway = gateway_to(&origin);
    let mut client = gateway.client();
    assert_eq!(client.get("/").status, 200);
    let second = client.get("/");
    (second.status, ends.recv_timeout(DEADLINE).expect("the second request"))
}

#[test]
fn frames_behind_a_complete_response() {
    for (late, what) in [
        (frame(kind::WINDOW_UPDATE, 0, 1, &[0, 0, 0, 1]), "WINDOW_UPDATE"),
        (frame(kind::RST_STREAM, 0, 1, &[0; 4]), "RST_STREAM"),
        (frame(kind::PRIORITY, 0, 1, &[0, 0, 0, 0, 1]), "PRIORITY"),
        (frame(kind::PRIORITY, 0, 9, &[0, 0, 0, 0, 1]), "PRIORITY of an idle stream"),
        (frame(0x77, 0xff, 1, b"any"), "a frame of an unknown type"),
        // ALTSVC and PRIORITY_UPDATE, which the gateway does not use.
        (frame(0xa, 0, 0, &[0, 0, b'a']), "ALTSVC"),
        (frame(0x10, 0, 0, &[0, 0, 0, 1, b'u']), "PRIORITY_UPDATE"),
    ] {
        assert_eq!(after_the_end(late), (200, None), "{what}");
    }
    assert_eq!(after_the_end(frame(kind::DATA, 0, 1, b"late")), (200, Some((1, STREAM_CLOSED))), "DATA");
    assert_eq!(after_the_end(head(1, END_STREAM)), (502, Some((0, STREAM_CLOSED))), "HEADERS");
}
