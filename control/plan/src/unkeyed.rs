//! Finds inputs that may change an endpoint's response and are no part of the key of the route's cache.
//!
//! Whoever controls such an input can have a response stored that other clients then get (cache poisoning). The check sees
//! what the configuration does with a request: fields that `headers` makes of it, fields by which the route is chosen, and
//! fields of clients that `forwarded` lets through. What the endpoint does with any other field it has to say in `Vary`.
//! [`compile`](crate::compile) warns about each input once.

use std::collections::HashSet;
use std::sync::Arc;

use tollgate_config::{self as config, At, Problem, ValueMatch};
use tollgate_policy::{CacheRules, Planned};

use crate::policies::PolicyCompiler;
use crate::{Action, Route};

/// Fields of clients that reach the endpoint with `x_forwarded: off`, and that frameworks make links and redirects of.
const FORWARDED: [&str; 2] = ["X-Forwarded-Host", "X-Forwarded-Proto"];

/// Returns a warning for each input of a route with a cache that the key lacks.
pub(crate) fn warnings(
    parts: &config::CombinedResources<'_>,
    policies: &PolicyCompiler,
    routes: &[Arc<Route>],
) -> Vec<Problem> {
    let mut told = HashSet::new();
    let mut warnings = Vec::new();
    for (written, planned) in parts.routes.iter().zip(routes) {
        let (Action::Forward(_), Some(chains)) = (&planned.action, &planned.policies) else { continue };
        let of_route: Vec<&dyn Planned> = policies.of_route(chains).collect();
        let Some(rules) = of_route.iter().find_map(|policy| policy.cache_rules()) else { continue };
        let position = |kind| policies.position(parts, written, kind).unwrap_or(written.at);
        let cache = position("cache");
        let mut warn = |at: At, message: String, field: &str| {
            if told.insert((at, field.to_ascii_lowercase())) {
                let key = format!("write `cache: {{key: {{headers: {field}}}}}`");
                let help = format!("{key}, or let the upstream send `Vary: {field}`");
                let problem = Problem::warning(at, message).help(help);
                warnings.push(if at == cache {
                    problem
                } else {
                    problem.related(cache, "this is the cache")
                });
            }
        };
        for policy in &of_route {
            for (field, template) in policy.derived_fields() {
                let is_told_apart = template.parts().iter().all(|part| rules.tells_apart(part));
                if !is_told_apart && !rules.has_key_field(field) {
                    let message =
                        format!("`{field}` may change the response, and the cache does not tell it apart");
                    warn(position(policy.kind()), message, field);
                }
            }
        }
        for field in &written.matches.headers {
            let is_open =
                matches!(field.value, ValueMatch::Present | ValueMatch::Regex(_) | ValueMatch::NotExact(_));
            if is_open && !rules.has_key_field(&field.name) {
                let name = &field.name;
                let message =
                    format!("this route is chosen by `{name}`, and its cache does not tell the values apart");
                warn(field.at, message, name);
            }
        }
        for kept in &parts.config.forwarded.keep {
            if !is_bypassed(rules, &kept.value) {
                let name = &kept.value;
                let message = format!(
                    "`{name}` of any client reaches the upstream, and the cache does not tell it apart"
                );
                warn(kept.at, message, name);
            }
        }
        if !parts.config.forwarded.x_forwarded {
            for name in FORWARDED.into_iter().filter(|name| !rules.has_key_field(name)) {
                let message = format!(
                    "`{name}` of any client reaches the upstream (`x_forwarded: off`), and the cache does not tell it apart"
                );
                warn(cache, message, name);
            }
        }
    }
    warnings
}

/// Returns whether requests with this field differ in their keys, or bypass the cache.
fn is_bypassed(rules: &CacheRules, field: &str) -> bool {
    rules.has_key_field(field) || tollgate_policy::bypasses_cache(field)
}
