//! Traces: how the gateway handled one request or one stream, step by step, for `tollgate trace`.
//!
//! A worker builds a [`RequestTrace`] when one ends, if a client of the admin API follows requests.
//! The API sends it as one line of JSON, and the command prints it. [`TraceCounts`] shows in the metrics
//! whether anything is gathered.
//!
//! Invariant: a trace has no values of credentials. [`TraceField`] has the value of a field only if its name
//! is known to be harmless, and [`mask_query`] replaces the values of query parameters.

mod counts;
mod document;
mod fields;

pub use counts::{TraceCounts, TraceCountsSnapshot};
pub use document::{
    LostTraces, OtherRoute, RequestTrace, TraceEvent, TraceStep, TraceStream, TraceTls, milliseconds,
    printable,
};
pub use fields::{TraceField, TraceHead, mask_query};
