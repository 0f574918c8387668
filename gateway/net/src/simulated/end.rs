//! The two ends of a connection, modelled on TCP in Linux.
//!
//! The first half holds the calls that the owner of an end makes through its `SimulatedSocket`. The second
//! half holds the events that the network delivers. Invariant: bytes arrive in order, and an end never holds
//! more than its capacity.

use std::collections::VecDeque;
use std::io::{self, ErrorKind, IoSlice};
use std::task::{Context, Poll};
use std::time::Duration;

use super::connection::ConnectionEnd;
use super::trace;
use super::world::{SimulatedEvent, World};
use crate::Peek;

/// Most pieces in which one write arrives.
const PIECES_MAX: usize = 6;

/// Calls by the owner of an end.
impl World {
    fn end(&mut self, (connection, side): (usize, usize)) -> &mut ConnectionEnd {
        &mut self.connections[connection].ends[side]
    }

    pub fn read(
        &mut self,
        at: (usize, usize),
        cx: &mut Context<'_>,
        buffer: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        if self.one_in(self.conditions.shares) {
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        let short = self.one_in(self.conditions.short_reads);
        let pick = self.random.usize(1..=256);
        let end = self.end(at);
        let most = if short { buffer.len().min(pick) } else { buffer.len() };
        let count = end.incoming.len().min(most);
        if count == 0 && !buffer.is_empty() {
            if let Some(error) = end.error.take() {
                return Poll::Ready(Err(error.into()));
            }
            if end.fin_received || end.is_reset {
                return Poll::Ready(Ok(0));
            }
            end.reader = Some(cx.waker().clone());
            return Poll::Pending;
        }
        for (slot, byte) in buffer.iter_mut().zip(end.incoming.drain(..count)) {
            *slot = byte;
        }
        self.record("read", &[at.0 as u64, at.1 as u64, count as u64]);
        // A writer that waits for room learns of it after the usual delay.
        let delay = self.delay(at.0);
        self.schedule(self.now + delay, SimulatedEvent::Room(at.0, 1 - at.1));
        Poll::Ready(Ok(count))
    }

    /// Reads and discards at most `most` bytes.
    pub fn discard(&mut self, at: (usize, usize), most: usize) {
        let end = self.end(at);
        let count = end.incoming.len().min(most);
        end.incoming.drain(..count);
    }

    pub fn peek(&mut self, at: (usize, usize)) -> Option<Peek> {
        let end = self.end(at);
        if !end.incoming.is_empty() {
            return Some(Peek::Data);
        }
        if end.error.take().is_some() {
            return Some(Peek::Reset);
        }
        (end.fin_received || end.is_reset).then_some(Peek::End)
    }

    pub fn poll_peer_closed(&mut self, at: (usize, usize), cx: &Context<'_>, half_close: bool) -> Poll<()> {
        let end = self.end(at);
        if end.is_reset || (end.fin_received && !half_close) {
            return Poll::Ready(());
        }
        end.reader = Some(cx.waker().clone());
        Poll::Pending
    }

    pub fn poll_readable(&mut self, at: (usize, usize), cx: &Context<'_>) -> Poll<()> {
        let end = self.end(at);
        if end.is_readable() {
            return Poll::Ready(());
        }
        end.reader = Some(cx.waker().clone());
        Poll::Pending
    }

    pub fn write(&mut self, at: (usize, usize), pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        let end = self.end(at);
        if let Some(error) = end.error.take() {
            return Err(error.into());
        }
        if end.is_reset || end.fin_sent {
            return Err(ErrorKind::BrokenPipe.into());
        }
        let there = (at.0, 1 - at.1);
        let wanted: usize = pieces.iter().map(|piece| piece.len()).sum();
        let mut count = wanted.min(self.end(there).room());
        if count > 1 && self.one_in(self.conditions.short_writes) {
            count = self.random.usize(1..count);
        }
        if count == 0 {
            return Ok(0);
        }
        let mut bytes = Vec::with_capacity(count);
        for piece in pieces {
            let take = piece.len().min(count - bytes.len());
            bytes.extend_from_slice(&piece[..take]);
        }
        self.record("write", &[at.0 as u64, at.1 as u64, count as u64, trace::hash(&bytes)]);
        self.end(at).written += count as u64;
        self.end(there).in_flight += count;
        let mut left =
            if self.one_in(self.conditions.pieces) { self.random.usize(1..=PIECES_MAX) } else { 1 };
        while !bytes.is_empty() {
            left -= 1;
            let cut = if left == 0 { bytes.len() } else { self.random.usize(1..=bytes.len()) };
            let rest = bytes.split_off(cut);
            let arrival = self.arrival(there);
            self.schedule(arrival, SimulatedEvent::Arrive(there.0, there.1, bytes));
            bytes = rest;
        }
        Ok(count)
    }

    /// Sends bytes that arrive only if the other side writes nothing until then.
    pub fn send_unsolicited(&mut self, at: (usize, usize), bytes: &[u8]) {
        let there = (at.0, 1 - at.1);
        let end = self.end(at);
        let asked = end.in_flight > 0 || !end.incoming.is_empty();
        if asked || end.is_reset || end.fin_sent || self.end(there).room() < bytes.len() {
            return;
        }
        self.record("unasked", &[at.0 as u64, at.1 as u64]);
        self.end(there).in_flight += bytes.len();
        let (written, arrival) = (self.end(there).written, self.arrival(there));
        self.schedule(arrival, SimulatedEvent::ArriveUnsolicited(there.0, there.1, bytes.to_vec(), written));
    }

    pub fn poll_write(
        &mut self,
        at: (usize, usize),
        cx: &Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self.write(at, &[IoSlice::new(bytes)]) {
            Ok(0) if !bytes.is_empty() => {
                self.end(at).writer = Some(cx.waker().clone());
                Poll::Pending
            }
            written => Poll::Ready(written),
        }
    }

    pub fn shutdown(&mut self, at: (usize, usize)) -> io::Result<()> {
        if self.end(at).is_reset {
            return Err(ErrorKind::NotConnected.into());
        }
        self.send_fin(at);
        Ok(())
    }

    fn send_fin(&mut self, (connection, side): (usize, usize)) {
        if !std::mem::replace(&mut self.end((connection, side)).fin_sent, true) {
            self.record("shutdown", &[connection as u64, side as u64]);
            let arrival = self.arrival((connection, 1 - side));
            self.schedule(arrival, SimulatedEvent::Fin(connection, 1 - side));
        }
    }

    pub fn reset_on_close(&mut self, at: (usize, usize)) {
        self.end(at).reset_on_close = true;
    }

    /// Closes the owner's end. If something is unread, that sends a reset (RFC 9293, 3.6.1; RFC 1122,
    /// 4.2.2.13).
    pub fn close(&mut self, at: (usize, usize)) {
        let end = self.end(at);
        let (dead, reset) = (end.is_reset, end.reset_on_close || !end.incoming.is_empty());
        end.closed = true;
        (end.reader, end.writer, end.incoming) = (None, None, VecDeque::new());
        self.record("close", &[at.0 as u64, at.1 as u64, u64::from(reset)]);
        if at.1 == 0
            && let Some(to) = self.end((at.0, 1)).address
        {
            self.meter.closed(to);
        }
        if dead {
            return;
        }
        if reset {
            self.end(at).is_reset = true;
            self.send_reset((at.0, 1 - at.1));
        } else {
            self.send_fin(at);
        }
    }

    /// Sends a reset to an end. It may overtake bytes written before it, which were still in the send queue.
    fn send_reset(&mut self, (connection, side): (usize, usize)) {
        let delay = self.delay(connection);
        let soon = self.delayed_until(connection).max(self.now) + delay;
        let at = match self.random.bool() {
            true => soon,
            false => soon.max(self.end((connection, side)).last_arrival),
        };
        self.schedule(at, SimulatedEvent::Reset(connection, side));
    }

    fn delay(&mut self, connection: usize) -> Duration {
        let range = self.connections[connection].delay;
        self.between(range)
    }

    /// The time until which nothing passes between the two addresses.
    fn delayed_until(&self, connection: usize) -> Duration {
        let ends = &self.connections[connection].ends;
        let delayed_addresses = ends.iter().filter_map(|end| self.delayed_addresses.get(&end.address?.ip()));
        delayed_addresses.max().copied().unwrap_or_default()
    }

    /// The arrival time of bytes that are sent to an end now.
    fn arrival(&mut self, (connection, side): (usize, usize)) -> Duration {
        let delay = self.delay(connection);
        let soon = self.now.max(self.delayed_until(connection)) + delay;
        let end = self.end((connection, side));
        end.last_arrival = end.last_arrival.max(soon);
        end.last_arrival
    }
}

/// Events of the network.
impl World {
    pub fn arrive(&mut self, connection: usize, side: usize, bytes: Vec<u8>) {
        self.record("arrive", &[connection as u64, side as u64, bytes.len() as u64]);
        let end = self.end((connection, side));
        end.in_flight -= bytes.len();
        if end.is_reset {
            return;
        }
        if end.closed {
            // No task will read the bytes; a reset informs the sender.
            end.is_reset = true;
            return self.send_reset((connection, 1 - side));
        }
        end.incoming.extend(bytes);
        end.wake_reader();
    }

    pub fn arrive_unsolicited(&mut self, connection: usize, side: usize, bytes: Vec<u8>, written: u64) {
        let end = self.end((connection, side));
        if end.written == written {
            return self.arrive(connection, side, bytes);
        }
        end.in_flight -= bytes.len();
    }

    pub fn fin(&mut self, connection: usize, side: usize) {
        self.record("fin", &[connection as u64, side as u64]);
        let end = self.end((connection, side));
        end.fin_received = true;
        end.wake_reader();
    }

    pub fn reset(&mut self, connection: usize, side: usize) {
        self.record("reset", &[connection as u64, side as u64]);
        let end = self.end((connection, side));
        if end.is_reset {
            return;
        }
        end.is_reset = true;
        // Bytes that arrived can still be read: tcp_reset() leaves the receive queue alone.
        let kind = if end.fin_received { ErrorKind::BrokenPipe } else { ErrorKind::ConnectionReset };
        end.error = (!end.closed).then_some(kind);
        end.wake_reader();
        end.wake_writer();
    }

    pub fn room(&mut self, connection: usize, side: usize) {
        let free = self.end((connection, 1 - side)).room() > 0;
        if free {
            self.end((connection, side)).wake_writer();
        }
    }
}
