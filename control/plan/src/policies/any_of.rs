//! Compiles `any_of`: each alternative is a list of policies, compiled like any other.

use std::sync::Arc;

use tollgate_config as config;
use tollgate_policy::{AnyOfRules, Consumers};
use tollgate_route::PathRules;

use super::planned;

pub(super) fn any_of(
    spec: &config::AnyOf,
    consumers: &Arc<Consumers>,
    problems: &mut Vec<config::Problem>,
) -> AnyOfRules {
    let mut alternative = |written: &Vec<config::Attached>| {
        let specs = written.iter().filter_map(|attached| attached.spec.as_deref());
        specs.filter_map(|spec| planned(spec, consumers, &PathRules::default(), problems)).collect()
    };
    AnyOfRules { alternatives: spec.alternatives.iter().map(&mut alternative).collect() }
}
