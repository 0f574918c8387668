//! What there is to say about a request, as data.

use std::time::Duration;

use tollgate_config::{At, Config};
use tollgate_plan::{Action, Endpoint, Plan, Priority, Respond, Retry, Route, Upstream, UpstreamShare};
use tollgate_proxy::{MetPolicy, Outcome, Rehearsal};
use tollgate_route::Why;

use super::changes::{Change, changes, fields};
use super::{nearest, rules};

/// What there is to say about a request.
#[derive(Debug)]
pub struct Report {
    /// The method.
    pub method: String,
    /// Path and query as sent.
    pub target: String,
    /// `Host`, if one was sent.
    pub host: Option<String>,
    /// The path as sent and its normal form; nothing if it has none.
    pub path: Option<(String, String)>,
    /// The method of the request that it asks about, if it is a CORS preflight.
    pub preflight: Option<String>,
    /// The route that takes it.
    pub route: Option<Place>,
    /// The nearest of the others and why they do not.
    pub others: Vec<(Place, Why)>,
    /// How many more others there are.
    pub left_out: usize,
    /// The policies that it meets, in that order.
    pub policies: Vec<MetPolicy>,
    /// Why the gateway answers with an error.
    pub refused: Option<Refusal>,
    /// What the route does, unless refused.
    pub action: Option<Act>,
}

/// A route and where it was written.
#[derive(Debug)]
pub struct Place {
    /// The route's name.
    pub name: String,
    /// The file.
    pub file: String,
    /// The line.
    pub line: u32,
}

/// An error answer.
#[derive(Debug)]
pub struct Refusal {
    /// Its status.
    pub status: u16,
    /// The reason as in the log.
    pub reason: &'static str,
    /// More on it.
    pub detail: Option<&'static str>,
}

/// What a route does.
#[derive(Debug)]
pub enum Act {
    /// It forwards.
    Forward(Box<Forward>),
    /// It redirects.
    Redirect {
        /// Status.
        status: u16,
        /// `Location`.
        location: String,
    },
    /// It answers.
    Respond(Respond),
}

