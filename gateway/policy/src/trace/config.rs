//! The settings of `trace`.

use std::sync::Arc;

use tollgate_config::section::{
    Field, KeySpec, Reader, ScalarError, Section, Shape, URL, Word, one_or_many, service_url,
};
use tollgate_config::{ExportSettings, PemFile, Percent};

use super::{Propagation, TraceRules};
use crate::Planned;
use crate::otlp::collector;
use crate::policy_config::{Compilation, PolicyConfig, policy_key};

/// Sends spans of requests to an OpenTelemetry collector and propagates the trace context.
#[derive(Clone, Debug, PartialEq, Section)]
#[section(name = "trace_policy", noun = "`trace`")]
pub(crate) struct TraceSettings {
    /// The collector's URL for traces over OTLP/HTTP, such as `http://127.0.0.1:4318/v1/traces`.
    #[key(text = URL, parse = service_url, required, also = ["url", "endpoint", "collector", "exporter"])]
    otlp: String,
    /// Percentage of new traces that is sampled. A trace that started elsewhere keeps its sampling decision.
    #[key(percent = 0..=100, default = "100%", also = ["sampling", "sampler", "ratio", "percentage"])]
    sample: Percent,
    /// Formats in which a trace context is accepted and propagated. If a request has several, the first one in this
    /// list wins.
    #[key(
        shape = Shape::OneOrMany(FORMAT), read = formats, default = w3c, also = ["context", "propagators", "format"],
    )]
    propagation: Vec<Propagation>,
    /// Whether a trace context in the request is continued.
    #[key(name = "continue", default = on, also = ["trust", "trust_incoming"])]
    continues: bool,
    #[key(flatten)]
    export: ExportSettings,
}

const FORMAT: &Shape = &Shape::Word(Propagation::WORDS);

impl PolicyConfig for TraceSettings {
    const KEY: KeySpec =
        policy_key::<Self>("trace", "Sends spans of requests to an OpenTelemetry collector.").aliases(&[
            "tracing",
            "opentelemetry",
            "otel",
            "otlp",
            "zipkin",
            "jaeger",
        ]);

    fn compile(&self, compilation: &mut Compilation<'_>) -> Arc<dyn Planned> {
        Arc::new(TraceRules {
            collector: collector(&self.otlp, &self.export, compilation.problems),
            sample: self.sample.share(),
            propagation: self.propagation.clone(),
            continues: self.continues,
        })
    }

    fn names_files(&self) -> bool {
        self.export.ca.is_some()
    }

    fn files(&mut self) -> Vec<&mut PemFile> {
        self.export.ca.iter_mut().collect()
    }
}

fn formats(reader: &mut Reader, field: Field<'_>) -> Option<Vec<Propagation>> {
    let mut out: Vec<Propagation> = Vec::new();
    for item in one_or_many(field.node) {
        let format = reader.parsed(item, "`propagation`", FORMAT, |text| {
            Propagation::from_word(text)
                .ok_or_else(|| ScalarError::new("{} is not a format of a trace context"))
        });
        out.extend(format.filter(|format| !out.contains(format)));
    }
    if out.is_empty() {
        out.push(Propagation::W3c);
    }
    Some(out)
}
