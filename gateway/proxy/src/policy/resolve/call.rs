//! Requests that the gateway itself sends to upstreams: copies of requests (mirrors), and questions of
//! policies.
//!
//! A call is an exchange like any other. Its client's side, a [`StandIn`], has the whole request and takes
//! the whole response. So a call uses the worker's connections, whatever version the endpoints speak, and
//! obeys the upstream's health, limits and breaker. It has no line in the access log and does not count as a
//! client's request.

use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use tollgate_http::RequestHead;
use tollgate_http::h1::{BodyLength, BodyReader};
use tollgate_net::Negotiated;
use tollgate_observe::Reason;
use tollgate_policy::{
    BodyKind, Consumer, Context, ExchangeOutcome, Response, UpstreamRequest, UpstreamResponse, Verdict,
};
use tollgate_upstream::Connection;

use super::super::chain_evaluation::ChainEvaluation;
use super::super::policy_end::PolicyEnd;
use super::super::transforming_client::TransformingClient;
use super::resolve;
use crate::exchange::forward::forward;
use crate::exchange::forward_target::ForwardTarget;
use crate::exchange::http2_endpoint::EndpointStream;
use crate::exchange::rewrite::rewrite;
use crate::state::active::ActivePlan;
use crate::state::announced::Announced;
use crate::state::client::Client;
use crate::state::client_side::ClientStream;
use crate::state::grpc_call::GrpcCall;
use crate::state::peer_error::PeerError;
use crate::state::record::RequestRecord;
use crate::state::request_guard::RequestStateGuard;
use crate::state::request_state::RequestState;
use crate::state::stand_in::{ResponseTaker, StandIn};
use crate::state::worker::Worker;

/// A request of the gateway to an upstream.
#[derive(Debug)]
pub(in crate::policy) struct Call {
    /// The upstream's name.
    pub upstream: Arc<str>,
    pub head: RequestHead,
    /// Its path in normal form, if that differs from the head. The route's rewrite applies to it.
    pub path: Vec<u8>,
    /// The whole body.
    pub body: Vec<u8>,
    /// The time limit, from the start of the call to the last byte of the response.
    pub timeout: Duration,
    /// The limit on the response's body, in bytes.
    pub max_bytes: usize,
}

/// The request that causes calls: what they take over from it.
#[derive(Debug)]
pub(in crate::policy) struct CallOrigin {
    /// Represents the client, with its listener and its address.
    client: Client<()>,
    worker: Rc<Worker>,
    active: Rc<ActivePlan>,
    route: u32,
    secure: Option<Negotiated>,
    local: Option<SocketAddr>,
    grpc: Option<GrpcCall>,
    request_id: Vec<u8>,
    announced: Announced,
}

impl CallOrigin {
    /// Takes over what a call needs from the request in `state`, which uses this route.
    pub fn new(
        client: &Client<TransformingClient<'_>>,
        worker: &Rc<Worker>,
        state: &RequestState,
        active: &Rc<ActivePlan>,
        route: u32,
    ) -> Self {
        let may_be_grpc = client.stream.may_be_grpc();
        Self {
            client: Client::of_stream(&client.connection_context, (), client.peer, client.requests),
            worker: worker.clone(),
            active: active.clone(),
            route,
            secure: client.stream.tls().cloned(),
            local: client.stream.local_address(),
            grpc: state.grpc.filter(|_| may_be_grpc),
            request_id: state.record.request_id.clone(),
            announced: state.record.announced.clone(),
        }
    }

