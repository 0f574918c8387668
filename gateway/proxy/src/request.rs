//! Handles requests, one after another on a connection: receive, decide, forward or answer, record.
//!
//! [`exchanges`] is the reusable future that `connection` borrows while a client sends requests. For each
//! head that [`receive`] returns, [`request`] drives the rest. `http2` and `policy` call `request` too, with
//! other client sides. Its result, [`Next`], says what happens to the client's connection.

use std::convert::Infallible;
use std::rc::Rc;

use tollgate_http::RequestHead;
use tollgate_observe::Reason;
use tollgate_plan::{Action, GatewaySettings, RequestId};
use tollgate_upstream::Connection;

use crate::active::ActivePlan;
use crate::client_side::ClientSide;
use crate::connection::{Client, ExchangeSeat, Then};
use crate::decide::decide;
use crate::forward::{FallBack, choose, destination, fall_back, forward};
use crate::forwarded;
use crate::grpc::translate;
use crate::http2::EndpointStream;
use crate::https;
use crate::ledger;
use crate::linger::linger;
use crate::pass_over::{discard, pass_over_body, pass_over_rest};
use crate::policy::{self, Met};
use crate::receive::{Received, receive};
use crate::respond;
use crate::scratch::{Loan, Scratch};
use crate::worker::Worker;

/// The fate of the client's connection after a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// It can carry another request.
    KeepAlive,
    /// It is closed at once.
    Close,
    /// It is reset: the client must not mistake a partial response for a complete one.
    Reset,
    /// It is closed in a way that delivers the response, though the client may still be sending.
    Linger,
}

/// Handles runs of requests, one connection at a time.
pub(crate) async fn exchanges(seat: Rc<ExchangeSeat>) -> Infallible {
    loop {
        let client = seat.next().await;
        let then = exchange(client).await;
        seat.done(then);
    }
}

/// Handles the requests of a connection for as long as one follows another.
async fn exchange(mut client: Box<Client>) -> Then {
    let worker = client.worker().clone();
    let mut loan = Loan::new(&worker);
    loop {
        let mut active = worker.active();
        let limits = &active.plan.settings.head_limits;
        let next = match receive(&mut client, &worker, &mut loan, limits).await {
            Received::Request => {
                client.requests += 1;
                // Receiving the head may have taken a while, and the state of a previous plan is not kept.
                if !worker.runs(&active) {
                    active = worker.active();
                }
                client.link.renew();
                request(&mut client, &worker, &mut loan, &active).await
            }
            Received::Nothing => Next::Close,
            Received::Refused(reason) => {
                respond::error(&mut client, &worker, &mut loan, &active.plan.settings, reason, true).await
            }
            Received::Http2 => {
                let received = std::mem::take(&mut loan.inbox);
                return Then::Http2(Box::new((client, received)));
            }
        };
        let now = loan.ledger.ended.take().unwrap_or_else(tollgate_net::now);
        let read_all = loan.inbox.is_empty();
        ledger::close(&worker, &mut loan, now);
        match next {
            Next::KeepAlive => {
                if let Some(body) = loan.unread.take()
                    && !Box::pin(discard(&mut client, &worker, &mut loan.inbox, body)).await
                {
                    drop(loan);
                    linger(client).await;
                    return Then::Closed;
                }
            }
            Next::Reset => {
                client.stream.reset_on_close();
                return Then::Closed;
            }
            Next::Close if read_all => return Then::Closed,
            Next::Close | Next::Linger => {
                drop(loan);
                linger(client).await;
                return Then::Closed;
            }
        }
        client.deadline.set(now, client.link.idle_bound(now));
        if loan.inbox.is_empty() {
            return Then::Idle(client);
        }
        loan.next_request();
    }
}

