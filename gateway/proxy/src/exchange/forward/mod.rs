//! Forwards a request: picks an endpoint, takes or opens a connection, runs the exchange, and retries what
//! failed.
//!
//! [`request`](crate::front::request) calls [`forward`] once the upstream is known. `forward` is the loop over the
//! attempts. Each round does this:
//!
//! 1. `attempt` starts the attempt and picks the endpoint.
//! 2. `connect` waits for a connection if the pool has none that is free. If the upstream hedges, `hedge`
//!    races two attempts instead, each in an `attempt_task`, which runs step 3 up to the response head.
//! 3. [`Exchange`](crate::exchange::engine) sends the request and receives the response.
//! 4. `retry` decides whether another attempt follows, and `pause` waits before it. `discard` reads the rest
//!    of a response that the client does not get.
//!
//! At the end, `answer` answers the client and decides what happens to its connection. `fallback` replaces an
//! error by another upstream's response, a page, or a fixed response.

mod answer;
mod attempt;
mod attempt_task;
pub(crate) mod connect;
mod discard;
mod fallback;
mod hedge;
mod pause;
pub(crate) mod retry;

use std::future::poll_fn;
use std::marker::PhantomData;
use std::rc::Rc;

use tollgate_http::RequestHead;
use tollgate_observe::Reason;
use tollgate_plan::{GatewaySettings, Route};
use tollgate_upstream::{Outcome, Upstream};

use self::answer::after_whole;
pub(crate) use self::fallback::fall_back;
use self::retry::AttemptFailure;
pub(crate) use self::retry::{Replay, RequestAttempts};
use crate::exchange::collect::{Collected, collect};
use crate::exchange::engine::{ClientAfter, ExchangeEnd};
use crate::exchange::forward_target::ForwardTarget;
use crate::exchange::grpc::ClientDeadline;
use crate::exchange::respond;
use crate::exchange::skip_body::skip_rest_of_body;
use crate::exchange::upstream_side::UpstreamSide;
use crate::state::active::ActivePlan;
use crate::state::client::Client;
use crate::state::client_side::ClientSide;
use crate::state::connection_fate::ConnectionFate;
use crate::state::fallback_state::FallbackChosen;
use crate::state::request_state::RequestState;
use crate::state::spool::Spool;
use crate::state::time_limit::TimeLimit;
use crate::state::worker::Worker;

/// Returns whether the request asks for an upgrade, and the route allows all protocols that it names.
#[inline]
pub(crate) fn allows_upgrade(route: &Route, request: &RequestHead) -> bool {
    request.upgrade.is_some_and(|protocols| allows_all(route, request.slice(protocols)))
}

fn allows_all(route: &Route, protocols: &[u8]) -> bool {
    protocols.split(|byte| *byte == b',').all(|protocol| {
        let name = protocol.split(|byte| *byte == b'/').next().unwrap_or_default().trim_ascii();
        route.upgrade.iter().any(|allowed| name.eq_ignore_ascii_case(allowed.as_bytes()))
    })
}

