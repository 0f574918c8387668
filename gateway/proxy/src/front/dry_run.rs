//! Determines what a worker would do with a request, without a socket, for `tollgate explain`.
//!
//! [`dry_run`] calls the worker's own functions in the worker's order, so the result matches what would
//! happen. Only steps that need a connection or another system are left out.

use std::borrow::Cow;
use std::net::SocketAddr;
use std::os::unix::ffi::OsStrExt as _;

use tollgate_http::h1::{BodyLength, Progress, RequestParser};
use tollgate_observe::Reason;
use tollgate_plan::{
    Action, CdnLoop, Files, ListenAddress, Plan, PlannedListener, Redirect, Route, Upstream, UpstreamShare,
};
use tollgate_route::Explanation;

use crate::exchange::engine::upstream_head::{self, Outgoing};
use crate::exchange::files::{self, Located};
use crate::exchange::forward::allows_upgrade;
use crate::exchange::forward_target::declares_too_much;
use crate::exchange::forwarded;
use crate::exchange::respond;
use crate::exchange::rewrite::rewrite;
use crate::front::by_host;
use crate::front::decide::decide;
use crate::front::https;
use crate::front::preflight;
use crate::front::receive;
use crate::front::request::own_id;
use crate::policy::dry_run_outcome::{DryRunOutcome, refused};
use crate::policy::{self, DryRunPolicy, DryRunSender, PolicyDryRun};
use crate::state::request_path::{Routed, normal_path, upstream_path};
use crate::state::request_state::RequestState;

/// Replaces the request id that a worker would generate.
pub const NEW_ID: &str = "<new id>";

/// The steps that a worker would take for a request, and their outcome.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DryRun {
    /// The path as sent, without query; empty if the head could not be parsed.
    pub sent_path: Vec<u8>,
    /// The normal form of the path, which is matched; empty if it has none.
    pub path: Vec<u8>,
    /// The route that takes the request, and why the others do not. `None` if the request is refused before
    /// routing.
    pub explanation: Option<Explanation>,
    /// The listener at which it arrives: its name, if it has one, and its address.
    pub listener: Option<(Option<String>, ListenAddress)>,
    /// If the request is a CORS preflight and is routed as the request that it announces: the method of that
    /// request.
    pub preflight: Option<String>,
    /// The policies that it meets, in order.
    pub policies: Vec<DryRunPolicy>,
    /// The outcome.
    pub outcome: DryRunOutcome,
}

