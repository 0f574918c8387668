//! Warns about parts of a request that can change the cached response and are missing from the cache key.
//!
//! A client that controls such an unkeyed input can poison the cache: other clients then receive the response to its
//! request. [`warnings`] finds three kinds, all visible in the configuration: fields that a `headers` policy derives
//! from the request, fields that select the route, and client fields that `forwarded` lets through. For any other field
//! that changes a response, the endpoint must send `Vary`. [`compile`](crate::compile) reports each input once.

use std::collections::HashSet;
use std::sync::Arc;

use tollgate_config::{self as config, At, Problem, ValueMatch};
use tollgate_policy::{CacheRules, Planned};

use crate::policies::PolicyCompiler;
use crate::{Action, Route};

/// With `x_forwarded: off`, these fields of a client reach the endpoint, and web frameworks build links and redirects
/// from them.
const FORWARDED: [&str; 2] = ["X-Forwarded-Host", "X-Forwarded-Proto"];

/// Returns a warning for each input that is missing from the cache key of its route.
pub(crate) fn warnings(
    parts: &config::CombinedResources<'_>,
    policies: &PolicyCompiler,
    routes: &[Arc<Route>],
) -> Vec<Problem> {
    let mut reported = HashSet::new();
    let mut warnings = Vec::new();
    for (written, planned) in parts.routes.iter().zip(routes) {
        let (Action::Forward(_), Some(chains)) = (&planned.action, &planned.policies) else { continue };
        let of_route: Vec<&dyn Planned> = policies.of_route(chains).collect();
        let Some(rules) = of_route.iter().find_map(|policy| policy.cache_rules()) else { continue };
        let position = |kind| policies.position(parts, written, kind).unwrap_or(written.at);
        let cache = position("cache");
        let mut warn = |at: At, message: String, field: &str| {
            if reported.insert((at, field.to_ascii_lowercase())) {
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

/// Returns whether the field is part of the cache key, or requests that carry it bypass the cache.
fn is_bypassed(rules: &CacheRules, field: &str) -> bool {
    rules.has_key_field(field) || tollgate_policy::bypasses_cache(field)
}
