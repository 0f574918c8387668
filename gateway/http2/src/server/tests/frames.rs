//! Requests and responses, cut into frames and reads in every way.

use std::io::IoSlice;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake};

use super::*;
use crate::shared::frame::{PADDED, PAYLOAD_MAX_BYTES, WITH_PRIORITY};

#[test]
fn a_request_and_its_answer() {
    let mut client = Client::new();
    client.ask(1, ENDS);
    let IncomingRequest { stream, fields } = client.connection.next_request().expect("a request");
    let (pseudo, others) = fields.request().expect("well-formed");
    assert_eq!((pseudo.method, pseudo.path, others.count()), (&b"POST"[..], Some(&b"/"[..]), 0));
    assert!(stream.is_ended() && !client.connection.has_request());
    stream.recycle_fields(fields);
    stream.send_head(b"103", [(&b"Link"[..], &b"</a>"[..])].into_iter(), false).unwrap();
    stream.send_head(b"200", [(&b"Server"[..], &b"Any"[..])].into_iter(), false).unwrap();
    assert_eq!(stream.send(&[IoSlice::new(b"bo"), IoSlice::new(b""), IoSlice::new(b"dy")], false), Ok(4));
    stream.send_trailers([(&b"x-sum"[..], &b"7"[..])].into_iter()).unwrap();
    assert!(stream.has_sent_end());
    drop(stream);
    let frames = client.frames();
    assert_eq!(kinds(&frames), [FrameType::HEADERS, FrameType::HEADERS, FrameType::DATA, FrameType::HEADERS]);
    assert_eq!(frames.iter().map(|frame| frame.flags & ENDS).collect::<Vec<_>>(), [0, 0, 0, ENDS]);
    assert!(frames.iter().all(|frame| frame.stream == 1));
    let own = |text: &str| text.to_owned();
    assert_eq!(client.read(&frames[0].payload), [(own(":status"), own("103")), (own("link"), own("</a>"))]);
    assert_eq!(client.read(&frames[1].payload), [(own(":status"), own("200")), (own("server"), own("Any"))]);
    assert_eq!(frames[2].payload, b"body");
    assert_eq!(client.read(&frames[3].payload), [(own("x-sum"), own("7"))]);
}

#[test]
fn every_cut_of_what_comes_gives_the_same() {
    let mut all = PREFACE.to_vec();
    let mut client = Client::silent();
    let block =
        client.head(&[(":method", "PUT"), (":scheme", "https"), (":path", "/x"), (":authority", "a")]);
    let trailers = client.head(&[("x-end", "yes")]);
    let (first, last) = block.split_at(7);
    let padded = |content: &[u8]| [&[3], content, &[0; 3]].concat();
    all.extend(made(FrameType::SETTINGS, 0, 0, &[]));
    all.extend(made(
        FrameType::HEADERS,
        PADDED | WITH_PRIORITY,
        1,
        &padded(&[&[0, 0, 0, 0, 9], first].concat()),
    ));
    all.extend(made(FrameType::CONTINUATION, 0, 1, &[]));
    all.extend(made(FrameType::CONTINUATION, END_HEADERS, 1, last));
    all.extend(made(FrameType(77), 0xff, 1, b"what nobody knows"));
    all.extend(made(FrameType::DATA, 0, 1, b"0123456789"));
    all.extend(made(FrameType::DATA, PADDED, 1, &padded(b"abc")));
    all.extend(made(FrameType::PRIORITY, 0, 5, &[0, 0, 0, 1, 9]));
    all.extend(made(FrameType::DATA, 0, 1, b""));
    all.extend(made(FrameType::HEADERS, END_HEADERS | ENDS, 1, &trailers));
    all.extend(made(FrameType::PING, 0, 0, b"12345678"));
    for size in 1..=all.len() {
        let client = Client::silent();
        all.chunks(size).for_each(|piece| client.receive(piece));
        assert_eq!(client.connection.ended(), None, "{size}");
        let IncomingRequest { stream, fields } = client.connection.next_request().expect("a request");
        assert_eq!(fields.request().expect("well-formed").0.path, Some(&b"/x"[..]));
        assert_eq!(body(&stream), (b"0123456789abc".to_vec(), true), "{size}");
        let trailers = stream.take_trailers().expect("trailers");
        assert_eq!(trailers.iter().collect::<Vec<_>>(), [(&b"x-end"[..], &b"yes"[..])]);
        assert!(stream.is_ended());
        let frames = client.frames();
        assert_eq!(
            kinds(&frames),
            [FrameType::SETTINGS, FrameType::WINDOW_UPDATE, FrameType::SETTINGS, FrameType::PING],
            "{size}"
        );
        assert_eq!(frames[3].payload, b"12345678");
    }
}

