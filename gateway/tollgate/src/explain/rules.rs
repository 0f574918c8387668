//! Describes in words how an upstream chooses among its endpoints and handles failures.

use std::fmt::Write as _;
use std::time::Duration;

use tollgate_plan::{
    Balance, Breaker, Caps, Discover, Fallback, FallbackAction, GRPC_CODES, HashBy, Health, Hedge, Outlier,
    Plan, Policy, Probe, Queue, Retry, RetryOn, Upstream,
};

/// Returns the descriptions by key, in the order of the reference. Settings that are off or default are left
/// out, except `balance` and `retry`.
pub fn facts(upstream: &Upstream, retry: &Retry) -> Vec<(&'static str, String)> {
    let rules = &upstream.rules;
    let mut facts = Vec::new();
    facts.extend(upstream.discover.as_ref().map(|discover| ("discover", self::discover(discover))));
    facts.push(("balance", balance(&rules.balance)));
    facts.extend(limits(&rules.caps).map(|text| ("limits", text)));
    if rules.caps.connections.is_some() || rules.caps.endpoint_connections.is_some() {
        facts.push(("queue", queue(&rules.queue)));
    }
    facts.extend(rules.breaker.as_ref().map(|breaker| ("breaker", self::breaker(breaker))));
    facts.push(("retry", self::retry(retry)));
    facts.extend(rules.hedge.as_ref().map(|hedge| ("hedge", self::hedge(hedge))));
    facts.extend(rules.health.as_ref().map(|health| ("health", self::health(health))));
    if rules.outlier != Outlier::default() {
        facts.push(("outlier", outlier(&rules.outlier)));
    }
    let adaptive = rules.adaptive.as_ref();
    facts.extend(adaptive.map(|adaptive| {
        ("adaptive", format!("between {} and {} requests at a time", adaptive.min, adaptive.max))
    }));
    facts
}

fn discover(discover: &Discover) -> String {
    match discover {
        Discover::Dns { name, port, .. } => format!("dns://{name}:{port}"),
        Discover::Srv { name, .. } => format!("srv://{name}"),
        Discover::File(file) => format!("file:{}", file.path.display()),
    }
}

fn balance(balance: &Balance) -> String {
    let mut out = match &balance.policy {
        Policy::RoundRobin => "round_robin".to_owned(),
        Policy::LeastRequests => "least_requests, of two picked at random".to_owned(),
        Policy::LeastRequestsOfAll => "least_requests, of all".to_owned(),
        Policy::Random => "random".to_owned(),
        Policy::Hash(by) => match by {
            HashBy::Header(name) => format!("hash by header `{name}`"),
            HashBy::Cookie(name) => format!("hash by cookie `{name}`"),
            HashBy::Query(name) => format!("hash by query parameter `{name}`"),
            HashBy::ClientAddress => "hash by client_address".to_owned(),
            HashBy::Path => "hash by path".to_owned(),
        },
    };
    match &balance.sticky {
        None => {}
        Some(sticky) => match (&sticky.header, &sticky.cookie) {
            (Some(header), _) => put(&mut out, format_args!("; sticky by header `{header}`")),
            (None, Some(cookie)) => put(&mut out, format_args!("; sticky by cookie `{cookie}`")),
            (None, None) => out.push_str("; sticky by a cookie"),
        },
    }
    if let Some(slow_start) = balance.slow_start {
        put(&mut out, format_args!("; slow start over {}", time(slow_start)));
    }
    out
}

fn limits(caps: &Caps) -> Option<String> {
    let all = [
        ("connections", caps.connections),
        ("endpoint_connections", caps.endpoint_connections),
        ("requests", caps.requests),
        ("retries", caps.retries),
    ];
    let given: Vec<String> = all.iter().filter_map(|(key, cap)| Some(format!("{key} {}", (*cap)?))).collect();
    (!given.is_empty()).then(|| given.join(", "))
}

fn queue(queue: &Queue) -> String {
    match queue.size {
        0 => "off".to_owned(),
        size => format!("at most {size} requests, each for at most {}", time(queue.timeout)),
    }
}

fn breaker(breaker: &Breaker) -> String {
    let mut out = format!("opens for {} at {} % failures", time(breaker.open), breaker.failures);
    if let Some(slow_after) = breaker.slow_after {
        put(&mut out, format_args!(" or {} % slower than {}", breaker.slow, time(slow_after)));
    }
    put(&mut out, format_args!(", of at least {} calls in {}", breaker.minimum, time(breaker.window)));
    out
}

fn retry(retry: &Retry) -> String {
    if retry.attempts <= 1 {
        return "off".to_owned();
    }
    let mut out = format!("at most {} attempts, after {}", retry.attempts, conditions(&retry.on));
    if !retry.methods.is_empty() {
        put(&mut out, format_args!("; {}", retry.methods.join(", ")));
    }
    if let Some(per_try) = retry.per_try {
        put(&mut out, format_args!("; {} for each", time(per_try)));
    }
    if let Some(within) = retry.within {
        put(&mut out, format_args!("; none starts after {}", time(within)));
    }
    out
}

