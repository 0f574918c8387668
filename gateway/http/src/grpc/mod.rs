//! The parts of gRPC that a gateway must understand (from the protocol documents "gRPC over HTTP2" and
//! "gRPC-Web"). No I/O.
//!
//! The gateway never parses message contents. It needs the kind of a request ([`GrpcKind`]), the client's
//! deadline ([`timeout`]), the outcome of a call ([`GrpcStatus`]), and the translation for browsers
//! ([`web`]).

mod kind;
mod message;
mod status;
pub mod timeout;
pub mod web;

pub use kind::GrpcKind;
pub use message::encode_message;
pub use status::GrpcStatus;
