//! The bytes that a peer has not taken yet, and the back-pressure that follows from them.
//!
//! Each exchange has a [`Backlog`] for the client and one for the endpoint. A writer offers bytes to the
//! [`Sink`] first and keeps the rest here. While a backlog is not empty, the exchange reads nothing more for
//! that peer, unless the body is buffered in a [`Spool`].

use std::io::{self, IoSlice};
use std::task::{Context, Poll, ready};

use tollgate_net::Stream;
use tollgate_plan::BufferBounds;

use crate::state::peer_error::PeerError;
use crate::state::spool::Spool;

/// A destination that takes bytes at its own pace. The caller offers all bytes that were not taken again,
/// before any others: over TLS they may be encrypted already, and they count as taken only when they are
/// sent.
pub(crate) trait Sink {
    /// Takes the part of `pieces` that it can take at once, and returns its length. Registers no waker.
    ///
    /// # Errors
    /// When the peer is gone.
    fn write(&mut self, pieces: &[IoSlice<'_>]) -> Result<usize, PeerError>;

    /// Takes a part of the bytes as soon as it can.
    fn poll_write(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<Result<usize, PeerError>>;
}

impl Sink for Stream {
    #[inline]
    fn write(&mut self, pieces: &[IoSlice<'_>]) -> Result<usize, PeerError> {
        Stream::write(self, pieces).map_err(PeerError::Io)
    }

    #[inline]
    fn poll_write(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<Result<usize, PeerError>> {
        Stream::poll_write(self, cx, bytes).map_err(PeerError::Io)
    }
}

/// A backlog that grew larger frees its memory when it is empty.
const KEEP: usize = 16 * 1024;

/// The bytes that a peer has not taken yet. Bytes are written straight from the worker's shared buffers; only
/// the rest is copied here. As long as there is a rest, nothing more is read for this peer: this is the
/// back-pressure. Only a buffered body may accumulate, in a [`Spool`] with its own bounds.
#[derive(Debug, Default)]
pub(crate) struct Backlog {
    bytes: Vec<u8>,
    start: usize,
    spool: Option<Spool>,
}

impl Backlog {
    pub fn is_empty(&self) -> bool {
        self.start == self.bytes.len() && self.spool.as_ref().is_none_or(Spool::is_empty)
    }

    /// Gives a buffer for bytes that the peer does not take, if there is none.
    pub fn lend(&mut self, buffer: impl FnOnce() -> Option<Vec<u8>>) {
        if self.bytes.capacity() == 0
            && let Some(buffer) = buffer()
        {
            self.bytes = buffer;
        }
    }

    /// Takes the buffer of a backlog without bytes back, so that an idle stream holds none.
    pub fn reclaim(&mut self) -> Option<Vec<u8>> {
        let is_unused = self.bytes.is_empty() && self.bytes.capacity() > 0;
        is_unused.then(|| std::mem::take(&mut self.bytes))
    }

    /// Returns the number of bytes kept.
    pub fn len(&self) -> u64 {
        (self.bytes.len() - self.start) as u64 + self.spool.as_ref().map_or(0, Spool::len)
    }

    /// Lets bytes accumulate within the spool's bounds.
    pub fn spool_into(&mut self, spool: Spool) {
        self.spool = Some(spool);
    }

    /// Lets up to this many bytes accumulate in memory, unless it has a spool already. Returns whether it has none.
    pub fn accumulate(&mut self, bytes: u64) -> bool {
        let has_none = self.spool.is_none();
        if has_none {
            self.spool = Some(Spool::new(BufferBounds { memory: bytes, file: 0 }));
        }
        has_none
    }

    /// Lets nothing more accumulate: once it is empty, it has the room of any other.
    pub fn stop_accumulating(&mut self) {
        if let Some(spool) = &mut self.spool {
            spool.shut();
        }
    }

    /// Returns another reader of the buffered body, from its first byte.
    pub fn collected(&self) -> Option<Spool> {
        self.spool.as_ref().map(Spool::reader)
    }

    /// Starts over with the buffered body, for another peer.
    pub fn rewind(&mut self) {
        self.bytes.clear();
        self.start = 0;
        if let Some(spool) = &mut self.spool {
            spool.rewind();
        }
    }

    /// Returns whether more may be read for this peer.
    pub fn has_room(&self) -> bool {
        self.is_empty() || self.spool.as_ref().is_some_and(Spool::has_room)
    }

    pub fn clear(&mut self) {
        self.bytes.clear();
        self.start = 0;
        self.spool = None;
        self.bytes.shrink_to(KEEP);
    }

    /// Writes as much as one system call takes, and keeps the rest. The caller polls [`Self::poll_flush`]
    /// before it waits, so that the task is woken when the peer takes more.
    ///
    /// # Errors
    /// When the peer is gone, or if the disk refuses a buffered body ([`PeerError::OwnDisk`]).
    pub fn send(&mut self, stream: &mut impl Sink, pieces: &[IoSlice<'_>]) -> Result<(), PeerError> {
        let offered = self.is_empty();
        let mut written = if offered { stream.write(pieces)? } else { 0 };
        if written == pieces.iter().map(|piece| piece.len()).sum::<usize>() {
            return Ok(());
        }
        for piece in pieces {
            let skip = written.min(piece.len());
            written -= skip;
            if offered {
                // These bytes must not enter the spool, which returns them in parts. Over TLS all of them may
                // be encrypted already, and are reported as written only when all are sent. So they must be
                // offered again as a whole.
                self.bytes.extend_from_slice(&piece[skip..]);
            } else {
                self.keep(&piece[skip..])?;
            }
        }
        Ok(())
    }

    /// Appends without writing.
    pub fn append(&mut self, pieces: &[IoSlice<'_>]) {
        pieces.iter().for_each(|piece| self.bytes.extend_from_slice(piece));
    }

    /// Keeps bytes that the peer has not taken.
    ///
    /// # Errors
    /// If the disk refuses a buffered body.
    pub fn keep(&mut self, bytes: &[u8]) -> Result<(), PeerError> {
        match &mut self.spool {
            // Once the spool holds anything, all later bytes must follow it there, to keep their order.
            Some(spool) if !bytes.is_empty() => spool.push(bytes).map_err(|_| PeerError::OwnDisk),
            _ => {
                self.bytes.extend_from_slice(bytes);
                Ok(())
            }
        }
    }

    /// Writes until nothing is left.
    pub fn poll_flush(
        &mut self,
        cx: &mut Context<'_>,
        stream: &mut impl Sink,
    ) -> Poll<Result<(), PeerError>> {
        loop {
            while self.start < self.bytes.len() {
                self.start += match ready!(stream.poll_write(cx, &self.bytes[self.start..]))? {
                    0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                    count => count,
                };
                debug_assert!(self.start <= self.bytes.len(), "more is gone than was offered");
            }
            self.bytes.clear();
            self.bytes.shrink_to(KEEP);
            self.start = 0;
            match &mut self.spool {
                Some(spool) if !spool.is_empty() => {
                    spool.pull(&mut self.bytes).map_err(|_| PeerError::OwnDisk)?;
                }
                _ => return Poll::Ready(Ok(())),
            }
        }
    }
}
