//! Requests, responses and windows of a well-behaved endpoint.

use std::io::IoSlice;

use super::*;
use crate::shared::frame::{ACK, PADDED};

#[test]
fn a_request_and_its_response() {
    let mut endpoint = Endpoint::new();
    let stream = endpoint.ask(false);
    assert_eq!(stream.send(&[IoSlice::new(b"he"), IoSlice::new(b"llo")], false), Ok(5));
    stream.send_trailers([(&b"X-Sum"[..], &b"1"[..])].into_iter()).unwrap();
    let frames = endpoint.frames();
    assert_eq!(kinds(&frames), [FrameType::HEADERS, FrameType::DATA, FrameType::HEADERS]);
    let wanted =
        [(":method", "GET"), (":scheme", "http"), (":authority", "a"), (":path", "/"), ("user-agent", "any")];
    let wanted: Vec<_> = wanted.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
    assert_eq!(endpoint.read(&frames[0].payload), wanted);
    assert_eq!((frames[1].payload.as_slice(), frames[1].flags), (&b"hello"[..], 0));
    assert_eq!(frames[2].payload[0], 0x10, "never indexed");
    assert_eq!(endpoint.read(&frames[2].payload), [("x-sum".to_owned(), "1".to_owned())]);
    assert_eq!(frames[2].flags, END_HEADERS | ENDS);
    assert!(stream.has_sent_end() && stream.send(&[], true).is_err());

    assert_eq!(status(&stream), None);
    endpoint.section(1, 0, &[(":status", "103"), ("link", "a")]);
    endpoint.section(1, 0, &[(":status", "200")]);
    endpoint.send(FrameType::DATA, PADDED, 1, b"\x02body\0\0");
    assert_eq!((status(&stream), status(&stream), status(&stream)), (Some(Ok(103)), Some(Ok(200)), None));
    assert!(!stream.is_ended() && !stream.is_received());
    assert_eq!(body(&stream), (b"body".to_vec(), None));
    endpoint.section(1, ENDS, &[("x-end", "2")]);
    assert!(!stream.is_ended() && stream.is_received(), "the trailers are to be read");
    assert_eq!(body(&stream), (vec![], Some(Ok(()))));
    assert_eq!(text(&stream.take_trailers().unwrap()), [("x-end".to_owned(), "2".to_owned())]);
    assert!(stream.is_ended() && stream.take_trailers().is_none());
    drop(stream);
    assert_eq!(endpoint.frames(), [], "nothing is left to reset");
    assert_eq!(endpoint.ask(true).send(&[], true), Err(crate::StreamClosed), "the head was its end");
}

#[test]
fn requests_of_a_round_are_one_write_and_streams_count_up() {
    let endpoint = Endpoint::new();
    let streams: Vec<_> = (0..5).map(|_| endpoint.ask(true)).collect();
    let frames = endpoint.frames();
    assert_eq!(frames.iter().map(|frame| frame.stream).collect::<Vec<_>>(), [1, 3, 5, 7, 9]);
    // All fields of the last head are in a table.
    assert_eq!(frames[4].payload.len(), 5);
    drop(streams);
    let resets = endpoint.frames();
    assert!(resets.iter().all(|frame| frame.kind == FrameType::RST_STREAM && frame.payload == [0, 0, 0, 8]));
    assert_eq!(resets.len(), 5);
}

