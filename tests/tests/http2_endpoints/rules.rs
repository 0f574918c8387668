//! Rules of RFC 9113 that bind a client, one by one, and floods: an endpoint breaks each by raw frames next to a
//! request. The request ends with a reason, its connection ends if the rule says so, and the gateway goes on.

use super::hostile::gives_flood_up;
use tollgate_tests::frames::{Frame, frame, kind};
use tollgate_tests::{Gateway, Origin, OriginConn, eventually};

const PREFACE: usize = 24;
const ACK: u8 = 1;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;
const PADDED: u8 = 8;
const PRIORITY: u8 = 0x20;
/// `:status: 200` of the static table.
const OK: &[u8] = &[0x88];

const PROTOCOL_ERROR: u32 = 1;
const FLOW_CONTROL_ERROR: u32 = 3;
const STREAM_CLOSED: u32 = 5;
const FRAME_SIZE_ERROR: u32 = 6;
const COMPRESSION_ERROR: u32 = 9;
const ENHANCE_YOUR_CALM: u32 = 11;

/// What the gateway sends in the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// GOAWAY with this code; the connection is closed.
    Connection(u32),
    /// RST_STREAM with this code for the first stream; the connection goes on.
    Stream(u32),
}

/// Returns the next frame that the gateway sent.
pub(super) fn next_frame(conn: &mut OriginConn) -> Option<Frame> {
    let header = conn.wire().take(9).ok()?;
    let length = u32::from_be_bytes([0, header[0], header[1], header[2]]) as usize;
    let stream = u32::from_be_bytes([header[5], header[6], header[7], header[8]]);
    Some(Frame { kind: header[3], flags: header[4], stream, payload: conn.wire().take(length).ok()? })
}

/// Returns the next frame of this type, without those before it.
pub(super) fn next_of(conn: &mut OriginConn, kind: u8) -> Option<Frame> {
    loop {
        let got = next_frame(conn)?;
        if got.kind == kind {
            return Some(got);
        }
    }
}

/// Encodes a SETTINGS frame.
pub(super) fn settings(all: &[(u16, u32)]) -> Vec<u8> {
    let one = |(name, value): &(u16, u32)| [&name.to_be_bytes()[..], &value.to_be_bytes()].concat();
    frame(kind::SETTINGS, 0, 0, &all.iter().flat_map(one).collect::<Vec<_>>())
}

/// Opens a connection with these settings, and returns the head of its first request.
pub(super) fn first_request_with(conn: &mut OriginConn, all: &[(u16, u32)]) -> Option<Frame> {
    conn.wire().take(PREFACE).ok()?;
    conn.send([settings(all), frame(kind::SETTINGS, ACK, 0, &[])].concat());
    next_of(conn, kind::HEADERS)
}

/// Opens a connection, and reads frames until the head of a request.
pub(super) fn first_request(conn: &mut OriginConn) -> Option<()> {
    first_request_with(conn, &[]).map(drop)
}

/// Answers the first request of a connection with `bytes`, and asserts how the gateway ends it. After the end
/// of a stream, the second request on the connection is answered. Returns the status and the reason.
fn broken_by(what: &'static str, bytes: Vec<u8>, end: End) -> (u16, String) {
    let (sender, ends) = std::sync::mpsc::channel();
    let origin = Origin::play(move |conn| {
        if first_request(conn).is_none() {
            return;
        }
        conn.send(&bytes);
        let found = loop {
            match next_frame(conn) {
                Some(got) if got.kind == kind::GOAWAY => {
                    break Some(End::Connection(got.code()));
                }
                Some(got) if got.kind == kind::RST_STREAM && got.stream == 1 => {
                    break Some(End::Stream(got.code()));
                }
                Some(_) => {}
                None => break None,
            }
        };
        let goes_on = matches!(found, Some(End::Stream(_)));
        let _ = sender.send(found);
        while goes_on && let Some(got) = next_frame(conn) {
            if got.kind == kind::HEADERS {
                conn.send(frame(kind::HEADERS, END_HEADERS | END_STREAM, got.stream, OK));
            }
        }
    });
    let gateway = Gateway::start(&format!(
        "workers: 1\nroutes: [{{match: /*, to: up}}]\nupstreams:\n  up: {{endpoints: [\"h2c://{}\"], outlier: off}}\n",
        origin.address()
    ));
    let status = gateway.client().try_exchange("/").map_or(0, |response| response.status);
    let found = ends.recv_timeout(tollgate_tests::DEADLINE).expect("an end");
    assert_eq!(found, Some(end), "{what}");
    let reason = gateway.wait_records(1)[0]["reason"].as_str().unwrap_or("-").to_owned();
    match end {
        End::Connection(_) => eventually("the connection to close", || origin.open() == 0),
        End::Stream(_) => {
            assert_eq!(gateway.client().get("/").status, 200, "{what}");
            assert_eq!(origin.connections(), 1, "{what}");
        }
    }
    (status, reason)
}

