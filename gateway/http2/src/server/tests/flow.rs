//! Flow control in both directions.

use std::io::IoSlice;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};

use super::*;
use crate::shared::frame::PAYLOAD_MAX_BYTES;

/// Counts how often it was woken.
#[derive(Default)]
struct Count(AtomicUsize);

impl Wake for Count {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

fn update(client: &Client, stream: u32, more: u32) {
    client.send(FrameType::WINDOW_UPDATE, 0, stream, &more.to_be_bytes());
}

fn window(client: &Client, size: u32) {
    client.send(FrameType::SETTINGS, 0, 0, &[&[0, 4][..], &size.to_be_bytes()].concat());
}

/// Sends until the stream has to wait. Returns the number of bytes.
fn fill(stream: &RequestStream, cx: &mut Context<'_>) -> usize {
    let mut sent = 0;
    loop {
        match stream.poll_capacity(cx) {
            Poll::Ready(Ok(_)) => sent += stream.send(&[IoSlice::new(&[7; 9_999])], false).unwrap(),
            Poll::Ready(Err(_)) => panic!("it is gone"),
            Poll::Pending => return sent,
        }
    }
}

fn data(frames: &[Frame]) -> usize {
    assert!(frames.iter().all(|frame| frame.payload.len() <= PAYLOAD_MAX_BYTES));
    frames.iter().filter(|frame| frame.kind == FrameType::DATA).map(|frame| frame.payload.len()).sum()
}

#[test]
fn no_more_goes_than_the_windows_let_through() {
    let mut client = Client::new();
    let (one, two) = (client.begin(1, ENDS), client.begin(3, ENDS));
    let (first, second) = (Arc::new(Count::default()), Arc::new(Count::default()));
    let wakers = [&first, &second].map(|count| Waker::from(count.clone()));
    let woken = |count: &Arc<Count>| count.0.swap(0, Ordering::Relaxed);
    for stream in [&one, &two] {
        stream.send_head(b"200", std::iter::empty(), false).unwrap();
    }
    // The connection's window is as large as a stream's, so the second stream gets nothing.
    assert_eq!(fill(&one, &mut Context::from_waker(&wakers[0])), 65_535);
    assert_eq!(fill(&two, &mut Context::from_waker(&wakers[1])), 0);
    assert_eq!(data(&client.frames()), 65_535);
    update(&client, 0, 10);
    // The first stream waits for its own window, which is closed.
    assert_eq!((woken(&first), woken(&second)), (0, 1));
    assert_eq!(fill(&one, &mut Context::from_waker(&wakers[0])), 0, "its own is shut");
    assert_eq!(fill(&two, &mut Context::from_waker(&wakers[1])), 10);
    update(&client, 1, 5);
    assert_eq!((woken(&first), woken(&second)), (1, 0));
    assert_eq!(fill(&one, &mut Context::from_waker(&wakers[0])), 0, "the connection's is shut");
    update(&client, 0, 100);
    assert_eq!(fill(&one, &mut Context::from_waker(&wakers[0])), 5);
    assert_eq!(data(&client.frames()), 15);
    // An end needs no window.
    assert_eq!(one.send(&[IoSlice::new(b"more")], true), Ok(0));
    assert!(!one.has_sent_end());
    one.end().unwrap();
    assert_eq!(client.frames()[0].flags, ENDS);
}

#[test]
fn settings_can_make_stream_windows_negative() {
    let mut client = Client::new();
    let stream = client.begin(1, ENDS);
    stream.send_head(b"200", std::iter::empty(), false).unwrap();
    let waker = waker();
    let mut cx = Context::from_waker(&waker);
    update(&client, 0, 1_000_000);
    assert_eq!(fill(&stream, &mut cx), 65_535);
    client.frames();
    window(&client, 65_536);
    assert_eq!(fill(&stream, &mut cx), 1);
    window(&client, 10);
    assert_eq!(fill(&stream, &mut cx), 0);
    update(&client, 1, 65_526);
    assert_eq!(fill(&stream, &mut cx), 0);
    update(&client, 1, 3);
    assert_eq!(fill(&stream, &mut cx), 3);
    // A new stream starts with the new window.
    let next = client.begin(3, ENDS);
    next.send_head(b"200", std::iter::empty(), false).unwrap();
    assert_eq!(fill(&next, &mut cx), 10);
}

#[test]
fn unsent_output_is_bounded() {
    let mut client = Client::new();
    window(&client, 1 << 30);
    update(&client, 0, 1 << 30);
    let stream = client.begin(1, ENDS);
    stream.send_head(b"200", std::iter::empty(), false).unwrap();
    let count = Arc::new(Count::default());
    let waker = Waker::from(count.clone());
    let mut cx = Context::from_waker(&waker);
    let sent = fill(&stream, &mut cx);
    assert!((100_000..=128 * 1024).contains(&sent), "{sent}");
    assert!(client.connection.is_slow_reader());
    // A small part of it is written: not enough to wake a stream.
    let mut gone = Vec::new();
    let _ = client.connection.poll_write(|bytes| {
        if !gone.is_empty() {
            return Poll::Pending;
        }
        gone.extend_from_slice(&bytes[..1_000]);
        Poll::Ready(Ok(1_000))
    });
    assert_eq!(count.0.load(Ordering::Relaxed), 0);
    assert_eq!(data(&client.frames_after(gone)), sent);
    assert_eq!(count.0.load(Ordering::Relaxed), 1);
    assert!(fill(&stream, &mut cx) > 100_000);
}

#[test]
fn heads_that_wait_take_little_room() {
    let mut client = Client::to(LocalSettings { max_concurrent_streams: 100, ..SETTINGS });
    for n in 0..100 {
        client.ask(1 + 2 * n, ENDS);
    }
    let memory: Vec<usize> =
        std::iter::from_fn(|| client.connection.next_request()).map(|begun| begun.fields.memory()).collect();
    assert_eq!(memory.len(), 100);
    // The first ones keep the capacity that later ones will reuse.
    assert!(memory[..32].iter().all(|size| *size >= 512), "{memory:?}");
    assert!(memory[32..].iter().all(|size| *size < 100), "{memory:?}");
}

#[test]
fn windows_open_again_as_bodies_are_read() {
    let mut client = Client::new();
    let stream = client.begin(1, 0);
    for _ in 0..10 {
        client.send(FrameType::DATA, 0, 1, &[1; 10_000]);
    }
    assert!(client.frames().is_empty(), "nobody has read any of it");
    let (all, ended) = body(&stream);
    assert_eq!((all.len(), ended), (100_000, false));
    let opened = |frames: &[Frame], stream| -> u32 {
        let ours =
            frames.iter().filter(|frame| (frame.kind, frame.stream) == (FrameType::WINDOW_UPDATE, stream));
        ours.map(|frame| frame::read_number(&frame.payload).unwrap()).sum()
    };
    let frames = client.frames();
    assert_eq!((opened(&frames, 1), opened(&frames, 0)), (100_000, 100_000));
    // The end needs no window.
    client.send(FrameType::DATA, ENDS, 1, &[1; 10_000]);
    assert_eq!(body(&stream).0.len(), 10_000);
    assert_eq!(opened(&client.frames(), 1), 0);
}

#[test]
fn sending_past_a_window_is_a_flow_control_error() {
    let mut client = Client::new();
    let (_one, _two) = (client.begin(1, 0), client.begin(3, 0));
    for _ in 0..10 {
        client.send(FrameType::DATA, 0, 1, &[1; 10_000]);
    }
    client.send(FrameType::DATA, 0, 1, &[1; 1]);
    let frames = client.frames();
    assert_eq!((frames[0].kind, frames[0].payload[3]), (FrameType::RST_STREAM, 3), "FLOW_CONTROL_ERROR");
    // The rejected data is discarded, so that other streams may send.
    for _ in 0..10 {
        client.send(FrameType::DATA, 0, 3, &[1; 10_000]);
    }
    assert_eq!(client.connection.ended(), None);
    let _three = client.begin(5, 0);
    for _ in 0..10 {
        client.send(FrameType::DATA, 0, 5, &[1; 10_000]);
    }
    client.send(FrameType::DATA, 0, 5, &[1; 10_000]);
    client.send(FrameType::DATA, 0, 1, &[1; 10_000]);
    assert!(client.connection.ended().is_none_or(|reason| reason == ErrorCode::FLOW_CONTROL_ERROR));
}

#[test]
fn a_write_does_not_wake_streams_that_wait_for_the_connection_window() {
    let mut client = Client::new();
    let (one, two, three) = (client.begin(1, ENDS), client.begin(3, ENDS), client.begin(5, ENDS));
    let woken = Arc::new(Count::default());
    let waker = Waker::from(woken.clone());
    for stream in [&one, &two] {
        stream.send_head(b"200", std::iter::empty(), false).unwrap();
    }
    assert_eq!(fill(&one, &mut Context::from_waker(&waker)), 65_535);
    assert_eq!(fill(&two, &mut Context::from_waker(&waker)), 0);
    client.frames();
    three.send_head(b"200", std::iter::empty(), true).unwrap();
    client.frames();
    assert_eq!(woken.0.load(Ordering::Relaxed), 0);
    // A dropped stream leaves nothing behind for the stream that reuses its key.
    drop(two);
    drop(three);
    let next = client.begin(7, ENDS);
    next.send_head(b"200", std::iter::empty(), false).unwrap();
    update(&client, 0, 10);
    assert_eq!(woken.0.load(Ordering::Relaxed), 0);
    assert_eq!(fill(&next, &mut Context::from_waker(&waker)), 10);
}

#[test]
fn no_window_overflows() {
    const LARGEST: u32 = (1 << 31) - 1;
    // The largest window is allowed, for the connection and for a stream.
    let mut client = Client::new();
    let stream = client.begin(1, ENDS);
    for id in [0, 1] {
        update(&client, id, LARGEST - 65_535);
    }
    assert_eq!(client.end(), None);
    // The highest bit is reserved and ignored.
    update(&client, 0, 1 << 31);
    assert_eq!(client.end(), Some(ErrorCode::PROTOCOL_ERROR), "an update by nothing");
    drop(stream);
    for more in [LARGEST - 65_534, LARGEST, u32::MAX] {
        let mut client = Client::new();
        let _stream = client.begin(1, ENDS);
        update(&client, 1, more);
        let reset = client.frames().into_iter().find(|frame| frame.kind == FrameType::RST_STREAM);
        let reason = reset.and_then(|frame| frame::read_number(&frame.payload)).map(ErrorCode);
        assert_eq!(reason, Some(ErrorCode::FLOW_CONTROL_ERROR), "{more}");
        update(&client, 0, more);
        assert_eq!(client.end(), Some(ErrorCode::FLOW_CONTROL_ERROR), "{more}");
    }
    // A stream with the largest window accepts no larger one from SETTINGS.
    let mut client = Client::new();
    let _stream = client.begin(1, ENDS);
    update(&client, 1, LARGEST - 65_535);
    window(&client, 0);
    window(&client, 65_535);
    assert_eq!(client.end(), None);
    window(&client, 65_536);
    assert_eq!(client.end(), Some(ErrorCode::FLOW_CONTROL_ERROR));
    // Between the extremes, up and down: the sum stays exact.
    let mut client = Client::new();
    let stream = client.begin(1, ENDS);
    stream.send_head(b"200", std::iter::empty(), false).unwrap();
    for _ in 0..100 {
        window(&client, LARGEST);
        window(&client, 0);
    }
    window(&client, 7);
    assert_eq!(fill(&stream, &mut Context::from_waker(&waker())), 7);
}
