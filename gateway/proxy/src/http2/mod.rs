//! HTTP/2 (RFC 9113), of clients and to endpoints: frames, HPACK and flow control are [`tollgate_http2`]'s, to endpoints the `h2`
//! crate's; what comes of them is the same exchange as HTTP/1's.
//!
//! 1. `connection`: one task a connection reads its frames and starts a task for each stream. It says goodbye when it is
//!    idle for too long, when its worker drains, or when it costs more than it is worth (`meter`), and has turns among the
//!    others (`intake`, `turns`): who says much does not let those wait who say little. Where a worker has very many streams,
//!    further ones wait (`crowd`), and what waits is bounded (`held`).
//! 2. `request`: a stream's head becomes a [`RequestHead`](tollgate_http::RequestHead), and goes the way of any other.
//! 3. `stream`: the [client's side](crate::client_side::ClientSide) of that exchange.
//!
//! Towards endpoints, connections are those of [`tollgate_upstream::http2`]; `endpoint` makes of a place on one the
//! [endpoint's side](crate::upstream_side::UpstreamSide) of an exchange.
//!
//! What a connection can make the gateway keep is bounded: what it may send by windows, what it has not
//! taken by what a connection may have waiting for its socket.

mod connection;
mod crowd;
mod endpoint;
mod fields;
mod held;
mod intake;
mod io;
mod meter;
mod outlet;
mod request;
mod shared;
mod stream;
mod turns;

use crate::connection::Client;

pub(crate) use self::crowd::Crowd;
pub(crate) use self::endpoint::EndpointStream;
pub(crate) use self::request::StreamRoutines;
pub(crate) use self::turns::Turns;

/// What an HTTP/2 connection begins with, up to where an HTTP/1 request line would end (RFC 9113, 3.4).
pub(crate) const PREFACE_LINE: &[u8] = b"PRI * HTTP/2.0\r\n";

/// Serves the connection from here on. `received` is what came of it so far.
pub(crate) fn start(client: Box<Client>, received: Vec<u8>) {
    tollgate_net::spawn(connection::serve(client, received));
}
