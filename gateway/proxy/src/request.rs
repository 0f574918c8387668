//! Handles requests, one after another on a connection: receive, decide, forward or answer, record.
//!
//! [`exchanges`] is the reusable future that `connection` borrows while a client sends requests. For each
//! head that [`receive`] returns, [`request`] drives the rest. `http2` and `policy` call `request` too, with
//! other client sides. Its result, [`ConnectionFate`], says what happens to the client's connection.

use std::convert::Infallible;
use std::rc::Rc;

use tollgate_http::RequestHead;
use tollgate_observe::Reason;
use tollgate_plan::{Action, GatewaySettings, RequestId};
use tollgate_upstream::Connection;

use crate::active::ActivePlan;
use crate::client_side::ClientSide;
use crate::connection::{AfterExchanges, Client, ExchangeSlot};
use crate::decide::decide;
use crate::forward::{FallBack, choose, destination, fall_back, forward};
use crate::forwarded;
use crate::grpc::translate;
use crate::http2::EndpointStream;
use crate::https;
use crate::linger::linger;
use crate::policy::{self, Evaluation};
use crate::receive::{Received, receive};
use crate::record;
use crate::request_state::{RequestState, RequestStateGuard};
use crate::respond;
use crate::skip_body::{discard, skip_body, skip_rest_of_body};
use crate::worker::Worker;

/// The fate of the client's connection after a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ConnectionFate {
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
pub(crate) async fn exchanges(slot: Rc<ExchangeSlot>) -> Infallible {
    loop {
        let client = slot.next().await;
        let then = exchange(client).await;
        slot.done(then);
    }
}

/// Handles the requests of a connection for as long as one follows another.
async fn exchange(mut client: Box<Client>) -> AfterExchanges {
    let worker = client.worker().clone();
    let mut state = RequestStateGuard::new(&worker);
    loop {
        let mut active = worker.active();
        let limits = &active.plan.settings.head_limits;
        let next = match receive(&mut client, &worker, &mut state, limits).await {
            Received::Request => {
                client.requests += 1;
                // Receiving the head may have taken a while, and the state of a previous plan is not kept.
                if !worker.runs(&active) {
                    active = worker.active();
                }
                client.connection_context.renew();
                request(&mut client, &worker, &mut state, &active).await
            }
            Received::Nothing => ConnectionFate::Close,
            Received::Refused(reason) => {
                respond::error(&mut client, &worker, &mut state, &active.plan.settings, reason, true).await
            }
            Received::Http2 => {
                let received = std::mem::take(&mut state.inbox);
                return AfterExchanges::Http2(Box::new((client, received)));
            }
        };
        let now = state.record.ended.take().unwrap_or_else(tollgate_net::now);
        let read_all = state.inbox.is_empty();
        record::close(&worker, &mut state, now);
        match next {
            ConnectionFate::KeepAlive => {
                if let Some(body) = state.unread.take()
                    && !Box::pin(discard(&mut client, &worker, &mut state.inbox, body)).await
                {
                    drop(state);
                    linger(client).await;
                    return AfterExchanges::Closed;
                }
            }
            ConnectionFate::Reset => {
                client.stream.reset_on_close();
                return AfterExchanges::Closed;
            }
            ConnectionFate::Close if read_all => return AfterExchanges::Closed,
            ConnectionFate::Close | ConnectionFate::Linger => {
                drop(state);
                linger(client).await;
                return AfterExchanges::Closed;
            }
        }
        client.deadline.set(now, client.connection_context.idle_bound(now));
        if state.inbox.is_empty() {
            return AfterExchanges::Idle(client);
        }
        state.next_request();
    }
}

