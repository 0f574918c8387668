//! Exports spans of requests and lines of the access log to an OpenTelemetry collector, with OTLP/HTTP in
//! JSON.

mod document;
mod export;
mod logs;

pub(crate) use self::document::{ExportItem, Signal, any};
pub(crate) use self::export::Exporter;
pub use self::logs::LogExport;

use crate::Trust;

/// A collector and its settings.
#[derive(Clone, Debug, PartialEq)]
pub struct CollectorRule {
    /// The URL for this signal.
    pub url: String,
    /// The TLS settings for the URL.
    pub trust: Trust,
    /// Header fields of each batch.
    pub headers: Vec<(String, String)>,
    /// The value of `service.name`.
    pub service: String,
    /// Further attributes of the resource.
    pub resource: Vec<(String, String)>,
}