#[test]
fn a_long_head_is_several_frames() {
    let mut client = Client::new();
    let stream = client.begin(1, ENDS);
    let long = "a".repeat(PAYLOAD_MAX_BYTES);
    let fields = [("x-one", long.as_str()), ("x-two", &long)];
    let given = fields.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes()));
    stream.send_head(b"200", given, true).unwrap();
    let frames = client.frames();
    assert_eq!(kinds(&frames), [FrameType::HEADERS, FrameType::CONTINUATION, FrameType::CONTINUATION]);
    let flags: Vec<u8> = frames.iter().map(|frame| frame.flags).collect();
    assert_eq!(flags, [ENDS, 0, END_HEADERS]);
    let block: Vec<u8> = frames.into_iter().flat_map(|frame| frame.payload).collect();
    let read = client.read(&block);
    assert_eq!((read.len(), read[2].1.len()), (3, PAYLOAD_MAX_BYTES));
}

#[test]
fn a_head_with_too_many_fields_is_rejected_and_the_next_is_read() {
    let mut client = Client::new();
    let long = "a".repeat(2_000);
    let block = client.head(&[(":method", "GET"), ("x", &long)]);
    client.send(FrameType::HEADERS, END_HEADERS | ENDS, 1, &block);
    let IncomingRequest { fields, .. } = client.connection.next_request().expect("a request");
    assert!(matches!(fields.request(), Err(crate::MalformedRequest::Cut)));
    client.begin(3, ENDS);
}

#[test]
fn goodbye_waits_for_what_is_on_its_way() {
    let mut client = Client::new();
    let first = client.begin(1, ENDS);
    client.connection.start_graceful_shutdown();
    let frames = client.frames();
    assert_eq!(kinds(&frames), [FrameType::GOAWAY, FrameType::PING]);
    assert_eq!(frames[0].payload, [0x7f, 0xff, 0xff, 0xff, 0, 0, 0, 0]);
    let second = client.begin(3, ENDS);
    client.send(FrameType::PING, 1, 0, &frames[1].payload);
    let frames = client.frames();
    assert_eq!((kinds(&frames), &frames[0].payload[..4]), (vec![FrameType::GOAWAY], &[0, 0, 0, 3][..]));
    // Frames that the client sends before it receives the second GOAWAY are ignored.
    client.ask(5, 0);
    client.send(FrameType::DATA, 0, 5, b"in vain");
    client.send(FrameType::WINDOW_UPDATE, 0, 5, &[0, 0, 0, 1]);
    client.send(FrameType::RST_STREAM, 0, 5, &[0, 0, 0, 8]);
    assert!(client.frames().is_empty() && client.connection.ended().is_none());
    assert!(!client.connection.has_request() && !client.connection.is_finished());
    for stream in [first, second] {
        stream.send_head(b"204", std::iter::empty(), true).unwrap();
    }
    assert!(!client.connection.is_finished(), "the answers have not gone");
    assert_eq!(kinds(&client.frames()), [FrameType::HEADERS; 2]);
    assert!(client.connection.is_finished());
}

#[test]
fn a_client_that_leaves_is_let_go_when_it_has_its_answers() {
    let mut client = Client::new();
    let stream = client.begin(1, ENDS);
    client.send(FrameType::GOAWAY, 0, 0, &[0; 8]);
    assert!(!client.connection.is_finished());
    stream.send_head(b"204", std::iter::empty(), true).unwrap();
    drop(stream);
    client.frames();
    assert!(client.connection.is_finished());
}

#[test]
fn queued_requests_are_dropped_when_the_connection_ends() {
    let mut client = Client::new();
    client.ask(1, ENDS);
    client.send(FrameType::PING, 0, 1, &[0; 8]);
    assert!(client.connection.ended().is_some() && !client.connection.has_request());
}

