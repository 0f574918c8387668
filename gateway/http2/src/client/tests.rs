//! Drives connections as an endpoint does, frame by frame.

mod frames;
mod mishaps;
mod pairs;
mod protocol_errors;

use std::task::{Context, Poll, Waker};
use std::time::Duration;

use crate::shared::frame::{self, END_HEADERS, END_STREAM, FrameHeader, FrameType, HEADER_BYTES};
use crate::shared::hpack::{HpackDecoder, HpackEncoder};
use crate::{
    ClientConnection, ClientSettings, ErrorCode, FieldSection, MemoryTotals, PREFACE, RequestPseudo,
    ResponseFailure, ResponseStream,
};

const SETTINGS: ClientSettings =
    ClientSettings { stream_window: 100_000, connection_window: 200_000, max_head_bytes: 1_000 };

/// A frame that the connection sent.
#[derive(Debug, PartialEq, Eq)]
struct Frame {
    kind: FrameType,
    flags: u8,
    stream: u32,
    payload: Vec<u8>,
}

/// The endpoint's side of a connection.
struct Endpoint {
    connection: ClientConnection,
    encoder: HpackEncoder,
    decoder: HpackDecoder,
}

impl Endpoint {
    /// Opens a connection: reads the preface and SETTINGS, and sends the endpoint's.
    fn new() -> Self {
        let endpoint = Self::silent();
        let mut bytes = endpoint.bytes();
        assert_eq!(bytes.drain(..PREFACE.len()).collect::<Vec<_>>(), PREFACE);
        let frames = split(&bytes);
        assert_eq!(kinds(&frames), [FrameType::SETTINGS, FrameType::WINDOW_UPDATE]);
        // ENABLE_PUSH is 0.
        assert!(frames[0].payload.chunks(6).any(|entry| entry == [0, 2, 0, 0, 0, 0]));
        endpoint.send(FrameType::SETTINGS, 0, 0, &[]);
        assert_eq!(kinds(&endpoint.frames()), [FrameType::SETTINGS]);
        endpoint
    }

    /// A connection of which nothing was read or sent.
    fn silent() -> Self {
        Self {
            connection: ClientConnection::new(&SETTINGS, &MemoryTotals::default()),
            encoder: HpackEncoder::for_responses(),
            decoder: HpackDecoder::new(),
        }
    }

    fn send(&self, kind: FrameType, flags: u8, stream: u32, payload: &[u8]) {
        self.connection.receive(&made(kind, flags, stream, payload), Duration::ZERO);
    }

    /// Sends a head or trailers.
    fn section(&mut self, stream: u32, flags: u8, fields: &[(&str, &str)]) {
        let block = self.block(fields);
        self.send(FrameType::HEADERS, END_HEADERS | flags, stream, &block);
    }

    fn block(&mut self, fields: &[(&str, &str)]) -> Vec<u8> {
        let mut block = Vec::new();
        for (name, value) in fields {
            self.encoder.field(name.as_bytes(), value.as_bytes(), &mut block);
        }
        block
    }

    fn bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        let written = self.connection.poll_write(|some| {
            bytes.extend_from_slice(some);
            Poll::Ready(Ok(some.len()))
        });
        assert!(matches!(written, Poll::Ready(Ok(()))));
        bytes
    }

    /// Takes everything that waits to be written, as frames.
    fn frames(&self) -> Vec<Frame> {
        split(&self.bytes())
    }

    /// Decodes the fields of a section.
    fn read(&mut self, block: &[u8]) -> Vec<(String, String)> {
        let mut fields = FieldSection::new(100_000);
        self.decoder.decode(block, &mut fields).expect("a block");
        text(&fields)
    }

    /// The reason in the GOAWAY that ended the connection, if any.
    fn end(&self) -> Option<ErrorCode> {
        let end = self.frames().into_iter().rfind(|frame| frame.kind == FrameType::GOAWAY)?;
        assert_eq!(frame::read_number(&end.payload), Some(0), "the endpoint has opened no stream");
        let code = ErrorCode(frame::read_number(&end.payload[4..]).expect("a reason"));
        assert_eq!(self.connection.violation(), Some(code));
        Some(code)
    }

    /// Sends a request without a body, or with one to follow.
    fn ask(&self, ends: bool) -> ResponseStream {
        let fields = [(&b"user-agent"[..], &b"any"[..])].into_iter();
        self.connection.send_request(PSEUDO, fields, false, ends).expect("a stream")
    }
}

const PSEUDO: RequestPseudo<'_> =
    RequestPseudo { method: b"GET", is_secure: false, authority: b"a", path: b"/", protocol: None };

fn made(kind: FrameType, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    frame::write_header(&mut bytes, kind, flags, stream, payload.len());
    bytes.extend_from_slice(payload);
    bytes
}

/// Splits bytes into whole frames.
fn split(bytes: &[u8]) -> Vec<Frame> {
    let (frames, rest) = split_start(bytes);
    assert!(rest.is_empty());
    frames
}

/// Splits bytes into frames. Returns the bytes of a last frame that is cut, too.
fn split_start(bytes: &[u8]) -> (Vec<Frame>, &[u8]) {
    let mut frames = Vec::new();
    let mut rest = bytes;
    while let Some(header) = rest.first_chunk::<HEADER_BYTES>() {
        let FrameHeader { length, kind, flags, stream } = FrameHeader::read(*header);
        let Some(payload) = rest.get(HEADER_BYTES..HEADER_BYTES + length) else { break };
        frames.push(Frame { kind, flags, stream, payload: payload.to_vec() });
        rest = &rest[HEADER_BYTES + length..];
    }
    (frames, rest)
}

fn kinds(frames: &[Frame]) -> Vec<FrameType> {
    frames.iter().map(|frame| frame.kind).collect()
}

fn text(fields: &FieldSection) -> Vec<(String, String)> {
    let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
    fields.iter().map(|(name, value)| (text(name), text(value))).collect()
}

fn cx() -> Context<'static> {
    Context::from_waker(Waker::noop())
}

/// The status of the next head; `None` if none has arrived.
fn status(stream: &ResponseStream) -> Option<Result<u16, ResponseFailure>> {
    match stream.poll_head(&mut cx()) {
        Poll::Ready(Ok(head)) => Some(Ok(head.response().map_or(0, |(status, _)| status))),
        Poll::Ready(Err(failure)) => Some(Err(failure)),
        Poll::Pending => None,
    }
}

/// Reads what has arrived of a body. Returns it, and how it ended, if it did.
fn body(stream: &ResponseStream) -> (Vec<u8>, Option<Result<(), ResponseFailure>>) {
    let (mut all, mut buffer) = (Vec::new(), [0; 1_000]);
    loop {
        match stream.poll_read(&mut cx(), &mut buffer) {
            Poll::Ready(Ok(0)) => return (all, Some(Ok(()))),
            Poll::Ready(Ok(count)) => all.extend_from_slice(&buffer[..count]),
            Poll::Ready(Err(failure)) => return (all, Some(Err(failure))),
            Poll::Pending => return (all, None),
        }
    }
}

const ENDS: u8 = END_STREAM;
