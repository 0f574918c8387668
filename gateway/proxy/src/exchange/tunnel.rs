//! Relays bytes in both directions after a protocol switch (101, or extended CONNECT). The exchange hands
//! both ends to [`tunnel`]. Before a drain ends, WebSockets get a close frame; other protocols are cut when
//! it ends.

use std::io::IoSlice;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tollgate_http::{Name, ResponseHead};

use crate::exchange::upstream_side::UpstreamSide;
use crate::state::backlog::Backlog;
use crate::state::client::Client;
use crate::state::client_side::{ClientSide, Duplex};
use crate::state::request_state::RequestState;
use crate::state::websocket::{Frames, going_away};
use crate::state::worker::{TUNNEL_CLOSE_TIME, Worker};

/// Relays bytes until both sides end, one breaks, or nothing moves for `idle`. The end of one side is passed
/// on alone. A side that takes no more bytes is still read, since its last bytes may be on their way. Both
/// sides of a WebSocket get a close frame shortly before the worker's drain ends, or when the listener
/// closes.
pub(crate) async fn tunnel<S: ClientSide, U: UpstreamSide>(
    client: &mut Client<S>,
    worker: &Worker,
    state: &mut RequestState,
    mut upstream: U,
    idle: Option<Duration>,
) {
    let RequestState { inbox, to_client, to_upstream, record, response, early_frames, .. } = state;
    let websocket = is_websocket(response);
    // Counted as they arrive, because a drain may end this at any time.
    let mut up = Direction::new(&mut record.bytes_in, websocket.then(Frames::default), Some(worker.random()));
    let mut down =
        Direction::new(&mut record.bytes_out, websocket.then(|| std::mem::take(early_frames)), None);
    // The whole request was sent. A body that was kept to be sent again would grow with everything that is
    // queued after it.
    debug_assert!(to_upstream.is_empty());
    to_upstream.clear();
    // Bytes that the client sent before the response arrived.
    up.take(inbox, false, to_upstream);
    inbox.clear();
    client.deadline.set(tollgate_net::now(), idle);
    let mut is_reported = false;
    // Either side may reset an upgraded connection: that is no failure of the exchange.
    std::future::poll_fn(|cx| {
        if client.deadline.poll_passed(cx).is_ready() {
            return Poll::Ready(());
        }
        let before = (*up.bytes, *down.bytes);
        let closes_tunnels = client.closes_tunnels();
        let there = up.poll(cx, worker, closes_tunnels, &mut client.stream, &mut upstream, to_upstream);
        let back = down.poll(cx, worker, closes_tunnels, &mut upstream, &mut client.stream, to_client);
        if !is_reported && up.close_frame_sent && down.close_frame_sent {
            is_reported = true;
            client.deadline.set(tollgate_net::now(), Some(TUNNEL_CLOSE_TIME));
        } else if !is_reported && before != (*up.bytes, *down.bytes) {
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

/// Returns whether the endpoint has switched to the WebSocket protocol (RFC 6455, 4.2.2).
pub(crate) fn is_websocket(response: &ResponseHead) -> bool {
    response.head.get(Name::Upgrade).is_some_and(|protocol| protocol.eq_ignore_ascii_case(b"websocket"))
}

/// One direction of a tunnel.
struct Direction<'a> {
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
}

impl<'a> Direction<'a> {
    fn new(bytes: &'a mut u64, frames: Option<Frames>, mask: Option<u32>) -> Self {
        Self { bytes, frames, mask, close_frame_sent: false, ended: false, over: false }
    }

    /// Relays as much as possible. An error means that the sender is gone and all its bytes were relayed. If
    /// the receiver is gone, only this direction ends. The other one ends once the bytes that the receiver
    /// sent before are read.
    fn poll(
        &mut self,
        cx: &mut Context<'_>,
        worker: &Worker,
        closes_tunnels: bool,
        from: &mut impl Duplex,
        to: &mut impl Duplex,
        backlog: &mut Backlog,
    ) -> Poll<Result<(), ()>> {
        loop {
            if self.over {
                return Poll::Ready(Ok(()));
            }
            if ready!(backlog.poll_flush(cx, to)).is_err() {
                self.stop_sending(backlog);
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
            let mut buffer = worker.receive.borrow_mut();
            let count = ready!(from.poll_read(cx, &mut buffer)).map_err(drop)?;
            self.ended = count == 0;
            *self.bytes += count as u64;
            let kept = self.count_passed(&buffer[..count], closes_tunnels);
            if kept > 0 && backlog.send(to, &[IoSlice::new(&buffer[..kept])]).is_err() {
                self.stop_sending(backlog);
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
    fn stop_sending(&mut self, backlog: &mut Backlog) {
        backlog.clear();
        self.over = true;
    }

    /// Takes bytes that arrived earlier.
    fn take(&mut self, bytes: &[u8], closes_tunnels: bool, backlog: &mut Backlog) {
        *self.bytes += bytes.len() as u64;
        let kept = self.count_passed(bytes, closes_tunnels);
        backlog.append(&[IoSlice::new(&bytes[..kept])]);
    }

    /// Queues a close frame for the receiver.
    fn queue_close_frame(&mut self, backlog: &mut Backlog) {
        self.close_frame_sent = true;
        if backlog.keep(&going_away(self.mask)).is_err() {
            self.stop_sending(backlog);
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
