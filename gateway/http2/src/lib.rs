//! Server side of HTTP/2 connections (RFC 9113), without I/O: the proxy's connection task feeds received
//! bytes in, takes requests out and writes the bytes that wait.
//!
//! - [`ServerConnection`] belongs to the task that reads and writes the socket; each [`RequestStream`]
//!   belongs to the task that answers a request.
//! - `receive` parses frames in place in the receive buffer. `send` appends frames to one output buffer. A
//!   response is not queued beyond that: the sender keeps what the windows do not let through.
//! - `hpack` holds the header tables. A decoded head is a [`FieldSection`], in the order received.
//!
//! All of a connection runs on one thread. If a client breaks the protocol, the connection resets the stream
//! or ends, as the RFC requires. Memory is bounded whatever a client sends: a connection keeps its windows,
//! one head a stream and the output buffer, which has a limit.

mod check;
mod connection;
mod core;
mod error_code;
mod fields;
mod frame;
mod hpack;
mod output_limit;
mod receive;
mod send;
mod settings;
mod stream;
mod streams;
#[cfg(test)]
mod tests;
mod totals;

pub use self::check::MalformedRequest;
pub use self::connection::{IncomingRequest, ServerConnection};
pub use self::error_code::ErrorCode;
pub use self::fields::{FieldIter, FieldSection};
pub use self::receive::PREFACE;
pub use self::send::StreamClosed;
pub use self::settings::LocalSettings;
pub use self::stream::RequestStream;
pub use self::totals::MemoryTotals;
