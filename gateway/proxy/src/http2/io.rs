//! The connection's socket: what comes goes past the meter.

use std::io;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tollgate_http2::Connection;
use tollgate_net::{Deadline, Stream};

use super::intake::{BYTES, Intake};
use super::meter::{Exhausted, Meter};
use super::shared::Shared;
use crate::worker::Worker;

/// How long the end is waited for once the gateway has ended its direction, and how much is read meanwhile: closing a
/// socket with unread bytes sends a reset, which can overtake the last answers.
const LINGER: (Duration, usize) = (Duration::from_secs(2), 1024 * 1024);

/// The connection's socket. Every byte that comes in goes past the meter.
#[derive(Debug)]
pub(super) struct Io {
    stream: Stream,
    worker: Rc<Worker>,
    /// What came before the connection was known to be one of HTTP/2, or was more than may be looked at together; up to
    /// `looked_at` it was.
    early: Vec<u8>,
    looked_at: usize,
    meter: Meter,
    intake: Rc<Intake>,
    linger: Linger,
}

/// How far closing has come.
#[derive(Debug)]
enum Linger {
    No,
    Since(Deadline, usize),
    Over,
}

impl Io {
    pub fn new(stream: Stream, worker: Rc<Worker>, early: Vec<u8>, intake: Rc<Intake>) -> Self {
        Self {
            stream,
            worker,
            early,
            looked_at: 0,
            meter: Meter::new(tollgate_net::now()),
            intake,
            linger: Linger::No,
        }
    }

    /// Gives the connection what has come, as far as the meter lets it.
    fn pass(&mut self, shared: &Shared, bytes: &[u8]) {
        let measured = self.meter.received(bytes, shared.pieces_sent(), tollgate_net::now);
        let good = match measured {
            Ok(()) => bytes.len(),
            Err(Exhausted(good)) => {
                self.intake.exhaust();
                // What nobody has seen yet, nobody waits for: not to look at it at all costs least.
                if self.intake.has_begun() { good } else { 0 }
            }
        };
        let connection = &shared.connection;
        let (unwanted, extra) = (connection.unwanted(), connection.extra_weight());
        connection.receive(&bytes[..good]);
        self.intake.read(bytes.len(), connection.extra_weight() - extra);
        // A frame of DATA costs something only once it is known that nobody reads it: what is on its way when a request is
        // answered early is within what a connection may spend.
        let unwanted = u32::try_from(connection.unwanted() - unwanted).unwrap_or(u32::MAX);
        if self.meter.pay(unwanted, shared.pieces_sent(), &tollgate_net::now).is_none() {
            self.intake.exhaust();
        }
    }

    /// Reads once, what has come early first. How many bytes that were; 0: the client has ended its side. Not when this
    /// connection's turn is over, or it is about to be ended.
    pub fn poll_read(&mut self, shared: &Shared, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        self.intake.client_is(shared.client());
        // The task that polls is the one that ends the connection.
        if self.intake.is_exhausted() || self.intake.has_read_enough(cx) {
            return Poll::Pending;
        }
        // Who has nothing to say needs no turn: its task runs for its answers too.
        if self.intake.comes_late() {
            if self.early.is_empty() {
                ready!(self.stream.poll_readable(cx))?;
            }
            self.intake.wait(true, cx);
            return Poll::Pending;
        }
        let most = self.intake.most();
        if !self.early.is_empty() {
            let early = std::mem::take(&mut self.early);
            let end = early.len().min(self.looked_at + most);
            let piece = &early[self.looked_at..end];
            self.pass(shared, piece);
            let count = piece.len();
            (self.early, self.looked_at) = if end < early.len() { (early, end) } else { (Vec::new(), 0) };
            return Poll::Ready(Ok(count));
        }
        let worker = self.worker.clone();
        let mut buffer = worker.receive.borrow_mut();
        // Records of TLS are decrypted in the buffer, where it has room for two of them.
        let room = if shared.tls.is_some() { BYTES } else { most };
        let count = ready!(self.stream.poll_read(cx, &mut buffer[..room]))?;
        let (piece, rest) = buffer[..count].split_at(count.min(most));
        self.early.extend_from_slice(rest);
        self.pass(shared, piece);
        Poll::Ready(Ok(piece.len()))
    }

    /// Writes what waits.
    pub fn poll_write(&mut self, connection: &Connection, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        connection.poll_write(|bytes| {
            let written = ready!(self.stream.poll_write(cx, bytes))?;
            self.meter.sent(written);
            Poll::Ready(Ok(written))
        })
    }

    /// Ends the gateway's direction, then reads and throws away what still comes.
    pub fn poll_shutdown(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        loop {
            match &mut self.linger {
                Linger::No => {
                    ready!(self.stream.poll_shutdown(cx))?;
                    let deadline = self.worker.timers.deadline();
                    deadline.set(tollgate_net::now(), Some(LINGER.0));
                    self.linger = Linger::Since(deadline, LINGER.1);
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
