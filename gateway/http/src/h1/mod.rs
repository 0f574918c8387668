//! The codec for HTTP/1.0 and HTTP/1.1 (RFC 9112).
//!
//! [`RequestParser`] and [`ResponseParser`] read heads, and [`BodyReader`] reads bodies; each accepts its
//! input in pieces of any size. Requests are parsed strictly: a spelling that two readers could interpret
//! differently is refused. Responses are parsed leniently where RFC 9112 lets a proxy repair them.

mod body;
mod chunked;
mod connection;
mod framing;
mod lines;
mod parse_request;
mod parse_response;
pub(crate) mod target;
mod write;

pub use crate::body_length::BodyLength;
pub use body::{BodyPart, BodyReader};
pub use chunked::BodyError;
pub(crate) use framing::{declared_length, declared_length_in_response};
pub use lines::Progress;
pub use parse_request::RequestParser;
pub(crate) use parse_request::{expect, wants_trailers};
pub use parse_response::ResponseParser;
pub use write::{ChunkHeader, LAST_CHUNK, write_decimal, write_status_line};