/// Takes a request through the plan as a worker would. `head` is the whole head as it would be received,
/// `peer` is the client's address, and `secure` says whether the request comes over TLS. Without `at`, the port that the
/// request names, and TLS, decide at which listener it arrives.
#[must_use]
pub fn dry_run(
    plan: &Plan,
    head: &[u8],
    peer: SocketAddr,
    secure: bool,
    at: Option<&PlannedListener>,
) -> DryRun {
    let mut state = RequestState::default();
    let mut dry_run = DryRun {
        sent_path: Vec::new(),
        path: Vec::new(),
        explanation: None,
        listener: None,
        preflight: None,
        policies: Vec::new(),
        outcome: refused(Reason::IncompleteRequest, None),
    };
    match RequestParser::default().advance(head, &mut state.request, &plan.settings.head_limits) {
        Ok(Progress::Complete(_)) => {}
        Ok(Progress::Partial) => return dry_run,
        Err(error) => {
            dry_run.outcome = refused(receive::reason(error), None);
            return dry_run;
        }
    }
    let RequestState { request, record, .. } = &mut state;
    record.announced.read(&plan.settings.forwarded, request, peer.ip());
    if state.request.head.has_any(forwarded::CLAIMS) {
        forwarded::drop_claims(&mut state.request, &plan.settings.forwarded, peer.ip());
    }
    dry_run.sent_path = state.request.slice(state.request.path).to_vec();
    let mut listener = at.or_else(|| https::listener(plan, &state.request, secure));
    if let Some(streams) = listener.filter(|_| secure).and_then(|listener| listener.streams.as_ref())
        && streams.named(state.request.slice(state.request.host)).is_some()
    {
        let detail = "a stream takes the connections of this host: `--listener` and `--sni` explain it";
        dry_run.outcome = refused(Reason::MisdirectedRequest, Some(detail));
        return dry_run;
    }
    if let Some(at) = listener.filter(|listener| listener.by_host) {
        let host = state.request.slice(state.request.host);
        // A client opens its connection for the host that it asks for.
        match by_host::listener(plan, at, host, None) {
            Ok(chosen) => listener = Some(chosen),
            Err(reason) => {
                dry_run.outcome = refused(reason, Some("no listener of this address has the host"));
                return dry_run;
            }
        }
    }
    dry_run.listener = listener.map(|listener| (listener.name.clone(), listener.bind.clone()));
    let router = plan.routers.get(listener.map_or(0, |listener| listener.router));
    let route = match decide(plan, router, &mut state, listener) {
        Err(Reason::BadPath) => {
            dry_run.outcome = refused(Reason::BadPath, fixed(state.record.remarks().detail.take()));
            return dry_run;
        }
        Err(Reason::ConnectRefused) => {
            dry_run.outcome = refused(Reason::ConnectRefused, None);
            return dry_run;
        }
        other => other,
    };
    let RequestState { request, path, .. } = &state;
    let path = normal_path(request, path);
    dry_run.path = path.to_vec();
    dry_run.explanation = Some(match preflight::route(plan, router, request, path, listener) {
        Some((_, asked)) => {
            dry_run.preflight = Some(String::from_utf8_lossy(asked.method).into_owned());
            router.explain(&asked)
        }
        None => router.explain(&Routed { request, path }),
    });
    if let Some(redirect) = https::redirect(listener, &state) {
        dry_run.outcome = redirected(redirect, &mut state, secure);
        return dry_run;
    }
    let index = match route {
        Err(reason) => {
            dry_run.outcome = refused(reason, None);
            return dry_run;
        }
        Ok(index) => index,
    };
    let route = &plan.routes[index as usize];
    let settings = &plan.settings;
    if settings.request_id.enabled {
        let RequestState { request, record, .. } = &mut state;
        record.request_id = own_id(&settings.request_id, request).unwrap_or(NEW_ID.as_bytes()).to_vec();
    }
    let sender = DryRunSender { peer, secure, listener };
    let PolicyDryRun { policies, end, share } = policy::dry_run(plan, route, &mut state, sender);
    dry_run.policies = policies;
    dry_run.outcome = end.unwrap_or_else(|| apply_action(plan, route, &mut state, sender, share));
    dry_run
}

