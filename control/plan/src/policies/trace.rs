//! Compiles `trace`, and the OTLP collectors of other places.

use tollgate_config as config;
use tollgate_config::Problem;
use tollgate_policy::{CollectorRule, Propagation, TraceRules};

use super::shared::trust;

/// Returns the OTLP collector to which the gateway exports.
pub(crate) fn collector(written: &config::Collector, problems: &mut Vec<Problem>) -> CollectorRule {
    CollectorRule {
        url: written.url.clone(),
        trust: trust(&written.url, written.ca.as_ref(), problems),
        headers: written.headers.clone(),
        service: written.service.clone(),
        resource: written.resource.clone(),
    }
}

pub(super) fn trace(spec: &config::Trace, problems: &mut Vec<Problem>) -> TraceRules {
    let form = |form: &config::Propagation| match form {
        config::Propagation::W3c => Propagation::W3c,
        config::Propagation::B3 => Propagation::B3,
        config::Propagation::B3Multi => Propagation::B3Multi,
    };
    TraceRules {
        collector: collector(&spec.collector, problems),
        sample: spec.sample.share(),
        propagation: spec.propagation.iter().map(form).collect(),
        continues: spec.continues,
    }
}