#[test]
fn unread_heads_fill_a_connection() {
    let mut client = Client::new();
    let mut asked = 0;
    while !client.connection.is_full() {
        let stream = client.begin(2 * asked + 1, ENDS);
        let value = format!("{asked:0200}");
        stream.send_head(b"204", [(&b"x-new"[..], value.as_bytes())].into_iter(), true).unwrap();
        asked += 1;
    }
    assert!((500..700).contains(&asked), "{asked}");
    client.frames();
    assert!(!client.connection.is_full());
}

#[test]
fn dropped_requests_are_refused_and_cancelled() {
    let mut client = Client::new();
    let answered = client.begin(1, 0);
    answered.send_head(b"200", std::iter::empty(), true).unwrap();
    client.frames();
    drop(answered);
    drop(client.begin(3, ENDS));
    let resets: Vec<_> = client.frames().into_iter().map(|frame| (frame.stream, frame.payload[3])).collect();
    assert_eq!(resets, [(1, 0), (3, 8)], "NO_ERROR and CANCEL");
    // Frames that were in flight are no error, and their bytes return to the window.
    for _ in 0..100 {
        client.send(FrameType::DATA, 0, 1, &[0; 10_000]);
    }
    assert_eq!(client.connection.ended(), None);
    assert!(client.frames().iter().all(|frame| (frame.kind, frame.stream) == (FrameType::WINDOW_UPDATE, 0)));
}

#[test]
fn resets_are_reported_and_early_ones_are_counted() {
    let mut client = Client::new();
    let stream = client.begin(1, 0);
    let (waker, cancel) = (waker(), [0, 0, 0, 8]);
    assert!(stream.poll_reset(&mut Context::from_waker(&waker)).is_pending());
    client.send(FrameType::DATA, 0, 1, b"lost");
    client.send(FrameType::RST_STREAM, 0, 1, &cancel);
    assert!(stream.poll_reset(&mut Context::from_waker(&waker)).is_ready());
    assert!(stream.send_head(b"200", std::iter::empty(), true).is_err());
    assert_eq!(body(&stream), (vec![], false));
    drop(stream);
    assert_eq!(client.connection.reset_before_start(), 0);
    client.ask(3, ENDS);
    client.send(FrameType::RST_STREAM, 0, 3, &cancel);
    assert!((client.connection.reset_before_start(), client.connection.has_request()) == (1, false));
    assert!(client.frames().is_empty());
}

#[test]
fn concurrent_streams_are_limited() {
    let mut client = Client::new();
    let streams: Vec<RequestStream> = (0..4).map(|at| client.begin(2 * at + 1, ENDS)).collect();
    client.ask(9, ENDS);
    assert!(!client.connection.has_request());
    let frames = client.frames();
    assert_eq!((frames[0].stream, frames[0].payload[3]), (9, 7), "REFUSED_STREAM");
    // A reset alone frees no slot, because the request is still being worked on.
    client.send(FrameType::RST_STREAM, 0, 1, &[0, 0, 0, 8]);
    client.ask(11, ENDS);
    assert!(!client.connection.has_request());
    // A complete response does, even while the handle of the stream exists.
    streams[1].send_head(b"204", std::iter::empty(), true).unwrap();
    client.begin(13, ENDS);
    drop(streams);
    client.begin(15, ENDS);
}

#[test]
fn a_body_must_match_its_declared_length() {
    for (length, pieces, is_whole) in [
        (5, &["01234"][..], true),
        (5, &["01", "234", ""], true),
        (0, &[""], true),
        (5, &["0123"], false),
        (5, &["012345"], false),
        (5, &["0123", "45"], false),
    ] {
        for early in [true, false] {
            let mut client = Client::new();
            let stream = client.begin(1, 0);
            if early {
                stream.set_content_length(length);
            }
            for (at, piece) in pieces.iter().enumerate() {
                let flags = if at + 1 == pieces.len() { ENDS } else { 0 };
                client.send(FrameType::DATA, flags, 1, piece.as_bytes());
            }
            stream.set_content_length(length);
            let (_, ended) = body(&stream);
            assert_eq!(ended, is_whole, "{length}: {pieces:?}");
            let resets = client.frames();
            assert_eq!(resets.is_empty(), is_whole);
            assert!(resets.iter().all(|frame| frame.kind == FrameType::RST_STREAM && frame.payload[3] == 1));
        }
    }
}

