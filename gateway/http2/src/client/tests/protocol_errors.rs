//! Endpoints that break the protocol: what ends the connection, and what only a stream.

use super::*;
use crate::shared::frame::{ACK, PADDED, PAYLOAD_MAX_BYTES};

/// The end of a connection with one request in progress, after these frames.
fn ended_by(frames: &[(FrameType, u8, u32, &[u8])]) -> Option<ErrorCode> {
    let endpoint = Endpoint::new();
    let stream = endpoint.ask(true);
    endpoint.frames();
    for (kind, flags, id, payload) in frames {
        endpoint.send(*kind, *flags, *id, payload);
    }
    let end = endpoint.end();
    if end.is_some() {
        assert_eq!(status(&stream), Some(Err(ResponseFailure::Malformed)), "its request learns of it");
    }
    end
}

#[test]
fn frames_that_end_the_connection() {
    const OK: &[u8] = &[0x88];
    for (frames, code, what) in [
        (
            &[(FrameType::PUSH_PROMISE, END_HEADERS, 1, &[0, 0, 0, 2, 0x82][..])][..],
            1,
            "push is disabled (6.6)",
        ),
        (&[(FrameType::HEADERS, END_HEADERS, 2, OK)], 1, "a stream of the server (5.1.1)"),
        (&[(FrameType::HEADERS, END_HEADERS, 3, OK)], 1, "an idle stream (5.1)"),
        (&[(FrameType::HEADERS, END_HEADERS, 0, OK)], 1, "no stream (6.2)"),
        (&[(FrameType::DATA, 0, 0, b"a")], 1, "no stream (6.1)"),
        (&[(FrameType::DATA, 0, 3, b"a")], 1, "an idle stream (5.1)"),
        (&[(FrameType::DATA, PADDED, 1, &[9, 1])], 1, "padding beyond the payload (6.1)"),
        (&[(FrameType::RST_STREAM, 0, 3, &[0; 4])], 1, "an idle stream (6.4)"),
        (&[(FrameType::RST_STREAM, 0, 0, &[0; 4])], 1, "no stream (6.4)"),
        (&[(FrameType::RST_STREAM, 0, 1, &[0; 3])], 6, "a size (6.4)"),
        (&[(FrameType::PRIORITY, 0, 0, &[0; 5])], 1, "no stream (6.3)"),
        (&[(FrameType::PRIORITY, 0, 3, &[0; 4])], 6, "an idle stream, which must not be reset (6.4)"),
        (&[(FrameType::PRIORITY, 0, 3, &[0, 0, 0, 3, 0])], 1, "an idle stream that depends on itself"),
        (&[(FrameType::SETTINGS, 0, 1, &[])], 1, "a stream (6.5)"),
        (&[(FrameType::SETTINGS, 0, 0, &[0; 5])], 6, "a size (6.5)"),
        (&[(FrameType::SETTINGS, 1, 0, &[0; 6])], 6, "an acknowledgement with a payload (6.5)"),
        (&[(FrameType::SETTINGS, 0, 0, &[0, 2, 0, 0, 0, 1])], 1, "a server that enables push (6.5.2)"),
        (&[(FrameType::SETTINGS, 0, 0, &[0, 4, 0x80, 0, 0, 0])], 3, "a window (6.5.2)"),
        (&[(FrameType::SETTINGS, 0, 0, &[0, 5, 0, 0, 0, 1])], 1, "a frame size (6.5.2)"),
        (
            &[
                (FrameType::SETTINGS, 0, 0, &[0, 8, 0, 0, 0, 1]),
                (FrameType::SETTINGS, 0, 0, &[0, 8, 0, 0, 0, 0]),
            ],
            1,
            "extended CONNECT that is withdrawn (RFC 8441, 3)",
        ),
        (&[(FrameType::PING, 0, 1, &[0; 8])], 1, "a stream (6.7)"),
        (&[(FrameType::PING, 0, 0, &[0; 7])], 6, "a size (6.7)"),
        (&[(FrameType::GOAWAY, 0, 1, &[0; 8])], 1, "a stream (6.8)"),
        (&[(FrameType::GOAWAY, 0, 0, &[0; 7])], 6, "a size (6.8)"),
        (&[(FrameType::WINDOW_UPDATE, 0, 0, &[0; 4])], 1, "an increment of 0 (6.9)"),
        (
            &[(FrameType::WINDOW_UPDATE, 0, 0, &[0x7f, 0xff, 0xff, 0xff])],
            3,
            "a window beyond its end (6.9.1)",
        ),
        (&[(FrameType::WINDOW_UPDATE, 0, 3, &[0, 0, 0, 1])], 1, "an idle stream (5.1)"),
        (&[(FrameType::WINDOW_UPDATE, 0, 1, &[0; 5])], 6, "a size (6.9)"),
        (&[(FrameType::CONTINUATION, END_HEADERS, 1, OK)], 1, "no head before it (6.10)"),
        (&[(FrameType::HEADERS, 0, 1, OK), (FrameType::PING, 0, 0, &[0; 8])], 1, "a frame in a head (6.10)"),
        (&[(FrameType::HEADERS, 0, 1, OK), (FrameType::CONTINUATION, 4, 3, OK)], 1, "another stream (6.10)"),
        (&[(FrameType::HEADERS, END_HEADERS, 1, &[0xff, 0xff])], 9, "a block that is none (4.3)"),
        (&[(FrameType::HEADERS, END_HEADERS, 1, &[0xbe])], 9, "an index past the table (4.3)"),
    ] {
        assert_eq!(ended_by(frames), Some(ErrorCode(code)), "{what}");
    }
    let long = vec![0; PAYLOAD_MAX_BYTES + 1];
    assert_eq!(ended_by(&[(FrameType::DATA, 0, 1, &long)]), Some(ErrorCode::FRAME_SIZE_ERROR), "(4.2)");
    assert_eq!(ended_by(&[(FrameType(0x77), 0xff, 9, b"unknown")]), None, "(4.1)");
}