/// A request as forwarded.
#[derive(Debug)]
pub struct Forward {
    /// Path and query as sent upstream.
    pub target: String,
    /// Fields that change.
    pub changes: Vec<Change>,
    /// Whether the connection may change its protocol.
    pub upgrade: bool,
    /// Where it may go.
    pub upstreams: Vec<Destination>,
    /// The bounds of each wait, by key; `None`: off.
    pub timeouts: Vec<(&'static str, Option<Duration>)>,
    /// Largest request body in bytes.
    pub body_limit: Option<u64>,
    /// Whether the request's body is collected first.
    pub buffers_request: bool,
    /// Whether the response's is.
    pub buffers_response: bool,
    /// How urgent it is.
    pub priority: Priority,
    /// What takes the place of errors: of which, and what it is.
    pub fallbacks: Vec<(String, String)>,
}

/// An upstream.
#[derive(Debug)]
pub struct Destination {
    /// Its name; of one written in place, its endpoints.
    pub name: String,
    /// Weight among the route's.
    pub weight: u32,
    /// Its endpoints, as far as they are written down.
    pub endpoints: Vec<Reachable>,
    /// How it chooses among them and copes when they fail: key and words.
    pub rules: Vec<(&'static str, String)>,
}

/// An endpoint.
#[derive(Debug)]
pub struct Reachable {
    /// Where it is.
    pub address: String,
    /// Its weight among the upstream's.
    pub weight: u32,
    /// 0 is used first.
    pub priority: u8,
    /// The zone that it is in.
    pub zone: Option<String>,
    /// Its share of the route's requests (0 to 1) while all are healthy; nothing where further endpoints are looked
    /// up.
    pub share: Option<f64>,
}

/// Collects what there is to say. Of the config comes where routes were written, if it is there. At most `shown` of the
/// other routes are kept.
pub fn report(
    config: Option<&Config>,
    plan: &Plan,
    sent: &str,
    rehearsal: Rehearsal,
    shown: usize,
) -> Report {
    let Rehearsal { sent_path, path, explanation, preflight, policies, outcome } = rehearsal;
    let (sent_path, path) = (lossy(&sent_path), lossy(&path));
    let place =
        |route: u32| config.map_or_else(|| unplaced(plan, route), |config| place(config, plan, route));
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
        (Outcome::Refused { reason, status, detail }, _) => {
            (Some(Refusal { status, reason: reason.as_str(), detail }), None)
        }
        (outcome, Some(route)) => (None, act(plan, route, sent, outcome)),
        (_, None) => (None, None),
    };
    Report {
        method: method.to_owned(),
        target: target.to_owned(),
        host: host.map(|(_, value)| value.to_owned()),
        path: (!path.is_empty()).then_some((sent_path, path)),
        preflight,
        route: winner.map(place),
        others: others.into_iter().take(shown).map(|(route, why)| (place(route), why)).collect(),
        left_out,
        policies,
        refused,
        action,
    }
}

/// A route of which it is not known where it was written.
fn unplaced(plan: &Plan, route: u32) -> Place {
    Place { name: plan.routes[route as usize].name.clone(), file: String::new(), line: 0 }
}

fn place(config: &Config, plan: &Plan, route: u32) -> Place {
    let index = route as usize;
    let at = config.routes.get(index).map_or_else(At::default, |route| {
        // Several matches under one route are several routes, side by side: the match tells them apart.
        let beside = [index.wrapping_sub(1), index + 1];
        let shares =
            beside.iter().any(|&other| config.routes.get(other).is_some_and(|other| other.at == route.at));
        if shares { route.matches.at } else { route.at }
    });
    let file = config.files.get(at.file as usize).map_or_else(String::new, |file| file.name.clone());
    Place { name: plan.routes[index].name.clone(), file, line: at.line }
}

fn act(plan: &Plan, route: &Route, sent: &str, outcome: Outcome) -> Option<Act> {
    match (outcome, &route.action) {
        (Outcome::Forward { head, upgrade, .. }, Action::Forward(shares)) => {
            Some(Act::Forward(Box::new(forward(plan, route, shares, sent, &lossy(&head), upgrade))))
        }
        (Outcome::Redirect { location }, Action::Redirect(redirect)) => {
            Some(Act::Redirect { status: redirect.status, location: lossy(&location) })
        }
        (Outcome::Answered(answer), _) => {
            let tollgate_policy::Answer { status, lines, body } = answer;
            Some(Act::Respond(Respond { status, headers: lines, body }))
        }
        (Outcome::Respond, Action::Respond(respond)) => Some(Act::Respond(respond.clone())),
        _ => None,
    }
}

fn forward(
    plan: &Plan,
    route: &Route,
    shares: &[UpstreamShare],
    sent: &str,
    head: &str,
    upgrade: bool,
) -> Forward {
    let timeouts = &route.timeouts;
    let mut waits = vec![
        ("connect", timeouts.connect),
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
        upstreams: destinations(plan, shares, route.retry.as_ref()),
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

fn destinations(plan: &Plan, shares: &[UpstreamShare], retry: Option<&Retry>) -> Vec<Destination> {
    let all = sum(shares.iter().map(|share| share.weight));
    let destinations = shares.iter().map(|share| {
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

/// The endpoints that are written down. While all are healthy, those of the first priority share the requests, and
/// among them those of the gateway's own zone if there are any.
fn endpoints(plan: &Plan, upstream: &Upstream, part: f64) -> Vec<Reachable> {
    let known = upstream.discover.is_none();
    let weighted = || upstream.endpoints.iter().filter(|endpoint| endpoint.weight > 0);
    let first = weighted().map(|endpoint| endpoint.priority).min().unwrap_or(0);
    let own = plan.settings.zone.as_deref();
    let near = |zone: Option<&str>| own.is_some() && zone == own;
    let any_near = weighted().any(|endpoint| endpoint.priority == first && near(endpoint.zone.as_deref()));
    let takes =
        |endpoint: &Endpoint| endpoint.priority == first && (!any_near || near(endpoint.zone.as_deref()));
    let within = sum(weighted().filter(|endpoint| takes(endpoint)).map(|endpoint| endpoint.weight));
    let one = |endpoint: &Endpoint| Reachable {
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
