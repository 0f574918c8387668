//! HTTP/2 frame by frame, for tests that send what no client library would send.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Instant;

use crate::DEADLINE;

/// The start of a client connection (RFC 9113, 3.4).
pub const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// The setting for the initial window size of a stream (RFC 9113, 6.5.2).
pub const INITIAL_WINDOW_SIZE: u16 = 4;

/// Types of frames (RFC 9113, section 6).
#[allow(missing_docs, reason = "each is the frame's name")]
pub mod kind {
    pub const DATA: u8 = 0;
    pub const HEADERS: u8 = 1;
    pub const PRIORITY: u8 = 2;
    pub const RST_STREAM: u8 = 3;
    pub const SETTINGS: u8 = 4;
    pub const PING: u8 = 6;
    pub const GOAWAY: u8 = 7;
    pub const WINDOW_UPDATE: u8 = 8;
    pub const CONTINUATION: u8 = 9;
}

/// The flag END_STREAM. On SETTINGS and PING the same bit is ACK.
pub const END_STREAM: u8 = 1;
/// The flag END_HEADERS.
pub const END_HEADERS: u8 = 4;

/// One HTTP/2 frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// The frame type; see [`kind`].
    pub kind: u8,
    /// The flags, such as [`END_STREAM`].
    pub flags: u8,
    /// The stream id; 0 is the connection.
    pub stream: u32,
    /// The payload, without the nine bytes of the frame header.
    pub payload: Vec<u8>,
}

impl Frame {
    /// Returns the error code of an RST_STREAM or GOAWAY.
    #[must_use]
    pub fn code(&self) -> u32 {
        let at = if self.kind == kind::GOAWAY { 4 } else { 0 };
        self.payload
            .get(at..at + 4)
            .map_or(0, |code| u32::from_be_bytes(code.try_into().expect("four bytes")))
    }

    /// Returns the status of a HEADERS frame, if its first field is one of the statuses in the HPACK static
    /// table (RFC 7541, appendix A).
    #[must_use]
    pub fn status(&self) -> Option<u16> {
        match self.payload.first() {
            Some(0x88) => Some(200),
            Some(0x89) => Some(204),
            Some(0x8a) => Some(206),
            Some(0x8b) => Some(304),
            Some(0x8c) => Some(400),
            Some(0x8d) => Some(404),
            Some(0x8e) => Some(500),
            _ => None,
        }
    }
}

/// A client connection on which the test sends and reads single frames.
#[derive(Debug)]
pub struct Frames {
    stream: TcpStream,
    buffer: Vec<u8>,
}

/// Encodes a frame.
#[must_use]
pub fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).expect("a frame's length").to_be_bytes();
    let mut bytes = vec![length[1], length[2], length[3], kind, flags];
    bytes.extend_from_slice(&stream.to_be_bytes());
    bytes.extend_from_slice(payload);
    bytes
}

/// Encodes fields, each as a literal without indexing and without Huffman coding (RFC 7541, 6.2.2).
#[must_use]
pub fn fields(fields: &[(&str, &str)]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (name, value) in fields {
        bytes.push(0);
        for text in [name, value] {
            // An integer with a seven-bit prefix (5.1).
            if text.len() < 127 {
                bytes.push(text.len() as u8);
            } else {
                bytes.push(127);
                let mut rest = text.len() - 127;
                while rest >= 128 {
                    bytes.push((rest % 128) as u8 | 128);
                    rest /= 128;
                }
                bytes.push(rest as u8);
            }
            bytes.extend(text.chars().map(|byte| u8::try_from(u32::from(byte)).expect("a byte")));
        }
    }
    bytes
}

/// Returns the pseudo-fields of a `GET` of this path.
#[must_use]
pub fn pseudo(path: &str) -> [(&'static str, &str); 4] {
    pseudo_of("GET", path)
}

/// Returns the pseudo-fields of a request with this method and path.
#[must_use]
pub fn pseudo_of<'a>(method: &'a str, path: &'a str) -> [(&'static str, &'a str); 4] {
    [(":method", method), (":scheme", "http"), (":path", path), (":authority", "a.example")]
}

