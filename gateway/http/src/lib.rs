//! The HTTP message model, and the codecs for HTTP/1 and for the messages of HTTP/2.
//!
//! A [`Head`] is one owned buffer and a table of ranges into it. [`RequestHead`] and [`ResponseHead`] add
//! typed fields for everything that the gateway must understand. Routing, upstreams and policies see only
//! these, whatever version of HTTP carried the message. Only the codecs in [`h1`] and [`h2`] read and write
//! message framing.

mod body_length;
mod byte_range;
mod chars;
mod conditions;
mod content_coding;
mod content_parts;
mod date;
mod edit;
mod error;
pub mod grpc;
pub mod h1;
pub mod h2;
mod head;
mod line;
mod name;
mod reason_phrase;
pub mod rejected_bytes;
mod request;
mod response;
mod trailer;
pub mod websocket;

pub use byte_range::{ByteRange, Requested, parse_ranges};
pub use chars::is_token;
pub use conditions::{Answer, Conditions, Selected, evaluate, is_entity_tag};
pub use content_coding::ContentCoding;
pub use content_parts::{ContentParts, Part};
pub use date::{format_date, parse_date};
pub use error::{HeadError, HeadLimits};
pub use head::{Field, Head, Range, extend_tightly};
pub use line::{FieldFinder, FieldLine, find_field_line, is_field, is_http2_field};
pub use name::{Name, NameSet};
pub use reason_phrase::reason_phrase;
pub use request::{Method, RequestHead, TargetForm, Version};
pub use response::ResponseHead;