    /// Makes a call and returns the status of the response. The body is discarded.
    ///
    /// # Errors
    /// The reason why the upstream gave no response.
    pub async fn call(self, call: Call) -> Result<u16, Reason> {
        let Self { client, worker, active, route, secure, local, grpc, request_id, announced } = self;
        let upstream = active.by_name(&call.upstream).ok_or(Reason::DestinationUnavailable)?.clone();
        let Call { mut head, path, body, timeout, max_bytes, .. } = call;
        head.expect_continue = false;
        if matches!(head.length, BodyLength::Chunked | BodyLength::UntilClose) {
            head.remove_all(b"content-length");
            head.append(b"Content-Length", body.len().to_string().as_bytes());
        }
        head.length = if body.is_empty() { BodyLength::None } else { BodyLength::Exactly(body.len() as u64) };
        let mut call_state = CallState::new(&worker, (request_id, announced), head);
        let state = &mut *call_state.0;
        state.grpc = grpc;
        state.path.extend_from_slice(&path);
        state.inbox.extend_from_slice(&body);
        rewrite(active.route(route), state)?;
        let taker = CallResponse { max_bytes, ..CallResponse::default() };
        let mut side = StandIn { tls: secure, local, may_be_grpc: grpc.is_some(), taker };
        let transforming_client = TransformingClient::new(&mut side, state.request.version);
        let mut stand_in =
            Client::of_stream(&client.connection_context, transforming_client, client.peer, client.requests);
        let deadline = worker.timers.deadline();
        deadline.set(tollgate_net::now(), Some(timeout));
        // In a box of its own: the future is moved several times before it runs, and its kilobytes would be
        // copied each time.
        let to = ForwardTarget { route, upstream: &upstream };
        let exchange = Box::pin(send(&mut stand_in, &worker, state, &active, to));
        let in_time = within(&deadline, exchange).await;
        drop(stand_in);
        let reason = call_state.0.record.reason;
        if in_time {
            side.taker.end(reason).map(|response| response.status)
        } else {
            Err(Reason::RequestTimeout)
        }
    }

    /// Asks an upstream, after its policies have let the question through, and returns the response.
    ///
    /// # Errors
    /// The reason why there is no response, or none that may be used.
    pub async fn ask(
        self,
        question: UpstreamRequest,
        head: RequestHead,
        consumer: Option<Arc<Consumer>>,
    ) -> Result<UpstreamResponse, Reason> {
        let Self { client, worker, active, route, secure, local, request_id, announced, .. } = self;
        let number =
            active.plan.upstream_by_name(&question.upstream).ok_or(Reason::DestinationUnavailable)?;
        let upstream = active.by_name(&question.upstream).ok_or(Reason::DestinationUnavailable)?.clone();
        let mut call_state = CallState::new(&worker, (request_id, announced), head);
        let state = &mut *call_state.0;
        let budget = Some(question.budget);
        let taker = CallResponse { max_bytes: question.max_bytes, budget, ..CallResponse::default() };
        let mut side = StandIn { tls: secure, local, may_be_grpc: false, taker };
        let transforming_client = TransformingClient::new(&mut side, state.request.version);
        let mut stand_in =
            Client::of_stream(&client.connection_context, transforming_client, client.peer, client.requests);
        let deadline = worker.timers.deadline();
        deadline.set(tollgate_net::now(), Some(question.timeout));
        let mut end = None;
        let mut context = Box::<Context>::default();
        context.consumer = consumer;
        let exchange = Box::pin(async {
            if let Some(chain) = active.plan.upstream_chains[number] {
                let from = (&state.record.announced, stand_in.peer);
                let mut evaluation = ChainEvaluation::of_chain(&active, route, Some(chain), from);
                let go = Verdict::Continue;
                end = resolve(&mut stand_in, &worker, state, &mut context, &mut evaluation, go).await;
                state.policy_context = Some(std::mem::take(&mut context));
            }
            if end.is_none() {
                let to = ForwardTarget { route, upstream: &upstream };
                send(&mut stand_in, &worker, state, &active, to).await;
            }
        });
        let in_time = within(&deadline, exchange).await;
        drop(stand_in);
        let RequestState { record, policy_context, .. } = &mut *call_state.0;
        let reason = match end {
            Some(PolicyEnd::Refused(reason, ..)) => reason,
            Some(PolicyEnd::Answered(_)) => Reason::NotAuthorized,
            None | Some(PolicyEnd::Gone) => record.reason,
        };
        let RequestRecord { status, bytes_out, .. } = *record;
        let mut context = policy_context.take().unwrap_or(context);
        context.end(&ExchangeOutcome { status, reason, bytes_out, now: tollgate_net::now() });
        if !in_time {
            return Err(Reason::RequestTimeout);
        }
        side.taker.end(reason).map(|response| UpstreamResponse {
            status: response.status,
            content_type: response.content_type,
            content_encoding: response.content_encoding,
            body: response.body,
        })
    }
}