#[test]
fn windows_bound_the_body_and_settings_move_them_below_nothing() {
    let endpoint = Endpoint::new();
    let stream = endpoint.ask(false);
    let data = vec![7; 70_000];
    assert_eq!(stream.send(&[IoSlice::new(&data)], true), Ok(65_535));
    let sent: usize = endpoint.frames().iter().skip(1).map(|frame| frame.payload.len()).sum();
    assert_eq!(sent, 65_535);
    assert!(stream.poll_capacity(&mut cx()).is_pending());
    let window = |size: u32| [&[0, 4][..], &size.to_be_bytes()].concat();
    endpoint.send(FrameType::SETTINGS, 0, 0, &window(65_435));
    endpoint.send(FrameType::WINDOW_UPDATE, 0, 0, &1_000_u32.to_be_bytes());
    endpoint.send(FrameType::WINDOW_UPDATE, 0, 1, &100_u32.to_be_bytes());
    assert!(stream.poll_capacity(&mut cx()).is_pending(), "it was 100 below nothing");
    endpoint.send(FrameType::WINDOW_UPDATE, 0, 1, &7_u32.to_be_bytes());
    assert!(stream.poll_capacity(&mut cx()).is_ready());
    assert_eq!(stream.send(&[IoSlice::new(&data)], false), Ok(7));
    endpoint.send(FrameType::SETTINGS, 0, 0, &window(70_000));
    assert_eq!(stream.send(&[IoSlice::new(&data)], false), Ok(993), "the connection's window");
}

#[test]
fn read_bytes_return_to_the_window() {
    let mut endpoint = Endpoint::new();
    let stream = endpoint.ask(true);
    endpoint.section(1, 0, &[(":status", "200")]);
    endpoint.frames();
    for _ in 0..6 {
        endpoint.send(FrameType::DATA, 0, 1, &[1; 16_000]);
    }
    assert_eq!(endpoint.frames(), [], "nothing was read");
    assert_eq!(body(&stream).0.len(), 96_000);
    let given: Vec<_> = endpoint.frames().iter().map(|frame| frame.stream).collect();
    assert_eq!(given, [1], "half of the connection's window is not used");
    drop(stream);
    let stream = endpoint.ask(true);
    endpoint.section(3, 0, &[(":status", "200")]);
    endpoint.send(FrameType::DATA, 0, 3, &[1; 16_000]);
    endpoint.frames();
    drop(stream);
    // Bytes that are dropped unread return to the window of the connection.
    assert_eq!(kinds(&endpoint.frames()), [FrameType::RST_STREAM, FrameType::WINDOW_UPDATE]);
}

#[test]
fn settings_of_the_endpoint_apply() {
    let endpoint = Endpoint::silent();
    assert_eq!(endpoint.connection.max_concurrent_streams(), 0, "nothing is known");
    endpoint.bytes();
    let settings = [[0, 3, 0, 0, 0, 7], [0, 8, 0, 0, 0, 1], [0, 1, 0, 0, 0, 0]].concat();
    endpoint.send(FrameType::SETTINGS, 0, 0, &settings);
    assert_eq!(endpoint.connection.max_concurrent_streams(), 7);
    assert!(endpoint.connection.allows_connect_protocol());
    let frames = endpoint.frames();
    assert_eq!((frames[0].kind, frames[0].flags), (FrameType::SETTINGS, ACK));
    for _ in 0..3 {
        let _stream = endpoint.ask(true);
    }
    // Without a table, each head is written out; the first one begins with the new size.
    let heads: Vec<_> =
        endpoint.frames().into_iter().filter(|frame| frame.kind == FrameType::HEADERS).collect();
    assert_eq!(heads[0].payload[0], 0x20);
    assert_eq!(heads[1].payload, heads[2].payload);
    assert!(heads[1].payload.len() > 10);
}

#[test]
fn extended_connect_names_its_protocol() {
    let mut endpoint = Endpoint::new();
    let pseudo = RequestPseudo { method: b"CONNECT", protocol: Some(b"websocket"), ..PSEUDO };
    let stream = endpoint.connection.send_request(pseudo, std::iter::empty(), false, false).unwrap();
    let frames = endpoint.frames();
    let fields = endpoint.read(&frames[0].payload);
    assert_eq!(fields[0], (":method".to_owned(), "CONNECT".to_owned()));
    assert_eq!(fields[4], (":protocol".to_owned(), "websocket".to_owned()));
    endpoint.section(1, 0, &[(":status", "200")]);
    assert_eq!(status(&stream), Some(Ok(200)));
}

