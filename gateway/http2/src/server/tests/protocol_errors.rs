//! Protocol errors end a stream or the connection, as RFC 9113 requires.

use super::*;

#[test]
fn connections_end_for_what_concerns_them() {
    let calm = [0_u8; 16_384];
    let long = [0_u8; 16_385];
    for (what, kind, flags, stream, payload, reason) in [
        ("DATA of no stream", FrameType::DATA, 0, 0, &b"a"[..], ErrorCode::PROTOCOL_ERROR),
        ("DATA of a stream to come", FrameType::DATA, 0, 3, b"a", ErrorCode::PROTOCOL_ERROR),
        ("more padding than data", FrameType::DATA, 8, 1, &[5, 1], ErrorCode::PROTOCOL_ERROR),
        ("a frame that is too long", FrameType::DATA, 0, 1, &long, ErrorCode::FRAME_SIZE_ERROR),
        ("HEADERS of no stream", FrameType::HEADERS, 4, 0, &[0x82], ErrorCode::PROTOCOL_ERROR),
        ("HEADERS of an even stream", FrameType::HEADERS, 4, 2, &[0x82], ErrorCode::PROTOCOL_ERROR),
        ("a block that is none", FrameType::HEADERS, 4, 3, &[0x80], ErrorCode::COMPRESSION_ERROR),
        ("a priority that is cut", FrameType::HEADERS, 0x24, 3, &[0, 0], ErrorCode::FRAME_SIZE_ERROR),
        ("CONTINUATION of nothing", FrameType::CONTINUATION, 4, 1, &[0x82], ErrorCode::PROTOCOL_ERROR),
        ("PRIORITY of no stream", FrameType::PRIORITY, 0, 0, &[0; 5], ErrorCode::PROTOCOL_ERROR),
        (
            "PRIORITY of another size and a stream to come",
            FrameType::PRIORITY,
            0,
            3,
            &[0; 4],
            ErrorCode::FRAME_SIZE_ERROR,
        ),
        ("RST_STREAM of a stream to come", FrameType::RST_STREAM, 0, 3, &[0; 4], ErrorCode::PROTOCOL_ERROR),
        ("RST_STREAM of another size", FrameType::RST_STREAM, 0, 1, &[0; 3], ErrorCode::FRAME_SIZE_ERROR),
        ("SETTINGS of a stream", FrameType::SETTINGS, 0, 1, &[], ErrorCode::PROTOCOL_ERROR),
        ("SETTINGS of another size", FrameType::SETTINGS, 0, 0, &[0; 5], ErrorCode::FRAME_SIZE_ERROR),
        ("an answer with SETTINGS", FrameType::SETTINGS, 1, 0, &[0; 6], ErrorCode::FRAME_SIZE_ERROR),
        ("a push of 2", FrameType::SETTINGS, 0, 0, &[0, 2, 0, 0, 0, 2], ErrorCode::PROTOCOL_ERROR),
        (
            "a window too large",
            FrameType::SETTINGS,
            0,
            0,
            &[0, 4, 0x80, 0, 0, 0],
            ErrorCode::FLOW_CONTROL_ERROR,
        ),
        ("frames too small", FrameType::SETTINGS, 0, 0, &[0, 5, 0, 0, 0x3f, 0xff], ErrorCode::PROTOCOL_ERROR),
        ("frames too large", FrameType::SETTINGS, 0, 0, &[0, 5, 1, 0, 0, 0], ErrorCode::PROTOCOL_ERROR),
        ("a promise", FrameType::PUSH_PROMISE, 4, 1, &[0, 0, 0, 2], ErrorCode::PROTOCOL_ERROR),
        ("PING of a stream", FrameType::PING, 0, 1, &[0; 8], ErrorCode::PROTOCOL_ERROR),
        ("PING of another size", FrameType::PING, 0, 0, &[0; 7], ErrorCode::FRAME_SIZE_ERROR),
        ("GOAWAY of a stream", FrameType::GOAWAY, 0, 1, &[0; 8], ErrorCode::PROTOCOL_ERROR),
        ("GOAWAY that is cut", FrameType::GOAWAY, 0, 0, &[0; 7], ErrorCode::FRAME_SIZE_ERROR),
        ("a window opened by nothing", FrameType::WINDOW_UPDATE, 0, 0, &[0; 4], ErrorCode::PROTOCOL_ERROR),
        (
            "a window past the most",
            FrameType::WINDOW_UPDATE,
            0,
            0,
            &[0x7f, 255, 255, 255],
            ErrorCode::FLOW_CONTROL_ERROR,
        ),
        (
            "a window of a stream to come",
            FrameType::WINDOW_UPDATE,
            0,
            3,
            &[0, 0, 0, 1],
            ErrorCode::PROTOCOL_ERROR,
        ),
        ("a window of another size", FrameType::WINDOW_UPDATE, 0, 1, &[0; 5], ErrorCode::FRAME_SIZE_ERROR),
    ] {
        let mut client = Client::new();
        let _stream = client.begin(1, 0);
        client.send(kind, flags, stream, payload);
        assert_eq!(client.end(), Some(reason), "{what}");
        client.ask(3, ENDS);
        assert!(!client.connection.has_request(), "nothing is read any longer");
    }
    // A head that never ends.
    let mut client = Client::new();
    client.send(FrameType::HEADERS, 0, 1, &calm);
    client.send(FrameType::CONTINUATION, 0, 1, &calm);
    assert_eq!(client.end(), Some(ErrorCode::ENHANCE_YOUR_CALM));
    // Another frame inside a head.
    client = Client::new();
    client.send(FrameType::HEADERS, 0, 1, &[0x82]);
    client.send(FrameType::PING, 0, 0, &[0; 8]);
    assert_eq!(client.end(), Some(ErrorCode::PROTOCOL_ERROR));
    // A second head on a closed stream.
    client = Client::new();
    client.begin(3, ENDS).send_head(b"204", std::iter::empty(), true).unwrap();
    client.ask(3, ENDS);
    assert_eq!(client.end(), Some(ErrorCode::STREAM_CLOSED));
    // No preface, and a preface without SETTINGS.
    let acknowledgement = [PREFACE, &made(FrameType::SETTINGS, 1, 0, &[])].concat();
    let ping = [PREFACE, &made(FrameType::PING, 0, 0, &[0; 8])].concat();
    for begin in [&b"GET / HTTP/1.1\r\n\r\n"[..], &ping, &acknowledgement] {
        let client = Client::silent();
        client.receive(begin);
        assert_eq!(client.end(), Some(ErrorCode::PROTOCOL_ERROR));
    }
}

