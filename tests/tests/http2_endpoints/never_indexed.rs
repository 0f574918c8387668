//! Fields that an endpoint sends as never indexed (RFC 7541, 6.2.3) reach an HTTP/2 client in the same form, wherever in
//! the response they are.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tollgate_tests::frames::{END_HEADERS, END_STREAM, Frames, fields, frame, kind, pseudo};
use tollgate_tests::{Gateway, Origin};

use super::rules::{first_request_with, next_of};

/// `:status: 200` of the static table, and `:status: 103`.
const OK: &[u8] = &[0x88];
const HINTS: &[u8] = &[0x08, 3, b'1', b'0', b'3'];

/// `:status: 206` of the static table.
const PART: &[u8] = &[0x8a];

/// The field as the gateway sends it, without its first byte.
const FIELD: &[u8] = b"\x05x-key\x06secret";

/// A literal that no intermediary may index, and one without indexing.
const NEVER: u8 = 0x10;
const PLAIN: u8 = 0;

/// Returns the first byte of the field's representation in the section of the response that has it. The endpoint sends
/// these sections with these flags, and the field after the last one's bytes.
fn representation(asked: &[(&str, &str)], sections: &[(&[u8], u8)], mark: u8) -> u8 {
    let mut answer = Vec::new();
    for (at, (block, flags)) in sections.iter().enumerate() {
        let mut block = block.to_vec();
        if at + 1 == sections.len() {
            block.extend([&[mark], FIELD].concat());
        }
        answer.extend(frame(kind::HEADERS, END_HEADERS | flags, 1, &block));
    }
    let origin = Origin::play(move |conn| {
        // Extended CONNECT is allowed (RFC 8441, 3).
        if first_request_with(conn, &[(8, 1)]).is_some() {
            conn.send(&answer);
            conn.wait_close();
        }
    });
    let gateway = Gateway::start(&format!("routes:\n- {{match: /*, to: \"h2c://{}\"}}\n", origin.address()));
    let mut client = Frames::connect(gateway.address(), &[]);
    let is_connect = asked[0].1 == "CONNECT";
    let flags = END_HEADERS | if is_connect { 0 } else { END_STREAM };
    assert!(client.send(kind::HEADERS, flags, 1, &fields(asked)));
    let find = |payload: &[u8]| payload.windows(FIELD.len()).position(|some| some == FIELD);
    let section = client
        .wait_for(|frame| frame.kind == kind::HEADERS && find(&frame.payload).is_some())
        .expect("a section with the field");
    section.payload[find(&section.payload).expect("the field") - 1]
}

#[test]
fn marks_stay_in_every_part_of_a_response() {
    let connect = [
        (":method", "CONNECT"),
        (":protocol", "websocket"),
        (":scheme", "http"),
        (":path", "/"),
        (":authority", "a.example"),
        ("sec-websocket-version", "13"),
    ];
    for (what, asked, sections) in [
        ("a head", &pseudo("/")[..], &[(OK, END_STREAM)][..]),
        ("an interim head", &pseudo("/"), &[(HINTS, 0)]),
        ("trailers", &pseudo("/"), &[(OK, 0), (&[], END_STREAM)]),
        ("a head that accepts a WebSocket", &connect, &[(OK, 0)]),
    ] {
        assert_eq!(representation(asked, sections, NEVER), NEVER, "{what}");
        assert_eq!(representation(asked, sections, PLAIN), PLAIN, "{what}, not marked");
    }
}

#[test]
fn a_response_with_a_mark_is_not_stored() {
    for (mark, requests) in [(PLAIN, 1), (NEVER, 3)] {
        let count = Arc::new(AtomicUsize::new(0));
        let counted = count.clone();
        let origin = Origin::play(move |conn| {
            let mut asked = first_request_with(conn, &[]);
            while let Some(request) = asked {
                counted.fetch_add(1, Ordering::SeqCst);
                let block = [OK, &[mark], FIELD].concat();
                conn.send(frame(kind::HEADERS, END_HEADERS | END_STREAM, request.stream, &block));
                asked = next_of(conn, kind::HEADERS);
            }
        });
        let gateway = Gateway::start(&format!(
            "policies: {{cache: {{ttl: {{200: 1h}}}}}}\nroutes:\n- {{match: /*, to: \"h2c://{}\"}}\n",
            origin.address()
        ));
        for _ in 0..3 {
            let response = gateway.client().get("/");
            assert_eq!((response.status, response.header("x-key")), (200, Some("secret")));
        }
        assert_eq!(count.load(Ordering::SeqCst), requests, "mark {mark}");
    }
}

#[test]
fn a_slice_with_a_mark_is_not_stored() {
    // A slice that may not be stored is asked for again as a whole, and so are the next requests.
    for (mark, requests) in [(PLAIN, 1), (NEVER, 4)] {
        let count = Arc::new(AtomicUsize::new(0));
        let counted = count.clone();
        let origin = Origin::play(move |conn| {
            let mut asked = first_request_with(conn, &[]);
            while let Some(request) = asked {
                let first = counted.fetch_add(1, Ordering::SeqCst) == 0;
                let part = [PART, b"\x00\x0dcontent-range\x0bbytes 0-1/2\x00\x04etag\x03\"a\""].concat();
                let block = [if first { &part } else { OK }, &[mark], FIELD].concat();
                conn.send(frame(kind::HEADERS, END_HEADERS, request.stream, &block));
                conn.send(frame(kind::DATA, END_STREAM, request.stream, b"ok"));
                asked = next_of(conn, kind::HEADERS);
            }
        });
        let gateway = Gateway::start(&format!(
            "policies: {{cache: {{ttl: {{200: 1h}}, slice: 64KiB}}}}\nroutes:\n- {{match: /*, to: \"h2c://{}\"}}\n",
            origin.address()
        ));
        for _ in 0..3 {
            let response = gateway.client().get("/");
            assert_eq!((response.status, response.header("x-key")), (200, Some("secret")));
            assert_eq!(response.text(), "ok");
        }
        assert_eq!(count.load(Ordering::SeqCst), requests, "mark {mark}");
    }
}
