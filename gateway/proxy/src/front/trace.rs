//! Builds the trace of a finished request, for `tollgate trace`.
//!
//! [`build`] runs on the worker, when the record of a followed request is closed. It reads the request state,
//! which still holds the heads, and the record. Everything else is derived again by the functions that
//! handled the request: the head that went upstream is
//! [written](crate::exchange::engine::upstream_head) once more. Why the route was chosen is answered by
//! [`GatheredTrace::complete`] on another thread. So a request pays nothing before its end, except that
//! [policies](crate::policy) note their verdicts.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tollgate_http::h1::BodyLength;
use tollgate_observe::trace::{
    OtherRoute, RequestTrace, TraceEvent, TraceField, TraceHead, TraceStep, TraceTls, mask_query,
    milliseconds, printable,
};
use tollgate_observe::{Reason, Record};
use tollgate_plan::{Action, Plan, Route};
use tollgate_route::{Explanation, FieldSpec, MismatchReason, PathSpec, RouteSpec, ValueSpec};

use crate::exchange::engine::upstream_head::{self, Outgoing};
use crate::exchange::forward::allows_upgrade;
use crate::front::preflight;
use crate::state::followers::{GatheredTrace, RouteQuestion};
use crate::state::record::{EarlierAttempt, EvaluatedPolicy};
use crate::state::request_path::{Routed, normal_path};
use crate::state::request_state::RequestState;
use crate::state::rollout::Rollout;

/// How many of the other routes a trace names.
const OTHERS_MAX: usize = 5;
/// How many bytes of a text that a peer sent a trace shows.
pub(super) const TEXT_MAX_BYTES: usize = 256;
/// How large a head may be for the question why its route was chosen, which keeps a copy of it.
const QUESTION_MAX_BYTES: usize = 8 * 1024;

/// Builds the trace of a finished request on the worker with this number, which runs this plan now.
pub(crate) fn build(
    worker: usize,
    plan: &Arc<Rollout>,
    state: &RequestState,
    record: &Record<'_>,
) -> GatheredTrace {
    let mut steps = Steps { record, steps: Vec::new() };
    steps.add(Some(Duration::ZERO), connection(record));
    let is_known = !record.method.is_empty();
    match is_known {
        true => steps.add(None, request(state, record)),
        false => steps.add(None, TraceEvent::Unreadable { bytes: detail(state) }),
    }
    let question = steps.route(plan, state, is_known);
    steps.policies(state);
    steps.attempts(state);
    if let Some(sent) = sent(state, record) {
        steps.add(None, sent);
    }
    if record.header.is_some() {
        let response = &state.response;
        let fields = response.head.fields().iter();
        let fields = fields.map(|it| (response.head.slice(it.name), response.head.slice(it.value)));
        let head = TraceHead::response(response.status, fields);
        steps.add(record.header, TraceEvent::Received { head });
    }
    if record.status != 0 {
        let by = if record.header.is_some() { "endpoint" } else { "gateway" };
        let fields = TraceHead::lines(&state.record.response);
        steps.add(
            None,
            TraceEvent::Response {
                by: by.to_owned(),
                head: TraceHead::response(record.status, fields),
                bytes: record.bytes_out,
            },
        );
    }
    let reason = reason(record.reason);
    steps.add(
        Some(record.total),
        TraceEvent::End {
            reason: reason.clone(),
            detail: detail(state).filter(|_| is_known),
            grpc_status: record.grpc_status,
            bytes_in: record.bytes_in,
            bytes_out: record.bytes_out,
        },
    );
    let trace = RequestTrace {
        stream: None,
        started: started(record),
        worker,
        method: is_known.then(|| printable(record.method, TEXT_MAX_BYTES)),
        host: record.host.map(|host| printable(host, TEXT_MAX_BYTES)),
        target: is_known.then(|| mask_query(record.target)),
        request_id: record.request_id.map(|id| printable(id, TEXT_MAX_BYTES)),
        status: record.status,
        reason,
        total_ms: milliseconds(record.total),
        steps: steps.steps,
    };
    GatheredTrace { trace, question }
}

