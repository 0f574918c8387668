//! HTTP/2 connections of clients. For any input, requests are well-formed or refused, bodies keep to their
//! windows and lengths, and the output consists of whole frames.

#![no_main]

use std::io::IoSlice;
use std::task::{Context, Poll, Waker};

use libfuzzer_sys::fuzz_target;
use tollgate_http::h2::decode_request;
use tollgate_http::{HeadLimits, RequestHead};
use tollgate_http2::{
    IncomingRequest, LocalSettings, MemoryTotals, PREFACE, RequestStream, ServerConnection,
};

const SETTINGS: LocalSettings = LocalSettings {
    max_concurrent_streams: 3,
    stream_window: 1_000,
    connection_window: 70_000,
    max_head_bytes: 500,
};
const LIMITS: HeadLimits = HeadLimits { line: 200, head: 1_000, fields: 20 };

fuzz_target!(|input: &[u8]| {
    // The size of the reads, then the input.
    let [size, rest @ ..] = input else { return };
    let connection = ServerConnection::new(SETTINGS, &MemoryTotals::default());
    assert_eq!(connection.receive(PREFACE, u64::MAX), PREFACE.len());
    let mut streams = Vec::new();
    for (turn, piece) in rest.chunks(usize::from(*size) + 1).enumerate() {
        let mut piece = piece;
        while !piece.is_empty() && connection.ended().is_none() {
            let taken = connection.receive(piece, 1);
            assert!(taken > 0 || connection.ended().is_some());
            piece = &piece[taken..];
        }
        while let Some(IncomingRequest { stream, fields }) = connection.next_request() {
            let size: usize = fields.iter().map(|(name, value)| name.len() + value.len() + 32).sum();
            assert!(size <= SETTINGS.max_head_bytes as usize);
            if let Ok((pseudo, others)) = fields.request() {
                let mut request = RequestHead::default();
                if decode_request(&mut request, pseudo, || others, stream.is_ended(), &LIMITS).is_ok() {
                    assert!(request.head.bytes().ends_with(b"\r\n\r\n"));
                    // `decode_request` has accepted the fields, so this separate check must accept them too.
                    assert!(!fields.violates_protocol());
                }
            }
            stream.recycle_fields(fields);
            if turn % 3 == 1 {
                stream.set_content_length(5);
            }
            streams.push((stream, 0_usize));
            assert!(streams.len() < 200);
        }
        for (stream, read) in &mut streams {
            *read += use_it(stream, turn);
        }
        if turn % 5 == 4 && !streams.is_empty() {
            streams.remove(turn % streams.len());
        }
        if turn % 50 == 49 {
            connection.start_graceful_shutdown();
        }
        whole_frames(&connection);
    }
});

/// Reads some bytes and sends some. Returns how many bytes were read.
fn use_it(stream: &RequestStream, turn: usize) -> usize {
    let mut cx = Context::from_waker(Waker::noop());
    let mut buffer = [0; 300];
    let read = match stream.poll_read(&mut cx, &mut buffer) {
        Poll::Ready(Ok(count)) => count,
        _ => 0,
    };
    let fields = || [(&b"server"[..], &b"any"[..])].into_iter();
    let _ = match turn % 4 {
        0 => stream.send_head(b"200", fields(), false),
        1 => stream.send(&[IoSlice::new(&buffer[..200])], turn % 8 == 5).map(drop),
        2 => stream
            .poll_capacity(&mut cx)
            .map(drop)
            .is_ready()
            .then_some(())
            .ok_or(tollgate_http2::StreamClosed),
        _ if turn % 12 == 11 => stream.send_trailers(fields()),
        _ => Ok(()),
    };
    read
}

/// Asserts that the output consists of whole frames.
fn whole_frames(connection: &ServerConnection) {
    let written = connection.poll_write(|bytes| {
        let mut rest = bytes;
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