#[test]
fn settings_come_first() {
    let endpoint = Endpoint::silent();
    endpoint.bytes();
    endpoint.send(FrameType::PING, 0, 0, &[0; 8]);
    assert_eq!(endpoint.end(), Some(ErrorCode::PROTOCOL_ERROR), "(3.4)");
    let endpoint = Endpoint::silent();
    endpoint.bytes();
    endpoint.send(FrameType::SETTINGS, ACK, 0, &[]);
    assert_eq!(endpoint.end(), Some(ErrorCode::PROTOCOL_ERROR), "an acknowledgement holds no settings (3.4)");
    let endpoint = Endpoint::silent();
    endpoint.connection.receive(b"HTTP/1.1 400 Bad Request\r\n\r\n", Duration::ZERO);
    assert!(endpoint.connection.violation().is_some());
}

/// The failure of a request that is answered with these frames, and the code of the reset that follows. The
/// connection goes on.
fn failed_by(frames: &[(FrameType, u8, &[u8])]) -> (Option<Result<u16, ResponseFailure>>, Option<ErrorCode>) {
    let endpoint = Endpoint::new();
    let stream = endpoint.ask(true);
    endpoint.frames();
    for (kind, flags, payload) in frames {
        endpoint.send(*kind, *flags, 1, payload);
    }
    let reset = endpoint.frames().into_iter().find(|frame| frame.kind == FrameType::RST_STREAM);
    let found = status(&stream);
    assert_eq!(endpoint.connection.ended(), None);
    (found, reset.map(|reset| ErrorCode(frame::read_number(&reset.payload).expect("a code"))))
}

