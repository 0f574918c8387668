//! The access log: one line for each ended exchange, written outside the request path.
//!
//! A worker formats lines into its own [`LogSink`] and hands over whole buffers to writer threads, one for
//! each target. Formats and fields are described in `docs/access-log.md`.

mod access_log;
mod clock;
mod escape;
mod field;
mod filter;
mod format;
mod headers;
mod sink;
mod syslog;
mod template;
mod text;
mod writer;

pub use access_log::{AccessLog, LineTarget, Log, LogConfig, LogFormat, LogTarget};
pub use field::Field;
pub use filter::LogFilter;
pub use headers::{Details, EndpointAttempt};
pub use sink::LogSink;
pub use syslog::{SyslogTarget, SyslogTransport};
pub use template::{Template, TemplateError};
pub(crate) use writer::LogCounts;
