//! One direction of one connection: bytes in transit, in portions that each have an arrival time.

use rustix::fd::AsFd;
use rustix::io::{self, Errno};
use rustix::net::{SendFlags, Shutdown, send, shutdown};
use std::collections::VecDeque;

/// Most bytes in transit.
const TRANSIT_MAX_BYTES: usize = 256 * 1024;

#[derive(Debug, Default)]
pub(crate) struct Pipe {
    bytes: VecDeque<u8>,
    /// The sizes of the portions in transit; 0 marks the end of the stream.
    portions: VecDeque<usize>,
    /// Bytes that have arrived and can be written.
    arrived: usize,
    /// Whether the sender has closed the stream.
    pub(crate) ended: bool,
    /// Whether the end of the stream has arrived.
    end_arrived: bool,
    /// Whether the end of the stream was passed on.
    pub(crate) closed: bool,
    /// Whether the sender's socket may hold bytes.
    pub(crate) readable: bool,
    /// Whether the pipe is queued for its turn at the bottleneck.
    pub(crate) queued: bool,
}

impl Pipe {
    /// Prepares for another connection; keeps the buffers.
    pub(crate) fn reset(&mut self) {
        let (mut bytes, mut portions) = (std::mem::take(&mut self.bytes), std::mem::take(&mut self.portions));
        bytes.clear();
        portions.clear();
        *self = Self { bytes, portions, ..Self::default() };
    }

    /// Returns how many more bytes the pipe accepts.
    pub(crate) fn room(&self) -> usize {
        TRANSIT_MAX_BYTES - self.bytes.len()
    }

    /// Adds a portion.
    pub(crate) fn take(&mut self, bytes: &[u8]) {
        self.bytes.extend(bytes);
        self.portions.push_back(bytes.len());
    }

    /// Adds the end of the stream.
    pub(crate) fn end(&mut self) {
        self.ended = true;
        self.portions.push_back(0);
    }

    /// Marks the first portion in transit as arrived.
    pub(crate) fn arrive(&mut self) {
        match self.portions.pop_front() {
            Some(0) => self.end_arrived = true,
            Some(bytes) => self.arrived += bytes,
            None => {}
        }
    }

    /// Writes the bytes that have arrived. Stops without an error when the socket accepts no more.
    pub(crate) fn deliver(&mut self, to: impl AsFd) -> io::Result<()> {
        while self.arrived > 0 {
            let (first, _) = self.bytes.as_slices();
            let count = match send(&to, &first[..first.len().min(self.arrived)], SendFlags::NOSIGNAL) {
                Ok(count) => count,
                Err(Errno::INTR) => continue,
                Err(Errno::AGAIN) => return Ok(()),
                Err(error) => return Err(error),
            };
            self.bytes.drain(..count);
            self.arrived -= count;
        }
        if self.end_arrived && !self.closed {
            self.closed = true;
            return shutdown(to, Shutdown::Write);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::os::unix::net::UnixStream;

    #[test]
    fn only_what_has_arrived_is_delivered_and_the_end_comes_last() {
        let (from, mut to) = UnixStream::pair().unwrap();
        to.set_nonblocking(true).unwrap();
        let mut got = Vec::new();
        let mut pipe = Pipe::default();
        pipe.take(b"first");
        pipe.take(b"second");
        pipe.end();
        pipe.deliver(&from).unwrap();
        assert!(to.read_to_end(&mut got).is_err() && got.is_empty());
        pipe.arrive();
        pipe.deliver(&from).unwrap();
        assert!(to.read_to_end(&mut got).is_err() && got == b"first", "{got:?}");
        pipe.arrive();
        pipe.arrive();
        pipe.deliver(&from).unwrap();
        assert!(to.read_to_end(&mut got).is_ok() && got == b"firstsecond", "{got:?}");
        assert!(pipe.closed);
    }

    #[test]
    fn room_comes_back_when_bytes_have_gone() {
        let (from, mut to) = UnixStream::pair().unwrap();
        from.set_nonblocking(true).unwrap();
        let mut pipe = Pipe::default();
        let all = vec![7; TRANSIT_MAX_BYTES];
        pipe.take(&all);
        assert_eq!(pipe.room(), 0);
        pipe.arrive();
        let mut got = Vec::new();
        let mut part = vec![0; TRANSIT_MAX_BYTES];
        while got.len() < TRANSIT_MAX_BYTES {
            pipe.deliver(&from).unwrap();
            let count = to.read(&mut part).unwrap();
            got.extend_from_slice(&part[..count]);
        }
        assert_eq!((got == all, pipe.room()), (true, TRANSIT_MAX_BYTES));
        pipe.end();
        pipe.reset();
        assert!(!pipe.ended && pipe.portions.is_empty());
    }
}
