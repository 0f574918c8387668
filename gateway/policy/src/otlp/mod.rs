//! What is told to an OpenTelemetry collector, by OTLP/HTTP in JSON: spans of requests, and lines of the access log.

mod document;
mod export;
mod logs;

pub(crate) use self::document::{Item, Signal, any};
pub(crate) use self::export::Exporter;
pub use self::logs::LogExport;

use crate::Trust;

/// A collector.
#[derive(Clone, Debug, PartialEq)]
pub struct CollectorRule {
    /// Its URL for what it is told.
    pub url: String,
    /// Whom it has to show itself to be, if it is spoken to by `https`.
    pub trust: Trust,
    /// Fields that it gets with each batch.
    pub headers: Vec<(String, String)>,
    /// `service.name`.
    pub service: String,
    /// Further attributes of the resource that tells.
    pub resource: Vec<(String, String)>,
}
