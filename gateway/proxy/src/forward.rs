//! One request after the other: decided, forwarded, answered, recorded.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::rc::Rc;
use std::task::Poll;
use std::time::Instant;

use tollgate_http::RequestHead;
use tollgate_http::h1::Length;
use tollgate_net::Peek;
use tollgate_observe::Reason;
use tollgate_plan::{Action, RequestId, Route};
use tollgate_upstream::{Connection, Pool};

use crate::active::ActivePlan;
use crate::collect::{Collected, collect};
use crate::connection::Client;
use crate::decide::{decide, rewrite};
use crate::deliver::deliver;
use crate::exchange::{End, Exchange, Parties};
use crate::ledger;
use crate::linger::linger;
use crate::receive::{Received, receive};
use crate::respond;
use crate::scratch::{Loan, Scratch};
use crate::spool::Spool;
use crate::total::Total;
use crate::tunnel::tunnel;
use crate::worker::Worker;

/// What becomes of the client's connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// It can carry another request.
    KeepAlive,
    /// It is closed at once.
    Close,
    /// It is reset: the client must not take what it got for a whole answer.
    Reset,
    /// It is closed so that the answer arrives, though the client may still be sending.
    Linger,
}

/// Carries requests for as long as they follow each other. Gives the connection back when it is idle.
pub(crate) async fn exchange(mut client: Client) -> Option<Client> {
    let worker = client.worker().clone();
    let mut loan = Loan::new(&worker);
    loop {
        let active = worker.active();
        let next = request(&mut client, &worker, &mut loan, &active).await;
        let now = loan.ledger.ended.take().unwrap_or_else(Instant::now);
        let read_all = loan.inbox.is_empty();
        ledger::close(&worker, &mut loan, now);
        match next {
            Next::KeepAlive => {}
            Next::Reset => {
                client.stream.reset_on_close();
                return None;
            }
            Next::Close if read_all => return None,
            Next::Close | Next::Linger => {
                drop(loan);
                linger(client).await;
                return None;
            }
        }
        client.deadline.set(now, worker.idle_timeout());
        if loan.inbox.is_empty() {
            return Some(client);
        }
        loan.next_request();
    }
}

/// Receives one request and sees it through.
async fn request(
    client: &mut Client,
    worker: &Rc<Worker>,
    scratch: &mut Scratch,
    active: &Rc<ActivePlan>,
) -> Next {
    let settings = &active.plan.settings;
    match receive(client, worker, scratch, &settings.head_limits).await {
        Received::Request => {}
        Received::Nothing => return Next::Close,
        Received::Refused(reason) => {
            return respond::error(client, worker, scratch, settings, reason, true).await;
        }
    }
    client.requests += 1;
    if settings.request_id.enabled {
        identify(&settings.request_id, worker, scratch);
    }
    let close = closes_after(active, client, scratch);
    let route = match decide(&active.plan, scratch) {
        Ok(route) => route,
        Err(reason) => {
            let close = !pass_over_body(scratch) || close || reason == Reason::ConnectRefused;
            return respond::error(client, worker, scratch, settings, reason, close).await;
        }
    };
    scratch.ledger.route = Some((active.clone(), route));
    match &active.route(route).action {
        Action::Forward(_) => forward(client, worker, scratch, active, route).await,
        Action::Respond(answer) => {
            let close = !pass_over_body(scratch) || close;
            respond::fixed(client, worker, scratch, answer, close).await
        }
        Action::Redirect(redirect) => {
            let close = !pass_over_body(scratch) || close;
            respond::redirect(client, worker, scratch, redirect, close).await
        }
    }
}

/// Whether the connection ends with this request, whatever the answer.
fn closes_after(active: &ActivePlan, client: &Client, scratch: &Scratch) -> bool {
    let limit = active.plan.settings.limits.requests_per_connection;
    !scratch.request.keep_alive || limit.is_some_and(|limit| client.requests >= limit)
}

/// Skips a body that nobody wants, if all of it is here. If not, the connection is closed after the answer: to wait
/// for the rest would let a client choose how long.
fn pass_over_body(scratch: &mut Scratch) -> bool {
    match scratch.request.length {
        Length::None | Length::Exactly(0) => true,
        Length::Exactly(length) if length <= scratch.inbox.len() as u64 => {
            scratch.inbox.drain(..length as usize);
            scratch.ledger.bytes_in = length;
            true
        }
        _ => false,
    }
}

