//! Serves one stream: decodes its head into a request, handles the request, and finishes the stream.
//!
//! `connection` calls [`start`] for each stream that it takes up. The request then goes through
//! [`request`](crate::front::request), like a request of HTTP/1.

use std::convert::Infallible;
use std::future::Future;
use std::rc::Rc;

use tollgate_http::h1::BodyLength;
use tollgate_http::h2::decode_request;
use tollgate_http::{HeadError, HeadLimits, Method, RequestHead, Version, rejected_bytes, websocket};
use tollgate_http2::{FieldSection, MalformedRequest};
use tollgate_observe::Reason;

use super::stream::Http2Stream;
use crate::exchange::grpc;
use crate::exchange::respond;
use crate::front::receive;
use crate::front::request::request;
use crate::state::client::Client;
use crate::state::close_record;
use crate::state::connection_fate::ConnectionFate;
use crate::state::future_pool::{FuturePool, FutureSlot};
use crate::state::grpc_call::GrpcCall;
use crate::state::request_guard::RequestStateGuard;
use crate::state::request_state::RequestState;
use crate::state::worker::Worker;

/// The input of a stream's task: the stream, and the fields of its head.
pub(crate) type StreamInput = (Client<Http2Stream>, FieldSection);

/// The pool of futures that serve streams. An exchange needs kilobytes of state, which would be allocated and
/// copied if each stream's task held its own. So the task borrows a future from the pool, as an HTTP/1
/// connection does.
pub(crate) type StreamFutures = FuturePool<StreamInput, (), dyn Future<Output = Infallible>>;

/// Serves one request in its own task.
pub(super) fn start(client: Client<Http2Stream>, head: FieldSection, futures: Rc<StreamFutures>) {
    tollgate_net::spawn(FuturePool::run(futures, (client, head), |slot| Box::pin(streams(slot))));
}

async fn streams(slot: Rc<FutureSlot<StreamInput, ()>>) -> Infallible {
    loop {
        let (client, head) = slot.next().await;
        serve(client, head).await;
        slot.done(());
    }
}

async fn serve(mut client: Client<Http2Stream>, head: FieldSection) {
    let worker = client.worker().clone();
    let mut state = RequestStateGuard::new(&worker);
    let active = worker.active();
    client.connection_context.renew();
    let settings = &active.plan.settings;
    state.record.open(
        &worker.stats,
        tollgate_net::now(),
        client.peer,
        client.connection_context.tls.as_ref(),
    );
    let (ended, limits) = (client.stream.is_ended(), &settings.head_limits);
    let decoded = decode(&mut state.request, &head, &worker, ended, limits);
    state.grpc = GrpcCall::of(&state.request);
    let next = match decoded {
        Ok(()) => {
            if client.stream.accept_head(head, state.request.length) {
                take_early(&mut client, &mut state);
                request(&mut client, &worker, &mut state, &active).await
            } else {
                // The client has reset the stream, so nothing goes to an endpoint: a client that can cancel
                // requests for free will do so (CVE-2025-8671).
                state.record.reason = Reason::ClientClosed;
                ConnectionFate::Reset
            }
        }
        Err(error) => {
            if let Some(rejected_bytes) = rejected_bytes::of_fields(error, head.iter()) {
                state.record.set_rejected_bytes(&rejected_bytes);
            }
            client.stream.refuse(head);
            let reason = receive::reason(error);
            respond::error(&mut client, &worker, &mut state, settings, reason, false).await
        }
    };
    let now = state.record.ended.take().unwrap_or_else(tollgate_net::now);
    client.stream.finish(next != ConnectionFate::Reset && state.to_client.is_empty());
    grpc::count(&worker, &mut state);
    close_record::close(&worker, &mut state, now);
}

fn decode(
    request: &mut RequestHead,
    head: &FieldSection,
    worker: &Worker,
    ended: bool,
    limits: &HeadLimits,
) -> Result<(), HeadError> {
    let decoded = decode_known(request, head, worker, ended, limits);
    if decoded.is_err()
        && let Some((_, method)) = head.iter().find(|(name, _)| *name == b":method")
    {
        // The method decides whether the error response has a body: a response to HEAD has none.
        request.method = Method::of(method);
    }
    decoded
}

fn decode_known(
    request: &mut RequestHead,
    head: &FieldSection,
    worker: &Worker,
    ended: bool,
    limits: &HeadLimits,
) -> Result<(), HeadError> {
    request.clear();
    request.version = Version::Http2;
    let (mut pseudo, fields) = head.request().map_err(|malformed| match malformed {
        MalformedRequest::Cut => HeadError::TooLarge,
        MalformedRequest::Pseudo => HeadError::StartLine,
    })?;
    let key;
    if let Some(protocol) = &mut pseudo.protocol {
        key = websocket_key(worker);
        protocol.key = key.as_bytes();
    }
    let decoded = decode_request(request, pseudo, || fields, ended, limits);
    // Set after the decoder has run, because that clears the head first.
    request.has_never_indexed = head.has_never_indexed();
    decoded
}

/// Returns a random WebSocket key, for an endpoint that speaks HTTP/1.
fn websocket_key(worker: &Worker) -> String {
    let mut text = [0; 32];
    worker.request_ids.borrow_mut().write(&mut text);
    let (pairs, _) = text.as_chunks::<2>();
    let byte = |at: usize| {
        let digits = pairs[at].map(|digit| char::from(digit).to_digit(16).unwrap_or_default() as u8);
        digits[0] << 4 | digits[1]
    };
    websocket::key(std::array::from_fn(byte))
}

/// Reads the part of the body that arrived with the head, if the length of the body is known or the request
/// is a gRPC call. It goes upstream together with the head and can be sent again. If the whole body of a call
/// is here, its length becomes known.
fn take_early(client: &mut Client<Http2Stream>, state: &mut RequestState) {
    // A call declares no length; it goes only to endpoints that need none.
    let open = state.grpc.is_some() && state.request.length == BodyLength::UntilClose;
    if open || matches!(state.request.length, BodyLength::Exactly(1..)) {
        client.stream.take_early(&mut state.inbox);
        if open && client.stream.is_ended() {
            state.request.length = BodyLength::Exactly(state.inbox.len() as u64);
        }
    }
}