impl GatheredTrace {
    /// Returns the trace, with the step that explains the route. With many routes this takes milliseconds, so
    /// it must not run on a worker or on the control thread.
    #[must_use]
    pub fn complete(&self) -> RequestTrace {
        let mut trace = self.trace.clone();
        if let Some(question) = &self.question {
            let step = TraceStep { at_ms: None, event: question.answer() };
            trace.steps.insert(question.step.min(trace.steps.len()), step);
        }
        trace
    }
}

impl RouteQuestion {
    fn answer(&self) -> TraceEvent {
        let Self { plan, route, request, router, path, .. } = self;
        let router = plan.routers.get(*router);
        let asked =
            preflight::route(plan, router, request, path, None).filter(|(found, _)| Some(*found) == *route);
        let explanation = match &asked {
            Some((_, asked)) => router.explain_choice(*route, asked),
            None => router.explain_choice(*route, &Routed { request, path }),
        };
        let mut event = explained(plan, &explanation);
        if let (TraceEvent::Route { because, .. }, Some((_, asked))) = (&mut event, &asked) {
            let method = printable(asked.method, TEXT_MAX_BYTES);
            because.push(format!("it is a CORS preflight for {method}"));
        }
        event
    }
}

/// The steps of a trace so far.
struct Steps<'a> {
    record: &'a Record<'a>,
    steps: Vec<TraceStep>,
}

impl Steps<'_> {
    fn add(&mut self, at: Option<Duration>, event: TraceEvent) {
        self.steps.push(TraceStep { at_ms: at.map(milliseconds), event });
    }

    /// Returns how long after the start of the request a moment is.
    fn since_start(&self, at: Instant) -> Duration {
        at.saturating_duration_since(self.record.started)
    }

    /// Adds the route, or returns the question why it was chosen.
    fn route(&mut self, plan: &Arc<Rollout>, state: &RequestState, is_known: bool) -> Option<RouteQuestion> {
        let (plan, index) = match &state.record.route {
            Some((active, index)) => (&active.plan, Some(*index)),
            // Other reasons end a request before it is routed.
            None if is_known && self.record.reason == Reason::NoRoute => (plan, None),
            None => return None,
        };
        let path = normal_path(&state.request, &state.path);
        if state.request.head.bytes().len() + path.len() > QUESTION_MAX_BYTES {
            let event = index.map(|index| route(plan, index))?;
            self.add(None, event);
            return None;
        }
        Some(RouteQuestion {
            plan: plan.clone(),
            route: index,
            request: state.request.clone(),
            router: state.router,
            path: path.to_vec(),
            step: self.steps.len(),
        })
    }

    fn policies(&mut self, state: &RequestState) {
        let Some(remarks) = state.record.remarks.as_deref() else { return };
        let at = remarks.policies_ended.map(|ended| self.since_start(ended));
        for EvaluatedPolicy { policy, verdict, waited_for, waited } in &remarks.policies {
            let (kind, place) = policy.name();
            let event = TraceEvent::Policy {
                kind: kind.to_owned(),
                place: place.to_owned(),
                verdict: verdict.clone().into_owned(),
                waited_for: waited_for.iter().map(|what| (*what).to_owned()).collect(),
                waited_ms: waited.map(milliseconds),
            };
            self.add(at, event);
        }
        if let Some(name) = self.record.consumer {
            self.add(at, TraceEvent::Consumer { name: name.to_owned() });
        }
    }

    fn attempts(&mut self, state: &RequestState) {
        let record = self.record;
        let remarks = state.record.remarks.as_deref();
        let earlier = remarks.map_or(&[][..], |remarks| &remarks.earlier);
        // The record counts the first attempt from the start of the request, but policies come before it.
        let policies_ended = remarks.and_then(|remarks| remarks.policies_ended);
        let first = policies_ended.map_or(Duration::ZERO, |ended| self.since_start(ended));
        for (index, attempt) in earlier.iter().enumerate() {
            let EarlierAttempt { pool, status, reason: failed, began, took, upstream, connect } = attempt;
            let ended = self.since_start(*began) + *took;
            let began = self.since_start(*began).max(first);
            let event = TraceEvent::Attempt {
                number: index + 1,
                upstream: upstream.as_ref().map_or_else(String::new, |upstream| upstream.name.clone()),
                endpoint: pool.name().to_owned(),
                reused: None,
                connect_ms: connect.map(milliseconds),
                status: Some(*status).filter(|status| *status != 0),
                reason: reason(*failed),
                took_ms: milliseconds(ended.saturating_sub(began)),
            };
            self.add(Some(began), event);
        }
        // There is none after a fallback without a request.
        if state.record.endpoint.is_none() {
            return;
        }
        let again = remarks.and_then(|remarks| remarks.attempt_began);
        let began = again.map_or(first, |began| self.since_start(began));
        let event = TraceEvent::Attempt {
            number: earlier.len() + 1,
            upstream: record.upstream.to_owned(),
            endpoint: record.endpoint.to_owned(),
            reused: is_sent(record).then_some(record.reused),
            connect_ms: record.connect.map(milliseconds),
            status: record.header.map(|_| record.status),
            reason: reason(record.reason),
            took_ms: milliseconds(record.total.saturating_sub(began)),
        };
        self.add(Some(began), event);
    }
}

