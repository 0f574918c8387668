//! Finds the mistakes of listeners that show only when all sources are combined.

use std::collections::HashSet;

use tollgate_config as config;
use tollgate_config::{CombinedResources, Problem};

use crate::streams;
/// Returns the problems of the listeners of all sources.
pub(crate) fn problems(parts: &CombinedResources<'_>) -> Vec<Problem> {
    let mut problems = unknown_listeners(parts);
    problems.extend(streams::routes_without_requests(parts));
    // The reader has compared those of the file.
    if parts.listeners.len() > parts.config.listen.len() {
        problems.extend(config::listener_conflicts(&parts.listeners, parts.config.admin.as_ref()));
    }
    problems
}

/// Reports the listeners that routes and streams name and that do not exist.
fn unknown_listeners(parts: &CombinedResources<'_>) -> Vec<Problem> {
    let names: HashSet<&str> =
        parts.listeners.iter().filter_map(|listener| Some(listener.name.as_ref()?.value.as_str())).collect();
    let mut problems: Vec<Problem> = Vec::new();
    let of_routes = parts.routes.iter().flat_map(|route| &route.listeners);
    let of_streams = parts.streams.iter().flat_map(|stream| &stream.listeners);
    for name in of_routes.chain(of_streams) {
        // A route with several matches is several routes.
        if names.contains(name.value.as_str()) || problems.last().is_some_and(|last| last.at == name.at) {
            continue;
        }
        let problem = Problem::error(name.at, format!("there is no listener named `{}`", name.value));
        let mut known: Vec<&str> = names.iter().copied().collect();
        known.sort_unstable();
        let near = config::nearest(&name.value, known.iter().copied());
        problems.push(match (near, known.is_empty()) {
            (Some(near), _) => problem.help(format!("did you mean `{near}`?")),
            (None, true) => problem
                .help(format!("no listener has a name: `listen: {{bind: \":8080\", name: {}}}`", name.value)),
            (None, false) => {
                let known: Vec<String> = known.iter().take(8).map(|name| format!("`{name}`")).collect();
                problem.help(format!("names of listeners: {}", known.join(", ")))
            }
        });
    }
    problems
}
