//! After 101: bytes both ways, whatever they mean.

use std::io::IoSlice;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tollgate_http::{Name, ResponseHead};

use crate::backlog::Backlog;
use crate::client_side::{ClientSide, Duplex};
use crate::connection::Client;
use crate::scratch::Scratch;
use crate::upstream_side::UpstreamSide;
use crate::websocket::{Frames, going_away};
use crate::worker::{FAREWELL, Worker};

/// Moves bytes both ways until both sides have ended, one breaks, or nothing moves for `idle`. Each side's end is
/// passed on alone; whoever takes no more bytes is still heard, since its last ones may be on their way. Where it is a
/// WebSocket, both sides are told when the worker's drain comes to its end, or the listen address goes.
pub(crate) async fn tunnel<S: ClientSide, U: UpstreamSide>(
    client: &mut Client<S>,
    worker: &Worker,
    scratch: &mut Scratch,
    mut upstream: U,
    idle: Option<Duration>,
) {
    let Scratch { inbox, to_client, to_upstream, ledger, response, early_frames, .. } = scratch;
    let websocket = is_websocket(response);
    // Counted as they come: a drain may end this at any time.
    let mut up = Direction::new(&mut ledger.bytes_in, websocket.then(Frames::default), Some(worker.random()));
    let mut down =
        Direction::new(&mut ledger.bytes_out, websocket.then(|| std::mem::take(early_frames)), None);
    // All of it has gone; what was collected to be sent again would grow with all that has to wait.
    debug_assert!(to_upstream.is_empty());
    to_upstream.clear();
    // What the client sent before the answer came.
    up.take(inbox, false, to_upstream);
    inbox.clear();
    client.deadline.set(tollgate_net::now(), idle);
    let mut told = false;
    // Either side may reset an upgraded connection as it likes: that is no failure of the exchange.
    std::future::poll_fn(|cx| {
        if client.deadline.poll_passed(cx).is_ready() {
            return Poll::Ready(());
        }
        let before = (*up.bytes, *down.bytes);
        let parting = client.is_parting();
        let there = up.poll(cx, worker, parting, &mut client.stream, &mut upstream, to_upstream);
        let back = down.poll(cx, worker, parting, &mut upstream, &mut client.stream, to_client);
        if !told && up.parted && down.parted {
            told = true;
            client.deadline.set(tollgate_net::now(), Some(FAREWELL));
        } else if !told && before != (*up.bytes, *down.bytes) {
            client.deadline.set(tollgate_net::now(), idle);
        }
        match (there, back) {
            (Poll::Ready(Err(())), _) | (_, Poll::Ready(Err(()))) => Poll::Ready(()),
            (Poll::Ready(Ok(())), Poll::Ready(Ok(()))) => Poll::Ready(()),
            _ => client.deadline.poll_passed(cx),
        }
    })
    .await;
}

/// Whether the endpoint has switched to the WebSocket protocol (RFC 6455, 4.2.2).
pub(crate) fn is_websocket(response: &ResponseHead) -> bool {
    response.head.get(Name::Upgrade).is_some_and(|protocol| protocol.eq_ignore_ascii_case(b"websocket"))
}

struct Direction<'a> {
    bytes: &'a mut u64,
    /// The frames of a WebSocket.
    frames: Option<Frames>,
    /// With what a frame of the gateway's own is masked.
    mask: Option<u32>,
    /// The receiver was told that the gateway goes away, and hears nothing more.
    parted: bool,
    ended: bool,
    /// The receiver knows of the end, or takes nothing more.
    over: bool,
}

impl<'a> Direction<'a> {
    fn new(bytes: &'a mut u64, frames: Option<Frames>, mask: Option<u32>) -> Self {
        Self { bytes, frames, mask, parted: false, ended: false, over: false }
    }

    /// Moves what it can. An error: the sender is gone, and all that it sent has been moved. A receiver that is gone
    /// only ends this direction: the other one ends by itself, when what that peer sent before has been read.
    fn poll(
        &mut self,
        cx: &mut Context<'_>,
        worker: &Worker,
        parting: bool,
        from: &mut impl Duplex,
        to: &mut impl Duplex,
        backlog: &mut Backlog,
    ) -> Poll<Result<(), ()>> {
        loop {
            if self.over {
                return Poll::Ready(Ok(()));
            }
            if ready!(backlog.poll_flush(cx, to)).is_err() {
                self.deafened(backlog);
                continue;
            }
            if self.ended {
                // Whether the receiver takes even that changes nothing.
                let _ = ready!(to.poll_shutdown(cx));
                self.over = true;
                continue;
            }
            if parting && self.may_part() {
                self.part(backlog);
                continue;
            }
            let mut buffer = worker.receive.borrow_mut();
            let count = ready!(from.poll_read(cx, &mut buffer)).map_err(drop)?;
            self.ended = count == 0;
            *self.bytes += count as u64;
            let kept = self.follow(&buffer[..count], parting);
            if kept > 0 && backlog.send(to, &[IoSlice::new(&buffer[..kept])]).is_err() {
                self.deafened(backlog);
                continue;
            }
            if parting && self.may_part() {
                self.part(backlog);
                // The rest goes nowhere.
                self.follow(&buffer[kept..count], parting);
            }
        }
    }

    /// The receiver takes nothing more. What the sender still says is not read: nobody is to hear it.
    fn deafened(&mut self, backlog: &mut Backlog) {
        backlog.clear();
        self.over = true;
    }

    /// Takes what has come before.
    fn take(&mut self, bytes: &[u8], parting: bool, backlog: &mut Backlog) {
        *self.bytes += bytes.len() as u64;
        let kept = self.follow(bytes, parting);
        backlog.append(&[IoSlice::new(&bytes[..kept])]);
    }

    /// Tells the receiver, behind all that waits.
    fn part(&mut self, backlog: &mut Backlog) {
        self.parted = true;
        if backlog.keep(&going_away(self.mask)).is_err() {
            self.deafened(backlog);
        }
    }

    /// Whether the receiver can be told now: between two frames, and before the sender's last word.
    fn may_part(&self) -> bool {
        !self.parted && self.frames.as_ref().is_some_and(|frames| frames.is_between() && !frames.has_closed())
    }

    /// How many of these bytes go on. After a close frame there are none (RFC 6455, 5.5.1); the sender's own is its
    /// answer to that of the other direction, and then there is nothing to wait for.
    fn follow(&mut self, bytes: &[u8], parting: bool) -> usize {
        let Some(frames) = &mut self.frames else { return bytes.len() };
        if !self.parted {
            return frames.advance(bytes, parting);
        }
        frames.advance(bytes, false);
        self.ended |= frames.has_closed();
        0
    }
}
