//! `trace`.

use crate::model::PemFile;
use crate::model::Percent;

/// Spans of requests, told to an OpenTelemetry collector, and the trace's context passed on.
#[derive(Clone, Debug, PartialEq)]
pub struct Trace {
    /// Where spans go.
    pub collector: Collector,
    /// The share of new traces that is sampled, in per cent. Default 100.
    pub sample: Percent,
    /// The forms in which a context is understood and passed on. Default W3C's.
    pub propagation: Vec<Propagation>,
    /// Whether a trace that a request says it belongs to goes on. Default true.
    pub continues: bool,
}

/// An OpenTelemetry collector that is told something over OTLP/HTTP.
#[derive(Clone, Debug, PartialEq)]
pub struct Collector {
    /// Its URL for that.
    pub url: String,
    /// `service.name`. Default `tollgate`.
    pub service: String,
    /// Fields that it gets.
    pub headers: Vec<(String, String)>,
    /// Further attributes of the resource that tells it, such as `deployment.environment.name`.
    pub resource: Vec<(String, String)>,
    /// Who may have signed its certificate; `None`: whom the system trusts.
    pub ca: Option<PemFile>,
}

impl Collector {
    /// The one at this URL, and everything else by default.
    pub(crate) fn at(url: String) -> Self {
        let service = "tollgate".to_owned();
        Self { url, service, headers: Vec::new(), resource: Vec::new(), ca: None }
    }
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