/// Forwards a request to the endpoints of an upstream, one attempt after another, until the client has a
/// response or no more attempts are allowed.
///
/// Returns [`FallbackChosen`] if a fallback was chosen to replace an error; the caller passes that to
/// [`fall_back`].
///
/// This is deliberately one large future, since each nested `async fn` costs a plain request some 60
/// instructions. The parts called with `await` are needed by few requests.
pub(crate) async fn forward<S: ClientSide, U: UpstreamSide>(
    client: &mut Client<S>,
    worker: &Rc<Worker>,
    state: &mut RequestState,
    active: &Rc<ActivePlan>,
    ForwardTarget { route, upstream }: ForwardTarget<'_>,
) -> Result<ConnectionFate, FallbackChosen> {
    let (settings, route) = (&active.plan.settings, active.route(route));
    state.record.upstream = Some(upstream.clone());
    let mut collected = None;
    let is_page = state.page().is_some();
    if let Some(falling) = &state.fallback {
        collected = falling.collected();
    } else if let Some(bounds) = route.buffer.request
        && !state.request.length.is_empty()
    {
        match collect(client, worker, state, &settings.head_limits, route, bounds).await {
            Ok(Collected { spool, length }) => {
                state.to_upstream.spool_into(spool);
                collected = Some(length);
            }
            Err(reason) => {
                let close = client.closes_after(settings, &state.request);
                let close = skip_rest_of_body(state, reason, close);
                return Ok(respond::error(client, worker, state, settings, reason, close).await);
            }
        }
    }
    if let Some(bounds) = route.buffer.response {
        state.to_client.spool_into(Spool::new(bounds));
    }
    // If the head arrived in one piece and nothing was awaited since, the request has just arrived: that
    // saves one read of the clock.
    let just_now = state.record.whole_head_started().filter(|_| !S::WRAPS_CLIENT && collected.is_none());
    let mut now = just_now.unwrap_or_else(tollgate_net::now);
    // A page has its own time, because the request's time may be over, and that may be the error.
    let began = state.record.started().filter(|_| !is_page).unwrap_or(now);
    let mut total = TimeLimit::new(began, route.timeouts.total);
    let mut client_deadline = None;
    if client.stream.may_be_grpc()
        && let Some(grpc) = state.grpc
    {
        total = total.and(began, grpc.timeout);
        client_deadline = ClientDeadline::new(began, grpc.timeout);
    }
    let upgrade = allows_upgrade(route, &state.request) && !is_page;
    let attempts = RequestAttempts::new(upstream, route, now, total, client_deadline, is_page);
    let mut forwarding = Forwarding::<S, U> {
        client,
        worker,
        state,
        active,
        settings,
        route,
        upstream,
        upgrade,
        collected,
        attempts,
        speaks: PhantomData,
    };
    // In HTTP/1 the request goes on without its upgrade; an extended CONNECT has no other meaning.
    if S::EXTENDED && forwarding.state.request.extended && !upgrade && !is_page {
        return Ok(forwarding.refuse(Reason::ConnectRefused).await);
    }
    upstream.count_request(now);
    let Some(_under_way) = upstream.state().try_begin_request() else {
        if forwarding.falls_back(Reason::RequestLimit, Replay::Unsent) {
            return Err(FallbackChosen);
        }
        return Ok(forwarding.refuse(Reason::RequestLimit).await);
    };
    loop {
        let mut pool = match forwarding.begin(now) {
            Ok(pool) => pool,
            Err(reason) if forwarding.falls_back(reason, Replay::Unsent) => return Err(FallbackChosen),
            Err(reason) => return Ok(forwarding.refuse(reason).await),
        };
        let (mut began, mut stale) = (now, false);
        let mut raced = None;
        if forwarding.is_hedged() {
            raced = Some(Box::pin(forwarding.race(&mut pool, now)).await);
        }
        let failed = loop {
            let mut started = None;
            let mut connection = match raced.take() {
                Some(Ok(won)) => {
                    (began, now, started) = (won.began, won.now, Some(won.started));
                    won.connection
                }
                Some(Err(failure)) => break Some(failure),
                None => match if stale { None } else { U::take(&pool, now) } {
                    Some(kept) => kept,
                    None => match forwarding.connect(&pool, began).await {
                        Ok(opened) => {
                            now = tollgate_net::now();
                            opened
                        }
                        Err(failure) => break Some(failure),
                    },
                },
            };
            let mut exchange = forwarding.exchange(&mut connection, began, now);
            let end = match started.and_then(|started| exchange.resume(started)) {
                Some(end) => end,
                None => poll_fn(|cx| exchange.poll(cx)).await,
            };
            let (then, client_after) = (exchange.now(), exchange.client_after);
            let keep = client_after == ClientAfter::KeepsAlive;
            match end {
                ExchangeEnd::Complete { reusable } => {
                    connection.done(reusable, then);
                    let status = forwarding.answered();
                    if !forwarding.is_clients_choice(status) {
                        upstream.report(&pool, Outcome::Answered(status));
                    }
                    if !forwarding.state.to_client.is_empty() {
                        return Ok(forwarding.deliver_rest(then, keep).await);
                    }
                    forwarding.state.record.ended = Some(then);
                    return Ok(after_whole(&forwarding.state.request, keep));
                }
                ExchangeEnd::Upgraded => return Ok(forwarding.tunnel(connection).await),
                ExchangeEnd::HeldBack { reusable } => {
                    let body = exchange.take_body();
                    forwarding.discard(connection, body.filter(|_| reusable), then);
                    break None;
                }
                ExchangeEnd::Replaced { reusable, .. } => {
                    let body = exchange.take_body();
                    forwarding.discard(connection, body.filter(|_| reusable), then);
                    forwarding.note_attempt(&pool, None, began);
                    forwarding.state.record.endpoint = None;
                    forwarding.leave();
                    return Err(FallbackChosen);
                }
                ExchangeEnd::Failed { stale: true, .. } => {
                    // No side is at fault: the endpoint closed an idle connection while the request was on
                    // its way. A fresh connection cannot have this problem. It is not a retry and costs no
                    // budget. Each of these tries uses up a connection that exists because a request was
                    // answered, or is bounded (`may_be_stale`).
                    worker.stats.upstream_stale(pool.slot());
                    forwarding.make_ready_again();
                    stale = true;
                }
                ExchangeEnd::Failed { reason, final_sent, again, body_taken, blame, .. } => {
                    // A partly sent interim response counts as well: no other response can follow it.
                    if final_sent || !forwarding.state.to_client.is_empty() {
                        return Ok(forwarding.cut(
                            &pool,
                            AttemptFailure { reason, again, body_taken, blame },
                            client_after,
                        ));
                    }
                    break Some(AttemptFailure { reason, again, body_taken, blame });
                }
            }
        };
        if let Some(failure) = &failed
            && !forwarding.has_another(&pool, failure)
        {
            if forwarding.falls_back(failure.reason, failure.again) {
                forwarding.note_attempt(&pool, Some(failure), began);
                // It is one of the earlier attempts now, whether another one follows or not.
                forwarding.state.record.endpoint = None;
                return Err(FallbackChosen);
            }
            return Ok(forwarding.give_up(failure).await);
        }
        forwarding.note_attempt(&pool, failed.as_ref(), began);
        forwarding.make_ready_again();
        forwarding.attempts.avoid(pool);
        match forwarding.pause().await {
            Ok(later) => {
                now = later;
                forwarding.state.record.remarks().attempt_began = Some(now);
            }
            Err(reason) => return Ok(forwarding.refuse(reason).await),
        }
    }
}

/// The state that all attempts of one request share.
struct Forwarding<'a, S, U> {
    client: &'a mut Client<S>,
    worker: &'a Rc<Worker>,
    state: &'a mut RequestState,
    active: &'a ActivePlan,
    settings: &'a GatewaySettings,
    route: &'a Route,
    upstream: &'a Rc<Upstream>,
    /// Whether the request asks for an upgrade that the route allows.
    upgrade: bool,
    /// The length of a body that was collected. It is in the upstream's backlog, and can be sent repeatedly.
    collected: Option<u64>,
    attempts: RequestAttempts<'a>,
    /// The version of HTTP that the endpoints speak.
    speaks: PhantomData<U>,
}
