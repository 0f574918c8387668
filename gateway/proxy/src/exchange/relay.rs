//! The core of every relay of bytes: one [`Direction`] from one peer to the other. The
//! [tunnel](crate::exchange::tunnel) after a protocol switch has two of them, and so has a
//! [stream](crate::exchange::stream) of layer 4.
//!
//! Bytes go from the worker's receive buffer directly into the receiver's socket. Only bytes that the kernel does not
//! take are kept, and nothing more is read from the sender until they are written.

use std::io::IoSlice;
use std::task::{Context, Poll, ready};

use tollgate_net::BulkTurn;

use crate::state::backlog::Backlog;
use crate::state::client_side::Duplex;
use crate::state::peer_error::{PeerError, PeerStop};
use crate::state::websocket::{Frames, going_away};
use crate::state::worker::{READS_PER_TURN, Worker};

/// One direction of a relay.
pub(crate) struct Direction<'a> {
    bytes: &'a mut u64,
    /// The position in the frames of a WebSocket; `None` for other protocols.
    frames: Option<Frames>,
    /// The mask of the gateway's own frames in this direction, if they need one.
    mask: Option<u32>,
    /// Whether the receiver has got a close frame and receives nothing more.
    close_frame_sent: bool,
    /// Whether the sender has closed its direction.
    ended: bool,
    /// Whether the receiver has got the end, or takes nothing more.
    over: bool,
    /// Whether the receiver has reset its connection. A write learned of it, so a read sees an orderly end.
    receiver_reset: bool,
    /// Whether the sender has reset its connection, as a write of the other direction learned.
    sender_reset: bool,
    turn: BulkTurn,
}

impl<'a> Direction<'a> {
    pub fn new(worker: &Worker, bytes: &'a mut u64, frames: Option<Frames>, mask: Option<u32>) -> Self {
        Self {
            bytes,
            frames,
            mask,
            close_frame_sent: false,
            ended: false,
            over: false,
            receiver_reset: false,
            sender_reset: false,
            turn: BulkTurn::new(&worker.bulk_queue),
        }
    }

    /// Returns how many bytes the sender has sent.
    pub fn bytes(&self) -> u64 {
        *self.bytes
    }

    /// Takes over what the other direction has learned: a reset of its receiver makes the end of this sender's bytes an
    /// error.
    pub fn learn_from(&mut self, other: &Self) {
        self.sender_reset |= other.receiver_reset;
    }

    /// Returns whether the receiver has got a close frame of the gateway.
    pub fn has_sent_close(&self) -> bool {
        self.close_frame_sent
    }

    /// Relays as much as possible. An error means that the sender is gone and all its bytes were relayed. If
    /// the receiver is gone, only this direction ends. The other one ends once the bytes that the receiver
    /// sent before are read.
    pub fn poll(
        &mut self,
        cx: &mut Context<'_>,
        worker: &Worker,
        closes_tunnels: bool,
        from: &mut impl Duplex,
        to: &mut impl Duplex,
        backlog: &mut Backlog,
    ) -> Poll<Result<(), ()>> {
        let mut reads = 0;
        loop {
            if self.over {
                return Poll::Ready(Ok(()));
            }
            if let Err(error) = ready!(backlog.poll_flush(cx, to)) {
                self.stop_sending(&error, backlog);
                continue;
            }
            if self.ended {
                // It does not matter whether the receiver takes even that.
                let _ = ready!(to.poll_shutdown(cx));
                self.over = true;
                continue;
            }
            if closes_tunnels && self.may_insert_close() {
                self.queue_close_frame(backlog);
                continue;
            }
            ready!(self.turn.poll(cx));
            if reads == READS_PER_TURN {
                // More may wait; the other tasks come first.
                self.turn.end(cx);
                return Poll::Pending;
            }
            reads += 1;
            let mut buffer = worker.receive.borrow_mut();
            let count = ready!(from.poll_read(cx, &mut buffer)).map_err(drop)?;
            if count == 0 && self.sender_reset {
                return Poll::Ready(Err(()));
            }
            self.ended = count == 0;
            self.turn.count(count);
            *self.bytes += count as u64;
            let kept = self.count_passed(&buffer[..count], closes_tunnels);
            if kept > 0
                && let Err(error) = backlog.send(to, &[IoSlice::new(&buffer[..kept])])
            {
                self.stop_sending(&error, backlog);
                continue;
            }
            if closes_tunnels && self.may_insert_close() {
                self.queue_close_frame(backlog);
                // The rest is dropped.
                self.count_passed(&buffer[kept..count], closes_tunnels);
            }
        }
    }

    /// Ends this direction because the receiver takes nothing more. The sender's further bytes are not read.
    fn stop_sending(&mut self, error: &PeerError, backlog: &mut Backlog) {
        self.receiver_reset |= error.stop() == PeerStop::Reset;
        backlog.clear();
        self.over = true;
    }

    /// Takes bytes that arrived earlier.
    pub fn take(&mut self, bytes: &[u8], closes_tunnels: bool, backlog: &mut Backlog) {
        *self.bytes += bytes.len() as u64;
        let kept = self.count_passed(bytes, closes_tunnels);
        backlog.append(&[IoSlice::new(&bytes[..kept])]);
    }

    /// Queues a close frame for the receiver.
    fn queue_close_frame(&mut self, backlog: &mut Backlog) {
        self.close_frame_sent = true;
        if let Err(error) = backlog.keep(&going_away(self.mask)) {
            self.stop_sending(&error, backlog);
        }
    }

    /// Returns whether a close frame fits here: between two frames, and before the sender's own close frame.
    fn may_insert_close(&self) -> bool {
        !self.close_frame_sent
            && self.frames.as_ref().is_some_and(|frames| frames.is_between() && !frames.has_closed())
    }

    /// Returns how many of these bytes go on. None do once the gateway has sent a close frame (RFC 6455,
    /// 5.5.1). From then on the sender's own close frame ends this direction: it answers the gateway's frame
    /// in the other direction, and nothing may follow it.
    fn count_passed(&mut self, bytes: &[u8], closes_tunnels: bool) -> usize {
        let Some(frames) = &mut self.frames else { return bytes.len() };
        if !self.close_frame_sent {
            return frames.advance(bytes, closes_tunnels);
        }
        frames.advance(bytes, false);
        self.ended |= frames.has_closed();
        0
    }
}