/// As [`broken_by`], for a request that gets no response but the gateway's.
fn refused_by(what: &'static str, bytes: Vec<u8>, end: End) {
    assert_eq!(broken_by(what, bytes, end), (502, "http_protocol_error".to_owned()), "{what}");
}

pub(super) fn head(stream: u32, flags: u8) -> Vec<u8> {
    frame(kind::HEADERS, END_HEADERS | flags, stream, OK)
}

#[test]
fn a_frame_has_at_most_the_size_that_was_allowed() {
    let long = frame(kind::DATA, 0, 1, &[0; 16_385]);
    refused_by("4.2", long, End::Connection(FRAME_SIZE_ERROR));
}

#[test]
fn frames_of_unknown_types_are_ignored() {
    let unknown = [frame(0x77, 0xff, 1, b"any"), frame(kind::HEADERS, END_HEADERS, 1, &[0xbe])].concat();
    refused_by("4.1, then 4.3", unknown, End::Connection(COMPRESSION_ERROR));
}

#[test]
fn a_field_block_is_contiguous() {
    let begun = frame(kind::HEADERS, 0, 1, OK);
    let ping = [begun.clone(), frame(kind::PING, 0, 0, &[0; 8])].concat();
    refused_by("4.3, another frame", ping, End::Connection(PROTOCOL_ERROR));
    let other = [begun, frame(kind::CONTINUATION, END_HEADERS, 3, &[])].concat();
    refused_by("6.10, another stream", other, End::Connection(PROTOCOL_ERROR));
    let alone = frame(kind::CONTINUATION, END_HEADERS, 1, OK);
    refused_by("6.10, no head", alone, End::Connection(PROTOCOL_ERROR));
}

#[test]
fn a_server_opens_no_streams() {
    refused_by("5.1.1", head(2, 0), End::Connection(PROTOCOL_ERROR));
    refused_by("5.1, an idle stream", head(7, 0), End::Connection(PROTOCOL_ERROR));
    let promise = frame(5, END_HEADERS, 1, &[0, 0, 0, 2, 0x82]);
    refused_by("6.6 and 8.4, push is disabled", promise, End::Connection(PROTOCOL_ERROR));
    let enabled = frame(kind::SETTINGS, 0, 0, &[0, 2, 0, 0, 0, 1]);
    refused_by("6.5.2, ENABLE_PUSH", enabled, End::Connection(PROTOCOL_ERROR));
}

#[test]
fn data_belongs_to_a_response_in_progress() {
    refused_by("6.1, no stream", frame(kind::DATA, 0, 0, b"a"), End::Connection(PROTOCOL_ERROR));
    refused_by("5.1, an idle stream", frame(kind::DATA, 0, 7, b"a"), End::Connection(PROTOCOL_ERROR));
    refused_by("8.1, no head", frame(kind::DATA, 0, 1, b"a"), End::Stream(PROTOCOL_ERROR));
    let padding = frame(kind::DATA, PADDED, 1, &[9, 0]);
    refused_by("6.1, padding beyond the frame", padding, End::Connection(PROTOCOL_ERROR));
    let late = [head(1, END_STREAM), frame(kind::DATA, 0, 1, b"a")].concat();
    refused_by("5.1, behind the end", late, End::Stream(STREAM_CLOSED));
}