#[test]
fn a_reset_behind_a_complete_response_is_a_success() {
    let mut endpoint = Endpoint::new();
    let stream = endpoint.ask(false);
    endpoint.section(1, 0, &[(":status", "200")]);
    endpoint.send(FrameType::DATA, ENDS, 1, b"enough");
    endpoint.send(FrameType::RST_STREAM, 0, 1, &[0; 4]);
    assert!(stream.send(&[IoSlice::new(b"more")], false).is_err());
    assert_eq!(status(&stream), Some(Ok(200)));
    assert_eq!(body(&stream), (b"enough".to_vec(), Some(Ok(()))));
    // Without the end it is none.
    let stream = endpoint.ask(false);
    endpoint.section(3, 0, &[(":status", "200")]);
    endpoint.send(FrameType::DATA, 0, 3, b"not enough");
    endpoint.send(FrameType::RST_STREAM, 0, 3, &[0; 4]);
    assert_eq!(status(&stream), Some(Ok(200)));
    assert_eq!(body(&stream).1, Some(Err(ResponseFailure::Reset)));
}

#[test]
fn unprocessed_requests_are_reported() {
    let endpoint = Endpoint::new();
    let [first, second, third] = [(); 3].map(|()| endpoint.ask(true));
    endpoint.send(FrameType::RST_STREAM, 0, 3, &ErrorCode::REFUSED_STREAM.0.to_be_bytes());
    assert_eq!(status(&second), Some(Err(ResponseFailure::Refused)));
    // GOAWAY in two steps.
    endpoint.send(FrameType::GOAWAY, 0, 0, &[&[0x7f, 0xff, 0xff, 0xff][..], &[0; 4]].concat());
    assert!(!endpoint.connection.can_open());
    assert!(endpoint.connection.send_request(PSEUDO, std::iter::empty(), false, true).is_err());
    assert_eq!((status(&first), status(&third)), (None, None));
    endpoint.send(FrameType::GOAWAY, 0, 0, &[0, 0, 0, 1, 0, 0, 0, 0]);
    assert_eq!((status(&first), status(&third)), (None, Some(Err(ResponseFailure::NotProcessed))));
    endpoint.connection.abort();
    assert_eq!(status(&first), Some(Err(ResponseFailure::Closed)));
    assert_eq!(endpoint.connection.violation(), None);
}

#[test]
fn a_response_that_arrived_outlives_its_connection() {
    let mut endpoint = Endpoint::new();
    let stream = endpoint.ask(false);
    endpoint.section(1, 0, &[(":status", "200")]);
    endpoint.send(FrameType::DATA, ENDS, 1, b"all");
    endpoint.connection.abort();
    assert_eq!(status(&stream), Some(Ok(200)));
    assert_eq!(body(&stream), (b"all".to_vec(), Some(Ok(()))));
}

#[test]
fn pings_are_answered_and_sent() {
    let endpoint = Endpoint::new();
    endpoint.send(FrameType::PING, 0, 0, b"12345678");
    let frames = endpoint.frames();
    assert_eq!((frames[0].flags, frames[0].payload.as_slice()), (ACK, &b"12345678"[..]));
    endpoint.connection.send_ping();
    endpoint.connection.send_ping();
    let frames = endpoint.frames();
    assert_eq!(kinds(&frames), [FrameType::PING], "one at a time");
    endpoint.send(FrameType::PING, ACK, 0, b"another.");
    assert!(endpoint.connection.awaits_pong());
    endpoint.send(FrameType::PING, ACK, 0, &frames[0].payload);
    assert!(!endpoint.connection.awaits_pong());
}

#[test]
fn a_long_head_is_split() {
    let mut endpoint = Endpoint::new();
    let long = vec![b'x'; 40_000];
    let fields = [(&b"x-long"[..], long.as_slice())].into_iter();
    let _stream = endpoint.connection.send_request(PSEUDO, fields, false, true).unwrap();
    let frames = endpoint.frames();
    assert_eq!(kinds(&frames), [FrameType::HEADERS, FrameType::CONTINUATION, FrameType::CONTINUATION]);
    assert_eq!((frames[0].flags, frames[2].flags), (ENDS, END_HEADERS));
    let block: Vec<u8> = frames.iter().flat_map(|frame| frame.payload.clone()).collect();
    assert_eq!(endpoint.read(&block)[4].1.len(), 40_000);
}