/// Handles one request whose head was received. If policies delay it or change its bodies, they call this
/// again with themselves as the client's side; it then continues after routing.
pub(crate) async fn request<S: ClientSide>(
    client: &mut Client<S>,
    worker: &Rc<Worker>,
    scratch: &mut Scratch,
    active: &Rc<ActivePlan>,
) -> Next {
    let settings = &active.plan.settings;
    if scratch.request.head.has_any(forwarded::CLAIMS) && !S::POLICED {
        forwarded::drop_claims(&mut scratch.request, &settings.forwarded, client.peer.ip());
    }
    if settings.request_id.enabled && !S::POLICED {
        identify(&settings.request_id, worker, scratch);
    }
    if !S::POLICED {
        let Scratch { request, ledger, .. } = &mut *scratch;
        ledger.announced.read(&settings.forwarded, request, client.peer.ip());
    }
    let close = closes_after(settings, client, scratch);
    let known = if S::POLICED { scratch.ledger.route.as_ref().map(|(_, route)| *route) } else { None };
    let (route, share) = if let Some(route) = known {
        (route, client.stream.share())
    } else {
        if is_misdirected(client, &scratch.request) {
            let close = !pass_over_body(scratch) || close;
            let reason = Reason::MisdirectedRequest;
            return respond::error(client, worker, scratch, settings, reason, close).await;
        }
        let decided = decide(&active.plan, scratch, Some(&client.link.listener.bind));
        if client.link.listener.redirect.is_some()
            && !matches!(decided, Err(Reason::BadPath | Reason::ConnectRefused))
        {
            let listener = client.link.listener.clone();
            if let Some(redirect) = https::redirect(Some(&listener), scratch) {
                let close = !pass_over_body(scratch) || close;
                return respond::redirect(client, worker, scratch, redirect, close).await;
            }
        }
        let route = match decided {
            Ok(route) => route,
            Err(reason) => {
                let close = !pass_over_body(scratch) || close || reason == Reason::ConnectRefused;
                return respond::error(client, worker, scratch, settings, reason, close).await;
            }
        };
        scratch.ledger.route = Some((active.clone(), route));
        let chosen = active.route(route);
        if let Some(stay) = &chosen.stay {
            client.link.stay(stay);
            client.stream.stays(stay);
        }
        let mut share = None;
        if chosen.policies.is_some() {
            // In two steps, because the carried future borrows what the other step needs.
            let met = match policy::police(client, worker, scratch, active, route) {
                Met::Through(share) => Ok(share),
                Met::End(end) => Err(end),
                Met::More(carried) => return carried.await,
            };
            share = match met {
                Ok(share) => share,
                Err(end) => return policy::end(client, worker, scratch, settings, (end, close)).await,
            };
        }
        (route, share)
    };
    let chosen = active.route(route);
    let forwarded = match &chosen.action {
        Action::Forward(_) if worker.rejects(chosen.priority) => {
            worker.stats.shed(chosen.priority as usize);
            let close = !pass_over_body(scratch) || close;
            Ok(respond::error(client, worker, scratch, settings, Reason::Overload, close).await)
        }
        Action::Forward(_) => {
            match destination(scratch, active, route, (&client.peer, share)) {
                Ok(upstream) if chosen.grpc_web && translate::is_web(&scratch.request) => {
                    let to = (route, upstream);
                    Ok(Box::pin(translate::forward_web(client, worker, scratch, active, to)).await)
                }
                Ok(upstream) if upstream.is_http2() => {
                    // In a box of its own, so that this rarer case does not enlarge the future of every
                    // request.
                    let to = (route, upstream);
                    Box::pin(forward::<S, EndpointStream>(client, worker, scratch, active, to)).await
                }
                Ok(_) if client.stream.may_be_grpc() && scratch.grpc.is_some() => {
                    let close = !pass_over_body(scratch) || close;
                    Ok(respond::error(client, worker, scratch, settings, Reason::GrpcNeedsHttp2, close).await)
                }
                Ok(upstream) => {
                    forward::<S, Connection>(client, worker, scratch, active, (route, upstream)).await
                }
                Err(reason)
                    if chosen.fallback.is_some()
                        && !(client.stream.may_be_grpc() && scratch.grpc.is_some())
                        && choose(scratch, reason.status(), reason, true) =>
                {
                    Err(FallBack)
                }
                Err(reason) => {
                    let close = !pass_over_rest(scratch, reason) || close;
                    Ok(respond::error(client, worker, scratch, settings, reason, close).await)
                }
            }
        }
        Action::Respond(answer) => {
            let close = !pass_over_body(scratch) || close;
            Ok(respond::fixed(client, worker, scratch, answer, close).await)
        }
        Action::Redirect(redirect) => {
            let close = !pass_over_body(scratch) || close;
            Ok(respond::redirect(client, worker, scratch, redirect, close).await)
        }
    };
    match forwarded {
        Ok(next) => next,
        Err(FallBack) => Box::pin(fall_back(client, worker, scratch, active, route)).await,
    }
}

/// Returns whether the request names a host that its TLS connection does not serve. The connection serves the
/// host that it was opened for. It also serves the other hosts of its certificate, since browsers reuse
/// connections for them (RFC 9110, 7.4; RFC 9113, 9.1.1).
fn is_misdirected<S: ClientSide>(client: &Client<S>, request: &RequestHead) -> bool {
    let Some(tls) = client.stream.tls() else { return false };
    let Some(name) = tls.server_name.as_deref() else { return false };
    let host = request.slice(request.host);
    let host = host.strip_suffix(b".").unwrap_or(host);
    !host.eq_ignore_ascii_case(name.as_bytes())
        && !tls.hosts.as_ref().is_some_and(|hosts| hosts.iter().any(|it| is_for(it, host)))
}

/// Returns whether a certificate's name covers a host; `*.` is one label (RFC 6125, 6.4.3).
fn is_for(name: &str, host: &[u8]) -> bool {
    match name.strip_prefix("*.") {
        Some(base) => {
            let dot = host.iter().position(|byte| *byte == b'.').unwrap_or(0);
            dot > 0 && host[dot + 1..].eq_ignore_ascii_case(base.as_bytes())
        }
        None => host.eq_ignore_ascii_case(name.as_bytes()),
    }
}

/// Returns whether the connection closes after this request, whatever the response.
pub(crate) fn closes_after<S>(settings: &GatewaySettings, client: &Client<S>, scratch: &Scratch) -> bool {
    let limit = settings.limits.requests_per_connection;
    !scratch.request.keep_alive || limit.is_some_and(|limit| client.requests >= limit)
}

/// Sets the request id: the client's own if it is accepted and safe to log, else a new one.
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

/// Returns the client's own request id, if it is accepted and safe to log.
pub(crate) fn own_id<'a>(settings: &RequestId, request: &'a RequestHead) -> Option<&'a [u8]> {
    const LONGEST: usize = 128;
    request.head.get_by_text(settings.header.as_bytes()).filter(|id| {
        settings.accept && (1..=LONGEST).contains(&id.len()) && id.iter().all(u8::is_ascii_graphic)
    })
}