#[test]
fn settings_have_their_form() {
    for (payload, flags, stream, code) in [
        (&[0; 5][..], 0, 0, FRAME_SIZE_ERROR),
        (&[0; 6], ACK, 0, FRAME_SIZE_ERROR),
        (&[], 0, 1, PROTOCOL_ERROR),
        (&[0, 4, 0x80, 0, 0, 0], 0, 0, FLOW_CONTROL_ERROR),
        (&[0, 5, 0, 0, 0x3f, 0xff], 0, 0, PROTOCOL_ERROR),
        (&[0, 8, 0, 0, 0, 2], 0, 0, PROTOCOL_ERROR),
    ] {
        refused_by("6.5", frame(kind::SETTINGS, flags, stream, payload), End::Connection(code));
    }
    let withdrawn = [settings(&[(8, 1)]), settings(&[(8, 0)])].concat();
    refused_by("RFC 8441, 3", withdrawn, End::Connection(PROTOCOL_ERROR));
}

#[test]
fn field_blocks_have_their_form() {
    for (block, what) in [
        (&[0x88, 0x20][..], "a size of the table behind a field (RFC 7541, 4.2)"),
        (&[0x3f, 0xe2, 0x1f, 0x88], "a table larger than the gateway allows (RFC 7541, 6.3)"),
        (&[0x88, 0x80], "index 0 (RFC 7541, 6.1)"),
        (&[0x88, 0x00, 0x05, b'a'], "a name that is cut (RFC 7541, 5.2)"),
        (&[0x88, 0x00, 0x81, 0x00, 0x00], "padding of zeros (RFC 7541, 5.2)"),
        (&[0x88, 0x00, 0x84, 0xff, 0xff, 0xff, 0xff, 0x00], "the end of a string in it (RFC 7541, 5.2)"),
        (&[0x88, 0x7f, 0x80, 0x80, 0x80, 0x80, 0x80, 0x01], "an integer without end (RFC 7541, 5.1)"),
    ] {
        let bytes = frame(kind::HEADERS, END_HEADERS, 1, block);
        refused_by(what, bytes, End::Connection(COMPRESSION_ERROR));
    }
    let cut = frame(kind::HEADERS, END_HEADERS | PRIORITY, 1, &[0; 4]);
    refused_by("6.2, a priority that is cut", cut, End::Connection(FRAME_SIZE_ERROR));
}

#[test]
fn control_frames_have_their_form() {
    for (bytes, code) in [
        (frame(kind::PING, 0, 0, &[0; 7]), FRAME_SIZE_ERROR),
        (frame(kind::PING, 0, 1, &[0; 8]), PROTOCOL_ERROR),
        (frame(kind::GOAWAY, 0, 0, &[0; 7]), FRAME_SIZE_ERROR),
        (frame(kind::GOAWAY, 0, 1, &[0; 8]), PROTOCOL_ERROR),
        (frame(kind::RST_STREAM, 0, 1, &[0; 3]), FRAME_SIZE_ERROR),
        (frame(kind::RST_STREAM, 0, 0, &[0; 4]), PROTOCOL_ERROR),
        (frame(kind::RST_STREAM, 0, 7, &[0; 4]), PROTOCOL_ERROR),
        (frame(kind::WINDOW_UPDATE, 0, 1, &[0; 3]), FRAME_SIZE_ERROR),
        (frame(kind::WINDOW_UPDATE, 0, 7, &[0, 0, 0, 1]), PROTOCOL_ERROR),
        (frame(kind::PRIORITY, 0, 0, &[0; 5]), PROTOCOL_ERROR),
        // An idle stream must not be reset (6.4).
        (frame(kind::PRIORITY, 0, 7, &[0; 4]), FRAME_SIZE_ERROR),
        (frame(kind::PRIORITY, 0, 2, &[0; 4]), FRAME_SIZE_ERROR),
    ] {
        refused_by("6.3, 6.4, 6.7 to 6.9", bytes, End::Connection(code));
    }
    refused_by("6.3", frame(kind::PRIORITY, 0, 1, &[0; 4]), End::Stream(FRAME_SIZE_ERROR));
}