/// Returns a detail that does not depend on the request's bytes.
fn fixed(detail: Option<Cow<'static, str>>) -> Option<&'static str> {
    match detail {
        Some(Cow::Borrowed(detail)) => Some(detail),
        Some(Cow::Owned(_)) | None => None,
    }
}

/// Returns the outcome of a redirect, as [`respond::redirect`] would send it.
fn redirected(redirect: &Redirect, state: &mut RequestState, secure: bool) -> DryRunOutcome {
    let secure = state.record.announced.is_secure(secure);
    let mut location = Vec::new();
    match respond::location(&mut location, redirect, state, secure) {
        Ok(()) => DryRunOutcome::Redirect { location },
        Err((reason, detail)) => refused(reason, Some(detail)),
    }
}

/// Returns what a route with files answers with.
fn served(state: &mut RequestState, route: &Route, site: &Files) -> DryRunOutcome {
    let path = |below: Vec<u8>| {
        let root = site.site.settings().root.as_os_str().as_bytes();
        let root = root.strip_suffix(b"/").unwrap_or(root);
        [root, b"/", &below].concat()
    };
    match files::look_up_blocking(state, route, site) {
        Ok(Located::File(_, below)) => DryRunOutcome::File { path: path(below), is_list: false },
        Ok(Located::List(_, below)) => DryRunOutcome::File { path: path(below), is_list: true },
        Ok(Located::Moved(location)) => DryRunOutcome::Redirect { location },
        Err((reason, detail)) => refused(reason, detail),
    }
}

/// Applies the route's action. `chosen` is the upstream of the route, by number, if a policy has named one.
fn apply_action(
    plan: &Plan,
    route: &Route,
    state: &mut RequestState,
    DryRunSender { peer, secure, .. }: DryRunSender<'_>,
    chosen: Option<usize>,
) -> DryRunOutcome {
    let targets = match &route.action {
        Action::Respond(_) => return DryRunOutcome::Respond,
        Action::Redirect(redirect) => return redirected(redirect, state, secure),
        Action::Files(files) => return served(state, route, files),
        Action::Forward(targets) => targets,
    };
    let shares = &targets.shares;
    if declares_too_much(route, &state.request) {
        return refused(Reason::BodyTooLarge, None);
    }
    let takes = |(index, share): &(usize, &UpstreamShare)| match chosen {
        Some(chosen) => *index == chosen,
        None => share.weight > 0,
    };
    let none_forwards = chosen.is_none() && shares.iter().all(|share| share.weight == 0);
    if none_forwards && targets.answers.iter().any(|answer| answer.weight > 0) {
        return DryRunOutcome::Respond;
    }
    let taking = shares.iter().enumerate().filter(takes);
    let upstreams = taking.map(|(_, share)| &plan.upstreams[share.upstream]);
    let mut endpoints =
        upstreams.flat_map(|upstream| &upstream.endpoints).filter(|endpoint| endpoint.weight > 0);
    let Some(endpoint) = endpoints.next() else {
        let is_empty = |upstream: &Upstream| upstream.endpoints.is_empty() && upstream.discover.is_none();
        let mut taking = shares.iter().enumerate().filter(takes).peekable();
        if taking.peek().is_some() && taking.all(|(_, share)| is_empty(&plan.upstreams[share.upstream])) {
            return refused(Reason::NoEndpoints, Some("the upstream has no endpoints"));
        }
        return refused(Reason::DestinationUnavailable, Some("every endpoint has weight 0"));
    };
    if let Err(reason) = rewrite(route, state) {
        return refused(reason, fixed(state.record.remarks().detail.take()));
    }
    let settings = &plan.settings;
    let collected = match state.request.length {
        BodyLength::Exactly(length) if length > 0 && route.buffer.request.is_some() => Some(length),
        _ => None,
    };
    let upgrade = allows_upgrade(route, &state.request);
    let endpoint = endpoint.address.to_string();
    let mut head = Vec::new();
    let outgoing = Outgoing {
        state,
        peer,
        secure,
        identity: None,
        settings,
        route,
        endpoint: &endpoint,
        upgrade,
        separate_heads: false,
        collected,
        may_return: settings.forwarded.cdn_loop == CdnLoop::Always,
    };
    upstream_head::write(&mut head, &outgoing);
    DryRunOutcome::Forward { path: upstream_path(state).to_vec(), head, upgrade }
}

#[cfg(test)]
mod tests {
    use tollgate_config::from_text;

    use super::*;

    fn plan(text: &str) -> Plan {
        tollgate_policy::register();
        let loaded = from_text("test.yaml", &format!("listen: 127.0.0.1:0\n{text}"), &|_| None);
        let config = loaded.config.unwrap_or_else(|| panic!("{}", loaded.problems.render(false)));
        tollgate_plan::compile(&config).expect("it compiles").plan
    }

    fn run(plan: &Plan, head: &str) -> DryRun {
        dry_run(plan, head.as_bytes(), SocketAddr::from(([192, 0, 2, 1], 4711)), false, None)
    }

    const ROUTES: &str = "\
request_id: on
routes:
  - {match: /v1/*, to: \"10.0.0.1:80\", rewrite: {prefix: /}, limits: {body: 10}}
  - {match: /old, redirect: {path: /new, status: 301}}
  - {match: /fixed, respond: 204}
";

    #[test]
    fn the_head_equals_that_of_a_worker() {
        let dry_run =
            run(&plan(ROUTES), "GET /v1/./a?b HTTP/1.1\r\nHost: h\r\nKeep-Alive: 5\r\nX-A: 1\r\n\r\n");
        assert_eq!(dry_run.sent_path, b"/v1/./a");
        assert_eq!(dry_run.path, b"/v1/a");
        let explanation = dry_run.explanation.expect("it was routed");
        assert_eq!((explanation.winner, explanation.others.len()), (Some(0), 2));
        let DryRunOutcome::Forward { path, head, upgrade } = dry_run.outcome else { panic!("forwarded") };
        assert_eq!((path.as_slice(), upgrade), (b"/a".as_slice(), false));
        let head = String::from_utf8(head).expect("text");
        assert_eq!(
            head,
            "GET /a?b HTTP/1.1\r\nHost: h\r\nX-A: 1\r\nX-Forwarded-For: 192.0.2.1\r\n\
             X-Forwarded-Proto: http\r\nX-Forwarded-Host: h\r\nX-Request-Id: <new id>\r\n\r\n"
        );
    }

    #[test]
    fn responses_of_the_gateway_itself() {
        let plan = plan(ROUTES);
        let outcome = |head: &str| run(&plan, head).outcome;
        let location = b"http://h:81/new?q".to_vec();
        assert_eq!(
            outcome("GET /old?q HTTP/1.1\r\nHost: h:81\r\n\r\n"),
            DryRunOutcome::Redirect { location }
        );
        assert_eq!(outcome("GET /fixed HTTP/1.1\r\nHost: h\r\n\r\n"), DryRunOutcome::Respond);
        let DryRunOutcome::Refused { reason, .. } = outcome("GET /old HTTP/1.0\r\n\r\n") else {
            panic!("refused")
        };
        assert_eq!(reason, Reason::BadHost);
    }

    #[test]
    fn refusals() {
        let plan = plan(ROUTES);
        for (head, reason, routed) in [
            ("GET /nowhere HTTP/1.1\r\nHost: h\r\n\r\n", Reason::NoRoute, true),
            ("GET /a%2Fb HTTP/1.1\r\nHost: h\r\n\r\n", Reason::BadPath, false),
            ("GET /v1 HTTP/1.1\r\n\r\n", Reason::BadHost, false),
            ("GET /v1 HTTP/1.1\r\nHost: h\r\n", Reason::IncompleteRequest, false),
            ("CONNECT h:1 HTTP/1.1\r\nHost: h:1\r\n\r\n", Reason::ConnectRefused, false),
            ("POST /v1 HTTP/1.1\r\nHost: h\r\nContent-Length: 11\r\n\r\n", Reason::BodyTooLarge, true),
        ] {
            let dry_run = run(&plan, head);
            let DryRunOutcome::Refused { reason: found, .. } = dry_run.outcome else {
                panic!("{head}: refused")
            };
            assert_eq!((found, dry_run.explanation.is_some()), (reason, routed), "{head}");
        }
    }

    #[test]
    fn no_upstream_takes_requests() {
        let mut plan = plan(ROUTES);
        let upstream = std::sync::Arc::make_mut(&mut plan.upstreams[0]);
        upstream.endpoints[0].weight = 0;
        let dry_run = run(&plan, "GET /v1 HTTP/1.1\r\nHost: h\r\n\r\n");
        assert!(matches!(
            dry_run.outcome,
            DryRunOutcome::Refused { reason: Reason::DestinationUnavailable, .. }
        ));
    }

    #[test]
    fn an_accepted_id_goes_on() {
        let dry_run = run(&plan(ROUTES), "GET /v1 HTTP/1.1\r\nHost: h\r\nX-Request-Id: mine\r\n\r\n");
        let DryRunOutcome::Forward { head, .. } = dry_run.outcome else { panic!("forwarded") };
        assert!(String::from_utf8_lossy(&head).contains("X-Request-Id: mine\r\n"));
    }
}
