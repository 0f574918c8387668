//! HTTP/2 connections of clients (RFC 9113), without their sockets: bytes go in and come out, requests are taken up one by one.
//!
//! - [`Connection`] belongs to the task that reads and writes; [`Stream`]s belong to those that answer.
//! - `receive` reads frames from what came as it lies there; `send` writes them behind one another into what is to go. Nothing
//!   of a response is kept beyond that: what the windows do not let through stays with whoever sends it.
//! - `hpack` has the tables of fields. Heads are [`Fields`], in the order in which they came.
//!
//! All of a connection is on one thread. A client that breaks the protocol has its stream reset or its connection ended, as
//! the RFC says; whatever it sends, a connection keeps no more than its windows, one head of each stream and what waits to be
//! written, and that has a bound.

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