/// Handles one request whose head was received. If policies delay it or change its bodies, they call this
/// again with themselves as the client's side; it then continues after routing.
pub(crate) async fn request<S: ClientSide>(
    client: &mut Client<S>,
    worker: &Rc<Worker>,
    state: &mut RequestState,
    active: &Rc<ActivePlan>,
) -> ConnectionFate {
    let settings = &active.plan.settings;
    if state.request.head.has_any(forwarded::CLAIMS) && !S::WRAPS_CLIENT {
        forwarded::drop_claims(&mut state.request, &settings.forwarded, client.peer.ip());
    }
    if settings.request_id.enabled && !S::WRAPS_CLIENT {
        identify(&settings.request_id, worker, state);
    }
    if !S::WRAPS_CLIENT {
        let RequestState { request, record, .. } = &mut *state;
        record.announced.read(&settings.forwarded, request, client.peer.ip());
    }
    let close = closes_after(settings, client, state);
    let known = if S::WRAPS_CLIENT { state.record.route.as_ref().map(|(_, route)| *route) } else { None };
    let (route, share) = if let Some(route) = known {
        (route, client.stream.share())
    } else {
        if is_misdirected(client, &state.request) {
            let close = !skip_body(state) || close;
            let reason = Reason::MisdirectedRequest;
            return respond::error(client, worker, state, settings, reason, close).await;
        }
        let decided = decide(&active.plan, state, Some(&client.connection_context.listener.bind));
        if client.connection_context.listener.redirect.is_some()
            && !matches!(decided, Err(Reason::BadPath | Reason::ConnectRefused))
        {
            let listener = client.connection_context.listener.clone();
            if let Some(redirect) = https::redirect(Some(&listener), state) {
                let close = !skip_body(state) || close;
                return respond::redirect(client, worker, state, redirect, close).await;
            }
        }
        let route = match decided {
            Ok(route) => route,
            Err(reason) => {
                let close = !skip_body(state) || close || reason == Reason::ConnectRefused;
                return respond::error(client, worker, state, settings, reason, close).await;
            }
        };
        state.record.route = Some((active.clone(), route));
        let chosen = active.route(route);
        if let Some(stay) = &chosen.stay {
            client.connection_context.apply_route_timeouts(stay);
            client.stream.limit_connection_age(stay);
        }
        let mut share = None;
        if chosen.policies.is_some() {
            // In two steps, because the carried future borrows what the other step needs.
            let policy_context = match policy::evaluate(client, worker, state, active, route) {
                Evaluation::Through(share) => Ok(share),
                Evaluation::End(end) => Err(end),
                Evaluation::More(carried) => return carried.await,
            };
            share = match policy_context {
                Ok(share) => share,
                Err(end) => return policy::end(client, worker, state, settings, (end, close)).await,
            };
        }
        (route, share)
    };
    let chosen = active.route(route);
    let forwarded = match &chosen.action {
        Action::Forward(_) if worker.rejects(chosen.priority) => {
            worker.stats.shed(chosen.priority as usize);
            let close = !skip_body(state) || close;
            Ok(respond::error(client, worker, state, settings, Reason::Overload, close).await)
        }
        Action::Forward(_) => {
            match destination(state, active, route, (&client.peer, share)) {
                Ok(upstream) if chosen.grpc_web && translate::is_web(&state.request) => {
                    let to = (route, upstream);
                    Ok(Box::pin(translate::forward_web(client, worker, state, active, to)).await)
                }
                Ok(upstream) if upstream.is_http2() => {
                    // In a box of its own, so that this rarer case does not enlarge the future of every
                    // request.
                    let to = (route, upstream);
                    Box::pin(forward::<S, EndpointStream>(client, worker, state, active, to)).await
                }
                Ok(_) if client.stream.may_be_grpc() && state.grpc.is_some() => {
                    let close = !skip_body(state) || close;
                    Ok(respond::error(client, worker, state, settings, Reason::GrpcNeedsHttp2, close).await)
                }
                Ok(upstream) => {
                    forward::<S, Connection>(client, worker, state, active, (route, upstream)).await
                }
                Err(reason)
                    if chosen.fallback.is_some()
                        && !(client.stream.may_be_grpc() && state.grpc.is_some())
                        && choose(state, reason.status(), reason, true) =>
                {
                    Err(FallBack)
                }
                Err(reason) => {
                    let close = !skip_rest_of_body(state, reason) || close;
                    Ok(respond::error(client, worker, state, settings, reason, close).await)
                }
            }
        }
        Action::Respond(answer) => {
            let close = !skip_body(state) || close;
            Ok(respond::fixed(client, worker, state, answer, close).await)
        }
        Action::Redirect(redirect) => {
            let close = !skip_body(state) || close;
            Ok(respond::redirect(client, worker, state, redirect, close).await)
        }
    };
    match forwarded {
        Ok(next) => next,
        Err(FallBack) => Box::pin(fall_back(client, worker, state, active, route)).await,
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
        && !tls.hosts.as_ref().is_some_and(|hosts| hosts.iter().any(|it| covers_host(it, host)))
}

/// Returns whether a certificate's name covers a host; `*.` is one label (RFC 6125, 6.4.3).
fn covers_host(name: &str, host: &[u8]) -> bool {
    match name.strip_prefix("*.") {
        Some(base) => {
            let dot = host.iter().position(|byte| *byte == b'.').unwrap_or(0);
            dot > 0 && host[dot + 1..].eq_ignore_ascii_case(base.as_bytes())
        }
        None => host.eq_ignore_ascii_case(name.as_bytes()),
    }
}

/// Returns whether the connection closes after this request, whatever the response.
pub(crate) fn closes_after<S>(settings: &GatewaySettings, client: &Client<S>, state: &RequestState) -> bool {
    let limit = settings.limits.requests_per_connection;
    !state.request.keep_alive || limit.is_some_and(|limit| client.requests >= limit)
}

/// Sets the request id: the client's own if it is accepted and safe to log, else a new one.
fn identify(settings: &RequestId, worker: &Worker, state: &mut RequestState) {
    let id = &mut state.record.request_id;
    match own_id(settings, &state.request) {
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
