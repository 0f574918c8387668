//! One message model and its codecs.
//!
//! A [`Head`] is one owned buffer and a table of ranges into it. [`RequestHead`] and [`ResponseHead`] add what the
//! gateway must understand as typed fields. Routing, upstreams and policies see only these, whatever version of
//! HTTP they came by. The codecs in [`h1`] and [`h2`] alone read and write what says where a message ends.

mod chars;
mod edit;
mod error;
pub mod grpc;
pub mod h1;
pub mod h2;
mod head;
mod line;
mod name;
pub mod offence;
mod request;
mod response;
mod status;
mod trailer;
pub mod websocket;

pub use chars::is_token;
pub use error::{HeadError, HeadLimits};
pub use head::{Field, Head, Range, extend_tightly};
pub use line::{FieldLine, LineNames, is_field, line_of};
pub use name::{Name, Names};
pub use request::{Method, RequestHead, TargetForm, Version};
pub use response::ResponseHead;
pub use status::title;