/// Sends the request in `state` to an upstream, whatever version of HTTP it speaks.
async fn send(
    stand_in: &mut Client<TransformingClient<'_>>,
    worker: &Rc<Worker>,
    state: &mut RequestState,
    active: &Rc<ActivePlan>,
    to: ForwardTarget<'_>,
) {
    // The call's record names no route, so no fallback replaces an error.
    let _ = if to.upstream.is_http2() {
        Box::pin(forward::<_, EndpointStream>(stand_in, worker, state, active, to)).await
    } else {
        forward::<_, Connection>(stand_in, worker, state, active, to).await
    };
}

/// The borrowed request state of a call. Its record is discarded, also when the call is cancelled.
struct CallState(RequestStateGuard);

impl CallState {
    fn new(worker: &Rc<Worker>, (request_id, announced): (Vec<u8>, Announced), head: RequestHead) -> Self {
        let mut state = RequestStateGuard::new(worker);
        state.next_request();
        state.record = RequestRecord::default();
        state.record.request_id = request_id;
        state.record.announced = announced;
        state.grpc = None;
        state.request = head;
        state.inbox.clear();
        Self(state)
    }
}

impl Drop for CallState {
    fn drop(&mut self) {
        self.0.record = RequestRecord::default();
    }
}

/// Returns whether `exchange` ended before the deadline.
async fn within(deadline: &tollgate_net::Deadline, exchange: impl Future) -> bool {
    let mut exchange = pin!(exchange);
    poll_fn(|cx| match exchange.as_mut().poll(cx) {
        Poll::Ready(_) => Poll::Ready(true),
        Poll::Pending => deadline.poll_passed(cx).map(|()| false),
    })
    .await
}

/// The response to a call.
#[derive(Debug, Default)]
struct CallResponse {
    status: u16,
    /// Whether the gateway answered instead of the upstream.
    own: bool,
    /// Whether the whole response has arrived.
    done: bool,
    /// Bytes of the response's body that have arrived.
    taken: usize,
    max_bytes: usize,
    /// Whether the response exceeded a limit.
    too_long: bool,
    /// The bytes that all questions of the request may still receive together; `None`: the response's body is
    /// discarded.
    budget: Option<Rc<Cell<usize>>>,
    content_type: Vec<u8>,
    content_encoding: Vec<u8>,
    body: Vec<u8>,
}

impl CallResponse {
    /// Returns the response if it is complete; `reason` is the result of the exchange.
    fn end(self, reason: Reason) -> Result<Self, Reason> {
        match self {
            Self { too_long: true, .. } => Err(Reason::ResponseBodyTooLarge),
            Self { own: false, done: true, .. } => Ok(self),
            _ if reason == Reason::None => Err(Reason::HttpResponseIncomplete),
            _ => Err(reason),
        }
    }

    /// Counts a part of the body. Returns whether it was within the limits.
    fn count(&mut self, data: &[u8]) -> bool {
        self.taken += data.len();
        if let Some(budget) = &self.budget {
            match budget.get().checked_sub(data.len()) {
                Some(left) => budget.set(left),
                None => return false,
            }
        }
        self.taken <= self.max_bytes
    }
}

impl ResponseTaker for CallResponse {
    fn take(&mut self, head: &mut Vec<u8>, body: &BodyReader, data: &[u8]) -> Result<(), PeerError> {
        if !head.is_empty() {
            let response = Response::new(head, BodyKind::Fixed);
            self.status = response.status();
            if self.budget.is_some() {
                self.content_type = response.get("content-type").unwrap_or_default().to_vec();
                self.content_encoding = response.get("content-encoding").unwrap_or_default().to_vec();
            }
        }
        if !self.count(data) {
            self.too_long = true;
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        if self.budget.is_some() {
            self.body.extend_from_slice(data);
        }
        self.done |= body.is_done();
        Ok(())
    }

    fn answered_by_gateway(&mut self) {
        self.own = true;
    }
}
