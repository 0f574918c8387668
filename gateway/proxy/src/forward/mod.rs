//! A request is forwarded: an endpoint picked, a connection taken or opened, the exchange seen through, and what failed
//! tried again if it may be.
//!
//! [`forward`] is the loop over the attempts. `attempt` is how one begins and ends, `retry` decides whether there is
//! another one, `connect` and `pause` are the waits before it, `discard` gets rid of an answer that nobody will see,
//! `fallback` has what takes the place of an error, `settle` says what becomes of the client. `hedge` has several attempts
//! race, and `runner` is each of them.

mod attempt;
mod connect;
mod discard;
mod fallback;
mod hedge;
mod pause;
mod retry;
mod runner;
mod settle;

use std::future::poll_fn;
use std::marker::PhantomData;
use std::net::SocketAddr;
use std::rc::Rc;

use tollgate_http::RequestHead;
use tollgate_http::h1::Length;
use tollgate_observe::Reason;
use tollgate_plan::{Route, Settings};
use tollgate_upstream::{Outcome, Upstream};

pub(crate) use self::discard::keep;
pub(crate) use self::fallback::{FallBack, FallingBack, Page, choose, fall_back};
use self::retry::Failure;
pub(crate) use self::retry::{Again, Attempts};
use self::settle::after_whole;
use crate::active::ActivePlan;
use crate::affinity::Asker;
use crate::client_side::ClientSide;
use crate::collect::{Collected, collect};
use crate::connection::Client;
use crate::decide::rewrite;
use crate::exchange::End;
use crate::grpc::Patience;
use crate::pass_over::pass_over_rest;
use crate::request::{Next, closes_after};
use crate::respond;
use crate::scratch::Scratch;
use crate::spool::Spool;
use crate::total::Total;
use crate::upstream_side::UpstreamSide;
use crate::worker::Worker;

/// Whether the request says itself that its body is longer than the route takes.
pub(crate) fn declares_too_much(route: &Route, request: &RequestHead) -> bool {
    matches!((route.body_limit, request.length), (Some(limit), Length::Exactly(length)) if length > limit)
}

/// Whether the request asks for an upgrade, to nothing but what the route allows.
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

