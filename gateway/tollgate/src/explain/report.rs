//! The result of `explain`, as data.

use std::time::Duration;

use tollgate_config::{At, Config};
use tollgate_plan::{Action, CacheStore, Endpoint, Plan, Priority, Respond, Retry, Route, Targets, Upstream};
use tollgate_proxy::{DryRun, DryRunOutcome, DryRunPolicy};
use tollgate_route::MismatchReason;

use super::field_changes::{FieldChange, changes, fields};
use super::{nearest, rules};

/// The explanation of a request.
#[derive(Debug)]
pub struct Report {
    pub method: String,
    /// Path and query as sent.
    pub target: String,
    /// `Host`, if one was sent.
    pub host: Option<String>,
    /// The path as sent and in normal form; `None` if the target has no path.
    pub path: Option<(String, String)>,
    /// The listener at which it arrives: its name, if it has one, and its address.
    pub listener: Option<(Option<String>, String)>,
    /// For a CORS preflight, the method of the request that it announces.
    pub preflight: Option<String>,
    /// The route that takes the request.
    pub route: Option<RouteSource>,
    /// The nearest of the other routes, with the reason why each does not take it.
    pub others: Vec<(RouteSource, MismatchReason)>,
    /// How many other routes are left out of `others`.
    pub left_out: usize,
    /// The policies that the request passes, in order.
    pub policies: Vec<DryRunPolicy>,
    /// The store of responses, if a policy `cache` is among the policies.
    pub stores: Option<CacheStore>,
    /// The reason if the gateway answers with an error.
    pub refused: Option<RefusedRequest>,
    /// How the route handles the request, unless it is refused.
    pub action: Option<RouteAction>,
}

/// A route and where it was written.
#[derive(Debug)]
pub struct RouteSource {
    pub name: String,
    /// The file; empty if it is unknown.
    pub file: String,
    /// The line; 0 if it is unknown.
    pub line: u32,
}

/// An error response.
#[derive(Debug)]
pub struct RefusedRequest {
    pub status: u16,
    /// The reason, spelled as in the log.
    pub reason: &'static str,
    /// Details of the reason.
    pub detail: Option<&'static str>,
}

/// How a route handles a request.
#[derive(Debug)]
pub enum RouteAction {
    /// Forwards it.
    Forward(Box<Forward>),
    /// Redirects it.
    Redirect {
        /// The status code.
        status: u16,
        /// `Location`.
        location: String,
    },
    /// Answers it with a fixed response.
    Respond(Respond),
    /// Answers it with a file, or with the list of a directory.
    Files {
        /// The path of the file or directory.
        path: String,
        /// Whether it is the list of a directory.
        is_list: bool,
    },
}

