//! Forwards a call of gRPC-Web as gRPC. [`request`](crate::front::request) calls [`forward_web`] if [`is_web`] and
//! the route allows it.

use std::rc::Rc;

use tollgate_http::h1::BodyLength;
use tollgate_http::{Method, RequestHead};
use tollgate_observe::Reason;

use super::web::{Web, kind_of};
use crate::exchange::forward::forward;
use crate::exchange::forward_target::ForwardTarget;
use crate::exchange::http2_endpoint::EndpointStream;
use crate::exchange::respond;
use crate::exchange::skip_body::skip_body;
use crate::state::active::ActivePlan;
use crate::state::client::Client;
use crate::state::client_side::ClientSide;
use crate::state::connection_fate::ConnectionFate;
use crate::state::request_state::RequestState;
use crate::state::worker::Worker;

/// Returns whether the request is a call of gRPC-Web. Every call is a POST: a response to HEAD has no room
/// for trailers.
pub(crate) fn is_web(request: &RequestHead) -> bool {
    request.method == Method::Post && kind_of(request).is_some()
}

/// Translates the call and forwards it to an upstream, if that speaks HTTP/2.
pub(crate) async fn forward_web<S: ClientSide>(
    client: &mut Client<S>,
    worker: &Rc<Worker>,
    state: &mut RequestState,
    active: &Rc<ActivePlan>,
    to: ForwardTarget<'_>,
) -> ConnectionFate {
    let settings = &active.plan.settings;
    let ends = client.closes_after(settings, &state.request);
    let Client { stream, peer, requests, connection_context, .. } = client;
    let kind = kind_of(&state.request).ok_or(Reason::BadChunk);
    let translated = kind.and_then(|kind| {
        Web::translate(stream, kind, state, &settings.head_limits).map_err(|error| error.read_reason())
    });
    let web = match translated {
        Ok(web) => web,
        Err(reason) => {
            // Chunks may have been joined, so the end of such a body is no longer known.
            let is_plain = matches!(state.request.length, BodyLength::Exactly(_));
            let close = !is_plain || skip_body(state, ends);
            return respond::error(client, worker, state, settings, reason, close).await;
        }
    };
    let mut translated = Client::of_stream(connection_context, web, *peer, *requests);
    let next = if to.upstream.is_http2() {
        let forwarded =
            forward::<Web<'_, S>, EndpointStream>(&mut translated, worker, state, active, to).await;
        // No fallback replaces the result of a call.
        forwarded.unwrap_or(ConnectionFate::Close)
    } else {
        let close = skip_body(state, ends);
        respond::error(&mut translated, worker, state, settings, Reason::GrpcNeedsHttp2, close).await
    };
    // Bytes of the next request may have arrived with the end of this one.
    state.inbox.extend_from_slice(&translated.stream.into_rest());
    super::count(worker, state);
    next
}
