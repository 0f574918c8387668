//! The part of a connection that both roles share: frames, HPACK, windows, the output buffer and the streams.
//!
//! [`Core`](core::Core) is the state of a connection. Its parameter, a [`Role`](role::Role), adds what only a
//! server or only a client has. The compiler generates one copy per role, so neither pays for the other.

pub(crate) mod check;
pub(crate) mod core;
pub(crate) mod error_code;
pub(crate) mod fields;
pub(crate) mod frame;
pub(crate) mod hpack;
pub(crate) mod output_limit;
pub(crate) mod receive;
pub(crate) mod role;
pub(crate) mod send;
pub(crate) mod settings;
pub(crate) mod streams;
pub(crate) mod totals;