/// The client's own id if it is to be accepted and fit to be written into a log, else a new one.
fn identify(settings: &RequestId, worker: &Worker, scratch: &mut Scratch) {
    let id = &mut scratch.ledger.request_id;
    match own_id(settings, &scratch.request) {
        Some(own) => id.extend_from_slice(own),
        None => {
            let mut text = [0; 32];
            worker.request_ids.borrow_mut().write(&mut text);
            id.extend_from_slice(&text);
        }
    }
}

/// The client's own id, if it is to be accepted and fit to be written into a log.
pub(crate) fn own_id<'a>(settings: &RequestId, request: &'a RequestHead) -> Option<&'a [u8]> {
    const LONGEST: usize = 128;
    request.head.get_by_text(settings.header.as_bytes()).filter(|id| {
        settings.accept && (1..=LONGEST).contains(&id.len()) && id.iter().all(u8::is_ascii_graphic)
    })
}

/// Whether the request says itself that its body is longer than the route takes.
pub(crate) fn declares_too_much(route: &Route, request: &RequestHead) -> bool {
    matches!((route.body_limit, request.length), (Some(limit), Length::Exactly(length)) if length > limit)
}

/// Forwards a request to an endpoint of its route.
async fn forward(
    client: &mut Client,
    worker: &Rc<Worker>,
    scratch: &mut Scratch,
    active: &Rc<ActivePlan>,
    index: u32,
) -> Next {
    let (settings, route) = (&active.plan.settings, active.route(index));
    if declares_too_much(route, &scratch.request) {
        return respond::error(client, worker, scratch, settings, Reason::BodyTooLarge, true).await;
    }
    if let Err(reason) = rewrite(route, scratch) {
        let close = !pass_over_body(scratch) || !scratch.request.keep_alive;
        return respond::error(client, worker, scratch, settings, reason, close).await;
    }
    let Some(upstream) = active.upstream(index) else {
        return unavailable(client, worker, scratch, active).await;
    };
    scratch.ledger.upstream = Some(upstream.clone());
    let mut body = None;
    if let Some(bounds) = route.buffer.request
        && !scratch.request.length.is_empty()
    {
        match collect(client, worker, scratch, route, bounds).await {
            Ok(collected) => body = Some(collected),
            Err(reason) => return respond::error(client, worker, scratch, settings, reason, true).await,
        }
    }
    let Some(pool) = upstream.pick().cloned() else {
        return unavailable(client, worker, scratch, active).await;
    };
    scratch.ledger.endpoint = Some(pool.clone());

    let upgrade = allows_upgrade(route, &scratch.request);
    let length = body.as_ref().map(|body| body.length);
    let total = Total::new(scratch.ledger.started().unwrap_or_else(Instant::now), route.timeouts.total);
    if let Some(Collected { spool, .. }) = body {
        scratch.to_upstream.spool_into(spool);
    }
    // A request that came in one piece has just come: one look at the clock less.
    let mut from_pool =
        scratch.ledger.started().filter(|_| length.is_none()).or_else(|| Some(Instant::now()));
    loop {
        let kept = from_pool.and_then(|now| pool.take(now));
        let connected = match kept {
            Some(kept) => Ok((kept, None)),
            None => connect(client, &pool, route, total).await,
        };
        let mut connection = match connected {
            Ok((connection, took)) => {
                scratch.ledger.connect = took;
                connection
            }
            Err(reason) => {
                worker.stats.upstream_failed(pool.slot(), reason);
                // A collected body has been read: what the inbox holds is the next request.
                let close = !(length.is_some() || pass_over_body(scratch)) || !scratch.request.keep_alive;
                return respond::error(client, worker, scratch, settings, reason, close).await;
            }
        };
        scratch.ledger.attempts = scratch.ledger.attempts.saturating_add(1);
        scratch.ledger.reused = connection.is_reused();
        if let Some(bounds) = route.buffer.response {
            scratch.to_client.spool_into(Spool::new(bounds));
        }
        let now = scratch
            .ledger
            .started()
            .filter(|_| scratch.ledger.connect.is_none())
            .unwrap_or_else(Instant::now);
        let upstream = &mut connection;
        let parties =
            Parties { worker, client, scratch, upstream, settings, route, upgrade, collected: length };
        let mut exchange = Exchange::new(parties, now);
        let end = poll_fn(|cx| exchange.poll(cx)).await;
        let (now, keep, reset) = (exchange.now(), exchange.keep_client, exchange.must_reset());
        match end {
            End::Complete { reusable } => {
                if reusable {
                    Pool::put(connection, now);
                } else {
                    drop(connection);
                }
                let Scratch { request, to_client, ledger, .. } = scratch;
                // The upstream has done its part: the client takes the rest in its own time.
                if to_client.is_empty() {
                    ledger.ended = Some(now);
                } else if let Err(reason) = deliver(client, to_client, now, route.timeouts.write, total).await
                {
                    ledger.reason = reason;
                    return Next::Reset;
                }
                return after_whole(request, keep);
            }
            End::Upgraded => {
                tunnel(client, worker, scratch, connection, route.timeouts.upgraded).await;
                return Next::Close;
            }
            End::Failed { stale: true, .. } => {
                // Nobody's fault: the endpoint closed an idle connection while the request was on its way. A fresh
                // one cannot meet that again, so this happens once.
                worker.stats.upstream_stale(pool.slot());
                match length {
                    Some(_) => scratch.to_upstream.rewind(),
                    None => scratch.to_upstream.clear(),
                }
                from_pool = None;
            }
            End::Failed { reason, begun, .. } => {
                drop(connection);
                worker.stats.upstream_failed(pool.slot(), reason);
                // A part of an interim response that is stuck on its way counts: nothing can follow it.
                if begun || !scratch.to_client.is_empty() {
                    scratch.ledger.reason = reason;
                    let reset = reset || reason == Reason::ClientWriteTimeout;
                    return if reset { Next::Reset } else { Next::Close };
                }
                scratch.to_upstream.clear();
                scratch.to_client.clear();
                let whole = scratch.request.length.is_empty()
                    || scratch.ledger.bytes_in == declared(&scratch.request);
                let close = !whole || !scratch.request.keep_alive;
                return respond::error(client, worker, scratch, settings, reason, close).await;
            }
        }
    }
}

