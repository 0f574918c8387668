//! `trace`: exports spans of requests to a collector over OTLP, and propagates the trace context.
//!
//! Each request gets one span of kind `SERVER`, from the evaluation of its policies to its end. The context
//! that goes upstream names this span as the parent, so spans of upstream services become its children. The
//! party that starts a trace decides whether it is sampled; of the traces that start here, a configured share
//! is.

mod config;
mod propagation;
mod span;

use std::sync::Arc;
use std::time::SystemTime;

use serde_json::Value;

pub(crate) use self::config::TraceSettings;
pub(crate) use self::propagation::Propagation;
use self::propagation::SpanIds;
use self::span::RequestSpan;
use crate::otlp::{Exporter, Signal};
use crate::{CollectorRule, Planned, Policy, PolicyStates, Request, Verdict};

/// Selects the requests to trace, and the collector.
#[derive(Clone, Debug, PartialEq)]
pub struct TraceRules {
    /// The collector of the spans.
    pub collector: CollectorRule,
    /// The sampled share of traces that start here, from 0 to 1.
    pub sample: f64,
    /// The formats that are read and written; the first format found in a request counts.
    pub propagation: Vec<Propagation>,
    /// Whether a context in a request is trusted. If not, each request starts a trace.
    pub continues: bool,
}

impl Planned for TraceRules {
    fn kind(&self) -> &'static str {
        "trace"
    }

    fn summary(&self) -> String {
        format!("{} % of new traces, to {}", (self.sample * 1e6).round() / 1e4, self.collector.url)
    }

    fn activate(self: Arc<Self>, key: &str, shared: &Arc<PolicyStates>) -> Arc<dyn Policy> {
        let same = |exporter: &Exporter<Value>| exporter.is_for(&self.collector);
        let place = key.strip_suffix("/trace").unwrap_or(key);
        let lost = shared.events().counter("trace", place, "spans_lost");
        let make = || Exporter::new(Signal::Spans, self.collector.clone(), shared.background(), lost, ());
        let exporter = shared.state(key, same, make);
        Arc::new(Trace { rules: self, exporter })
    }
}

#[derive(Debug)]
struct Trace {
    rules: Arc<TraceRules>,
    exporter: Arc<Exporter<Value>>,
}

impl Policy for Trace {
    fn request(&self, request: &mut Request<'_>) -> Verdict {
        let rules = &self.rules;
        let parent = rules.propagation.iter().find_map(|form| form.read(request)).filter(|_| rules.continues);
        let sampled = match &parent {
            Some(parent) => parent.sampled,
            None => {
                let decides = || rules.propagation.iter().find_map(|form| form.decision(request));
                let decided = rules.continues.then(decides).flatten();
                decided.unwrap_or_else(|| fastrand::f64() < rules.sample)
            }
        };
        let ids = SpanIds::new(parent.as_ref());
        request.context.span = Some((ids.trace, ids.span));
        // Removes all formats, so that the client's values are not sent in a second format.
        for form in Propagation::ALL {
            form.remove(request, rules.continues && parent.is_some());
        }
        rules.propagation.iter().for_each(|form| form.write(request, &ids, sampled));
        if sampled {
            let span = RequestSpan::begin(request, ids, parent.map(|parent| parent.span), SystemTime::now());
            let exporter = self.exporter.clone();
            request.context.on_end(move |ended| exporter.queue_or_drop(span.end(ended)));
        }
        Verdict::Continue
    }
}
