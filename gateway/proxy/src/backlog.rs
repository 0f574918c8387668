//! What a peer has not taken yet.

use std::io::{self, IoSlice};
use std::task::{Context, Poll, ready};

use tollgate_net::Stream;
use tollgate_observe::Reason;

use crate::client_side::{Unfit, unfit};
use crate::spool::Spool;

/// What takes bytes, in its own time. Whoever offers some offers all that were not taken again, whatever follows them: over TLS
/// they may be encrypted already, and how many are gone is told when they are.
pub(crate) trait Sink {
    /// Takes what it can of the pieces at once and says how many bytes that was. Wakes nobody.
    ///
    /// # Errors
    /// When the peer is gone.
    fn write(&mut self, pieces: &[IoSlice<'_>]) -> io::Result<usize>;

    /// Takes some of the bytes, as soon as it can.
    fn poll_write(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>>;
}

impl Sink for Stream {
    #[inline]
    fn write(&mut self, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        Stream::write(self, pieces)
    }

    #[inline]
    fn poll_write(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Stream::poll_write(self, cx, bytes)
    }
}

/// A backlog that grew past this gives its memory back when it is empty.
const KEEP: usize = 16 * 1024;

/// What a peer has not taken yet. Bytes are written straight from the worker's shared buffers; only what the kernel
/// does not take is copied here, and then nothing more is read for this peer until it is gone: that is the
/// back-pressure. Only a buffered body may pile up, in a [`Spool`] with bounds of its own.
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

    /// Bytes in it.
    pub fn len(&self) -> u64 {
        (self.bytes.len() - self.start) as u64 + self.spool.as_ref().map_or(0, Spool::len)
    }

    /// Lets bytes pile up within the spool's bounds.
    pub fn spool_into(&mut self, spool: Spool) {
        self.spool = Some(spool);
    }

    /// Another reader of what was collected, from its first byte.
    pub fn collected(&self) -> Option<Spool> {
        self.spool.as_ref().map(Spool::reader)
    }

    /// Begins again with what was collected, for another peer.
    pub fn rewind(&mut self) {
        self.bytes.clear();
        self.start = 0;
        if let Some(spool) = &mut self.spool {
            spool.rewind();
        }
    }

    /// Whether more may be read for this peer.
    pub fn has_room(&self) -> bool {
        self.is_empty() || self.spool.as_ref().is_some_and(Spool::has_room)
    }

    pub fn clear(&mut self) {
        self.bytes.clear();
        self.start = 0;
        self.spool = None;
        self.bytes.shrink_to(KEEP);
    }

    /// Writes what it can with one system call and keeps the rest. Whoever calls it polls [`Self::poll_flush`]
    /// before waiting, so that the task is woken when the peer takes more.
    ///
    /// # Errors
    /// When the peer is gone, or the disk refuses a buffered body ([`Self::is_own`]).
    pub fn send(&mut self, stream: &mut impl Sink, pieces: &[IoSlice<'_>]) -> io::Result<()> {
        let offered = self.is_empty();
        let mut written = if offered { stream.write(pieces)? } else { 0 };
        if written == pieces.iter().map(|piece| piece.len()).sum::<usize>() {
            return Ok(());
        }
        for piece in pieces {
            let skip = written.min(piece.len());
            written -= skip;
            if offered {
                // Not into the spool, which gives out a part at a time: over TLS all of it may be encrypted already, and is
                // told to be gone when that has gone. It has to be offered again as a whole.
                self.bytes.extend_from_slice(&piece[skip..]);
            } else {
                self.keep(&piece[skip..])?;
            }
        }
        Ok(())
    }

    /// Whether it is the gateway's own disk that failed, not the peer.
    pub fn is_own(error: &io::Error) -> bool {
        // No socket call gives this kind.
        error.kind() == io::ErrorKind::Other
    }

    /// What an error on the way to a client is called.
    pub fn reason(error: &io::Error) -> Reason {
        match unfit(error) {
            Some(Unfit(reason)) => *reason,
            None if Self::is_own(error) => Reason::ProxyInternalError,
            None => Reason::ClientClosed,
        }
    }

    /// Appends without writing.
    pub fn append(&mut self, pieces: &[IoSlice<'_>]) {
        pieces.iter().for_each(|piece| self.bytes.extend_from_slice(piece));
    }

    /// Keeps bytes that nobody has taken.
    ///
    /// # Errors
    /// When the disk refuses a buffered body.
    pub fn keep(&mut self, bytes: &[u8]) -> io::Result<()> {
        match &mut self.spool {
            // Once the spool holds anything, order demands that all goes there.
            Some(spool) if !bytes.is_empty() => spool.push(bytes).map_err(io::Error::other),
            _ => {
                self.bytes.extend_from_slice(bytes);
                Ok(())
            }
        }
    }

    /// Writes until nothing is left.
    pub fn poll_flush(&mut self, cx: &mut Context<'_>, stream: &mut impl Sink) -> Poll<io::Result<()>> {
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
                Some(spool) if !spool.is_empty() => spool.pull(&mut self.bytes).map_err(io::Error::other)?,
                _ => return Poll::Ready(Ok(())),
            }
        }
    }
}