#[test]
fn frames_for_refused_streams_are_no_error() {
    // A client that does not know the limit yet opens all its streams, and then sends all their bodies.
    let mut client = Client::new();
    let streams: Vec<_> = (0..1000).map(|n| 1 + 2 * n).collect();
    for id in &streams {
        client.ask(*id, 0);
    }
    client.frames();
    for id in &streams {
        client.send(FrameType::DATA, 0, *id, b"a");
    }
    assert_eq!(client.connection.ended(), None);
    assert!(client.frames().iter().all(|frame| frame.kind != FrameType::RST_STREAM));
}

#[test]
fn streams_end_for_what_concerns_them() {
    let trailers = |client: &mut Client| client.head(&[("x-end", "1")]);
    type Mistake = fn(&mut Client, &[u8]);
    let protocol_errors: [(&str, u8, Mistake, ErrorCode); 8] = [
        (
            "DATA after the end",
            ENDS,
            |client, _| client.send(FrameType::DATA, 0, 1, b"a"),
            ErrorCode::STREAM_CLOSED,
        ),
        (
            "HEADERS after the end",
            ENDS,
            |client, block| client.send(FrameType::HEADERS, END_HEADERS | ENDS, 1, block),
            ErrorCode::STREAM_CLOSED,
        ),
        (
            "trailers without an end",
            0,
            |client, block| client.send(FrameType::HEADERS, END_HEADERS, 1, block),
            ErrorCode::PROTOCOL_ERROR,
        ),
        (
            "pseudo-fields in trailers",
            0,
            |client, _| client.send(FrameType::HEADERS, END_HEADERS | ENDS, 1, &[0x82]),
            ErrorCode::PROTOCOL_ERROR,
        ),
        (
            "a window opened by nothing",
            0,
            |client, _| client.send(FrameType::WINDOW_UPDATE, 0, 1, &[0; 4]),
            ErrorCode::PROTOCOL_ERROR,
        ),
        (
            "a window past the most",
            0,
            |client, _| client.send(FrameType::WINDOW_UPDATE, 0, 1, &[0x7f, 0xff, 0xff, 0xff]),
            ErrorCode::FLOW_CONTROL_ERROR,
        ),
        (
            "a stream that depends on itself",
            0,
            |client, _| client.send(FrameType::PRIORITY, 0, 1, &[0, 0, 0, 1, 0]),
            ErrorCode::PROTOCOL_ERROR,
        ),
        (
            "PRIORITY of another size",
            0,
            |client, _| client.send(FrameType::PRIORITY, 0, 1, &[0; 4]),
            ErrorCode::FRAME_SIZE_ERROR,
        ),
    ];
    for (what, flags, mistake, reason) in protocol_errors {
        let mut client = Client::new();
        let stream = client.begin(1, flags);
        let block = trailers(&mut client);
        mistake(&mut client, &block);
        let frames = client.frames();
        assert_eq!(kinds(&frames), [FrameType::RST_STREAM], "{what}");
        assert_eq!((frames[0].stream, frame::read_number(&frames[0].payload)), (1, Some(reason.0)), "{what}");
        assert!(stream.end().is_err(), "{what}");
        // Frames that were in flight for the stream are ignored, and the connection goes on.
        client.send(FrameType::DATA, 0, 1, b"late");
        client.send(FrameType::WINDOW_UPDATE, 0, 1, &[0, 0, 0, 9]);
        drop(stream);
        client.send(FrameType::DATA, ENDS, 1, b"later");
        drop(client.begin(3, ENDS));
        assert_eq!(client.connection.ended(), None, "{what}");
    }
}

