//! The socket of an HTTP/2 client connection. Each byte that it reads passes the meter, then goes to
//! [`ServerConnection`] as far as the turn of the connection allows. The connection's task polls it; at the
//! end it closes the socket in a way that does not lose the last responses.

use std::io;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tollgate_http2::ServerConnection;
use tollgate_net::{Deadline, Stream};

use super::connection_state::ConnectionState;
use super::flood_meter::{Exhausted, FloodMeter};
use crate::front::scheduler::frame_budget::{BYTES_PER_TURN, FrameBudget};
use crate::state::worker::Worker;

/// How long, and for how many bytes, the gateway reads after it has closed its direction. Closing a socket
/// with unread bytes sends a reset, which can overtake the last responses.
const LINGER_LIMITS: (Duration, usize) = (Duration::from_secs(2), 1024 * 1024);

/// The socket of a connection, with its meter and its frame budget.
#[derive(Debug)]
pub(super) struct Http2Socket {
    stream: Stream,
    worker: Rc<Worker>,
    /// Bytes read before the connection was known to speak HTTP/2, or beyond the budget of its turn. The
    /// first `processed` of them are processed.
    early: Vec<u8>,
    processed: usize,
    /// Whether the meter has counted the bytes that were read before the connection was known to speak
    /// HTTP/2.
    early_is_metered: bool,
    meter: FloodMeter,
    frame_budget: Rc<FrameBudget>,
    linger: Linger,
}

/// The progress of closing.
#[derive(Debug)]
enum Linger {
    No,
    Since(Deadline, usize),
    Over,
}

impl Http2Socket {
    pub fn new(stream: Stream, worker: Rc<Worker>, early: Vec<u8>, frame_budget: Rc<FrameBudget>) -> Self {
        let early_is_metered = early.is_empty();
        Self {
            stream,
            worker,
            early,
            processed: 0,
            early_is_metered,
            meter: FloodMeter::new(tollgate_net::now()),
            frame_budget,
            linger: Linger::No,
        }
    }

    /// Passes `bytes` to the meter. Returns how many of them may be processed.
    fn meter_bytes(&mut self, shared: &ConnectionState, bytes: &[u8]) -> usize {
        match self.meter.received(bytes, shared.pieces_sent(), tollgate_net::now) {
            Ok(()) => bytes.len(),
            Err(Exhausted(accepted)) => {
                self.frame_budget.exhaust();
                // No request was started, so no response is lost: it is cheapest to process nothing at all.
                if self.frame_budget.has_begun() { accepted } else { 0 }
            }
        }
    }

    /// Gives received bytes to the connection, as far as its turn goes. Returns how many were processed.
    fn pass(&mut self, shared: &ConnectionState, bytes: &[u8]) -> usize {
        let connection = &shared.connection;
        let (discarded, extra) = (connection.discarded_data_frames(), connection.extra_cost());
        let count = connection.receive(bytes, self.frame_budget.remaining_cost());
        self.frame_budget.read(count, connection.extra_cost() - extra);
        // A DATA frame costs something only once it is known that no stream reads it. The budget of a
        // connection covers the frames that a client sends before it learns of an early response.
        let discarded = u32::try_from(connection.discarded_data_frames() - discarded).unwrap_or(u32::MAX);
        if self.meter.pay(discarded, shared.pieces_sent(), &tollgate_net::now).is_none() {
            self.frame_budget.exhaust();
        }
        count
    }

    /// Reads once, starting with bytes that were left over. Returns how many bytes arrived; 0 means that the
    /// client has closed its direction. Pending also if the turn of this connection is over, or if the
    /// connection must be ended.
    pub fn poll_read(&mut self, shared: &ConnectionState, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        self.frame_budget.set_trust(shared.client());
        // The task that polls this also ends the connection.
        if self.frame_budget.is_exhausted() || self.frame_budget.byte_budget_is_spent(cx) {
            return Poll::Pending;
        }
        // A connection without input needs no turn: its task also runs to write responses.
        if self.frame_budget.must_wait_for_turn() {
            if self.early.is_empty() {
                ready!(self.stream.poll_readable(cx))?;
            }
            self.frame_budget.wait(true, cx);
            return Poll::Pending;
        }
        if !self.early.is_empty() {
            let mut early = std::mem::take(&mut self.early);
            if !std::mem::replace(&mut self.early_is_metered, true) {
                early.truncate(self.meter_bytes(shared, &early));
            }
            let came = &early[self.processed..];
            // An exhausted connection may have no bytes left to process, but it has not closed.
            let count = came.len().max(1);
            self.processed += self.pass(shared, came);
            match self.processed < early.len() {
                true => self.early = early,
                false => self.processed = 0,
            }
            return Poll::Ready(Ok(count));
        }
        let worker = self.worker.clone();
        let mut buffer = worker.receive.borrow_mut();
        // TLS records are decrypted in the buffer, which must have room for three of the longest.
        let most = if shared.tls.is_some() { BYTES_PER_TURN } else { self.frame_budget.read_size() };
        let count = ready!(self.stream.poll_read(cx, &mut buffer[..most]))?;
        let accepted = self.meter_bytes(shared, &buffer[..count]);
        let taken = self.pass(shared, &buffer[..accepted]);
        self.early.extend_from_slice(&buffer[taken..accepted]);
        Poll::Ready(Ok(count))
    }

    /// Writes what the connection has queued.
    pub fn poll_write(
        &mut self,
        connection: &ServerConnection,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<()>> {
        connection.poll_write(|bytes| {
            let written = ready!(self.stream.poll_write(cx, bytes))?;
            self.meter.sent(written);
            Poll::Ready(Ok(written))
        })
    }

    /// Closes the gateway's direction, then reads and discards what still arrives, within [`LINGER_LIMITS`].
    pub fn poll_shutdown(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        loop {
            match &mut self.linger {
                Linger::No => {
                    ready!(self.stream.poll_shutdown(cx))?;
                    let deadline = self.worker.timers.deadline();
                    deadline.set(tollgate_net::now(), Some(LINGER_LIMITS.0));
                    self.linger = Linger::Since(deadline, LINGER_LIMITS.1);
                }
                Linger::Since(deadline, left) => {
                    let mut buffer = self.worker.receive.borrow_mut();
                    let read = self.stream.poll_read(cx, &mut buffer);
                    match read {
                        Poll::Pending => ready!(deadline.poll_passed(cx)),
                        Poll::Ready(Ok(count)) if 0 < count && count < *left => {
                            *left -= count;
                            continue;
                        }
                        Poll::Ready(_) => {}
                    }
                    drop(buffer);
                    self.linger = Linger::Over;
                }
                Linger::Over => return Poll::Ready(Ok(())),
            }
        }
    }
}
