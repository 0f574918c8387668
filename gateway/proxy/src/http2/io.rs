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
    /// What came before the connection was known to be one of HTTP/2, or was more than its turn was long enough for; up to
    /// `looked_at` it was looked at.
    early: Vec<u8>,
    looked_at: usize,
    /// Whether what came early has gone past the meter.
    is_weighed: bool,
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
        let is_weighed = early.is_empty();
        Self {
            stream,
            worker,
            early,
            looked_at: 0,
            is_weighed,
            meter: Meter::new(tollgate_net::now()),
            intake,
            linger: Linger::No,
        }
    }

    /// How many of the bytes that came the meter lets through.
    fn weigh(&mut self, shared: &Shared, bytes: &[u8]) -> usize {
        match self.meter.received(bytes, shared.pieces_sent(), tollgate_net::now) {
            Ok(()) => bytes.len(),
            Err(Exhausted(good)) => {
                self.intake.exhaust();
                // What nobody has seen yet, nobody waits for: not to look at it at all costs least.
                if self.intake.has_begun() { good } else { 0 }
            }
        }
    }

    /// Gives the connection what has come, as far as its turn goes. Says how many bytes that were.
    fn pass(&mut self, shared: &Shared, bytes: &[u8]) -> usize {
        let connection = &shared.connection;
        let (unwanted, extra) = (connection.unwanted(), connection.extra_weight());
        let count = connection.receive(bytes, self.intake.left());
        self.intake.read(count, connection.extra_weight() - extra);
        // A frame of DATA costs something only once it is known that nobody reads it: what is on its way when a request is
        // answered early is within what a connection may spend.
        let unwanted = u32::try_from(connection.unwanted() - unwanted).unwrap_or(u32::MAX);
        if self.meter.pay(unwanted, shared.pieces_sent(), &tollgate_net::now).is_none() {
            self.intake.exhaust();
        }
        count
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
        if !self.early.is_empty() {
            let mut early = std::mem::take(&mut self.early);
            if !std::mem::replace(&mut self.is_weighed, true) {
                early.truncate(self.weigh(shared, &early));
            }
            let came = &early[self.looked_at..];
            // Of one that is exhausted nothing may be left, and yet it has not gone.
            let count = came.len().max(1);
            self.looked_at += self.pass(shared, came);
            match self.looked_at < early.len() {
                true => self.early = early,
                false => self.looked_at = 0,
            }
            return Poll::Ready(Ok(count));
        }
        let worker = self.worker.clone();
        let mut buffer = worker.receive.borrow_mut();
        // Records of TLS are decrypted in the buffer, where three of the longest have room.
        let most = if shared.tls.is_some() { BYTES } else { self.intake.most() };
        let count = ready!(self.stream.poll_read(cx, &mut buffer[..most]))?;
        let good = self.weigh(shared, &buffer[..count]);
        let taken = self.pass(shared, &buffer[..good]);
        self.early.extend_from_slice(&buffer[taken..good]);
        Poll::Ready(Ok(count))
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
