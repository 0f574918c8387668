//! Checks for values that are valid alone but conflict with others.

use crate::model::{Address, Config, Upstream};
use crate::problem::Problem;
use crate::reader::{Fields, Reader};

/// Warns of keys of one upstream that cancel each other out.
pub(super) fn of_upstream(reader: &mut Reader, fields: &Fields<'_>, upstream: &Upstream) {
    let rules = &upstream.rules;
    let alone = upstream.endpoints.len() == 1 && fields.get("discover").is_none();
    let capped = rules.caps.connections.is_some() || rules.caps.endpoint_connections.is_some();
    if let Some(queue) = fields.get("queue").filter(|_| !capped && rules.queue.size > 0) {
        let problem = Problem::warning(queue.at, "`queue` has no effect without a limit on connections");
        reader.problems.push(
            problem.help(
                "requests queue only for `limits: {connections: ...}` or `{endpoint_connections: ...}`",
            ),
        );
    }
    if let (Some(limits), Some(warm)) = (fields.get("limits"), fields.get("pool"))
        && let (Some(cap), Some(warm)) = (limits.node.entry("endpoint_connections"), warm.node.entry("warm"))
        && rules.caps.endpoint_connections.is_some_and(|cap| upstream.pool.warm > cap)
    {
        let problem = Problem::warning(warm.at, "`warm` is above the limit of connections per endpoint");
        let problem = problem.help("`warm` is for each worker, the limit for all workers together");
        reader.problems.push(problem.related(cap.at, "the limit is here"));
    }
    if let (Some(hedge), Some(field)) = (&rules.hedge, fields.get("hedge")) {
        if let Some(retry) = fields.get("retry").filter(|_| rules.retry.attempts == 1) {
            let problem = Problem::warning(field.at, "`hedge` has no effect with one attempt");
            let help = "a hedge counts as an attempt: `retry: {attempts: 2}` allows it";
            reader.problems.push(problem.help(help).related(retry.at, "one attempt"));
        }
        if rules.retry.per_try.is_some_and(|per_try| per_try <= hedge.after)
            && let Some(per_try) = fields.get("retry").and_then(|retry| retry.node.entry("per_try"))
        {
            let problem =
                Problem::warning(field.at, "`hedge` starts too late: the first attempt has ended by then");
            let problem = problem.help("make it shorter than `retry.per_try`");
            reader.problems.push(problem.related(per_try.at, "`per_try` is here"));
        }
        if alone {
            let problem = Problem::warning(field.at, "`hedge` has no effect with one endpoint");
            reader.problems.push(problem.help("the second attempt goes to another endpoint"));
        }
    }
    if let Some(field) = fields.get("limits").and_then(|limits| limits.node.entry("retries"))
        && rules.caps.retries.is_some()
        && rules.retry.attempts == 1
        && let Some(retry) = fields.get("retry")
    {
        let problem = Problem::warning(field.at, "`retries` has no effect with one attempt");
        reader.problems.push(problem.related(retry.at, "one attempt"));
    }
    let sockets = || upstream.endpoints.iter().all(|at| matches!(at.address.value.address, Address::Unix(_)));
    if let Some(field) = fields.get("health").and_then(|health| health.node.entry("port"))
        && !upstream.endpoints.is_empty()
        && fields.get("discover").is_none()
        && sockets()
    {
        let problem = Problem::warning(field.at, "`port` has no effect: a Unix socket has none");
        reader.problems.push(problem.help("the probe goes to the socket itself"));
    }
}

/// Returns a warning if endpoints have zones and the gateway has none. It can be decided only after all files
/// have been read.
pub(crate) fn check_zones(config: &Config) -> Option<Problem> {
    let mut endpoints = config.upstreams.iter().flat_map(|upstream| &upstream.endpoints);
    let placed = endpoints.find(|endpoint| endpoint.zone.is_some()).filter(|_| config.zone.is_none())?;
    let problem = Problem::warning(placed.address.at, "the `zone` of this endpoint has no effect");
    Some(problem.help("set the gateway's zone: `zone: NAME` at the top level"))
}