/// The declared length of the body; none for chunked: no body that was received equals it.
fn declared(request: &RequestHead) -> u64 {
    match request.length {
        Length::Exactly(length) => length,
        Length::None => 0,
        Length::Chunked | Length::UntilClose => u64::MAX,
    }
}

async fn unavailable(
    client: &mut Client,
    worker: &Worker,
    scratch: &mut Scratch,
    active: &ActivePlan,
) -> Next {
    let close = !pass_over_body(scratch) || !scratch.request.keep_alive;
    respond::error(client, worker, scratch, &active.plan.settings, Reason::DestinationUnavailable, close)
        .await
}

/// Whether the request asks for an upgrade, to nothing but what the route allows.
pub(crate) fn allows_upgrade(route: &Route, request: &RequestHead) -> bool {
    let Some(protocols) = request.upgrade else { return false };
    request.slice(protocols).split(|byte| *byte == b',').all(|protocol| {
        let name = protocol.split(|byte| *byte == b'/').next().unwrap_or_default().trim_ascii();
        route.upgrade.iter().any(|allowed| name.eq_ignore_ascii_case(allowed.as_bytes()))
    })
}

/// A new connection, and how long that took.
async fn connect(
    client: &mut Client,
    pool: &Rc<Pool>,
    route: &Route,
    total: Total,
) -> Result<(Connection, Option<std::time::Duration>), Reason> {
    let start = Instant::now();
    client.deadline.set(start, total.within(start, route.timeouts.connect));
    let mut connecting = pin!(pool.connect());
    let connection = poll_fn(|cx| {
        if let Poll::Ready(result) = connecting.as_mut().poll(cx) {
            return Poll::Ready(result.map_err(|error| error.reason()));
        }
        if client.stream.poll_peek(cx) == Poll::Ready(Peek::Reset) {
            return Poll::Ready(Err(Reason::ClientClosed));
        }
        client
            .deadline
            .poll_passed(cx)
            .map(|()| Err(if total.is_over() { Reason::RequestTimeout } else { Reason::ConnectionTimeout }))
    })
    .await?;
    Ok((connection, Some(start.elapsed())))
}

/// What becomes of the client's connection after a whole response.
fn after_whole(request: &RequestHead, keep: bool) -> Next {
    match (keep, request.length.is_empty() && !request.keep_alive) {
        (true, _) => Next::KeepAlive,
        // The client's own wish, and it has said all.
        (false, true) => Next::Close,
        // The rest of the request, or the next one, may be on its way.
        (false, false) => Next::Linger,
    }
}
