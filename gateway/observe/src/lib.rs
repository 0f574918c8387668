//! Counters, access log, metrics exposition and the live cost meter.

mod reason;

pub use reason::Reason;
