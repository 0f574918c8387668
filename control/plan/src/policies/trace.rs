//! `trace`.

use tollgate_config as config;
use tollgate_config::Problem;
use tollgate_policy::{Propagation, TraceRules};

use super::jwt::trust;

pub(super) fn trace(spec: &config::Trace, problems: &mut Vec<Problem>) -> TraceRules {
    let form = |form: &config::Propagation| match form {
        config::Propagation::W3c => Propagation::W3c,
        config::Propagation::B3 => Propagation::B3,
        config::Propagation::B3Multi => Propagation::B3Multi,
    };
    TraceRules {
        url: spec.url.clone(),
        trust: trust(&spec.url, spec.ca.as_ref(), problems),
        headers: spec.headers.clone(),
        sample: f64::from(spec.sample) / 100.0,
        propagation: spec.propagation.iter().map(form).collect(),
        continues: spec.continues,
        service: spec.service.clone(),
    }
}
