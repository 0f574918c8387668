//! HTTP/2 (RFC 9113): its messages in the model that all versions share.
//!
//! Frames, HPACK, streams and flow control are read and kept elsewhere. What is here decides what of a message may go on: fields
//! that HTTP/1 could not carry without being misread are refused, and so is what HTTP/2 itself forbids, whoever read
//! the frames.

mod fields;
mod gate;
mod hpack_length;
mod request;
mod response;
mod sieve;

pub use fields::fields;
pub use gate::{Chunk, Gate};
pub use request::{Protocol, Pseudo, decode_request, decode_trailers, is_field};
pub use response::{decode_response, decode_switched};
pub use sieve::Sieve;
