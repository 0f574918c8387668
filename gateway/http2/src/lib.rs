//! Server side of HTTP/2 connections (RFC 9113), without I/O: the proxy's connection task feeds received
//! bytes in, takes requests out and writes the bytes that wait.
//!
//! - [`Connection`] belongs to the task that reads and writes the socket; each [`Stream`] belongs to the task
//!   that answers a request.
//! - `receive` parses frames in place in the receive buffer. `send` appends frames to one output buffer. A
//!   response is not queued beyond that: the sender keeps what the windows do not let through.
//! - `hpack` holds the header tables. A decoded head is a [`Fields`], in the order received.
//!
//! All of a connection runs on one thread. If a client breaks the protocol, the connection resets the stream
//! or ends, as the RFC requires. Memory is bounded whatever a client sends: a connection keeps its windows,
//! one head a stream and the output buffer, which has a limit.

mod check;
mod connection;
mod core;
mod fields;
mod frame;
mod gate;
mod hpack;
mod reason;
mod receive;
mod send;
mod settings;
mod stream;
mod streams;
#[cfg(test)]
mod tests;
mod totals;

pub use self::check::Malformed;
pub use self::connection::{Begun, Connection};
pub use self::fields::{Fields, Iter};
pub use self::reason::Reason;
pub use self::receive::PREFACE;
pub use self::send::Gone;
pub use self::settings::Settings;
pub use self::stream::Stream;
pub use self::totals::Totals;
