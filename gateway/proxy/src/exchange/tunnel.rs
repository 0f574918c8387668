//! Relays bytes in both directions after a protocol switch (101, or extended CONNECT). The exchange hands
//! both ends to [`tunnel`]. Before a drain ends, WebSockets get a close frame; other protocols are cut when
//! it ends.

use std::task::Poll;
use std::time::Duration;

use tollgate_http::{Name, ResponseHead};

use crate::exchange::relay::Direction;
use crate::exchange::upstream_side::UpstreamSide;
use crate::state::client::Client;
use crate::state::client_side::ClientSide;
use crate::state::connection_fate::ConnectionFate;
use crate::state::request_state::RequestState;
use crate::state::websocket::Frames;
use crate::state::worker::{TUNNEL_CLOSE_TIME, Worker};

/// Relays bytes until both sides end, one breaks, or nothing moves for `idle`. The end of one side is passed
/// on alone, and a reset as a reset: a stream that was cut must not look whole. A side that takes no more bytes is
/// still read, since its last bytes may be on their way. Both sides of a WebSocket get a close frame shortly before
/// the worker's drain ends, or when the listener closes. Returns what becomes of the client's connection.
pub(crate) async fn tunnel<S: ClientSide, U: UpstreamSide>(
    client: &mut Client<S>,
    worker: &Worker,
    state: &mut RequestState,
    mut upstream: U,
    idle: Option<Duration>,
) -> ConnectionFate {
    let RequestState { inbox, to_client, to_upstream, record, response, early_frames, .. } = state;
    let websocket = is_websocket(response);
    // Counted as they arrive, because a drain may end this at any time.
    let mut up =
        Direction::new(worker, &mut record.bytes_in, websocket.then(Frames::default), Some(worker.random()));
    let mut down =
        Direction::new(worker, &mut record.bytes_out, websocket.then(|| std::mem::take(early_frames)), None);
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
    let cut = std::future::poll_fn(|cx| {
        if client.deadline.poll_passed(cx).is_ready() {
            return Poll::Ready(None);
        }
        let before = (up.bytes(), down.bytes());
        let closes_tunnels = client.closes_tunnels();
        let there = up.poll(cx, worker, closes_tunnels, &mut client.stream, &mut upstream, to_upstream);
        down.learn_from(&up);
        let back = down.poll(cx, worker, closes_tunnels, &mut upstream, &mut client.stream, to_client);
        up.learn_from(&down);
        if !is_reported && up.has_sent_close() && down.has_sent_close() {
            is_reported = true;
            client.deadline.set(tollgate_net::now(), Some(TUNNEL_CLOSE_TIME));
        } else if !is_reported && before != (up.bytes(), down.bytes()) {
            client.deadline.set(tollgate_net::now(), idle);
        }
        match (there, back) {
            (Poll::Ready(Err(())), _) => Poll::Ready(Some(Cut::ByClient)),
            (_, Poll::Ready(Err(()))) => Poll::Ready(Some(Cut::ByEndpoint)),
            (Poll::Ready(Ok(())), Poll::Ready(Ok(()))) => Poll::Ready(None),
            _ => client.deadline.poll_passed(cx).map(|()| None),
        }
    })
    .await;
    match cut {
        // The client may still be sending while the endpoint's last bytes are on their way to it.
        None => ConnectionFate::Linger,
        Some(Cut::ByClient) => {
            upstream.reset();
            ConnectionFate::Close
        }
        Some(Cut::ByEndpoint) => {
            client.stream.reset();
            ConnectionFate::Reset
        }
    }
}

/// The side that reset its connection or stream.
enum Cut {
    ByClient,
    ByEndpoint,
}

/// Returns whether the endpoint has switched to the WebSocket protocol (RFC 6455, 4.2.2).
pub(crate) fn is_websocket(response: &ResponseHead) -> bool {
    response.head.get(Name::Upgrade).is_some_and(|protocol| protocol.eq_ignore_ascii_case(b"websocket"))
}