fn connection(record: &Record<'_>) -> TraceEvent {
    let client = (record.client != record.peer).then(|| match record.client.port() {
        0 => record.client.ip().to_string(),
        _ => record.client.to_string(),
    });
    TraceEvent::Connection { peer: record.peer.to_string(), client, tls: tls(record) }
}

/// Returns the properties of the client's TLS connection, if the gateway terminated it.
pub(super) fn tls(record: &Record<'_>) -> Option<TraceTls> {
    record.tls.as_ref().map(|tls| TraceTls {
        version: tls.version.to_owned(),
        cipher: tls.cipher.to_owned(),
        server_name: tls.server_name.map(str::to_owned),
        client_subject: tls.client_subject.map(|subject| printable(subject.as_bytes(), TEXT_MAX_BYTES)),
    })
}

fn request(state: &RequestState, record: &Record<'_>) -> TraceEvent {
    let head = &state.request.head;
    let fields = head.fields().iter().map(|it| (head.slice(it.name), head.slice(it.value)));
    TraceEvent::Request {
        version: String::from_utf8_lossy(record.version).into_owned(),
        head: TraceHead::request(record.method, record.target, fields),
    }
}

/// Returns whether the last attempt has sent the request. Earlier attempts count in `record.attempts` too.
fn is_sent(record: &Record<'_>) -> bool {
    let has_no_connection = matches!(
        record.reason,
        Reason::DnsError
            | Reason::ConnectionRefused
            | Reason::ConnectionTimeout
            | Reason::TlsProtocolError
            | Reason::TlsCertificateError
            | Reason::TlsAlertReceived
            | Reason::ConnectionLimitReached
            | Reason::QueueTimeout
            | Reason::DestinationUnavailable
            | Reason::NoEndpoints
            | Reason::AdaptiveLimit
            | Reason::CircuitOpen
            | Reason::LoopDetected
    );
    record.attempts > 0 && (record.header.is_some() || record.connect.is_some() || !has_no_connection)
}

/// Returns the head that went to the endpoint of the last attempt.
fn sent(state: &RequestState, record: &Record<'_>) -> Option<TraceEvent> {
    let (active, index) = state.record.route.as_ref()?;
    let (pool, upstream) = (state.record.endpoint.as_ref()?, state.record.upstream.as_ref()?);
    if !is_sent(record) {
        return None;
    }
    let (route, settings) = (active.route(*index), &active.plan.settings);
    let tls = state.record.tls.as_deref();
    let is_collected = route.buffer.request.is_some() && !matches!(state.request.length, BodyLength::None);
    let outgoing = Outgoing {
        state,
        peer: record.peer,
        secure: tls.is_some(),
        identity: tls.and_then(|tls| tls.identity.as_ref()),
        settings,
        route,
        endpoint: pool.name(),
        upgrade: allows_upgrade(route, &state.request) && state.page().is_none(),
        separate_heads: upstream.is_http2(),
        collected: is_collected.then_some(record.bytes_in),
        may_return: upstream_head::may_return(settings, pool),
    };
    let mut head = Vec::new();
    upstream_head::write(&mut head, &outgoing);
    let mut line = head.split(|byte| matches!(byte, b' ' | b'\r'));
    let (method, target) = (line.next().unwrap_or_default(), line.next().unwrap_or_default());
    let shown = TraceHead::request(method, target, TraceHead::lines(&head));
    Some(TraceEvent::Sent { head: shown, bytes: record.bytes_in })
}

