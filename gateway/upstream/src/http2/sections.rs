//! Measures the field sections that an endpoint sends.
//!
//! The h2 library drops the fields of a trailer section that exceed its limit, and passes the others on as if they were complete.
//! So the connection's [socket](super::Io) counts the bytes of each section, frame by frame. The reader of a response asks
//! [`TooLong`] for its stream.
//!
//! Invariant: every stream that has had a section past the limit is known, up to as many as can be open.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

/// Bytes of a frame's header (RFC 9113, 4.1).
const HEADER: usize = 9;
/// Types and flags of the frames that carry fields (RFC 9113, 6.2, 6.6 and 6.10).
const HEADERS: u8 = 1;
const CONTINUATION: u8 = 9;
const END_STREAM: u8 = 1;
/// The most streams that are kept: as many as a connection has at once.
const REMEMBERED: usize = super::STREAMS;

/// The streams of a connection with a section that was too long, and whether the stream ended with it.
#[derive(Debug, Default)]
pub(crate) struct TooLong(RefCell<VecDeque<(u32, bool)>>);

impl TooLong {
    fn add(&self, stream: u32, ends: bool) {
        let mut streams = self.0.borrow_mut();
        if streams.back().is_some_and(|(last, _)| *last == stream) {
            return;
        }
        if streams.len() == REMEMBERED {
            streams.pop_front();
        }
        streams.push_back((stream, ends));
    }

    /// Whether a section of this stream was too long: `Some(true)` if the stream ended with it.
    pub fn get(&self, stream: u32) -> Option<bool> {
        self.0.borrow().iter().find(|(known, _)| *known == stream).map(|(_, ends)| *ends)
    }
}

/// Follows the frames of an endpoint.
#[derive(Debug)]
pub(crate) struct Sections {
    /// A frame header, of which `held` bytes were read.
    header: [u8; HEADER],
    held: usize,
    /// Bytes of the present frame that are not read yet.
    left: usize,
    /// The length of the present section on the wire, and whether the stream ends with it.
    length: usize,
    ends: bool,
    /// The most bytes of a section. HPACK makes no field longer than RFC 9113, 6.5.2 counts it, so a section that is longer on the
    /// wire also exceeds the limit that the gateway announced.
    most: usize,
    too_long: Rc<TooLong>,
}

impl Sections {
    pub fn new(most: usize, too_long: Rc<TooLong>) -> Self {
        Self { header: [0; HEADER], held: 0, left: 0, length: 0, ends: false, most, too_long }
    }

    /// Follows the next bytes of the connection.
    #[inline]
    pub fn follow(&mut self, mut bytes: &[u8]) {
        loop {
            let skipped = self.left.min(bytes.len());
            self.left -= skipped;
            bytes = &bytes[skipped..];
            if bytes.is_empty() {
                return;
            }
            let taken = (HEADER - self.held).min(bytes.len());
            self.header[self.held..self.held + taken].copy_from_slice(&bytes[..taken]);
            self.held += taken;
            bytes = &bytes[taken..];
            if self.held == HEADER {
                self.held = 0;
                self.begin();
            }
        }
    }

    fn begin(&mut self) {
        let [a, b, c, kind, flags, stream @ ..] = self.header;
        self.left = u32::from_be_bytes([0, a, b, c]) as usize;
        match kind {
            HEADERS => (self.length, self.ends) = (self.left, flags & END_STREAM != 0),
            CONTINUATION => self.length = self.length.saturating_add(self.left),
            _ => return,
        }
        if self.length > self.most {
            self.too_long.add(u32::from_be_bytes(stream) & 0x7fff_ffff, self.ends);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(kind: u8, flags: u8, stream: u32, length: usize) -> Vec<u8> {
        let [_, a, b, c] = (length as u32).to_be_bytes();
        let mut frame = vec![a, b, c, kind, flags];
        frame.extend_from_slice(&stream.to_be_bytes());
        frame.resize(HEADER + length, 9);
        frame
    }

    #[test]
    fn sections_are_measured_however_they_are_cut() {
        let all = [
            frame(4, 0, 0, 18),
            frame(HEADERS, 4, 1, 100),
            frame(0, 0, 1, 5000),
            frame(HEADERS, END_STREAM, 1, 60),
            frame(CONTINUATION, 4, 1, 41),
            frame(HEADERS, END_STREAM | 4, 3, 101),
            frame(HEADERS, 0, 5, 60),
            frame(CONTINUATION, 0, 5, 30),
            frame(CONTINUATION, 4, 5, 0),
            frame(HEADERS, 4, 7, 100),
            frame(HEADERS, 4, 9, 101),
        ]
        .concat();
        for size in [1, 2, 8, 9, 10, 100, 7000] {
            let too_long = Rc::<TooLong>::default();
            let mut sections = Sections::new(100, too_long.clone());
            all.chunks(size).for_each(|piece| sections.follow(piece));
            let found = [1, 3, 5, 7, 9].map(|stream| too_long.get(stream));
            assert_eq!(found, [Some(true), Some(true), None, None, Some(false)], "{size}");
        }
    }

    #[test]
    fn no_more_streams_are_remembered_than_there_can_be() {
        let too_long = TooLong::default();
        (0..1000).for_each(|stream| too_long.add(stream, true));
        assert_eq!((too_long.0.borrow().len(), too_long.get(0)), (REMEMBERED, None));
        assert_eq!(too_long.get(999), Some(true));
    }
}