fn hedge(hedge: &Hedge) -> String {
    let mut out = format!("a second attempt after {}", time(hedge.after));
    if !hedge.methods.is_empty() {
        put(&mut out, format_args!("; {}", hedge.methods.join(", ")));
    }
    out
}

fn conditions(on: &RetryOn) -> String {
    let mut all = Vec::new();
    for (given, name) in
        [(on.connect_failure, "connect_failure"), (on.reset, "reset"), (on.timeout, "timeout")]
    {
        if given {
            all.push(name.to_owned());
        }
    }
    all.extend(ranges(&on.statuses));
    let codes = on.grpc.iter().filter_map(|code| GRPC_CODES.get(usize::from(*code).checked_sub(1)?));
    all.extend(codes.map(|code| (*code).to_owned()));
    match all.split_last() {
        None => "nothing".to_owned(),
        Some((only, [])) => only.clone(),
        Some((last, rest)) => format!("{} or {last}", rest.join(", ")),
    }
}

/// Groups consecutive statuses into ranges, as they were written or could have been.
fn ranges(statuses: &[u16]) -> impl Iterator<Item = String> {
    let neighbours = statuses.chunk_by(|one, next| one + 1 == *next);
    neighbours.map(|group| match (group.first(), group.last()) {
        (Some(first), Some(last)) if first != last => format!("{first}-{last}"),
        (Some(only), _) => only.to_string(),
        (None, _) => String::new(),
    })
}

/// Returns the statuses that a fallback replaces, and the replacement in words.
pub fn fallback(plan: &Plan, fallback: &Fallback) -> (String, String) {
    let on = ranges(&fallback.on).collect::<Vec<_>>().join(", ");
    let name = |upstream: &usize| &plan.upstreams[*upstream].name;
    let with =
        |status: &Option<u16>| status.map(|status| format!(", with status {status}")).unwrap_or_default();
    let what = match &fallback.action {
        FallbackAction::Request(upstream) => format!("the request goes to upstream {}", name(upstream)),
        FallbackAction::Page { upstream, path, status } => {
            format!("a page, GET {path} of upstream {}{}", name(upstream), with(status))
        }
        FallbackAction::Respond { status, .. } => format!("a fixed response{}", with(status)),
    };
    (on, what)
}

fn health(health: &Health) -> String {
    let probe = match &health.probe {
        Probe::Http { path, .. } => format!("GET {path}"),
        Probe::Grpc { service, .. } if service.is_empty() => "a gRPC health check".to_owned(),
        Probe::Grpc { service, .. } => format!("a gRPC health check of {service}"),
        Probe::Tcp => "a connection".to_owned(),
    };
    format!("{probe} every {}", time(health.interval))
}

fn outlier(outlier: &Outlier) -> String {
    if !outlier.enabled {
        return "off".to_owned();
    }
    let mut after = Vec::new();
    after.extend(outlier.consecutive_5xx.map(|count| format!("{count} responses 5xx in a row")));
    after.extend(outlier.consecutive_gateway_errors.map(|count| format!("{count} gateway errors in a row")));
    if outlier.success_rate {
        after.push("a low success rate".to_owned());
    }
    let after = if after.is_empty() { "nothing".to_owned() } else { after.join(" or ") };
    format!("out for {} after {after}", time(outlier.ejection))
}

fn time(time: Duration) -> String {
    format!("{time:?}")
}

fn put(out: &mut String, text: std::fmt::Arguments<'_>) {
    // Writing to a `String` cannot fail.
    let _ = out.write_fmt(text);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_are_listed_and_neighbours_are_ranges() {
        let statuses = (500..600).chain([429]).collect::<Vec<u16>>();
        let mut on = RetryOn { statuses, ..RetryOn::default() };
        on.statuses.sort_unstable();
        assert_eq!(conditions(&on), "connect_failure, reset, 429 or 500-599");
        on = RetryOn { connect_failure: false, reset: false, timeout: true, ..RetryOn::default() };
        assert_eq!(conditions(&on), "timeout");
        on.grpc = vec![4, 14];
        assert_eq!(conditions(&on), "timeout, deadline_exceeded or unavailable");
        (on.timeout, on.grpc) = (false, Vec::new());
        assert_eq!(conditions(&on), "nothing");
    }

    #[test]
    fn one_attempt_means_no_retries() {
        assert_eq!(retry(&Retry { attempts: 1, ..Retry::default() }), "off");
        assert_eq!(retry(&Retry::default()), "at most 2 attempts, after connect_failure or reset");
    }
}
