//! Checks the upstreams that policies name, and the policies that an upstream may not have.

use std::collections::HashSet;

use tollgate_config as config;
use tollgate_config::{PolicySettings, Problem, Spanned};

use super::sets::Sets;
use crate::Route;

/// Reports each name of an upstream that does not exist, in any policy of any source. `routes` are those with policies.
pub(super) fn unknown_upstreams(
    parts: &config::CombinedResources<'_>,
    routes: &[&config::Route],
) -> Vec<Problem> {
    let config::CombinedResources { config, listeners, upstreams, policy_sets, .. } = parts;
    let names: HashSet<&str> = upstreams.iter().map(|upstream| upstream.name.value.as_str()).collect();
    let listeners = listeners.iter().map(|listener| &listener.policies);
    let upstreams = upstreams.iter().map(|upstream| &upstream.policies);
    let routes = routes.iter().map(|route| &route.policies);
    let sets = policy_sets.iter().map(|set| &set.policies);
    let all = std::iter::once(&config.policies).chain(listeners).chain(upstreams).chain(routes).chain(sets);
    let specs = all.flat_map(|policies| &policies.list).filter_map(|attached| attached.spec.as_deref());
    let missing =
        specs.flat_map(PolicySettings::upstreams).filter(|name| !names.contains(name.value.as_str()));
    let mut reported = HashSet::new();
    let problem = |name: &Spanned<String>| {
        let message = format!("there is no upstream `{}`", name.value);
        Problem::error(name.at, message).expected("a name under `upstreams`")
    };
    // A list of matches becomes several routes with the same policies.
    missing.filter(|name| reported.insert(name.at)).map(problem).collect()
}

/// Reports an `aggregate` at an upstream. Upstreams could otherwise call each other in a circle.
pub(super) fn aggregate_at_upstream(
    parts: &config::CombinedResources<'_>,
    sets: &Sets,
    policies: &config::Policies,
) -> Option<Problem> {
    let (attached, by) = sets.written(parts, policies, "aggregate")?;
    attached.spec.as_ref()?;
    Some(match by {
        None => Problem::error(attached.at, "an upstream has no `aggregate`")
            .help("write it at the route, a listener or the gateway"),
        Some(used) => Problem::error(used.name.at, "this set has an `aggregate`, and an upstream has none")
            .help(
                "write `aggregate: off` beside `use`, or use the set at the route, a listener or the gateway",
            )
            .related(attached.at, "it is here"),
    })
}

/// Reports each upstream that a route's `canary` names and its `to` does not.
pub(super) fn canary_off_route(
    parts: &config::CombinedResources<'_>,
    sets: &Sets,
    written: &config::Route,
    planned: &Route,
    known: &HashSet<String>,
) -> Vec<Problem> {
    let Some((attached, by)) = sets.written(parts, &written.policies, "canary") else {
        return Vec::new();
    };
    let Some(spec) = attached.spec.as_deref() else { return Vec::new() };
    let shares = planned.shares().unwrap_or_default();
    let is = |index: usize, name: &str| {
        parts.upstreams.get(index).is_some_and(|upstream| upstream.name.value == name)
    };
    let off = spec.upstreams().into_iter().filter(|name| {
        !shares.iter().any(|share| is(share.upstream, &name.value)) && known.contains(&name.value)
    });
    let help = "name it in `to` as well, with `weight: 0` if it gets no other requests";
    let problem = |name: &Spanned<String>| {
        let message = format!("`{}` is none of the upstreams of this route", name.value);
        match by {
            None => Problem::error(name.at, message).help(help),
            Some(used) => {
                let message = format!("{message}, and the `canary` of this set names it");
                Problem::error(used.name.at, message).help(help).related(name.at, "it is named here")
            }
        }
    };
    off.map(problem).collect()
}