#[test]
fn frames_that_end_their_stream_alone() {
    const OK: &[u8] = &[0x88];
    const INTERIM: &[u8] = &[0x08, 3, b'1', b'0', b'3'];
    let head = (FrameType::HEADERS, END_HEADERS, OK);
    let last = (FrameType::HEADERS, END_HEADERS | ENDS, OK);
    for (frames, code, what) in [
        (&[(FrameType::DATA, 0, &b"a"[..])][..], 1, "DATA before the head (8.1)"),
        (
            &[(FrameType::HEADERS, END_HEADERS, INTERIM), (FrameType::DATA, 0, b"a")],
            1,
            "and behind an interim one",
        ),
        (&[(FrameType::HEADERS, END_HEADERS | ENDS, INTERIM)], 1, "an interim head that is the end (8.1)"),
        (&[head, head], 1, "trailers that are not the end (8.1)"),
        (&[head, last], 1, "a pseudo-field in trailers (8.1)"),
        (&[head, (FrameType::HEADERS, END_HEADERS | ENDS, &[0, 1, b'A', 0])], 1, "a name in capitals (8.2)"),
        (
            &[head, (FrameType::HEADERS, END_HEADERS | ENDS, b"\0\x0aconnection\x05close")],
            1,
            "a field of HTTP/1 (8.2.2)",
        ),
        (&[last, (FrameType::DATA, 0, b"a")], 5, "DATA behind the end (5.1)"),
        (&[last, head], 5, "a head behind the end (5.1)"),
        (&[head, (FrameType::WINDOW_UPDATE, 0, &[0; 4])], 1, "an increment of 0 (6.9)"),
        (
            &[head, (FrameType::WINDOW_UPDATE, 0, &[0x7f, 0xff, 0xff, 0xff])],
            3,
            "a window beyond its end (6.9.1)",
        ),
        (&[head, (FrameType::PRIORITY, 0, &[0; 4])], 6, "a size (6.3)"),
    ] {
        assert_eq!(
            failed_by(frames),
            (Some(Err(ResponseFailure::Malformed)), Some(ErrorCode(code))),
            "{what}"
        );
    }
}

#[test]
fn windows_are_not_exceeded() {
    let mut endpoint = Endpoint::new();
    let stream = endpoint.ask(true);
    endpoint.section(1, 0, &[(":status", "200")]);
    for _ in 0..7 {
        endpoint.send(FrameType::DATA, 0, 1, &[0; 16_000]);
    }
    assert_eq!(status(&stream), Some(Err(ResponseFailure::Malformed)), "100,000 bytes are its window");
    assert_eq!(endpoint.connection.ended(), None);
    for _ in 0..20 {
        endpoint.send(FrameType::DATA, 0, 1, &[0; 16_000]);
    }
    assert_eq!(endpoint.connection.ended(), None, "what is discarded goes back to the connection's window");
    let streams: Vec<_> = (0..3).map(|_| endpoint.ask(true)).collect();
    for id in [3, 5, 7] {
        endpoint.section(id, 0, &[(":status", "200")]);
        for _ in 0..5 {
            endpoint.send(FrameType::DATA, 0, id, &[0; 16_000]);
        }
    }
    assert_eq!(endpoint.end(), Some(ErrorCode::FLOW_CONTROL_ERROR), "200,000 bytes are the connection's");
    drop(streams);
}

#[test]
fn goaway_never_takes_back_what_it_gave_up() {
    assert_eq!(
        ended_by(&[
            (FrameType::GOAWAY, 0, 0, &[0, 0, 0, 1, 0, 0, 0, 0]),
            (FrameType::GOAWAY, 0, 0, &[0, 0, 0, 3, 0, 0, 0, 0])
        ]),
        Some(ErrorCode::PROTOCOL_ERROR)
    );
}

#[test]
fn late_frames_for_streams_that_were_reset_are_no_error() {
    let mut endpoint = Endpoint::new();
    drop(endpoint.ask(true));
    endpoint.section(1, 0, &[(":status", "200")]);
    endpoint.send(FrameType::DATA, ENDS, 1, b"late");
    assert_eq!(kinds(&endpoint.frames()), [FrameType::HEADERS, FrameType::RST_STREAM]);
    let stream = endpoint.ask(true);
    endpoint.section(3, ENDS, &[(":status", "204")]);
    assert_eq!(status(&stream), Some(Ok(204)), "and the tables agree");
}

