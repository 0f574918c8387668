//! The socket of an HTTP/2 connection to an endpoint.
//!
//! [`EndpointIo::poll`] moves bytes between the socket and a [`ClientConnection`]. The pool's connection task
//! and the probes call it. It reads before it writes, so that all requests of a scheduling round, and all
//! replies to what was read, go out in one write.

use std::cell::RefCell;
use std::io::{self, IoSlice};
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Instant;

use tollgate_http2::ClientConnection;
use tollgate_net::{BulkQueue, BulkTurn, Stream, TlsFault};

/// Upper bound of the bytes of one read.
const READ_MAX_BYTES: usize = 16 * 1024;
/// How many reads a connection may do before other tasks run, however little each of them returns.
const READS_PER_TURN: usize = 16;

/// The socket of a connection, and when bytes last arrived on it.
#[derive(Debug)]
pub(crate) struct EndpointIo {
    stream: Stream,
    /// The buffer for reads, shared with the other connections.
    buffer: Rc<RefCell<Vec<u8>>>,
    last_read: Instant,
    turn: BulkTurn,
    fault: Option<TlsFault>,
}

impl EndpointIo {
    pub fn new(stream: Stream, buffer: Rc<RefCell<Vec<u8>>>, queue: &BulkQueue) -> Self {
        Self { stream, buffer, last_read: tollgate_net::now(), turn: BulkTurn::new(queue), fault: None }
    }

    /// When bytes last arrived.
    pub fn last_read(&self) -> Instant {
        self.last_read
    }

    /// The TLS failure that ended the connection, if it was one.
    pub fn fault(&self) -> Option<&TlsFault> {
        self.fault.as_ref()
    }

    /// Reads arrived bytes, and writes queued ones. Ready when the connection is closed; its streams have learnt it.
    pub fn poll(&mut self, client: &ClientConnection, cx: &mut Context<'_>) -> Poll<()> {
        client.forget_waker();
        let was_full = client.is_full();
        if let Err(error) = self.read(client, cx) {
            self.fault = TlsFault::of_io(&error);
            client.abort_unread();
            return Poll::Ready(());
        }
        let stream = &mut self.stream;
        let written = client.poll_write(|bytes| stream.poll_write(cx, bytes));
        if client.ended().is_some() || matches!(written, Poll::Ready(Err(_))) {
            // The GOAWAY was written as far as the socket takes it.
            client.abort();
            return Poll::Ready(());
        }
        if was_full && !client.is_full() {
            cx.waker().wake_by_ref();
        }
        client.register_waker(cx);
        Poll::Pending
    }

    /// Sends a GOAWAY before the connection is closed, as far as the socket takes it at once, so that the endpoint
    /// knows that nothing was lost (RFC 9113, 6.8). Does nothing if the connection is closed.
    pub fn say_goodbye(&mut self, client: &ClientConnection) {
        if client.ended().is_none() {
            client.go_away();
            let stream = &mut self.stream;
            // If the socket takes it only in part, or not at all, the endpoint sees a mere end.
            let _ = client.poll_write(|bytes| Poll::Ready(stream.write(&[IoSlice::new(bytes)])));
        }
    }

    fn read(&mut self, client: &ClientConnection, cx: &mut Context<'_>) -> io::Result<()> {
        let mut buffer = self.buffer.borrow_mut();
        if buffer.is_empty() {
            buffer.resize(READ_MAX_BYTES, 0);
        }
        for _ in 0..READS_PER_TURN {
            if client.is_full() || client.ended().is_some() || self.turn.poll(cx).is_pending() {
                return Ok(());
            }
            let count = match self.stream.poll_read(cx, &mut buffer) {
                Poll::Ready(Ok(0)) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Poll::Ready(read) => read?,
                Poll::Pending => return Ok(()),
            };
            let now = tollgate_net::now();
            self.turn.count(count);
            client.receive(&buffer[..count], now.saturating_duration_since(self.last_read));
            self.last_read = now;
        }
        // More may wait; the other tasks come first.
        self.turn.end(cx);
        Ok(())
    }
}
