//! HTTP/2 (RFC 9113) from clients.
//!
//! [`tollgate_http2`] does frames, HPACK and flow control. This module turns the streams of a connection into the same exchange that HTTP/1 uses. A
//! request passes through these files:
//!
//! 1. `connection`: one task per connection reads its frames and starts a task for each stream. It sends
//!    GOAWAY when the connection is idle for too long, when its worker drains, or when its frames cost too much
//!    (`flood_meter`). Its budget per scheduling round ([`scheduler`](crate::front::scheduler)) keeps a busy connection
//!    from delaying quiet ones. When a worker has many streams, further ones wait
//!    (`connection_state::stream_limit`); the memory of waiting heads is bounded (`waiting_heads`).
//! 2. `request`: turns the head of a stream into a [`RequestHead`](tollgate_http::RequestHead). From there
//!    the request takes the same path as an HTTP/1 request.
//! 3. `stream`: the [client's side](crate::state::client_side::ClientSide) of that exchange.
//!
//! The memory that one connection can occupy is bounded. Flow-control windows bound what the client may send;
//! a limit on unwritten bytes bounds what it has not read.

mod connection;
mod connection_state;
mod flood_meter;
mod request;
mod shared;
mod socket;
mod stream;
mod waiting_heads;

use std::rc::Rc;

use crate::state::client::Client;

pub(crate) use self::shared::Http2Shared;

/// Serves `client` as an HTTP/2 connection in a new task. `received` is what the gateway has read from it so
/// far.
pub(crate) fn start(client: Box<Client>, received: Vec<u8>, shared: Rc<Http2Shared>) {
    tollgate_net::spawn(connection::serve(client, received, shared));
}
