//! Clients with many small frames for a good reason: the flood protection does not stop streams of messages.

use tollgate_tests::frames::{END_HEADERS, END_STREAM, Frames, fields, frame, kind, pseudo, pseudo_of};
use tollgate_tests::{Gateway, Http2Origin, Origin};

/// More messages than a flood could send in this time.
const MESSAGES: usize = 3000;

/// Starts an upload.
fn begin(frames: &mut Frames) {
    frames.send(kind::HEADERS, END_HEADERS, 1, &fields(&pseudo_of("POST", "/")));
}

#[test]
fn messages_of_a_byte_go_through() {
    let origin = Origin::ok();
    let gateway = Gateway::to(&origin);
    let mut frames = gateway.frames(&[]);
    begin(&mut frames);
    let messages = [frame(kind::DATA, 0, 1, b"x").repeat(MESSAGES), frame(kind::DATA, END_STREAM, 1, &[])];
    assert!(frames.send_bytes(&messages.concat()));
    let head = frames.wait_for(|frame| frame.kind == kind::HEADERS).expect("an answer");
    assert_eq!(head.status(), Some(200));
    assert_eq!(origin.request().body.len(), MESSAGES);
}

#[test]
fn each_message_may_be_answered_by_a_ping() {
    // gRPC clients measure the path this way: a PING for each message, as soon as the last PING was answered.
    let origin = Http2Origin::play(|stream| {
        stream.head(200, &[], false);
        while let Some(data) = stream.data() {
            stream.send(data, false);
        }
        stream.send("", true);
    });
    let gateway = Gateway::start(&format!(
        "workers: 1\nroutes:\n- {{match: /*, to: \"h2c://{}\"}}\n",
        origin.address()
    ));
    let mut frames = gateway.frames(&[]);
    begin(&mut frames);
    for n in 0..MESSAGES {
        frames.send(kind::DATA, 0, 1, b"x");
        let data = frames.wait_for(|frame| frame.kind == kind::DATA && !frame.payload.is_empty());
        assert_eq!(data.unwrap_or_else(|| panic!("ended at message {n}")).payload, b"x");
        frames.send(kind::PING, 0, 0, &[0; 8]);
    }
    frames.send(kind::DATA, END_STREAM, 1, &[]);
    let end = frames.wait_for(|frame| frame.kind == kind::DATA && frame.flags & END_STREAM != 0);
    assert!(end.is_some(), "the stream ends as it should");
}

#[test]
fn waiting_input_is_measured_once() {
    let gateway =
        Gateway::start("listen: [{bind: $LISTEN, http2: only}]\nroutes: [{match: /*, respond: ok}]\n");
    let mut frames = gateway.frames(&[]);
    let ask = |n: u32| frame(kind::HEADERS, END_HEADERS | END_STREAM, 1 + 2 * n, &fields(&pseudo("/")));
    // More heads than fit into one turn of the scheduler, followed by the most PINGs that a client may send at once.
    let pings = frame(kind::PING, 0, 0, &[0; 8]).repeat(120);
    assert!(frames.send_bytes(&[(0..100).flat_map(ask).collect::<Vec<u8>>(), pings].concat()));
    for _ in 0..100 {
        let head = frames.wait_for(|frame| matches!(frame.kind, kind::HEADERS | kind::GOAWAY));
        let head = head.expect("an answer");
        assert_eq!((head.kind, head.status()), (kind::HEADERS, Some(200)), "{head:?}");
    }
}