/// Forwards a request to an endpoint of its route: one attempt after the other, until the client has an answer or there
/// is to be no other attempt.
///
/// Ends with [`FallBack`] where something else takes the place of an error, which is for [`fall_back`].
///
/// All of it is one future, on purpose: each `async fn` below another costs a plain request some 60 instructions. What
/// is called here with `await` is what few requests need.
pub(crate) async fn forward<S: ClientSide, U: UpstreamSide>(
    client: &mut Client<S>,
    worker: &Rc<Worker>,
    scratch: &mut Scratch,
    active: &Rc<ActivePlan>,
    (index, upstream): (u32, &Rc<Upstream>),
) -> Result<Next, FallBack> {
    let (settings, route) = (&active.plan.settings, active.route(index));
    scratch.ledger.upstream = Some(upstream.clone());
    let mut collected = None;
    let is_page = scratch.page().is_some();
    if let Some(falling) = &scratch.fallback {
        collected = falling.collected();
    } else if let Some(bounds) = route.buffer.request
        && !scratch.request.length.is_empty()
    {
        match collect(client, worker, scratch, route, bounds).await {
            Ok(Collected { spool, length }) => {
                scratch.to_upstream.spool_into(spool);
                collected = Some(length);
            }
            Err(reason) => {
                let close = !pass_over_rest(scratch, reason) || closes_after(settings, client, scratch);
                return Ok(respond::error(client, worker, scratch, settings, reason, close).await);
            }
        }
    }
    if let Some(bounds) = route.buffer.response {
        scratch.to_client.spool_into(Spool::new(bounds));
    }
    // A request whose head came in one piece, and for which nobody had to wait since, has just come: one look at the clock
    // less.
    let just_now = scratch.ledger.at_once().filter(|_| !S::POLICED && collected.is_none());
    let mut now = just_now.unwrap_or_else(tollgate_net::now);
    // A page has its own time: why there is an error may be that the request's is over.
    let began = scratch.ledger.started().filter(|_| !is_page).unwrap_or(now);
    let mut total = Total::new(began, route.timeouts.total);
    let mut patience = None;
    if client.stream.may_be_grpc()
        && let Some(grpc) = scratch.grpc
    {
        total = total.and(began, grpc.timeout);
        patience = Patience::new(began, grpc.timeout);
    }
    let upgrade = allows_upgrade(route, &scratch.request) && !is_page;
    let attempts = Attempts::new(upstream, route, total, patience, is_page);
    let mut forwarding = Forwarding::<S, U> {
        client,
        worker,
        scratch,
        settings,
        route,
        upstream,
        upgrade,
        collected,
        attempts,
        speaks: PhantomData,
    };
    // In HTTP/1 the request goes on as an ordinary one; here it has no other meaning.
    if S::EXTENDED && forwarding.scratch.request.extended && !upgrade && !is_page {
        return Ok(forwarding.refuse(Reason::ConnectRefused).await);
    }
    upstream.count_request(now);
    let Some(_under_way) = upstream.state().begin_request() else {
        if forwarding.falls_back(Reason::RequestLimit, Again::Unsent) {
            return Err(FallBack);
        }
        return Ok(forwarding.refuse(Reason::RequestLimit).await);
    };
    loop {
        let mut pool = match forwarding.begin(now) {
            Ok(pool) => pool,
            Err(reason) if forwarding.falls_back(reason, Again::Unsent) => return Err(FallBack),
            Err(reason) => return Ok(forwarding.refuse(reason).await),
        };
        let (mut began, mut stale) = (now, false);
        let mut raced = None;
        if forwarding.is_hedged() {
            raced = Some(Box::pin(forwarding.race(&mut pool, now)).await);
        }
        let failed = loop {
            let mut underway = None;
            let mut connection = match raced.take() {
                Some(Ok(won)) => {
                    (began, now, underway) = (won.began, won.now, Some(won.underway));
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
            let end = match underway.and_then(|underway| exchange.resume(underway)) {
                Some(end) => end,
                None => poll_fn(|cx| exchange.poll(cx)).await,
            };
            let (then, keep, reset) = (exchange.now(), exchange.keep_client, exchange.must_reset());
            match end {
                End::Complete { reusable } => {
                    connection.done(reusable, then);
                    let status = forwarding.answered();
                    if !forwarding.is_clients_choice(status) {
                        upstream.report(&pool, Outcome::Answered(status));
                    }
                    if !forwarding.scratch.to_client.is_empty() {
                        return Ok(forwarding.deliver_rest(then, keep).await);
                    }
                    forwarding.scratch.ledger.ended = Some(then);
                    return Ok(after_whole(&forwarding.scratch.request, keep));
                }
                End::Upgraded => return Ok(forwarding.tunnel(connection).await),
                End::HeldBack { reusable } => {
                    let body = exchange.take_body();
                    forwarding.discard(connection, body.filter(|_| reusable), then);
                    break None;
                }
                End::Replaced { reusable, .. } => {
                    let body = exchange.take_body();
                    forwarding.discard(connection, body.filter(|_| reusable), then);
                    forwarding.note_attempt(&pool, None, began);
                    forwarding.scratch.ledger.endpoint = None;
                    forwarding.leave();
                    return Err(FallBack);
                }
                End::Failed { stale: true, .. } => {
                    // Nobody's fault: the endpoint closed an idle connection while the request was on its way. A fresh
                    // one cannot meet that again. It is no retry and costs no budget: each takes a connection with it
                    // that is there because a request was answered, or is bounded (`may_be_stale`).
                    worker.stats.upstream_stale(pool.slot());
                    forwarding.make_ready_again();
                    stale = true;
                }
                End::Failed { reason, begun, again, body_taken, blame, .. } => {
                    // A part of an interim response that is stuck on its way counts: nothing can follow it.
                    if begun || !forwarding.scratch.to_client.is_empty() {
                        return Ok(forwarding.cut(
                            &pool,
                            Failure { reason, again, body_taken, blame },
                            reset,
                        ));
                    }
                    break Some(Failure { reason, again, body_taken, blame });
                }
            }
        };
        if let Some(failure) = &failed
            && !forwarding.has_another(&pool, failure)
        {
            if forwarding.falls_back(failure.reason, failure.again) {
                forwarding.note_attempt(&pool, Some(failure), began);
                return Err(FallBack);
            }
            return Ok(forwarding.give_up(failure).await);
        }
        forwarding.note_attempt(&pool, failed.as_ref(), began);
        forwarding.make_ready_again();
        forwarding.attempts.avoid(pool);
        match forwarding.pause().await {
            Ok(later) => {
                now = later;
                forwarding.scratch.ledger.attempt_began = Some(now);
            }
            Err(reason) => return Ok(forwarding.refuse(reason).await),
        }
    }
}

/// The upstream that a request goes to, with the path that it goes with in `scratch`. `share`: the one of its route's
/// upstreams that it was found to go to already.
pub(crate) fn destination<'a>(
    scratch: &mut Scratch,
    active: &'a ActivePlan,
    index: u32,
    (peer, share): (&SocketAddr, Option<usize>),
) -> Result<&'a Rc<Upstream>, Reason> {
    let route = active.route(index);
    if declares_too_much(route, &scratch.request) {
        return Err(Reason::BodyTooLarge);
    }
    rewrite(route, scratch)?;
    if let Some(share) = share {
        return active.share(index, share).ok_or(Reason::DestinationUnavailable);
    }
    let asker = Asker::new(scratch, peer);
    active.upstream(index, &asker).ok_or(Reason::DestinationUnavailable)
}

/// What all attempts of one request have in common.
struct Forwarding<'a, S, U> {
    client: &'a mut Client<S>,
    worker: &'a Rc<Worker>,
    scratch: &'a mut Scratch,
    settings: &'a Settings,
    route: &'a Route,
    upstream: &'a Rc<Upstream>,
    /// Whether the request asks for an upgrade that the route allows.
    upgrade: bool,
    /// Length of a body that was collected; it lies in the upstream's backlog, to be sent as often as need be.
    collected: Option<u64>,
    attempts: Attempts<'a>,
    /// What the endpoints speak.
    speaks: PhantomData<U>,
}
