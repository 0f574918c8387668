//! Exports spans of requests and lines of the access log to an OpenTelemetry collector, with OTLP/HTTP in
//! JSON.

mod collector_rule;
mod document;
mod export;
mod logs;

pub use self::collector_rule::{CollectorRule, collector};
pub(crate) use self::document::{ExportItem, Signal, any};
pub(crate) use self::export::Exporter;
pub use self::logs::LogExport;
