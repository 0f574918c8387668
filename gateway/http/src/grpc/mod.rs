//! gRPC (its "gRPC over HTTP2" and "gRPC-Web" protocol documents): what a gateway must understand of it. No I/O.
//!
//! A message's bytes are never looked into: what matters is the kind of a request ([`Kind`]), how long its client waits
//! ([`timeout`]), how it ended ([`Code`]), and what a browser's translation of it looks like ([`web`]).

mod kind;
mod message;
mod status;
pub mod timeout;
pub mod web;

pub use kind::Kind;
pub use message::encode_message;
pub use status::Code;