#[test]
fn streams_learn_that_their_connection_closed() {
    let mut client = Client::new();
    let stream = client.begin(1, 0);
    client.connection.abort();
    let waker = waker();
    let mut cx = Context::from_waker(&waker);
    assert!(stream.poll_reset(&mut cx).is_ready());
    assert!(matches!(stream.poll_read(&mut cx, &mut [0; 9]), Poll::Ready(Err(_))));
    assert!(matches!(stream.poll_capacity(&mut cx), Poll::Ready(Err(_))));
    assert!(stream.send(&[IoSlice::new(b"a")], true).is_err());
}

#[test]
fn streams_hear_in_parts_that_their_connection_has_ended() {
    struct Count(AtomicUsize);
    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    let mut client = Client::new();
    let count = Arc::new(Count(AtomicUsize::new(0)));
    let waker = Waker::from(count.clone());
    let streams: Vec<_> = (0..4).map(|n| client.begin(1 + 2 * n, 0)).collect();
    for stream in &streams[..3] {
        assert!(stream.poll_reset(&mut Context::from_waker(&waker)).is_pending());
    }
    client.connection.end(ErrorCode::NO_ERROR);
    assert_eq!(count.0.load(Ordering::Relaxed), 0);
    for (peer_settings, sum) in [(2, 2), (1, 3), (0, 3)] {
        assert_eq!(client.connection.wake_ended_streams(2), peer_settings);
        assert_eq!(count.0.load(Ordering::Relaxed), sum);
    }
    let mut cx = Context::from_waker(&waker);
    assert!(streams.iter().all(|stream| stream.poll_reset(&mut cx).is_ready()), "who looks itself sees it");
}

#[test]
fn heads_that_wait_are_weighed_as_they_are_in_memory() {
    let mut client = Client::new();
    let large = "v".repeat(200);
    let fields = [(":method", "GET"), (":scheme", "http"), (":path", "/"), ("x", &*large)];
    // From the second one on, each block is only a few bytes long.
    for id in [1, 3, 5] {
        let block = client.head(&fields);
        client.send(FrameType::HEADERS, END_HEADERS, id, &block);
    }
    let three = client.connection.queued_bytes();
    assert!(three > 3 * 200, "{three}");
    let trailers = client.head(&[("x", &*large)]);
    client.send(FrameType::HEADERS, END_HEADERS | ENDS, 5, &trailers);
    let more = client.connection.queued_bytes();
    assert!(more > three + 200, "{more}");
    client.send(FrameType::RST_STREAM, 0, 5, &8_u32.to_be_bytes());
    assert_eq!(client.connection.queued_bytes(), three / 3 * 2);
    drop((client.connection.next_request(), client.connection.next_request()));
    assert_eq!(client.connection.queued_bytes(), 0);
}

#[test]
fn expensive_input_is_read_frame_by_frame() {
    let mut client = Client::new();
    let large = "v".repeat(300);
    let head = client.head(&[(":method", "GET"), (":scheme", "http"), (":path", "/"), ("x", &*large)]);
    let head = made(FrameType::HEADERS, END_HEADERS, 1, &head);
    let more = client.head(&[(":method", "GET"), (":scheme", "http"), (":path", "/"), ("x", &*large)]);
    let more = [3, 5].map(|id| made(FrameType::HEADERS, END_HEADERS, id, &more)).concat();
    let all = [head.clone(), more].concat();
    assert_eq!(client.connection.receive(&all, 1), head.len());
    let weight = client.connection.extra_cost();
    assert!(weight > 300, "a head weighs what it has in memory: {weight}");
    assert_eq!(client.connection.receive(&all[head.len()..], 2 * weight), all.len() - head.len());
    assert!(client.connection.extra_cost() > 3 * 300);
}

#[test]
fn a_goaway_ends_a_connection_whose_client_does_not_answer() {
    let mut client = Client::new();
    let _stream = client.begin(1, ENDS);
    client.connection.finish_graceful_shutdown();
    assert_eq!(client.frames(), [], "nobody was told to leave");
    client.connection.start_graceful_shutdown();
    client.ask(3, ENDS);
    assert!(client.connection.next_request().is_some(), "it may not have heard of it");
    client.frames();
    client.connection.finish_graceful_shutdown();
    let frames = client.frames();
    let goodbye =
        frames.iter().find(|frame| frame.kind == FrameType::GOAWAY).expect("it is told which is its last");
    assert_eq!(goodbye.payload, [0, 0, 0, 3, 0, 0, 0, 0]);
    client.ask(5, ENDS);
    assert!(!client.connection.has_request());
}
