//! Drives connections as a client does, frame by frame.

mod flow;
mod frames;
mod mistakes;

use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

use crate::fields::Fields;
use crate::frame::{self, END_HEADERS, END_STREAM, HEADER, Header, Kind};
use crate::hpack::{Decoder, Encoder};
use crate::{Begun, Connection, PREFACE, Reason, Settings, Stream, Totals};

const SETTINGS: Settings =
    Settings { streams: 4, window: 100_000, connection_window: 200_000, fields: 1_000 };

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
    kind: Kind,
    flags: u8,
    stream: u32,
    payload: Vec<u8>,
}

/// The client side of a connection.
struct Client {
    connection: Connection,
    encoder: Encoder,
    decoder: Decoder,
}

impl Client {
    /// Opens a connection with the default settings: sends the preface and SETTINGS, and reads the server's.
    fn new() -> Self {
        Self::to(SETTINGS)
    }

    /// The same with other settings of the server.
    fn to(settings: Settings) -> Self {
        let client = Self::silent_to(settings);
        client.receive(PREFACE);
        client.send(Kind::SETTINGS, 0, 0, &[]);
        let heard: Vec<Kind> = client.frames().iter().map(|frame| frame.kind).collect();
        assert_eq!(heard, [Kind::SETTINGS, Kind::WINDOW_UPDATE, Kind::SETTINGS]);
        assert!(client.connection.is_greeted());
        client
    }

    fn silent() -> Self {
        Self::silent_to(SETTINGS)
    }

    fn silent_to(settings: Settings) -> Self {
        Self {
            connection: Connection::new(settings, &Totals::default()),
            encoder: Encoder::new(),
            decoder: Decoder::new(),
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

    fn send(&self, kind: Kind, flags: u8, stream: u32, payload: &[u8]) {
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
        self.send(Kind::HEADERS, END_HEADERS | flags, stream, &block);
    }

    /// Sends a request, and takes it from the queue.
    fn begin(&mut self, stream: u32, flags: u8) -> Stream {
        self.ask(stream, flags);
        let Begun { stream, fields } = self.connection.next().expect("a request");
        assert!(fields.request().is_ok());
        stream.give_back(fields);
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
        while let Some(header) = rest.first_chunk::<HEADER>() {
            let Header { length, kind, flags, stream } = Header::read(*header);
            frames.push(Frame { kind, flags, stream, payload: rest[HEADER..HEADER + length].to_vec() });
            rest = &rest[HEADER + length..];
        }
        assert!(rest.is_empty());
        frames
    }

    /// Decodes the fields of a section.
    fn read(&mut self, block: &[u8]) -> Vec<(String, String)> {
        let mut fields = Fields::new(100_000);
        self.decoder.decode(block, &mut fields).expect("a block");
        let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
        fields.iter().map(|(name, value)| (text(name), text(value))).collect()
    }

    /// The reason in the GOAWAY that ended the connection, if any.
    fn end(&self) -> Option<Reason> {
        let end = self.frames().into_iter().rfind(|frame| frame.kind == Kind::GOAWAY);
        let told = end.map(|frame| Reason(frame::number(&frame.payload[4..]).expect("a reason")));
        assert_eq!(told, self.connection.ended());
        told
    }
}

fn made(kind: Kind, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    frame::header(&mut bytes, kind, flags, stream, payload.len());
    bytes.extend_from_slice(payload);
    bytes
}

/// Reads what has arrived of a body. Returns it, and whether that was its end.
fn body(stream: &Stream) -> (Vec<u8>, bool) {
    let (waker, mut all, mut buffer) = (waker(), Vec::new(), [0; 1000]);
    loop {
        match stream.poll_read(&mut Context::from_waker(&waker), &mut buffer) {
            Poll::Ready(Ok(0)) => return (all, true),
            Poll::Ready(Ok(count)) => all.extend_from_slice(&buffer[..count]),
            Poll::Ready(Err(_)) | Poll::Pending => return (all, false),
        }
    }
}

fn kinds(frames: &[Frame]) -> Vec<Kind> {
    frames.iter().map(|frame| frame.kind).collect()
}

const ENDS: u8 = END_STREAM;
