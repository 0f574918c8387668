//! The messages of HTTP/2 (RFC 9113) in the model that all versions share.
//!
//! The crates `tollgate_http2` and `h2` handle frames, HPACK, streams and flow control. This module decides
//! which parts of a message may be forwarded. It refuses fields that HTTP/1 could not carry without being
//! misread, and fields that HTTP/2 itself forbids, whichever crate read the frames.

mod decoded_length;
mod fields;
mod request;
mod response;
mod response_inspector;
mod send_budget;

pub use fields::fields;
pub use request::{Pseudo, UpgradeProtocol, decode_request, decode_trailers};
pub use response::{decode_response, decode_switched};
pub use response_inspector::ResponseInspector;
pub use send_budget::{BudgetedData, SendBudget};
