//! HTTP/2 connections to endpoints. For any input, every split into reads gives the same result, what is kept
//! respects the windows and limits, and the output consists of whole frames.

#![no_main]

use std::io::IoSlice;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use libfuzzer_sys::fuzz_target;
use tollgate_http2::{
    ClientConnection, ClientSettings, ErrorCode, FieldSection, MemoryTotals, PREFACE, RequestPseudo,
    ResponseFailure, ResponseStream,
};

const SETTINGS: ClientSettings =
    ClientSettings { stream_window: 70_000, connection_window: 100_000, max_head_bytes: 500 };
const REQUESTS: usize = 3;
/// How many heads an endpoint can make the gateway keep for one stream.
const HEADS_MAX: usize = 64 * 1024 / 256 + 1;

fuzz_target!(|input: &[u8]| {
    // The size of the reads, and whether the requests have a body that follows; then the input.
    let [size, rest @ ..] = input else { return };
    let whole = run(rest.chunks(rest.len().max(1)), size & 1 != 0);
    let split = run(rest.chunks(usize::from(*size) + 1), size & 1 != 0);
    // Bytes give credit for frames that transfer nothing, whenever they are read.
    if ![&whole, &split].iter().any(|(_, ended)| *ended == Some(ErrorCode::ENHANCE_YOUR_CALM)) {
        assert_eq!(whole, split);
    }
});

/// The parts of a response that the client received.
#[derive(Debug, Default, PartialEq)]
struct Response {
    heads: Vec<Vec<(Vec<u8>, Vec<u8>)>>,
    body: Vec<u8>,
    end: Option<Result<(), ResponseFailure>>,
    trailers: Option<Vec<(Vec<u8>, Vec<u8>)>>,
}

/// Feeds an endpoint's bytes in these pieces, and reads everything at the end.
fn run<'a>(pieces: impl Iterator<Item = &'a [u8]>, uploads: bool) -> (Vec<Response>, Option<ErrorCode>) {
    let connection = ClientConnection::new(&SETTINGS, &MemoryTotals::default());
    let pseudo =
        RequestPseudo { method: b"GET", is_secure: true, authority: b"a", path: b"/x", protocol: None };
    // The last one asks for a WebSocket.
    let connect = RequestPseudo { method: b"CONNECT", protocol: Some(b"websocket"), ..pseudo };
    let streams: Vec<_> = (1..=REQUESTS)
        .map(|number| {
            let is_connect = number == REQUESTS;
            let fields = [(&b"user-agent"[..], &b"any"[..])].into_iter();
            let pseudo = if is_connect { connect } else { pseudo };
            connection.send_request(pseudo, fields, false, !uploads && !is_connect).expect("a stream")
        })
        .collect();
    whole_frames(&connection, PREFACE);
    for piece in pieces {
        connection.receive(piece, Duration::ZERO);
        if connection.ended().is_some() {
            break;
        }
        whole_frames(&connection, b"");
    }
    let ended = connection.ended();
    if uploads {
        // The windows bound the bytes that are sent; the output still consists of whole frames.
        for stream in &streams {
            let _ = stream.send(&[IoSlice::new(&[7; 40_000])], true);
        }
    }
    whole_frames(&connection, b"");
    let responses: Vec<Response> = streams.iter().map(read).collect();
    let body: usize = responses.iter().map(|response| response.body.len()).sum();
    assert!(body <= SETTINGS.connection_window as usize);
    // Only DATA follows the head that accepts a CONNECT.
    let tunnel = responses.last().expect("its response");
    let is_accepted = tunnel.heads.iter().any(|head| {
        head.first().is_some_and(|(name, value)| name == b":status" && value.len() == 3 && value[0] == b'2')
    });
    assert!(!is_accepted || tunnel.trailers.is_none());
    (responses, ended)
}

fn read(stream: &ResponseStream) -> Response {
    let mut cx = Context::from_waker(Waker::noop());
    let mut response = Response::default();
    while let Poll::Ready(Ok(head)) = stream.poll_head(&mut cx) {
        let _ = head.response();
        response.heads.push(owned(&head));
        assert!(response.heads.len() <= HEADS_MAX);
    }
    let mut buffer = [0; 300];
    response.end = loop {
        match stream.poll_read(&mut cx, &mut buffer) {
            Poll::Ready(Ok(0)) => break Some(Ok(())),
            Poll::Ready(Ok(count)) => response.body.extend_from_slice(&buffer[..count]),
            Poll::Ready(Err(failure)) => break Some(Err(failure)),
            Poll::Pending => break None,
        }
    };
    assert!(response.body.len() <= SETTINGS.stream_window as usize);
    response.trailers = stream.take_trailers().map(|trailers| owned(&trailers));
    response
}

fn owned(fields: &FieldSection) -> Vec<(Vec<u8>, Vec<u8>)> {
    let fields: Vec<_> = fields.iter().map(|(name, value)| (name.to_vec(), value.to_vec())).collect();
    let size: usize = fields.iter().map(|(name, value)| name.len() + value.len() + 32).sum();
    assert!(size <= SETTINGS.max_head_bytes as usize);
    fields
}

/// Asserts that the output consists of `start` and whole frames.
fn whole_frames(connection: &ClientConnection, start: &[u8]) {
    let written = connection.poll_write(|bytes| {
        let mut rest = bytes.strip_prefix(start).expect("the start");
        while let [a, b, c, kind, _, _, _, _, _, more @ ..] = rest {
            let length = usize::from(*a) << 16 | usize::from(*b) << 8 | usize::from(*c);
            assert!(*kind <= 9 && length <= 16_384);
            rest = more.get(length..).expect("a whole frame");
        }
        assert!(rest.is_empty());
        Poll::Ready(Ok(bytes.len()))
    });
    assert!(matches!(written, Poll::Ready(Ok(()))));
}