#[test]
fn oversized_heads_are_cut_and_endless_ones_close_the_connection() {
    let mut endpoint = Endpoint::new();
    let stream = endpoint.ask(true);
    let fields: Vec<(&str, &str)> = std::iter::once((":status", "200")).chain([("x", "y"); 40]).collect();
    endpoint.section(1, ENDS, &fields);
    let Poll::Ready(Ok(head)) = stream.poll_head(&mut cx()) else { panic!("no head") };
    assert!(head.is_cut() && head.response().is_err());
    let stream = endpoint.ask(true);
    endpoint.section(3, 0, &[(":status", "200")]);
    endpoint.section(3, ENDS, &fields[1..]);
    assert_eq!((status(&stream), body(&stream).1), (Some(Ok(200)), Some(Ok(()))));
    assert!(stream.take_trailers().is_some_and(|trailers| trailers.is_cut()));

    let stream = endpoint.ask(true);
    endpoint.send(FrameType::HEADERS, 0, 5, &[0; 10]);
    endpoint.send(FrameType::CONTINUATION, 0, 5, &[0; PAYLOAD_MAX_BYTES]);
    assert_eq!(endpoint.end(), Some(ErrorCode::ENHANCE_YOUR_CALM));
    assert_eq!(status(&stream), Some(Err(ResponseFailure::HeadTooLarge)));
}

/// Sends a frame until the connection ends. Returns how many it took.
fn flood(kind: FrameType, flags: u8, id: u32, payload: &[u8]) -> usize {
    let mut endpoint = Endpoint::new();
    let _stream = endpoint.ask(true);
    endpoint.section(1, 0, &[(":status", "200")]);
    for count in 0..100_000 {
        endpoint.send(kind, flags, id, payload);
        if endpoint.connection.ended().is_some() {
            assert_eq!(endpoint.end(), Some(ErrorCode::ENHANCE_YOUR_CALM));
            return count;
        }
        endpoint.frames();
    }
    panic!("no end");
}

#[test]
fn floods_end() {
    for (kind, flags, id, payload) in [
        (FrameType::PING, 0, 0, &[0; 8][..]),
        (FrameType::PING, 1, 0, &[0; 8]),
        (FrameType::SETTINGS, 0, 0, &[]),
        (FrameType::SETTINGS, 1, 0, &[]),
        (FrameType::WINDOW_UPDATE, 0, 0, &[0, 0, 0, 1]),
        (FrameType::WINDOW_UPDATE, 0, 1, &[0, 0, 0, 1]),
        (FrameType::PRIORITY, 0, 1, &[0, 0, 0, 0, 1]),
        (FrameType::DATA, 0, 1, &[]),
        (FrameType::DATA, 8, 1, &[1, 0]),
        (FrameType::RST_STREAM, 0, 1, &[0; 4]),
        (FrameType(0x77), 0, 0, &[]),
    ] {
        let count = flood(kind, flags, id, payload);
        assert!((100..4_000).contains(&count), "{kind:?}: {count}");
    }
}

#[test]
fn interim_heads_without_end_are_bounded() {
    let mut endpoint = Endpoint::new();
    let stream = endpoint.ask(true);
    for _ in 0..1_000 {
        endpoint.section(1, 0, &[(":status", "103"), ("link", "a")]);
    }
    assert_eq!(status(&stream), Some(Err(ResponseFailure::Malformed)));
    assert_eq!(endpoint.connection.ended(), None);
    for _ in 0..2_000 {
        endpoint.section(1, 0, &[(":status", "103"), ("link", "a")]);
    }
    assert_eq!(endpoint.end(), Some(ErrorCode::ENHANCE_YOUR_CALM));
}