#[test]
fn a_goaway_never_names_a_later_stream() {
    let goaway = |last: u32| frame(kind::GOAWAY, 0, 0, &[last.to_be_bytes(), [0; 4]].concat());
    refused_by("6.8", [goaway(1), goaway(3)].concat(), End::Connection(PROTOCOL_ERROR));
}

#[test]
fn windows_have_an_end() {
    const MOST: [u8; 4] = [0x7f, 0xff, 0xff, 0xff];
    let bytes = frame(kind::WINDOW_UPDATE, 0, 0, &MOST);
    refused_by("6.9.1, the connection's", bytes, End::Connection(FLOW_CONTROL_ERROR));
    let bytes = frame(kind::WINDOW_UPDATE, 0, 1, &MOST);
    refused_by("6.9.1, a stream's", bytes, End::Stream(FLOW_CONTROL_ERROR));
    let nothing = frame(kind::WINDOW_UPDATE, 0, 0, &[0; 4]);
    refused_by("6.9, an increment of 0", nothing, End::Connection(PROTOCOL_ERROR));
    let nothing = frame(kind::WINDOW_UPDATE, 0, 1, &[0; 4]);
    refused_by("6.9, of a stream", nothing, End::Stream(PROTOCOL_ERROR));
    let nearly = (i32::MAX as u32 - 65_535).to_be_bytes();
    let moved = [frame(kind::WINDOW_UPDATE, 0, 1, &nearly), settings(&[(4, 65_536)])].concat();
    refused_by("6.9.2, by SETTINGS", moved, End::Connection(FLOW_CONTROL_ERROR));
}

#[test]
fn a_response_exceeds_no_window() {
    let data = frame(kind::DATA, 0, 1, &[0; 16_000]).repeat(5);
    let (status, reason) = broken_by("6.9.1", [head(1, 0), data].concat(), End::Stream(FLOW_CONTROL_ERROR));
    // A part may have been forwarded.
    let ends = [(502, "http_protocol_error"), (0, "http_response_incomplete")];
    assert!(ends.contains(&(status, reason.as_str())), "{status} {reason}");
}

#[test]
fn heads_and_trailers_have_their_order() {
    let interim = [0x08, 3, b'1', b'0', b'3'];
    let bytes = frame(kind::HEADERS, END_HEADERS | END_STREAM, 1, &interim);
    refused_by("8.1, an interim head at the end", bytes, End::Stream(PROTOCOL_ERROR));
    refused_by("8.1, two heads", [head(1, 0), head(1, 0)].concat(), End::Stream(PROTOCOL_ERROR));
    let behind = [head(1, END_STREAM), head(1, 0)].concat();
    refused_by("5.1, behind the end", behind, End::Stream(STREAM_CLOSED));
    for field in [&b"\x00\x01A\x00"[..], b"\x00\x0aconnection\x05close", b"\x00\x01a\x02b\n"] {
        let trailers = frame(kind::HEADERS, END_HEADERS | END_STREAM, 1, field);
        refused_by("8.2", [head(1, 0), trailers].concat(), End::Stream(PROTOCOL_ERROR));
    }
}

#[test]
fn settings_are_the_first_frame() {
    for first in [frame(kind::PING, 0, 0, &[0; 8]), frame(kind::SETTINGS, ACK, 0, &[])] {
        let origin = Origin::play(move |conn| {
            conn.wire().take(PREFACE).ok();
            conn.send(&first);
            conn.wait_close();
        });
        let gateway =
            Gateway::start(&format!("routes:\n- {{match: /*, to: \"h2c://{}\"}}\n", origin.address()));
        let response = gateway.client().get("/");
        assert_eq!((response.status, response.reason()), (502, "http_protocol_error"), "3.4");
    }
}

