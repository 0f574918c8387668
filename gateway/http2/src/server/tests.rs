//! Drives connections as a client does, frame by frame.

mod flow;
mod frames;
mod protocol_errors;

use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

use crate::shared::fields::FieldSection;
use crate::shared::frame::{self, END_HEADERS, END_STREAM, FrameHeader, FrameType, HEADER_BYTES};
use crate::shared::hpack::{HpackDecoder, HpackEncoder};
use crate::{
    ErrorCode, IncomingRequest, LocalSettings, MemoryTotals, PREFACE, RequestStream, ServerConnection,
};

const SETTINGS: LocalSettings = LocalSettings {
    max_concurrent_streams: 4,
    stream_window: 100_000,
    connection_window: 200_000,
    max_head_bytes: 1_000,
};

struct Nobody;

impl Wake for Nobody {
    fn wake(self: Arc<Self>) {}
}

fn waker() -> Waker {
    Waker::from(Arc::new(Nobody))
}

/// A frame that the connection sent.
#[derive(Debug, PartialEq, Eq)]
struct Frame {
    kind: FrameType,
    flags: u8,
    stream: u32,
    payload: Vec<u8>,
}

/// The client side of a connection.
struct Client {
    connection: ServerConnection,
    encoder: HpackEncoder,
    decoder: HpackDecoder,
}

impl Client {
    /// Opens a connection with the default settings: sends the preface and SETTINGS, and reads the server's.
    fn new() -> Self {
        Self::to(SETTINGS)
    }

    /// The same with other settings of the server.
    fn to(settings: LocalSettings) -> Self {
        let client = Self::silent_to(settings);
        client.receive(PREFACE);
        client.send(FrameType::SETTINGS, 0, 0, &[]);
        let kinds: Vec<FrameType> = client.frames().iter().map(|frame| frame.kind).collect();
        assert_eq!(kinds, [FrameType::SETTINGS, FrameType::WINDOW_UPDATE, FrameType::SETTINGS]);
        assert!(client.connection.has_peer_settings());
        client
    }

    fn silent() -> Self {
        Self::silent_to(SETTINGS)
    }

    fn silent_to(settings: LocalSettings) -> Self {
        Self {
            connection: ServerConnection::new(settings, &MemoryTotals::default()),
            encoder: HpackEncoder::for_responses(),
            decoder: HpackDecoder::new(),
        }
    }

    /// Feeds bytes to the connection, in the smallest steps that it takes.
    fn receive(&self, mut bytes: &[u8]) {
        while !bytes.is_empty() && self.connection.ended().is_none() {
            let taken = self.connection.receive(bytes, 1);
            assert!(taken > 0 || self.connection.ended().is_some());
            bytes = &bytes[taken..];
        }
    }

    fn send(&self, kind: FrameType, flags: u8, stream: u32, payload: &[u8]) {
        self.receive(&made(kind, flags, stream, payload));
    }

    fn head(&mut self, fields: &[(&str, &str)]) -> Vec<u8> {
        let mut block = Vec::new();
        for (name, value) in fields {
            self.encoder.field(name.as_bytes(), value.as_bytes(), &mut block);
        }
        block
    }

    fn ask(&mut self, stream: u32, flags: u8) {
        let block =
            self.head(&[(":method", "POST"), (":scheme", "http"), (":path", "/"), (":authority", "a")]);
        self.send(FrameType::HEADERS, END_HEADERS | flags, stream, &block);
    }

    /// Sends a request, and takes it from the queue.
    fn begin(&mut self, stream: u32, flags: u8) -> RequestStream {
        self.ask(stream, flags);
        let IncomingRequest { stream, fields } = self.connection.next_request().expect("a request");
        assert!(fields.request().is_ok());
        stream.recycle_fields(fields);
        stream
    }

    /// Takes everything that waits to be written, as frames.
    fn frames(&self) -> Vec<Frame> {
        self.frames_after(Vec::new())
    }

    /// The same, after bytes that were written before.
    fn frames_after(&self, mut bytes: Vec<u8>) -> Vec<Frame> {
        let written = self.connection.poll_write(|some| {
            bytes.extend_from_slice(some);
            Poll::Ready(Ok(some.len()))
        });
        assert!(matches!(written, Poll::Ready(Ok(()))));
        let mut frames = Vec::new();
        let mut rest = &bytes[..];
        while let Some(header) = rest.first_chunk::<HEADER_BYTES>() {
            let FrameHeader { length, kind, flags, stream } = FrameHeader::read(*header);
            frames.push(Frame {
                kind,
                flags,
                stream,
                payload: rest[HEADER_BYTES..HEADER_BYTES + length].to_vec(),
            });
            rest = &rest[HEADER_BYTES + length..];
        }
        assert!(rest.is_empty());
        frames
    }

    /// Decodes the fields of a section.
    fn read(&mut self, block: &[u8]) -> Vec<(String, String)> {
        let mut fields = FieldSection::new(100_000);
        self.decoder.decode(block, &mut fields).expect("a block");
        let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
        fields.iter().map(|(name, value)| (text(name), text(value))).collect()
    }

    /// The reason in the GOAWAY that ended the connection, if any.
    fn end(&self) -> Option<ErrorCode> {
        let end = self.frames().into_iter().rfind(|frame| frame.kind == FrameType::GOAWAY);
        let peer_settings =
            end.map(|frame| ErrorCode(frame::read_number(&frame.payload[4..]).expect("a reason")));
        assert_eq!(peer_settings, self.connection.ended());
        peer_settings
    }
}

fn made(kind: FrameType, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    frame::write_header(&mut bytes, kind, flags, stream, payload.len());
    bytes.extend_from_slice(payload);
    bytes
}

/// Reads what has arrived of a body. Returns it, and whether that was its end.
fn body(stream: &RequestStream) -> (Vec<u8>, bool) {
    let (waker, mut all, mut buffer) = (waker(), Vec::new(), [0; 1000]);
    loop {
        match stream.poll_read(&mut Context::from_waker(&waker), &mut buffer) {
            Poll::Ready(Ok(0)) => return (all, true),
            Poll::Ready(Ok(count)) => all.extend_from_slice(&buffer[..count]),
            Poll::Ready(Err(_)) | Poll::Pending => return (all, false),
        }
    }
}

fn kinds(frames: &[Frame]) -> Vec<FrameType> {
    frames.iter().map(|frame| frame.kind).collect()
}

const ENDS: u8 = END_STREAM;
