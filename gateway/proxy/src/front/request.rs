//! Handles requests, one after another on a connection: receive, decide, forward or answer, record.
//!
//! [`exchanges`] is the reusable future that `connection` borrows while a client sends requests. For each
//! head that [`receive`] returns, [`request`] drives the rest. `http2` calls `request` too, with another client
//! side. Its result, [`ConnectionFate`], says what happens to the client's connection.

use std::convert::Infallible;
use std::rc::Rc;

use tollgate_http::RequestHead;
use tollgate_observe::Reason;
use tollgate_plan::{Plan, RequestId};

use crate::exchange::cache;
use crate::exchange::dispatch::dispatch;
use crate::exchange::forward_target::RoutedRequest;
use crate::exchange::forwarded;
use crate::exchange::respond;
use crate::exchange::skip_body::{discard, skip_body};
use crate::front::by_host;
use crate::front::decide::decide;
use crate::front::exchange_slot::{AfterExchanges, ExchangeSlot};
use crate::front::https;
use crate::front::linger::linger;
use crate::front::receive::{Received, receive};
use crate::policy::{self, Evaluation};
use crate::state::active::ActivePlan;
use crate::state::client::Client;
use crate::state::client_side::ClientSide;
use crate::state::close_record;
use crate::state::connection_fate::ConnectionFate;
use crate::state::request_guard::RequestStateGuard;
use crate::state::request_state::RequestState;
use crate::state::worker::Worker;

/// Handles runs of requests, one connection at a time.
pub(crate) async fn exchanges(slot: Rc<ExchangeSlot>) -> Infallible {
    loop {
        let client = slot.next().await;
        let next = exchange(client).await;
        slot.done(next);
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
        close_record::close(&worker, &mut state, now);
        match next {
            ConnectionFate::KeepAlive => {
                if let Some(body) = state.unread.take()
                    && !Box::pin(discard(&mut client, &worker, &mut state.inbox, body)).await
                {
                    client.log_close("unread body");
                    drop(state);
                    linger(client).await;
                    return AfterExchanges::Closed;
                }
            }
            ConnectionFate::Reset => {
                client.log_close("reset");
                client.stream.reset_on_close();
                return AfterExchanges::Closed;
            }
            ConnectionFate::Close if read_all => {
                client.log_close("end");
                return AfterExchanges::Closed;
            }
            ConnectionFate::Close | ConnectionFate::Linger => {
                client.log_close("end with unread bytes");
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

/// Handles one request whose head was received: finds its route, evaluates its policies, and carries out the
/// route's action.
pub(crate) async fn request<S: ClientSide>(
    client: &mut Client<S>,
    worker: &Rc<Worker>,
    state: &mut RequestState,
    active: &Rc<ActivePlan>,
) -> ConnectionFate {
    let settings = &active.plan.settings;
    if state.request.head.has_any(forwarded::CLAIMS) {
        forwarded::drop_claims(&mut state.request, &settings.forwarded, client.peer.ip());
    }
    if settings.request_id.enabled {
        identify(&settings.request_id, worker, state);
    }
    let RequestState { request, record, .. } = &mut *state;
    record.announced.read(&settings.forwarded, request, client.peer.ip());
    let close = client.closes_after(settings, &state.request);
    if let Err(reason) = check_host(client, &active.plan, &state.request) {
        let close = skip_body(state, close);
        return respond::error(client, worker, state, settings, reason, close).await;
    }
    state.router = client.connection_context.router;
    let router = active.plan.routers.get(state.router);
    let decided = decide(&active.plan, router, state, Some(&client.connection_context.listener));
    if client.connection_context.listener.redirect.is_some()
        && !matches!(decided, Err(Reason::BadPath | Reason::ConnectRefused))
    {
        let listener = client.connection_context.listener.clone();
        if let Some(redirect) = https::redirect(Some(&listener), state) {
            let close = skip_body(state, close);
            return respond::redirect(client, worker, state, settings, redirect, close).await;
        }
    }
    let route = match decided {
        Ok(route) => route,
        Err(reason) => {
            let close = skip_body(state, close || reason == Reason::ConnectRefused);
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
        // In two steps, because the future of `More` borrows what the other step needs.
        let evaluated = match policy::evaluate(client, worker, state, active, route) {
            Evaluation::Through(share) => Ok(share),
            Evaluation::End(end) => Err(end),
            Evaluation::More(rest) => return rest.await,
        };
        share = match evaluated {
            Ok(share) => share,
            Err(end) => return policy::end(client, worker, state, settings, end, close).await,
        };
        if cache::is_used(state, &chosen.action) {
            return cache::serve(client, worker, state, active, RoutedRequest { route, share }, close).await;
        }
    }
    dispatch(client, worker, state, active, RoutedRequest { route, share }, close).await
}

/// Checks that the connection serves the host of the request. If hosts tell the listeners of the address apart, the client's
/// listener becomes the one of the host.
#[inline]
fn check_host<S: ClientSide>(
    client: &mut Client<S>,
    plan: &Plan,
    request: &RequestHead,
) -> Result<(), Reason> {
    if client.connection_context.listener.by_host {
        choose_listener(client, plan, request)?;
    }
    if is_misdirected(client, request) { Err(Reason::MisdirectedRequest) } else { Ok(()) }
}

// Out of the way of listeners that do not share their address.
#[inline(never)]
fn choose_listener<S: ClientSide>(
    client: &mut Client<S>,
    plan: &Plan,
    request: &RequestHead,
) -> Result<(), Reason> {
    if is_of_stream(client, request) {
        return Err(Reason::MisdirectedRequest);
    }
    let server_name = client.stream.tls().map(|tls| tls.server_name.as_deref().unwrap_or_default());
    let at = &client.connection_context.listener;
    let chosen = by_host::listener(plan, at, request.slice(request.host), server_name)?.clone();
    client.connection_context.router = chosen.router;
    client.connection_context.listener = chosen;
    Ok(())
}

/// Returns whether the request names a host that its TLS connection does not serve. The connection serves the
/// host that it was opened for. It also serves the other hosts of its certificate, since browsers reuse
/// connections for them (RFC 9110, 7.4; RFC 9113, 9.1.1).
fn is_misdirected<S: ClientSide>(client: &Client<S>, request: &RequestHead) -> bool {
    let Some(tls) = client.stream.tls() else { return false };
    if is_of_stream(client, request) {
        return true;
    }
    let Some(name) = tls.server_name.as_deref() else { return false };
    let host = request.slice(request.host);
    let host = host.strip_suffix(b".").unwrap_or(host);
    !host.eq_ignore_ascii_case(name.as_bytes())
        && !tls.hosts.as_ref().is_some_and(|hosts| hosts.iter().any(|it| covers_host(it, host)))
}

/// Returns whether a stream takes the TLS connections for the host of the request, which is then another server's, whatever the
/// certificate covers. A connection that is older than the stream goes on.
fn is_of_stream<S: ClientSide>(client: &Client<S>, request: &RequestHead) -> bool {
    let (Some(tls), Some(streams)) = (client.stream.tls(), &client.connection_context.listener.streams)
    else {
        return false;
    };
    let host = request.slice(request.host);
    let host = host.strip_suffix(b".").unwrap_or(host);
    let is_own = tls.server_name.as_deref().is_some_and(|name| host.eq_ignore_ascii_case(name.as_bytes()));
    !is_own && streams.named(host).is_some()
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
