//! `trace`.

use crate::model::PemFile;

/// Spans of requests, told to an OpenTelemetry collector, and the trace's context passed on.
#[derive(Clone, Debug, PartialEq)]
pub struct Trace {
    /// Where spans go.
    pub url: String,
    /// The share of new traces that is sampled, in per cent. Default 100.
    pub sample: u8,
    /// The forms in which a context is understood and passed on. Default W3C's.
    pub propagation: Vec<Propagation>,
    /// Whether a trace that a request says it belongs to goes on. Default true.
    pub continues: bool,
    /// `service.name`. Default `tollgate`.
    pub service: String,
    /// Fields that the collector gets.
    pub headers: Vec<(String, String)>,
    /// Who may have signed the collector's certificate; `None`: whom the system trusts.
    pub ca: Option<PemFile>,
}

/// A form of a trace's context.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Propagation {
    /// `traceparent` (W3C Trace Context).
    W3c,
    /// `b3`.
    B3,
    /// `X-B3-TraceId` and others.
    B3Multi,
}