#[test]
fn mistake_after_mistake_ends_the_connection() {
    let mut client = Client::new();
    let mut asked = 0;
    while client.connection.ended().is_none() {
        let stream = client.begin(2 * asked + 1, 0);
        client.send(FrameType::WINDOW_UPDATE, 0, 2 * asked + 1, &[0; 4]);
        assert!(stream.end().is_err());
        client.frames();
        asked += 1;
    }
    assert_eq!((asked, client.connection.ended()), (1_001, Some(ErrorCode::ENHANCE_YOUR_CALM)));
}

#[test]
fn malformed_requests_are_reported() {
    let plain = [(":method", "GET"), (":scheme", "http"), (":path", "/"), (":authority", "a")];
    let connect = [(":method", "CONNECT"), (":authority", "a:1")];
    let extended = [&plain[1..], &[(":method", "CONNECT"), (":protocol", "websocket")]].concat();
    let with = |field| [&plain[..], &[field]].concat();
    let without = |name: &str| plain.iter().copied().filter(|field| field.0 != name).collect::<Vec<_>>();
    // Invalid fields among the others do not matter to a caller that only asks for the pseudo-header fields.
    let (good, pseudo, field) = ((None, false), (Some(crate::MalformedRequest::Pseudo), true), (None, true));
    for (fields, wanted) in [
        (plain.to_vec(), good),
        (connect.to_vec(), good),
        (extended.clone(), good),
        (without(":authority"), good),
        (with(("te", "trailers")), good),
        (without(":method"), pseudo),
        (without(":path"), pseudo),
        (without(":scheme"), pseudo),
        (with((":path", "/two")), pseudo),
        (with((":status", "200")), pseudo),
        (with((":protocol", "websocket")), pseudo),
        (connect[..1].to_vec(), pseudo),
        ([&connect[..], &[(":path", "/")]].concat(), pseudo),
        (extended[1..].to_vec(), pseudo),
        ([&[("x", "1")], &plain[..]].concat(), pseudo),
        ([&plain[..], &[("x", "1"), (":path", "/two")]].concat(), field),
        (with(("te", "gzip")), field),
        (with(("connection", "close")), field),
        (with(("upgrade", "websocket")), field),
        (with(("transfer-encoding", "chunked")), field),
        (with(("a b", "1")), field),
        (with(("", "1")), field),
        (with(("a", "1\r\nb: 2")), field),
        (with(("a", " 1")), field),
    ] {
        let mut all = FieldSection::new(10_000);
        fields.iter().for_each(|(name, value)| all.push(name.as_bytes(), value.as_bytes()));
        assert_eq!((all.request().err(), all.violates_protocol()), wanted, "{fields:?}");
    }
}

