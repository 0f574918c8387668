//! Flow control: if one side does not read, the other may not send.

use std::time::Duration;

use tollgate_tests::frames::{Frame, INITIAL_WINDOW_SIZE, kind, pseudo};
use tollgate_tests::http2::request;
use tollgate_tests::{Gate, Gateway, Origin, eventually};

/// Starts an origin that sends an endless body.
fn endless() -> Origin {
    Origin::play(|conn| {
        while conn.request().is_some() {
            if !conn.send("HTTP/1.1 200 OK\r\nContent-Length: 100000000\r\n\r\n") {
                return;
            }
            let piece = vec![b'x'; 64 * 1024];
            for _ in 0..2000 {
                if !conn.send(&piece) {
                    return;
                }
            }
        }
    })
}

#[test]
fn a_client_that_takes_nothing_is_sent_nothing() {
    let origin = endless();
    let gateway = Gateway::with(&origin, "timeouts: {write: 300ms}");
    let before = gateway.memory_kib("VmRSS");
    let mut frames = gateway.frames(&[(INITIAL_WINDOW_SIZE, 0)]);
    for stream in 0..50 {
        frames.ask(1 + 2 * stream, &pseudo("/"));
    }
    let (mut heads, mut resets) = (0, 0);
    while resets < 50 {
        let frame =
            frames.wait_for(|frame| matches!(frame.kind, kind::HEADERS | kind::DATA | kind::RST_STREAM));
        let Some(Frame { kind, payload, .. }) = frame else { panic!("the connection stays") };
        match kind {
            kind::HEADERS => heads += 1,
            kind::RST_STREAM => resets += 1,
            _ => assert!(payload.is_empty(), "data past the window"),
        }
    }
    assert_eq!(heads, 50, "heads need no window");
    let records = gateway.wait_records(50);
    assert!(records.iter().all(|record| record["reason"] == "client_write_timeout"), "{records:#?}");
    let grown = gateway.memory_kib("VmHWM").saturating_sub(before);
    assert!(grown < 16 * 1024, "{grown} KiB for 50 stalled streams");
    eventually("the upstream's connections to be closed", || origin.open() == 0);
}

#[test]
fn a_window_that_opens_lets_the_rest_through() {
    let body: String = (0..200_000).map(|at| char::from(b'a' + (at % 26) as u8)).collect();
    let origin = Origin::named(&body);
    let gateway = Gateway::to(&origin);
    let mut frames = gateway.frames(&[(INITIAL_WINDOW_SIZE, 1)]);
    frames.ask(1, &pseudo("/"));
    let (mut got, mut largest) = (Vec::new(), 0);
    loop {
        let frame = frames.wait_for(|frame| frame.kind == kind::DATA).expect("data");
        got.extend_from_slice(&frame.payload);
        largest = largest.max(frame.payload.len());
        if frame.flags & 1 != 0 {
            break;
        }
        if !frame.payload.is_empty() {
            let more = u32::try_from(got.len()).expect("small").min(20_000).to_be_bytes();
            frames.send(kind::WINDOW_UPDATE, 0, 1, &more);
            frames.send(kind::WINDOW_UPDATE, 0, 0, &more);
        }
    }
    assert!(got == body.as_bytes(), "{} bytes", got.len());
    assert!(largest > 1, "a window of one byte at first");
}

#[test]
fn an_end_needs_no_window() {
    // The body fills the window exactly, and its end comes later: with the last chunk, with trailers, or with
    // the connection.
    for (head, body, end, trailers) in [
        ("Transfer-Encoding: chunked", "5\r\nhello\r\n", "0\r\n\r\n", false),
        ("Transfer-Encoding: chunked", "5\r\nhello\r\n", "0\r\nX-Sum: 1\r\n\r\n", true),
        ("Connection: close", "hello", "", false),
        ("Transfer-Encoding: chunked", "", "0\r\nX-Sum: 1\r\n\r\n", true),
        ("Connection: close", "", "", false),
    ] {
        let gate = Gate::new();
        let opened = gate.clone();
        let origin = Origin::play(move |conn| {
            if conn.request().is_some() {
                conn.send(format!("HTTP/1.1 200 OK\r\n{head}\r\n\r\n{body}"));
                opened.wait();
                conn.send(end);
            }
        });
        let gateway = Gateway::to(&origin);
        let window = if body.is_empty() { 0 } else { 5 };
        let mut frames = gateway.frames(&[(INITIAL_WINDOW_SIZE, window)]);
        frames.ask(1, &pseudo("/"));
        let shown = format!("{head} {body:?} {end:?}");
        assert!(frames.wait_for(|frame| frame.kind == kind::HEADERS).is_some(), "{shown}");
        if !body.is_empty() {
            let data = frames.wait_for(|frame| frame.kind == kind::DATA).expect("the body");
            assert_eq!((data.payload.as_slice(), data.flags & 1), (&b"hello"[..], 0), "{shown}");
        }
        gate.open();
        let last = frames.wait_for(|frame| frame.stream == 1 && frame.flags & 1 != 0).expect("an end");
        assert_eq!(last.kind, if trailers { kind::HEADERS } else { kind::DATA }, "{shown}");
        assert!(trailers || last.payload.is_empty(), "{shown}");
        let record = &gateway.wait_records(1)[0];
        assert!(record["reason"].is_null(), "{shown}: {record}");
    }
}

#[test]
fn an_unread_upload_is_held_back() {
    let gate = Gate::new();
    let held = gate.clone();
    let origin = Origin::play(move |conn| {
        while let Some(mut request) = conn.head() {
            held.wait();
            conn.body(&mut request);
            conn.ok("read");
        }
    });
    let gateway = Gateway::to(&origin);
    let before = gateway.memory_kib("VmRSS");
    let mut client = gateway.http2();
    let mut stream = client.begin(request("POST", "/", &[]), false).expect("begun");
    // The sockets' buffers on the way take some bytes, however slow the origin is.
    let sent = stream.send_what_goes(Duration::from_millis(500), 64 << 20);
    assert!(sent < 32 << 20, "{sent} bytes went to an origin that reads none");
    let grown = gateway.memory_kib("VmHWM").saturating_sub(before);
    assert!(grown < 8 * 1024, "{grown} KiB for one upload");
    gate.open();
    stream.send("end", true).expect("it goes on");
    assert_eq!(stream.response().expect("an answer").text(), "read");
    assert_eq!(origin.request().body.len(), sent + 3);
    gateway.reconcile(&[&origin]);
}

#[test]
fn a_stalled_stream_leaves_the_others_their_window() {
    let origin = Origin::named(&"y".repeat(100_000));
    let gateway = Gateway::to(&origin);
    // The window of a stream that is never read fills; the connection's window is larger.
    let mut client = gateway.http2_with(30_000);
    let mut stalled: Vec<_> = (0..20)
        .map(|n| client.begin(tollgate_tests::http2::get(&format!("/{n}")), true).expect("begun"))
        .collect();
    for stream in &mut stalled {
        assert_eq!(stream.head().expect("a head").status, 200);
    }
    for n in 0..10 {
        assert_eq!(client.get(&format!("/quick{n}")).body.len(), 100_000);
    }
    for mut stream in stalled {
        let mut length = 0;
        while let Some(data) = stream.data().expect("the rest") {
            length += data.len();
        }
        assert_eq!(length, 100_000);
    }
}
