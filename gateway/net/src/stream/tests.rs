//! Tests streams that move between tasks and threads.

use std::future::poll_fn;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::rc::Rc;
use std::time::{Duration, Instant};

use super::*;
use crate::{Runtime, Timers};

/// A stream, and the socket of its peer.
fn pair() -> (Stream, std::net::TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    let peer = std::net::TcpStream::connect(address).expect("connected");
    let (stream, _) = listener.accept().expect("a connection");
    stream.set_nonblocking(true).expect("non-blocking");
    (DetachedStream::from(stream).attach().expect("registered"), peer)
}

/// Reads with a timeout: a lost waker is a failure, not a hang.
async fn read(stream: &mut Stream, timers: &Timers) -> Vec<u8> {
    let deadline = timers.deadline();
    deadline.set(Instant::now(), Some(Duration::from_secs(20)));
    let mut buffer = [0; 64];
    let count = poll_fn(|cx| {
        if let Poll::Ready(read) = stream.poll_read(cx, &mut buffer) {
            return Poll::Ready(read.expect("no error"));
        }
        assert!(deadline.poll_passed(cx).is_pending(), "nobody was woken");
        Poll::Pending
    });
    let count = count.await;
    buffer[..count].to_vec()
}

#[test]
fn a_second_wait_is_woken_too() {
    Runtime::new().expect("a runtime").run(async {
        let timers = Timers::start().expect("timers");
        let (mut stream, mut peer) = pair();
        for round in 0..5u8 {
            // Twice without an event between, and with a write in between.
            for _ in 0..2 {
                let pending = poll_fn(|cx| Poll::Ready(stream.poll_peek(cx).is_pending())).await;
                assert!(pending && stream.peek().is_none());
                let written = stream.write(&[IoSlice::new(b"x")]).expect("no error");
                assert!(written <= 1);
            }
            peer.write_all(&[round; 3]).expect("sent");
            assert_eq!(read(&mut stream, &timers).await, [round; 3]);
        }
    });
}

#[test]
fn a_stream_goes_from_thread_to_thread() {
    let (detached, mut peer) = Runtime::new().expect("a runtime").run(async {
        let (stream, mut peer) = pair();
        peer.write_all(b"unread").expect("sent");
        let noisy = stream.detach().expect("detached");
        assert!(!noisy.has_nothing_unread(), "the peer has written");
        let mut stream = noisy.attach().expect("attached");
        let timers = Timers::start().expect("timers");
        assert_eq!(read(&mut stream, &timers).await, b"unread");
        let quiet = stream.detach().expect("detached");
        assert!(quiet.has_nothing_unread());
        (quiet, peer)
    });
    let there = std::thread::spawn(move || {
        Runtime::new().expect("a runtime").run(async {
            let timers = Timers::start().expect("timers");
            let mut stream = detached.attach().expect("attached");
            assert!(stream.peek().is_none());
            peer.write_all(b"there").expect("sent");
            assert_eq!(read(&mut stream, &timers).await, b"there");
            drop(peer);
            assert_eq!(read(&mut stream, &timers).await, b"");
            assert!(!stream.detach().expect("detached").has_nothing_unread(), "its peer has ended");
        });
    });
    there.join().expect("it works there");
}

#[test]
fn a_stream_wakes_the_task_that_has_it_now() {
    Runtime::new().expect("a runtime").run(async {
        let timers = Timers::start().expect("timers");
        let (stream, mut peer) = pair();
        let stream = Rc::new(stream);
        let first = stream.clone();
        crate::spawn(async move {
            let pending = poll_fn(|cx| Poll::Ready(first.poll_readable(cx).is_pending())).await;
            assert!(pending);
        });
        while Rc::strong_count(&stream) > 1 {
            crate::yield_now().await;
        }
        let mut stream = Rc::into_inner(stream).expect("the other task has ended");
        // Runs once this task waits.
        crate::spawn(async move {
            crate::yield_now().await;
            peer.write_all(b"late").expect("sent");
            std::future::pending::<()>().await;
        });
        assert_eq!(read(&mut stream, &timers).await, b"late");
    });
}

#[test]
fn the_last_bytes_leave_together_with_the_end() {
    Runtime::new().expect("a runtime").run(async {
        let (mut stream, mut peer) = pair();
        let writable = poll_fn(|cx| match &stream.kind {
            StreamKind::Tcp(tcp) => tcp.poll_write_ready(cx),
            _ => unreachable!("the pair is TCP"),
        });
        writable.await.expect("no error");
        assert_eq!(stream.write(&[IoSlice::new(b"first ")]).expect("no error"), 6);
        stream.close_follows();
        let start = Instant::now();
        assert_eq!(stream.write(&[IoSlice::new(b"last")]).expect("no error"), 4);
        peer.set_nonblocking(true).expect("non-blocking");
        let mut received = [0; 64];
        let count = peer.read(&mut received).expect("the first bytes were sent");
        // The kernel holds the last bytes back for 200 ms; after that it sends them anyway.
        let held = start.elapsed() < Duration::from_millis(150);
        assert!(!held || &received[..count] == b"first ", "{:?}", &received[..count]);
        drop(stream);
        peer.set_nonblocking(false).expect("blocking");
        peer.set_read_timeout(Some(Duration::from_secs(20))).expect("a timeout");
        let mut rest = Vec::new();
        peer.read_to_end(&mut rest).expect("an end, not a reset");
        assert_eq!([&received[..count], &rest].concat(), b"first last");
    });
}