#[test]
fn an_endpoint_marks_fields_as_never_indexed() {
    let endpoint = Endpoint::new();
    let stream = endpoint.ask(true);
    let block = [&[0x88, 0x10, 1][..], b"x", &[1], b"y"].concat();
    endpoint.send(FrameType::HEADERS, END_HEADERS | ENDS, 1, &block);
    let Poll::Ready(Ok(head)) = stream.poll_head(&mut cx()) else { panic!("no head") };
    assert!(head.has_never_indexed());
}

#[test]
fn a_connection_that_is_closed_in_order_says_so() {
    let endpoint = Endpoint::new();
    let open = endpoint.ask(true);
    let _ = endpoint.frames();
    endpoint.connection.go_away();
    assert!(!endpoint.connection.can_open());
    let frames = endpoint.frames();
    assert_eq!(kinds(&frames), [FrameType::GOAWAY]);
    assert_eq!(frames[0].payload, [0; 8], "no stream of the endpoint, and no error");
    // The endpoint broke no rule, so the request fails as on a connection that ends.
    assert_eq!(endpoint.connection.violation(), None);
    assert_eq!(status(&open), Some(Err(ResponseFailure::Closed)));
    endpoint.connection.go_away();
    assert_eq!(endpoint.frames(), []);
}

#[test]
fn ids_run_out() {
    let endpoint = Endpoint::new();
    endpoint.connection.use_up_ids();
    assert!(endpoint.connection.can_open());
    let _last = endpoint.ask(true);
    assert_eq!(endpoint.frames()[0].stream, 0x7fff_fffd);
    assert!(!endpoint.connection.can_open());
    let refused = endpoint.connection.send_request(PSEUDO, std::iter::empty(), false, true);
    assert_eq!(refused.err(), Some(crate::StreamClosed));
}

#[test]
fn a_request_that_was_not_written_was_not_processed() {
    let endpoint = Endpoint::new();
    let sent = endpoint.ask(true);
    let _ = endpoint.frames();
    let [part, unsent] = [(); 2].map(|()| endpoint.ask(true));
    // The socket takes the second head without its last byte. Both heads have the same length.
    let mut is_first = true;
    let written = endpoint.connection.poll_write(|some| match std::mem::take(&mut is_first) {
        true => Poll::Ready(Ok(some.len() / 2 - 1)),
        false => Poll::Pending,
    });
    assert!(written.is_pending());
    endpoint.connection.abort_unread();
    assert_eq!(status(&sent), Some(Err(ResponseFailure::Closed)));
    for stream in [part, unsent] {
        assert_eq!(status(&stream), Some(Err(ResponseFailure::NotProcessed)));
    }
    // If the gateway closes the connection itself, what waits is still written.
    let endpoint = Endpoint::new();
    let unsent = endpoint.ask(true);
    endpoint.connection.go_away();
    assert_eq!(status(&unsent), Some(Err(ResponseFailure::Closed)));
}

#[test]
fn only_data_follows_an_accepted_connect() {
    let pseudo = RequestPseudo { method: b"CONNECT", protocol: Some(b"websocket"), ..PSEUDO };
    for (code, end) in [("200", Err(ResponseFailure::Malformed)), ("403", Ok(()))] {
        let mut endpoint = Endpoint::new();
        let stream = endpoint.connection.send_request(pseudo, std::iter::empty(), false, false).unwrap();
        endpoint.section(1, 0, &[(":status", "103")]);
        endpoint.section(1, 0, &[(":status", code)]);
        assert_eq!(status(&stream), Some(Ok(103)));
        assert!(matches!(status(&stream), Some(Ok(_))));
        endpoint.section(1, ENDS, &[("x-end", "1")]);
        assert_eq!(body(&stream).1, Some(end), "{code}");
    }
}