#[test]
fn an_hpack_bomb_closes_the_connection() {
    let name = [b'x'; 900];
    // A literal that is added to the table; then the same name again, by a reference of one byte.
    let mut block = [&[0x40, 0x7f, 0x85, 0x06][..], &name, &[0]].concat();
    let mut client = Client::new();
    client.send(FrameType::HEADERS, END_HEADERS | ENDS, 1, &[&block[..], &[0x7e, 0]].concat());
    let IncomingRequest { fields, .. } =
        client.connection.next_request().expect("a head that is too large is heard, to be told so");
    assert!(fields.is_cut());
    block.extend_from_slice(&[0x7e, 0].repeat(4));
    client = Client::new();
    client.send(FrameType::HEADERS, END_HEADERS | ENDS, 1, &block);
    assert_eq!(client.end(), Some(ErrorCode::ENHANCE_YOUR_CALM));
}

#[test]
fn a_body_longer_than_a_later_declared_length_is_an_error() {
    let mut client = Client::new();
    for number in 0..=1_000 {
        assert_eq!(client.end(), None, "{number}");
        let id = 2 * number + 1;
        let stream = client.begin(id, 0);
        client.send(FrameType::DATA, 0, id, b"ab");
        assert!(!stream.set_content_length(1), "it is gone");
    }
    assert_eq!(client.end(), Some(ErrorCode::ENHANCE_YOUR_CALM));
    client = Client::new();
    let stream = client.begin(1, 0);
    client.send(FrameType::DATA, ENDS, 1, b"ab");
    assert!(stream.set_content_length(2));
}

#[test]
fn only_data_follows_an_accepted_connect() {
    // Trailers that arrive behind the answer, and before it.
    for is_late in [true, false] {
        let mut client = Client::new();
        let stream = client.begin(1, 0);
        let trailers = client.head(&[("x-end", "1")]);
        if !is_late {
            client.send(FrameType::HEADERS, END_HEADERS | ENDS, 1, &trailers);
        }
        stream.become_tunnel();
        assert_eq!(stream.send_head(b"200", std::iter::empty(), false).is_ok(), is_late);
        if is_late {
            client.send(FrameType::HEADERS, END_HEADERS | ENDS, 1, &trailers);
        }
        let frames = client.frames();
        let reset = frames.iter().find(|frame| frame.kind == FrameType::RST_STREAM).expect("a reset");
        assert_eq!(frame::read_number(&reset.payload), Some(ErrorCode::PROTOCOL_ERROR.0));
        assert_eq!(body(&stream), (vec![], false));
        assert_eq!(client.connection.ended(), None);
    }
}