pub(super) fn reason(reason: Reason) -> Option<String> {
    (reason != Reason::None).then(|| reason.as_str().to_owned())
}

/// Returns the details of the reason.
fn detail(state: &RequestState) -> Option<String> {
    let remarks = state.record.remarks.as_deref()?;
    let is_request_line = matches!(
        state.record.reason,
        Reason::BadRequestLine | Reason::UnsupportedVersion | Reason::RequestLineTooLong
    );
    match (&remarks.detail, &remarks.rejected) {
        (Some(detail), _) => Some(without_query(detail)),
        (None, Some(rejected)) if is_request_line => Some(without_query(rejected)),
        (None, Some(rejected)) => Some(without_value(rejected).into_owned()),
        (None, None) => None,
    }
}

/// Returns a rejected field line without its value, unless that is harmless.
fn without_value(rejected: &str) -> Cow<'_, str> {
    match rejected.split_once(':') {
        Some((name, value)) if !value.is_empty() && !TraceField::is_shown(name) => {
            format!("{name}: ...").into()
        }
        _ => rejected.into(),
    }
}

/// Returns a detail without what follows a question mark. Bytes of a refused request may contain a query.
fn without_query(detail: &str) -> String {
    match detail.split_once('?') {
        Some((before, _)) => format!("{before}?..."),
        None => detail.to_owned(),
    }
}

/// Returns when the first byte of the request, or the connection, arrived, in seconds since 1970.
pub(super) fn started(record: &Record<'_>) -> f64 {
    let wall = tollgate_net::wall_clock().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    let ago = tollgate_net::now().saturating_duration_since(record.started);
    wall.saturating_sub(ago).as_micros() as f64 / 1e6
}

/// Returns a route without the other ones.
fn route(plan: &Plan, index: u32) -> TraceEvent {
    let explanation = Explanation { winner: Some(index), others: Vec::new() };
    explained(plan, &explanation)
}

fn explained(plan: &Plan, explanation: &Explanation) -> TraceEvent {
    let name = |index: u32| plan.routes[index as usize].name.clone();
    let other =
        |(index, why): &(u32, MismatchReason)| OtherRoute { name: name(*index), why: why.to_string() };
    let Some(winner) = explanation.winner else {
        let mut nearest: Vec<_> = explanation.others.iter().collect();
        nearest.sort_by_key(|(_, why)| distance(why));
        return TraceEvent::NoRoute { nearest: nearest.into_iter().take(OTHERS_MAX).map(other).collect() };
    };
    let beaten =
        || explanation.others.iter().filter(|(_, why)| matches!(why, MismatchReason::LessSpecific(_)));
    let others: Vec<_> = beaten().take(OTHERS_MAX).map(other).collect();
    TraceEvent::Route {
        name: name(winner),
        action: action(&plan.routes[winner as usize]).to_owned(),
        because: conditions(plan.routers.conditions(winner)),
        more_others: beaten().count() - others.len(),
        others,
    }
}

/// Returns how far a route is from a match.
fn distance(why: &MismatchReason) -> u8 {
    match why {
        MismatchReason::LessSpecific(_) | MismatchReason::Disabled | MismatchReason::Listener => 0,
        MismatchReason::Query(_) => 1,
        MismatchReason::Header(_) => 2,
        MismatchReason::Method => 3,
        MismatchReason::Path => 4,
        MismatchReason::Host => 5,
    }
}

