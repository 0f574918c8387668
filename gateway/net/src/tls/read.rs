//! Receives data from the peer: the TLS side of the reading and peeking functions of [`Stream`]. Records are
//! decrypted in the caller's buffer if it is large enough.

use std::io;
use std::task::{Context, Poll, ready};

use super::TlsStream;
use super::handshake_error::broken_connection;
use super::session::{HEADROOM_BYTES, Session};
use crate::{Peek, Stream};

/// Most bytes that are decrypted ahead of the reader, to find a `close_notify` after them.
const DECRYPT_AHEAD_MAX_BYTES: usize = 16 * 1024;

impl TlsStream {
    /// As [`Stream::poll_read`]. 0 is an end that the peer announced. An unannounced end is an error, because
    /// an attacker could have cut the connection (RFC 8446, 6.1).
    pub fn poll_read(&mut self, cx: &mut Context<'_>, buffer: &mut [u8]) -> Poll<io::Result<usize>> {
        let session = self.session.get_mut();
        if let Some(count) = session.take_plain(buffer) {
            return Poll::Ready(Ok(count));
        }
        let socket = self.socket.as_mut().expect(super::ATTACHED);
        loop {
            if session.broken {
                return Poll::Ready(Err(io::ErrorKind::ConnectionAborted.into()));
            }
            if session.ended || buffer.is_empty() {
                return Poll::Ready(Ok(0));
            }
            let read = if session.read_buffer_size() <= buffer.len() {
                ready!(session.poll_records(cx, socket, buffer))
            } else {
                // The buffer is too small to decrypt in. The data path has no such buffers.
                let mut own = vec![0; session.read_buffer_size()];
                ready!(session.poll_records(cx, socket, &mut own)).map(|count| {
                    session.plain.extend_from_slice(&own[..count]);
                    session.take_plain(buffer).unwrap_or(0)
                })
            };
            if session.sent < session.out.len() {
                // Send the protocol's own reply, or an alert. The part that the kernel does not accept goes
                // with the next data. A failed write is ignored: what the peer sent before can still be read,
                // and the next writer gets the error.
                session.unreported += session.flush_some(socket).unwrap_or(0);
            }
            let count = read?;
            if count > 0 {
                return Poll::Ready(Ok(count));
            }
        }
    }

    /// As [`Stream::peek`]. Consumes records without data, such as tickets.
    pub fn peek(&self) -> Option<Peek> {
        if self.session.borrow().taken < self.session.borrow().plain.len() {
            return Some(Peek::Data);
        }
        loop {
            match self.peek_socket() {
                Some(Peek::Data) if self.session.borrow().plain.is_empty() => {}
                other => return other,
            }
        }
    }

    /// Returns what the socket holds after the data that was already decrypted. Decrypts and keeps data
    /// records: after [`Peek::Data`] there may be more data, or none.
    fn peek_socket(&self) -> Option<Peek> {
        let session = &mut *self.session.borrow_mut();
        if session.broken {
            return Some(Peek::Reset);
        }
        if session.ended {
            return Some(Peek::End);
        }
        let socket = self.socket();
        match socket.peek() {
            Some(Peek::Data) => {}
            other => return other,
        }
        let mut own = vec![0; session.read_buffer_size()];
        let held = session.partial.len();
        own[HEADROOM_BYTES..HEADROOM_BYTES + held].copy_from_slice(&session.partial);
        match socket.try_read(&mut own[HEADROOM_BYTES + held..]) {
            None => None,
            Some(Ok(0)) => Some(Peek::End),
            Some(Err(_)) => {
                session.broken = true;
                Some(Peek::Reset)
            }
            Some(Ok(count)) => match session.take_records(&mut own[..HEADROOM_BYTES + held + count]) {
                Ok(count) => {
                    session.plain.extend_from_slice(&own[..count]);
                    Some(Peek::Data)
                }
                Err(_) => Some(Peek::Reset),
            },
        }
    }

    /// As [`Stream::poll_peer_closed`]. The peer's `close_notify` is a record that may follow data, so up to
    /// [`DECRYPT_AHEAD_MAX_BYTES`] bytes of data are decrypted and kept. Beyond that, only the end of the
    /// socket is noticed.
    pub fn poll_peer_closed(&self, cx: &mut Context<'_>, half_close: bool) -> Poll<()> {
        loop {
            let ahead = self.session.borrow().plain.len() - self.session.borrow().taken;
            if ahead >= DECRYPT_AHEAD_MAX_BYTES {
                return self.socket().poll_peer_closed(cx, half_close);
            }
            match self.peek_socket() {
                // `peek_socket` leaves no waker. The remainder of a record is an event of the socket.
                None => {}
                Some(Peek::Data) => continue,
                Some(Peek::End) if half_close => return Poll::Pending,
                Some(Peek::End | Peek::Reset) => return Poll::Ready(()),
            }
            match ready!(self.socket().poll_peek(cx)) {
                Peek::Data => {}
                Peek::End if half_close => return Poll::Pending,
                Peek::End | Peek::Reset => return Poll::Ready(()),
            }
        }
    }

    /// As [`Stream::poll_peek`].
    pub fn poll_peek(&self, cx: &mut Context<'_>) -> Poll<Peek> {
        loop {
            if let Some(peek) = self.peek() {
                return Poll::Ready(peek);
            }
            // It may be a part of a record, which means nothing yet. The socket's event is consumed, so the
            // next one wakes the task.
            match ready!(self.socket().poll_peek(cx)) {
                Peek::Data => {}
                // The kernel may report it only once.
                state => return Poll::Ready(state),
            }
        }
    }

    /// As [`Stream::has_partial_record`].
    pub fn has_partial_record(&self) -> bool {
        !self.session.borrow().partial.is_empty()
    }

    /// As [`Stream::poll_readable`].
    pub fn poll_readable(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let session = self.session.borrow();
        if session.taken < session.plain.len() || session.ended || session.broken {
            return Poll::Ready(Ok(()));
        }
        self.socket().poll_readable(cx)
    }
}

impl Session {
    /// Copies data that was decrypted before; `None` if there is none.
    fn take_plain(&mut self, buffer: &mut [u8]) -> Option<usize> {
        let left = &self.plain[self.taken..];
        if left.is_empty() {
            return None;
        }
        let count = left.len().min(buffer.len());
        buffer[..count].copy_from_slice(&left[..count]);
        self.taken += count;
        if self.taken == self.plain.len() {
            self.plain = Vec::new();
            self.taken = 0;
        }
        Some(count)
    }

    /// Reads once. Returns how much data now lies at the start of the buffer: 0 if the records held none.
    fn poll_records(
        &mut self,
        cx: &mut Context<'_>,
        socket: &mut Stream,
        buffer: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        let start = HEADROOM_BYTES + self.partial.len();
        let count = match ready!(socket.poll_read(cx, &mut buffer[start..])) {
            Ok(0) => Err(io::ErrorKind::UnexpectedEof.into()),
            result => result,
        };
        let count = count.inspect_err(|_| self.broken = true)?;
        buffer[HEADROOM_BYTES..start].copy_from_slice(&self.partial);
        Poll::Ready(self.take_records(&mut buffer[..start + count]))
    }

    fn take_records(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let processed = self.process_records(buffer).map_err(broken_connection)?;
        self.keep_partial(&buffer[HEADROOM_BYTES + processed.used..]).map_err(broken_connection)?;
        Ok(processed.plain)
    }
}
