//! HTTP/2 (RFC 9113), from clients and to endpoints.
//!
//! [`tollgate_http2`] does frames, HPACK and flow control for client connections; the `h2` crate does so for
//! connections to endpoints. This module turns their streams into the same exchange that HTTP/1 uses. A
//! request passes through these files:
//!
//! 1. `connection`: one task per connection reads its frames and starts a task for each stream. It sends
//!    GOAWAY when the connection is idle for too long, when its worker drains, or when its frames cost too much
//!    (`flood_meter`). Its budget per scheduling round (`frame_budget`, `scheduler`) keeps a busy connection
//!    from delaying quiet ones. When a worker has many streams, further ones wait (`stream_limit`); the memory
//!    of waiting heads is bounded (`waiting_heads`).
//! 2. `request`: turns the head of a stream into a [`RequestHead`](tollgate_http::RequestHead). From there
//!    the request takes the same path as an HTTP/1 request.
//! 3. `stream`: the [client's side](crate::client_side::ClientSide) of that exchange.
//!
//! Connections to endpoints belong to [`tollgate_upstream::http2`]. `endpoint` turns a place on one into the
//! [endpoint's side](crate::upstream_side::UpstreamSide) of an exchange.
//!
//! The memory that one connection can occupy is bounded. Flow-control windows bound what the client may send;
//! a limit on unwritten bytes bounds what it has not read.

mod connection;
mod connection_state;
mod endpoint;
mod fields;
mod flood_meter;
mod frame_budget;
mod request;
mod scheduler;
mod send_half;
mod socket;
mod stream;
mod stream_limit;
mod waiting_heads;

use crate::connection::Client;

pub(crate) use self::endpoint::EndpointStream;
pub(crate) use self::request::StreamFutures;
pub(crate) use self::scheduler::Scheduler;
pub(crate) use self::stream_limit::StreamLimit;

/// The part of the connection preface that fills the place of an HTTP/1 request line (RFC 9113, 3.4).
pub(crate) const PREFACE_LINE: &[u8] = b"PRI * HTTP/2.0\r\n";

/// Serves `client` as an HTTP/2 connection in a new task. `received` is what the gateway has read from it so
/// far.
pub(crate) fn start(client: Box<Client>, received: Vec<u8>) {
    tollgate_net::spawn(connection::serve(client, received));
}