/// A request as forwarded.
#[derive(Debug)]
pub struct Forward {
    /// Path and query as sent upstream.
    pub target: String,
    /// The fields that change.
    pub changes: Vec<FieldChange>,
    /// Whether the connection may switch to another protocol.
    pub upgrade: bool,
    /// The upstreams among which the request is forwarded.
    pub upstreams: Vec<Destination>,
    /// The fixed responses that take a share: the status, the weight, and the share of the requests (0 to 1).
    pub answers: Vec<(u16, u32, f64)>,
    /// The timeouts by their keys; `None`: off.
    pub timeouts: Vec<(&'static str, Option<Duration>)>,
    /// The largest request body, in bytes.
    pub body_limit: Option<u64>,
    /// Whether the request's body is collected before it is forwarded.
    pub buffers_request: bool,
    /// Whether the response's body is collected before it is sent to the client.
    pub buffers_response: bool,
    /// The priority under overload.
    pub priority: Priority,
    /// Replacements for error responses: the statuses, and the replacement in words.
    pub fallbacks: Vec<(String, String)>,
}

/// An upstream of the route.
#[derive(Debug)]
pub struct Destination {
    /// Its name. An upstream written in place is named by its endpoints.
    pub name: String,
    /// Its weight relative to the route's other upstreams.
    pub weight: u32,
    /// The endpoints that the configuration lists.
    pub endpoints: Vec<EndpointShare>,
    /// Its rules for choosing an endpoint and for failures: key and description.
    pub rules: Vec<(&'static str, String)>,
}

/// An endpoint of an upstream.
#[derive(Debug)]
pub struct EndpointShare {
    /// Its address.
    pub address: String,
    /// Its weight relative to the upstream's other endpoints.
    pub weight: u32,
    /// Its tier; 0 is used first.
    pub priority: u8,
    /// The zone in which it runs.
    pub zone: Option<String>,
    /// Its share of the route's requests (0 to 1) while all endpoints are healthy; `None` if further
    /// endpoints are discovered.
    pub share: Option<f64>,
}

/// Builds the report. `config`, if present, tells where routes were written. Keeps at most `shown` of the
/// other routes.
pub fn report(config: Option<&Config>, plan: &Plan, sent: &str, dry_run: DryRun, shown: usize) -> Report {
    let DryRun { sent_path, path, explanation, listener, preflight, policies, outcome } = dry_run;
    let listener = listener.map(|(name, bind)| (name, bind.to_string()));
    let (sent_path, path) = (lossy(&sent_path), lossy(&path));
    let place = |route: u32| {
        config.map_or_else(|| route_without_position(plan, route), |config| locate(config, plan, route))
    };
    let winner = explanation.as_ref().and_then(|explanation| explanation.winner);
    let mut others = explanation.map_or_else(Vec::new, |explanation| explanation.others);
    let written = config.map_or(&[][..], |config| &config.routes);
    let matches: Vec<_> = written.iter().map(|route| &route.matches).collect();
    nearest::sort(&mut others, &matches, &path);
    let left_out = others.len().saturating_sub(shown);
    let mut words = sent.split(' ');
    let (method, target) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let host = fields(sent).find(|(name, _)| name.eq_ignore_ascii_case("host"));
    let route = winner.map(|index| &plan.routes[index as usize]);
    let (refused, action) = match (outcome, route) {
        (DryRunOutcome::Refused { reason, status, detail }, _) => {
            (Some(RefusedRequest { status, reason: reason.as_str(), detail }), None)
        }
        (outcome, Some(route)) => (None, route_action(plan, route, sent, outcome)),
        (_, None) => (None, None),
    };
    let stores = policies.iter().any(|policy| policy.kind == "cache").then(|| plan.settings.cache.clone());
    Report {
        method: method.to_owned(),
        target: target.to_owned(),
        host: host.map(|(_, value)| value.to_owned()),
        path: (!path.is_empty()).then_some((sent_path, path)),
        listener,
        preflight,
        route: winner.map(place),
        others: others.into_iter().take(shown).map(|(route, why)| (place(route), why)).collect(),
        left_out,
        policies,
        stores,
        refused,
        action,
    }
}

/// Returns a route whose position is unknown.
fn route_without_position(plan: &Plan, route: u32) -> RouteSource {
    RouteSource { name: plan.routes[route as usize].name.clone(), file: String::new(), line: 0 }
}

fn locate(config: &Config, plan: &Plan, route: u32) -> RouteSource {
    let index = route as usize;
    let at = config.routes.get(index).map_or_else(At::default, |route| {
        // Several matches under one route are adjacent routes with the same position. The position of the
        // match tells them apart.
        let beside = [index.wrapping_sub(1), index + 1];
        let shares =
            beside.iter().any(|&other| config.routes.get(other).is_some_and(|other| other.at == route.at));
        if shares { route.matches.at } else { route.at }
    });
    let file = config.files.get(at.file as usize).map_or_else(String::new, |file| file.name.clone());
    RouteSource { name: plan.routes[index].name.clone(), file, line: at.line }
}

fn route_action(plan: &Plan, route: &Route, sent: &str, outcome: DryRunOutcome) -> Option<RouteAction> {
    match (outcome, &route.action) {
        (DryRunOutcome::Forward { head, upgrade, .. }, Action::Forward(targets)) => {
            Some(RouteAction::Forward(Box::new(forward(plan, route, targets, sent, &lossy(&head), upgrade))))
        }
        (DryRunOutcome::Redirect { location }, Action::Redirect(redirect)) => {
            Some(RouteAction::Redirect { status: redirect.status, location: lossy(&location) })
        }
        (DryRunOutcome::Redirect { location }, Action::Files(_)) => {
            Some(RouteAction::Redirect { status: 301, location: lossy(&location) })
        }
        (DryRunOutcome::File { path, is_list }, _) => {
            Some(RouteAction::Files { path: lossy(&path), is_list })
        }
        (DryRunOutcome::Answered(answer), _) => {
            let tollgate_policy::PolicyResponse { status, lines, body } = answer;
            Some(RouteAction::Respond(Respond { status, headers: lines, body }))
        }
        (DryRunOutcome::Respond, Action::Respond(respond)) => Some(RouteAction::Respond(respond.clone())),
        (DryRunOutcome::Respond, Action::Forward(targets)) => {
            let answer = targets.answers.iter().find(|answer| answer.weight > 0)?;
            Some(RouteAction::Respond(answer.respond.clone()))
        }
        _ => None,
    }
}

fn forward(plan: &Plan, route: &Route, targets: &Targets, sent: &str, head: &str, upgrade: bool) -> Forward {
    let timeouts = &route.timeouts;
    let mut waits = vec![
        ("connect", timeouts.connect),
        ("send", timeouts.send),
        ("response_header", timeouts.response_header),
        ("response_body", timeouts.response_body),
        ("total", timeouts.total),
    ];
    if let Some(stay) = &route.stay {
        waits.extend(stay.idle.map(|idle| ("idle", idle)));
        waits.extend(stay.age.map(|age| ("age", Some(age))));
    }
    if upgrade {
        waits.push(("upgraded", timeouts.upgraded));
    }
    Forward {
        target: head.split(' ').nth(1).unwrap_or_default().to_owned(),
        changes: changes(sent, head),
        upgrade,
        upstreams: destinations(plan, targets, route.retry.as_ref()),
        answers: answers(targets),
        timeouts: waits,
        body_limit: route.body_limit,
        buffers_request: route.buffer.request.is_some(),
        buffers_response: route.buffer.response.is_some(),
        priority: route.priority,
        fallbacks: route
            .fallback
            .iter()
            .flat_map(|all| all.iter())
            .map(|one| rules::fallback(plan, one))
            .collect(),
    }
}

/// Returns the sum of the weights of a route's targets.
fn weights(targets: &Targets) -> f64 {
    let shares = targets.shares.iter().map(|share| share.weight);
    sum(shares.chain(targets.answers.iter().map(|answer| answer.weight)))
}

fn answers(targets: &Targets) -> Vec<(u16, u32, f64)> {
    let all = weights(targets);
    let answers = targets.answers.iter();
    answers.map(|answer| (answer.respond.status, answer.weight, ratio(answer.weight, all))).collect()
}

fn destinations(plan: &Plan, targets: &Targets, retry: Option<&Retry>) -> Vec<Destination> {
    let all = weights(targets);
    let destinations = targets.shares.iter().map(|share| {
        let upstream = &plan.upstreams[share.upstream];
        Destination {
            name: upstream.name.clone(),
            weight: share.weight,
            endpoints: endpoints(plan, upstream, ratio(share.weight, all)),
            rules: rules::facts(upstream, retry.unwrap_or(&upstream.rules.retry)),
        }
    });
    destinations.collect()
}

/// Returns the endpoints that the configuration lists. While all are healthy, the lowest tier takes all
/// requests; within it, the endpoints of the gateway's own zone do, if there are any.
fn endpoints(plan: &Plan, upstream: &Upstream, part: f64) -> Vec<EndpointShare> {
    let known = upstream.discover.is_none();
    let weighted = || upstream.endpoints.iter().filter(|endpoint| endpoint.weight > 0);
    let first = weighted().map(|endpoint| endpoint.priority).min().unwrap_or(0);
    let own = plan.settings.zone.as_deref();
    let near = |zone: Option<&str>| own.is_some() && zone == own;
    let any_near = weighted().any(|endpoint| endpoint.priority == first && near(endpoint.zone.as_deref()));
    let takes =
        |endpoint: &Endpoint| endpoint.priority == first && (!any_near || near(endpoint.zone.as_deref()));
    let within = sum(weighted().filter(|endpoint| takes(endpoint)).map(|endpoint| endpoint.weight));
    let one = |endpoint: &Endpoint| EndpointShare {
        address: endpoint.address.to_string(),
        weight: endpoint.weight,
        priority: endpoint.priority,
        zone: endpoint.zone.clone(),
        share: known.then(|| if takes(endpoint) { part * ratio(endpoint.weight, within) } else { 0.0 }),
    };
    upstream.endpoints.iter().map(one).collect()
}

fn sum(weights: impl Iterator<Item = u32>) -> f64 {
    weights.map(f64::from).sum()
}

fn ratio(weight: u32, all: f64) -> f64 {
    if weight == 0 { 0.0 } else { f64::from(weight) / all }
}

fn lossy(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