impl Frames {
    /// Connects, and sends the preface and these settings.
    ///
    /// # Panics
    /// Panics if the gateway refuses the connection.
    #[must_use]
    pub fn connect(address: SocketAddr, settings: &[(u16, u32)]) -> Self {
        let mut frames = Self::connect_silent(address);
        let mut payload = Vec::new();
        for (name, value) in settings {
            payload.extend_from_slice(&name.to_be_bytes());
            payload.extend_from_slice(&value.to_be_bytes());
        }
        frames.send_bytes(PREFACE);
        frames.send(kind::SETTINGS, 0, 0, &payload);
        frames
    }

    /// Connects, and sends nothing.
    ///
    /// # Panics
    /// Panics if the gateway refuses the connection.
    #[must_use]
    pub fn connect_silent(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).expect("the gateway accepts");
        stream.set_nodelay(true).expect("no delay");
        stream.set_read_timeout(Some(DEADLINE)).expect("a timeout");
        stream.set_write_timeout(Some(DEADLINE)).expect("a timeout");
        Self { stream, buffer: Vec::new() }
    }

    /// Sends bytes. Returns `false` if the connection is broken.
    pub fn send_bytes(&mut self, bytes: &[u8]) -> bool {
        self.stream.write_all(bytes).is_ok()
    }

    /// Sends a frame. Returns `false` if the connection is broken.
    pub fn send(&mut self, kind: u8, flags: u8, stream: u32, payload: &[u8]) -> bool {
        self.send_bytes(&frame(kind, flags, stream, payload))
    }

    /// Sends a request without a body. `of` holds its fields, with the pseudo-fields.
    pub fn ask(&mut self, stream: u32, of: &[(&str, &str)]) -> bool {
        self.send(kind::HEADERS, END_STREAM | END_HEADERS, stream, &fields(of))
    }

    /// Returns the next frame, or `None` if the connection is closed.
    ///
    /// # Panics
    /// Panics if nothing arrives within [`DEADLINE`].
    pub fn read(&mut self) -> Option<Frame> {
        loop {
            if let Some(header) = self.buffer.first_chunk::<9>() {
                let length = u32::from_be_bytes([0, header[0], header[1], header[2]]) as usize;
                if self.buffer.len() >= 9 + length {
                    let (kind, flags) = (header[3], header[4]);
                    let stream = u32::from_be_bytes([header[5] & 127, header[6], header[7], header[8]]);
                    let bytes: Vec<u8> = self.buffer.drain(..9 + length).collect();
                    return Some(Frame { kind, flags, stream, payload: bytes[9..].to_vec() });
                }
            }
            let mut chunk = [0; 16 * 1024];
            match self.stream.read(&mut chunk) {
                Ok(0) => return None,
                Ok(count) => self.buffer.extend_from_slice(&chunk[..count]),
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                    panic!("nothing came for {DEADLINE:?}")
                }
                Err(_) => return None,
            }
        }
    }

    /// Returns the next frame for which `wanted` holds, or `None` if the connection is closed. Acknowledges
    /// SETTINGS frames that arrive before it.
    ///
    /// # Panics
    /// Panics if the frame does not arrive within [`DEADLINE`].
    pub fn wait_for(&mut self, wanted: impl Fn(&Frame) -> bool) -> Option<Frame> {
        let start = Instant::now();
        loop {
            assert!(start.elapsed() < DEADLINE, "the frame did not come");
            let frame = self.read()?;
            if wanted(&frame) {
                return Some(frame);
            }
            if frame.kind == kind::SETTINGS && frame.flags & END_STREAM == 0 {
                self.send(kind::SETTINGS, END_STREAM, 0, &[]);
            }
        }
    }

    /// Reads until the gateway closes the connection. Returns the error code of its GOAWAY, or `None` if it
    /// sent none.
    pub fn goodbye(&mut self) -> Option<u32> {
        let frame = self.wait_for(|frame| frame.kind == kind::GOAWAY);
        while self.read().is_some() {}
        frame.map(|frame| frame.code())
    }
}
