//! HTTP/2 connections (RFC 9113) in both roles, without I/O: the task of a connection feeds received bytes in,
//! and writes the bytes that wait.
//!
//! - `server`: a [`ServerConnection`] belongs to the task that reads and writes a client's socket, and each
//!   [`RequestStream`] to the task that answers a request.
//! - `client`: a [`ClientConnection`] belongs to the task that reads and writes an endpoint's socket, and each
//!   [`ResponseStream`] to the exchange that sends a request.
//! - `shared`: the code of both roles. `receive` parses frames in place in the receive buffer, and `send` appends
//!   frames to one output buffer. There is no other queue: the sender keeps the bytes that exceed the windows. `hpack`
//!   holds the header tables. A decoded head is a [`FieldSection`], in the order received.
//!
//! All of a connection runs on one thread. If a peer breaks the protocol, the connection resets the stream
//! or ends, as the RFC requires. Memory is bounded whatever a peer sends: a connection keeps its windows,
//! a bounded number of heads per stream, and the output buffer, which has a limit.

mod client;
mod server;
mod shared;

pub use self::client::{
    ClientConnection, ClientSettings, MalformedResponse, RequestPseudo, ResponseFailure, ResponseStream,
};
pub use self::server::{IncomingRequest, LocalSettings, MalformedRequest, RequestStream, ServerConnection};
pub use self::shared::error_code::ErrorCode;
pub use self::shared::fields::{FieldIter, FieldSection};
pub use self::shared::receive::PREFACE;
pub use self::shared::send::StreamClosed;
pub use self::shared::totals::MemoryTotals;
