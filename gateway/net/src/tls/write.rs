//! Sends data to the peer: the TLS side of the writing functions of [`Stream`].
//!
//! Data is encrypted into one buffer for each thread, and written with one system call. Invariant: a byte is
//! reported as sent only after the kernel has accepted its whole record.

use std::cell::RefCell;
use std::io::{self, IoSlice};
use std::task::{Context, Poll, ready};

use super::TlsStream;
use super::handshake_error::broken_connection;
use super::session::{ENCRYPTION_OVERHEAD_BYTES, RECORD_DATA_MAX_BYTES, Session};
use crate::Stream;

/// Records in one system call: a head and a body of 64 KiB, twice.
const RECORDS_PER_WRITE: usize = 9;

thread_local! {
    /// All connections of this thread encrypt into it. Bytes that the kernel does not accept at once are
    /// copied out.
    static BUFFERS: RefCell<EncryptBuffers> = RefCell::new(EncryptBuffers {
        records: vec![0; RECORDS_PER_WRITE * (RECORD_DATA_MAX_BYTES + ENCRYPTION_OVERHEAD_BYTES)].into_boxed_slice(),
        gathered: Vec::with_capacity(RECORD_DATA_MAX_BYTES),
    });
}

struct EncryptBuffers {
    records: Box<[u8]>,
    /// Data of several pieces that share one record.
    gathered: Vec<u8>,
}

impl TlsStream {
    /// As [`Stream::write`]. Bytes that are encrypted but not sent count as not written: the caller offers
    /// them again, like any others, and a later call counts them when they are sent.
    pub fn write(&mut self, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        let session = self.session.get_mut();
        let socket = self.socket.as_mut().expect(super::ATTACHED);
        let sent_data = std::mem::take(&mut session.unreported);
        if sent_data > 0 {
            return Ok(sent_data);
        }
        if session.sent < session.out.len() {
            let sent_data = session.flush_some(socket)?;
            if sent_data > 0 || session.sent < session.out.len() {
                return Ok(sent_data);
            }
        }
        session.send(socket, pieces)
    }

    /// As [`Stream::poll_write`].
    pub fn poll_write(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let session = self.session.get_mut();
        let socket = self.socket.as_mut().expect(super::ATTACHED);
        let sent_data = std::mem::take(&mut session.unreported);
        if sent_data > 0 {
            return Poll::Ready(Ok(sent_data));
        }
        loop {
            while session.sent < session.out.len() {
                let sent_data = ready!(session.poll_flush_some(cx, socket))?;
                if sent_data > 0 {
                    return Poll::Ready(Ok(sent_data));
                }
            }
            let sent_data = session.send(socket, &[IoSlice::new(bytes)])?;
            if sent_data > 0 || bytes.is_empty() {
                return Poll::Ready(Ok(sent_data));
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
        BUFFERS.with_borrow_mut(|output| {
            let mut pieces = Pieces { pieces, at: 0 };
            let mut sent_data = 0;
            while pieces.has_more() && self.out.is_empty() {
                let (mut used, mut data) = (0, 0);
                let EncryptBuffers { records, gathered } = output;
                self.ends.clear();
                while self.ends.len() < RECORDS_PER_WRITE
                    && let Some(next) = pieces.next(gathered)
                {
                    used = self.encrypt(next, records, used).map_err(broken_connection)?;
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
                    sent_data += data;
                    self.ends.clear();
                    continue;
                }
                sent_data += self.keep_unsent(records, sent);
            }
            Ok(sent_data)
        })
    }

    /// Keeps records that the kernel accepted only in part. Returns how much data was sent all the same.
    fn keep_unsent(&mut self, records: &[u8], sent: usize) -> usize {
        // If rustls had a message of its own, none of these records was sent.
        let before = self.out.len();
        self.ends.iter_mut().for_each(|(end, _)| *end += before);
        self.out.extend_from_slice(records);
        self.sent = sent;
        self.take_sent_data()
    }

    /// Returns how much data was in records that were sent and not counted yet.
    fn take_sent_data(&mut self) -> usize {
        let mut sent_data = 0;
        while let Some((end, data)) = self.ends.front().copied()
            && end <= self.sent
        {
            sent_data += data;
            self.ends.pop_front();
        }
        if self.sent == self.out.len() {
            self.out = Vec::new();
            self.sent = 0;
        }
        sent_data
    }

    /// Sends waiting records, as far as the kernel accepts them. Returns how much data was sent with them.
    pub(super) fn flush_some(&mut self, socket: &mut Stream) -> io::Result<usize> {
        self.sent += socket.write(&[IoSlice::new(&self.out[self.sent..])])?;
        Ok(self.take_sent_data())
    }

    fn poll_flush_some(&mut self, cx: &mut Context<'_>, socket: &mut Stream) -> Poll<io::Result<usize>> {
        match ready!(socket.poll_write(cx, &self.out[self.sent..]))? {
            0 => Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
            count => {
                self.sent += count;
                Poll::Ready(Ok(self.take_sent_data()))
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
    fn has_more(&mut self) -> bool {
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
        if !self.has_more() {
            return None;
        }
        let first = self.take(RECORD_DATA_MAX_BYTES);
        if first.len() == RECORD_DATA_MAX_BYTES || !self.has_more() {
            return Some(first);
        }
        gathered.clear();
        gathered.extend_from_slice(first);
        while gathered.len() < RECORD_DATA_MAX_BYTES && self.has_more() {
            gathered.extend_from_slice(self.take(RECORD_DATA_MAX_BYTES - gathered.len()));
        }
        Some(gathered)
    }
}
