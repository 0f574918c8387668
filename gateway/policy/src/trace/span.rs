//! The span of a request and its serialization for a collector: OTLP 1.x in JSON, with the names of
//! OpenTelemetry's semantic conventions for HTTP servers (1.23). `trace` starts a [`RequestSpan`] with the
//! request and ends it with the exchange.

use std::fmt::Write as _;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};
use tollgate_http::Version;
use tollgate_observe::Reason;

use super::propagation::SpanIds;
use crate::otlp::{ExportItem, any};
use crate::{ExchangeOutcome, Request};

/// The values of `SPAN_KIND_SERVER` and `STATUS_CODE_ERROR`.
const SPAN_KIND_SERVER: u8 = 2;
const STATUS_CODE_ERROR: u8 = 2;
/// The maximum number of bytes of an exported text, such as a path or a user agent.
const TEXT_MAX_BYTES: usize = 1024;

/// The span of a request.
#[derive(Clone, Debug)]
pub(super) struct RequestSpan {
    ids: SpanIds,
    parent: Option<u64>,
    began: SystemTime,
    since: Instant,
    name: String,
    facts: Vec<(&'static str, Value)>,
}

impl RequestSpan {
    /// Starts a span.
    pub fn begin(request: &Request<'_>, ids: SpanIds, parent: Option<u64>, now: SystemTime) -> Self {
        let text =
            |bytes: &[u8]| String::from_utf8_lossy(&bytes[..bytes.len().min(TEXT_MAX_BYTES)]).into_owned();
        let origin = request.origin;
        let method = text(request.method());
        let name = format!("{method} {}", origin.route);
        let mut facts = vec![
            ("http.request.method", method.into()),
            ("url.path", text(request.path()).into()),
            ("url.scheme", if origin.secure { "https" } else { "http" }.into()),
            ("http.route", origin.route.into()),
            ("client.address", origin.client.to_string().into()),
            ("network.peer.address", origin.peer.ip().to_string().into()),
            ("server.address", text(request.host()).into()),
            (
                "network.protocol.version",
                match request.head.version {
                    Version::Http10 => "1.0",
                    Version::Http11 => "1.1",
                    Version::Http2 => "2",
                }
                .into(),
            ),
        ];
        facts.extend(origin.client_port.map(|port| ("client.port", port.into())));
        if let Some(agent) = request.header("user-agent") {
            facts.push(("user_agent.original", text(agent).into()));
        }
        Self { ids, parent, began: now, since: origin.now, name, facts }
    }

    /// Ends the span and serializes it for the collector.
    pub fn end(mut self, ended: &ExchangeOutcome) -> Value {
        let took = ended.now.saturating_duration_since(self.since);
        let failed = ended.reason != Reason::None || ended.status >= 500;
        self.facts.push(("http.response.status_code", ended.status.into()));
        self.facts.push(("http.response.body.size", ended.bytes_out.into()));
        if failed {
            let kind = match ended.reason {
                Reason::None => ended.status.to_string(),
                reason => reason.as_str().to_owned(),
            };
            self.facts.push(("error.type", kind.into()));
        }
        let attributes: Vec<Value> =
            self.facts.into_iter().map(|(key, value)| json!({ "key": key, "value": any(value) })).collect();
        let mut span = json!({
            "traceId": format!("{:032x}", self.ids.trace),
            "spanId": format!("{:016x}", self.ids.span),
            "name": self.name,
            "kind": SPAN_KIND_SERVER,
            "startTimeUnixNano": nanos(self.began),
            "endTimeUnixNano": nanos(self.began + took),
            "attributes": attributes,
        });
        if let Some(parent) = self.parent {
            span["parentSpanId"] = format!("{parent:016x}").into();
        }
        // An error of the client is not an error of the server's span.
        if ended.status >= 500 || ended.status == 0 {
            span["status"] = json!({ "code": STATUS_CODE_ERROR });
        }
        span
    }
}

impl ExportItem for Value {
    fn size(&self) -> usize {
        // An upper bound, because texts of requests are truncated to `TEXT_MAX_BYTES`.
        TEXT_MAX_BYTES
    }

    fn write(self, document: &mut String) {
        let _ = write!(document, "{self}");
    }
}

fn nanos(time: SystemTime) -> String {
    time.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos()).to_string()
}