fn action(route: &Route) -> &'static str {
    match &route.action {
        Action::Forward(_) => "forward",
        Action::Respond(_) => "respond",
        Action::Redirect(_) => "redirect",
        Action::Files(_) => "files",
    }
}

/// Returns the conditions of a route in words. Values of headers and query parameters may be secrets.
fn conditions(spec: &RouteSpec) -> Vec<String> {
    let mut all = Vec::new();
    all.extend(spec.host.as_ref().map(|host| format!("the host is {host}")));
    match &spec.path {
        PathSpec::Any => {}
        PathSpec::Exact(path) => all.push(format!("the path is {path}")),
        PathSpec::Prefix(path) => all.push(format!("the path is {path} or below it")),
        PathSpec::Regex(pattern) => all.push(format!("the path matches {pattern}")),
        PathSpec::RawPrefix(text) => all.push(format!("the path begins with {text}")),
        PathSpec::Suffix(text) => all.push(format!("the path ends with {text}")),
    }
    if !spec.methods.is_empty() {
        all.push(format!("the method is {}", spec.methods.join(" or ")));
    }
    let field = |what: &str, field: &FieldSpec| {
        let holds = match field.value {
            ValueSpec::Present => "is present",
            ValueSpec::Absent => "is absent",
            ValueSpec::Exact(_) => "has the value",
            ValueSpec::Regex(_) => "matches",
            ValueSpec::NotExact(_) => "has another value, or is absent",
            ValueSpec::NotRegex(_) => "does not match, or is absent",
        };
        format!("the {what} `{}` {holds}", field.name)
    };
    all.extend(spec.headers.iter().map(|header| field("header", header)));
    all.extend(spec.query.iter().map(|parameter| field("query parameter", parameter)));
    if all.is_empty() {
        all.push("it takes every request".to_owned());
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(text: &str) -> Plan {
        let text = format!("listen: 127.0.0.1:0\n{text}");
        let loaded = tollgate_config::from_text("test.yaml", &text, &|_| None);
        let config = loaded.config.unwrap_or_else(|| panic!("{}", loaded.problems.render(false)));
        tollgate_plan::compile(&config).expect("it compiles").plan
    }

    #[test]
    fn a_route_is_explained_by_its_conditions_and_the_routes_that_it_beats() {
        let plan = plan(
            "routes:\n\
             - {name: all, match: \"/*\", respond: 204}\n\
             - {name: items, match: {host: a.example, path: /v1/*, method: GET, headers: {x-key: secret}}, respond: 204}\n\
             - {name: other, match: b.example, respond: 204}\n",
        );
        let lesser = MismatchReason::LessSpecific(tollgate_route::Criterion::Host);
        let explanation =
            Explanation { winner: Some(1), others: vec![(0, lesser), (2, MismatchReason::Host)] };
        let TraceEvent::Route { name, action, because, others, more_others } = explained(&plan, &explanation)
        else {
            panic!("a route")
        };
        assert_eq!((name.as_str(), action.as_str(), more_others), ("items", "respond", 0));
        assert_eq!(
            because,
            [
                "the host is a.example",
                "the path is /v1 or below it",
                "the method is GET",
                "the header `x-key` has the value"
            ]
        );
        assert_eq!(others.len(), 1);
        assert_eq!(others[0].why, "it matches, but its host is less specific");
        assert_eq!(conditions(plan.routers.conditions(0)), ["it takes every request"]);
        let none =
            Explanation { winner: None, others: vec![(2, MismatchReason::Host), (1, MismatchReason::Path)] };
        let TraceEvent::NoRoute { nearest } = explained(&plan, &none) else { panic!("no route") };
        assert_eq!(nearest[0].name, "items");
    }

    #[test]
    fn details_show_no_query() {
        assert_eq!(without_value("X-Key\\x01: secret"), "X-Key\\x01: ...");
        assert_eq!(without_value("Content-Length: 5, 6"), "Content-Length: 5, 6");
        assert_eq!(without_value("no colon"), "no colon");
        assert_eq!(without_query("GET /a?key=secret HTTP/1.1"), "GET /a?...");
        assert_eq!(without_query("no query"), "no query");
    }
}
