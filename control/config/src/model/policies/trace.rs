//! Settings of the policy `trace`.

use crate::model::PemFile;
use crate::model::Percent;

/// Sends spans of requests to an OpenTelemetry collector and propagates the trace context.
#[derive(Clone, Debug, PartialEq)]
pub struct Trace {
    /// The collector that receives the spans.
    pub collector: Collector,
    /// Percentage of new traces that is sampled. Default 100.
    pub sample: Percent,
    /// The formats in which a context is accepted and propagated. Default W3C's.
    pub propagation: Vec<Propagation>,
    /// Whether a trace context in the request is continued. Default true.
    pub continues: bool,
}

/// An OpenTelemetry collector that receives data over OTLP/HTTP.
#[derive(Clone, Debug, PartialEq)]
pub struct Collector {
    /// URL for this kind of data.
    pub url: String,
    /// `service.name`. Default `tollgate`.
    pub service: String,
    /// Header fields of requests to the collector.
    pub headers: Vec<(String, String)>,
    /// Additional resource attributes of this gateway, such as `deployment.environment.name`.
    pub resource: Vec<(String, String)>,
    /// CA for its certificate; `None`: the system's trust store.
    pub ca: Option<PemFile>,
}

impl Collector {
    /// Makes a collector at this URL, with defaults otherwise.
    pub(crate) fn at(url: String) -> Self {
        let service = "tollgate".to_owned();
        Self { url, service, headers: Vec::new(), resource: Vec::new(), ca: None }
    }
}

/// A format of the trace context.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Propagation {
    /// `traceparent` (W3C Trace Context).
    W3c,
    /// `b3`.
    B3,
    /// `X-B3-TraceId` and the related fields.
    B3Multi,
}
