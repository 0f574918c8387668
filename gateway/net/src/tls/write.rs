//! Sends data to the peer: the TLS side of the writing functions of [`Stream`].
//!
//! Data is encrypted into one buffer for each thread, and written with one system call. Invariant: a byte is
//! reported as sent only after the kernel has accepted its whole record.

use std::cell::RefCell;
use std::io::{self, IoSlice};
use std::task::{Context, Poll, ready};

use super::Tls;
use super::failure::broken;
use super::session::{OVERHEAD, RECORD, Session};
use crate::Stream;

/// Records in one system call: a head and a body of 64 KiB, twice.
const RECORDS: usize = 9;

thread_local! {
    /// All connections of this thread encrypt into it. Bytes that the kernel does not accept at once are
    /// copied out.
    static OUTPUT: RefCell<Output> = RefCell::new(Output {
        records: vec![0; RECORDS * (RECORD + OVERHEAD)].into_boxed_slice(),
        gathered: Vec::with_capacity(RECORD),
    });
}

struct Output {
    records: Box<[u8]>,
    /// Data of several pieces that share one record.
    gathered: Vec<u8>,
}

impl Tls {
    /// As [`Stream::write`]. Bytes that are encrypted but not sent count as not written: the caller offers
    /// them again, like any others, and a later call counts them when they are sent.
    pub fn write(&mut self, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        let session = self.session.get_mut();
        let socket = self.socket.as_mut().expect(super::ATTACHED);
        let gone = std::mem::take(&mut session.untold);
        if gone > 0 {
            return Ok(gone);
        }
        if session.sent < session.out.len() {
            let gone = session.flush_some(socket)?;
            if gone > 0 || session.sent < session.out.len() {
                return Ok(gone);
            }
        }
        session.send(socket, pieces)
    }

    /// As [`Stream::poll_write`].
    pub fn poll_write(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let session = self.session.get_mut();
        let socket = self.socket.as_mut().expect(super::ATTACHED);
        let gone = std::mem::take(&mut session.untold);
        if gone > 0 {
            return Poll::Ready(Ok(gone));
        }
        loop {
            while session.sent < session.out.len() {
                let gone = ready!(session.poll_flush_some(cx, socket))?;
                if gone > 0 {
                    return Poll::Ready(Ok(gone));
                }
            }
            let gone = session.send(socket, &[IoSlice::new(bytes)])?;
            if gone > 0 || bytes.is_empty() {
                return Poll::Ready(Ok(gone));
            }
        }
    }

    /// As [`Stream::poll_shutdown`], after a `close_notify`.
    pub fn poll_shutdown(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_flush(cx))?;
        if let Some(notice) = self.session.get_mut().close_notify() {
            self.session.get_mut().out.extend_from_slice(&notice);
        }
        ready!(self.poll_flush(cx))?;
        self.socket.as_mut().expect(super::ATTACHED).poll_shutdown(cx)
    }

    /// Waits until the kernel has accepted all records.
    pub(super) fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let session = self.session.get_mut();
        let socket = self.socket.as_mut().expect(super::ATTACHED);
        while session.sent < session.out.len() {
            ready!(session.poll_flush_some(cx, socket))?;
        }
        Poll::Ready(Ok(()))
    }
}

impl Session {
    /// Encrypts and sends, with one system call for each full buffer. Returns how many bytes of data were
    /// sent.
    fn send(&mut self, socket: &mut Stream, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        OUTPUT.with_borrow_mut(|output| {
            let mut pieces = Pieces { pieces, at: 0 };
            let mut gone = 0;
            while pieces.is_left() && self.out.is_empty() {
                let (mut used, mut data) = (0, 0);
                let Output { records, gathered } = output;
                self.ends.clear();
                while self.ends.len() < RECORDS
                    && let Some(next) = pieces.next(gathered)
                {
                    used = self.encrypt(next, records, used).map_err(broken)?;
                    self.ends.push_back((used, next.len()));
                    data += next.len();
                    if !self.out.is_empty() {
                        // rustls queued a message of its own, which must go first.
                        break;
                    }
                }
                let records = &records[..used];
                let sent = if self.out.is_empty() { socket.write(&[IoSlice::new(records)])? } else { 0 };
                if sent == used {
                    gone += data;
                    self.ends.clear();
                    continue;
                }
                gone += self.hold_back(records, sent);
            }
            Ok(gone)
        })
    }

    /// Keeps records that the kernel accepted only in part. Returns how much data was sent all the same.
    fn hold_back(&mut self, records: &[u8], sent: usize) -> usize {
        // If rustls had a message of its own, none of these records was sent.
        let before = self.out.len();
        self.ends.iter_mut().for_each(|(end, _)| *end += before);
        self.out.extend_from_slice(records);
        self.sent = sent;
        self.count_gone()
    }

    /// Returns how much data was in records that were sent and not counted yet.
    fn count_gone(&mut self) -> usize {
        let mut gone = 0;
        while let Some((end, data)) = self.ends.front().copied()
            && end <= self.sent
        {
            gone += data;
            self.ends.pop_front();
        }
        if self.sent == self.out.len() {
            self.out = Vec::new();
            self.sent = 0;
        }
        gone
    }

    /// Sends waiting records, as far as the kernel accepts them. Returns how much data was sent with them.
    pub(super) fn flush_some(&mut self, socket: &mut Stream) -> io::Result<usize> {
        self.sent += socket.write(&[IoSlice::new(&self.out[self.sent..])])?;
        Ok(self.count_gone())
    }

    fn poll_flush_some(&mut self, cx: &mut Context<'_>, socket: &mut Stream) -> Poll<io::Result<usize>> {
        match ready!(socket.poll_write(cx, &self.out[self.sent..]))? {
            0 => Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
            count => {
                self.sent += count;
                Poll::Ready(Ok(self.count_gone()))
            }
        }
    }
}

/// Splits pieces of data into records.
struct Pieces<'a> {
    pieces: &'a [IoSlice<'a>],
    /// How much of the first piece was consumed.
    at: usize,
}

impl<'a> Pieces<'a> {
    fn is_left(&mut self) -> bool {
        while let Some(first) = self.pieces.first()
            && self.at == first.len()
        {
            self.pieces = &self.pieces[1..];
            self.at = 0;
        }
        !self.pieces.is_empty()
    }

    fn take(&mut self, most: usize) -> &'a [u8] {
        let pieces = self.pieces;
        let left = &pieces[0][self.at..];
        let part = &left[..left.len().min(most)];
        self.at += part.len();
        part
    }

    /// Returns the data of the next record. A piece is used in place if it fills a record or is the last;
    /// otherwise the next pieces are gathered with it.
    fn next<'b>(&mut self, gathered: &'b mut Vec<u8>) -> Option<&'b [u8]>
    where
        'a: 'b,
    {
        if !self.is_left() {
            return None;
        }
        let first = self.take(RECORD);
        if first.len() == RECORD || !self.is_left() {
            return Some(first);
        }
        gathered.clear();
        gathered.extend_from_slice(first);
        while gathered.len() < RECORD && self.is_left() {
            gathered.extend_from_slice(self.take(RECORD - gathered.len()));
        }
        Some(gathered)
    }
}
