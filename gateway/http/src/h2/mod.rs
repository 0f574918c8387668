//! The messages of HTTP/2 (RFC 9113) in the model that all versions share.
//!
//! The crate `tollgate_http2` handles frames, HPACK, streams and flow control. This module decides which parts
//! of a message may be forwarded. It refuses fields that HTTP/1 could not carry without being misread, and
//! fields that HTTP/2 itself forbids.

mod fields;
mod request;
mod response;

pub use fields::fields;
pub use request::{Pseudo, UpgradeProtocol, decode_request, decode_trailers};
pub use response::{decode_response, decode_switched};