#[test]
fn a_refused_stream_and_one_beyond_a_goaway_are_sent_again() {
    for refusal in
        [frame(kind::RST_STREAM, 0, 3, &[0, 0, 0, 7]), frame(kind::GOAWAY, 0, 0, &[0, 0, 0, 1, 0, 0, 0, 0])]
    {
        let count = std::sync::atomic::AtomicUsize::new(0);
        let origin = Origin::play(move |conn| {
            let mut streams = first_request(conn).map(|()| 1);
            while let Some(stream) = streams {
                if count.fetch_add(1, std::sync::atomic::Ordering::SeqCst) == 1 {
                    conn.send(&refusal);
                } else {
                    conn.send(head(stream, END_STREAM));
                }
                streams = loop {
                    match next_frame(conn) {
                        Some(got) if got.kind == kind::HEADERS => break Some(got.stream),
                        Some(_) => {}
                        None => break None,
                    }
                };
            }
        });
        let gateway = Gateway::start(&format!(
            "workers: 1\nroutes: [{{match: /*, to: up}}]\nupstreams:\n  up:\n    endpoints: \"h2c://{}\"\n\
             \x20   retry: {{attempts: 2, on: [connect_failure], budget: 100%}}\n    outlier: off\n",
            origin.address()
        ));
        assert_eq!(gateway.client().get("/").status, 200);
        assert_eq!(gateway.client().post("/", b"body").status, 200, "8.7 and 6.8: any method");
    }
}

/// An endpoint repeats frames without end. The gateway ends the connection, and keeps little.
#[test]
fn floods_end_the_connection() {
    let padded = frame(kind::DATA, PADDED, 1, &[1, 0]);
    let interim = frame(kind::HEADERS, END_HEADERS, 1, &[0x08, 3, b'1', b'0', b'0']);
    for (begin, flood) in [
        (vec![], frame(kind::PING, 0, 0, &[0; 8])),
        (vec![], frame(kind::SETTINGS, 0, 0, &[0, 4, 0, 0, 0, 1])),
        (vec![], frame(kind::WINDOW_UPDATE, 0, 0, &[0, 0, 0, 1])),
        (vec![], frame(kind::WINDOW_UPDATE, 0, 1, &[0, 0, 0, 1])),
        (vec![], frame(kind::RST_STREAM, 0, 1, &[0, 0, 0, 8])),
        (vec![], frame(kind::PRIORITY, 0, 1, &[0, 0, 0, 0, 1])),
        (vec![], frame(0x77, 0, 0, &[])),
        (vec![], interim),
        (head(1, 0), frame(kind::DATA, 0, 1, &[])),
        (head(1, 0), padded),
        (frame(kind::HEADERS, 0, 1, OK), frame(kind::CONTINUATION, 0, 1, b"")),
        (frame(kind::HEADERS, 0, 1, OK), frame(kind::CONTINUATION, 0, 1, &[0x88; 1_000])),
    ] {
        let origin = Origin::play(move |conn| {
            if first_request(conn).is_some() {
                conn.send(&begin);
                let many = flood.repeat(200);
                while conn.send(&many) {}
            }
        });
        let gateway = Gateway::start(&format!(
            "workers: 1\nroutes: [{{match: /*, to: up}}]\nupstreams:\n  up: {{endpoints: [\"h2c://{}\"], outlier: off}}\n",
            origin.address()
        ));
        gives_flood_up(&gateway, &origin);
    }
}

#[test]
fn the_end_of_a_flood_has_a_code() {
    let pings = frame(kind::PING, 0, 0, &[0; 8]).repeat(10_000);
    refused_by("10.5", pings, End::Connection(ENHANCE_YOUR_CALM));
    let block: Vec<u8> =
        [frame(kind::HEADERS, 0, 1, OK), frame(kind::CONTINUATION, 0, 1, &[0x88; 16_000]).repeat(40)]
            .concat();
    let (status, reason) = broken_by("10.5.1", block, End::Connection(ENHANCE_YOUR_CALM));
    assert_eq!((status, reason.as_str()), (502, "http_response_header_section_size"));
}
