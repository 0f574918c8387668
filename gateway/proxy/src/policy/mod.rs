//! Evaluates the policies of a request's route, and then the policies of the upstream that it goes to.
//!
//! [`evaluate`] is the entry: [`request`](crate::front::request) calls it once the route is found.
//! [`ChainEvaluation`] evaluates policies in order while each lets the request go on at once. If one needs
//! more (the body, a wait, a question to an upstream), [`resolve()`] continues from there in a boxed future.
//!
//! What the policies still want afterwards is kept in the [request
//! state](crate::state::request_state::RequestState::policy_context): they see the head of the response in
//! [`respond()`], and the end of the request when it is recorded. [`TransformingClient`] stands between the
//! exchange and the client only if a policy replaces, copies or delays a body. All other requests run through the
//! same code as requests without policies.

mod body;
mod body_transform;
mod chain_evaluation;
mod dry_run;
pub(crate) mod dry_run_outcome;
mod mirrors;
mod pacer;
mod pending_copy;
mod policy_end;
mod resolve;
mod tee;
mod transforming_client;

use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;
use std::rc::Rc;

use tollgate_observe::Reason;
use tollgate_plan::{Action, GatewaySettings};
use tollgate_policy::{Context, Refusal, Verdict};

use self::body_transform::BodyTransform;
use self::chain_evaluation::ChainEvaluation;
pub use self::dry_run::{DryRunPolicy, DryRunVerdict};
pub(crate) use self::dry_run::{DryRunSender, PolicyDryRun, dry_run};
pub(crate) use self::policy_end::PolicyEnd;
use self::resolve::resolve;
use self::transforming_client::TransformingClient;
use crate::exchange::cache;
use crate::exchange::dispatch::dispatch;
use crate::exchange::forward_target::RoutedRequest;
use crate::exchange::respond::{self, LocalError};
use crate::exchange::skip_body::{skip_body, skip_rest_of_body};
use crate::state::active::ActivePlan;
use crate::state::client::{Client, ConnectionContext};
use crate::state::client_side::{ClientSide, ClientStream};
use crate::state::connection_fate::ConnectionFate;
use crate::state::record::PolicyFindings;
use crate::state::request_state::RequestState;
use crate::state::worker::Worker;

/// The rest of a request's handling, for a request that its policies delay or whose bodies they change.
type RestOfRequest<'a> = Pin<Box<dyn Future<Output = ConnectionFate> + 'a>>;

/// The result of evaluating the policies of a request.
pub(crate) enum Evaluation<'a> {
    /// The request goes on to this upstream of its route, by number. `None`: it goes to none, or none was
    /// chosen.
    Through(Option<usize>),
    /// The request ends here.
    End(PolicyEnd),
    /// The policies need more: this future handles the rest of the request.
    More(RestOfRequest<'a>),
}

/// Evaluates the policies of a request. Most let the request go on, or refuse it, without waiting. The caller
/// passes [`Evaluation::End`] to [`end()`].
pub(crate) fn evaluate<'a, S: ClientSide>(
    client: &'a mut Client<S>,
    worker: &'a Rc<Worker>,
    state: &'a mut RequestState,
    active: &'a Rc<ActivePlan>,
    index: u32,
) -> Evaluation<'a> {
    let mut context = worker.contexts.take().unwrap_or_default();
    let route = active.route(index);
    let from = (&state.record.announced, client.peer);
    let mut evaluation = ChainEvaluation::of_route(active, index, &client.connection_context.listener, from);
    let secure = client.stream.tls().is_some();
    let origin = evaluation.origin(worker, state, client.connection_context.tls.as_deref(), secure);
    let verdict = if matches!(route.action, Action::Forward(_)) && worker.rejects(route.priority) {
        // A request that is shed anyway costs no policy anything. The decision is made once: if it were made
        // again later, there could be room by then, and the request would go on without its policies.
        worker.stats.shed(route.priority as usize);
        evaluation.end();
        Refusal::from(Reason::Overload).into()
    } else {
        evaluation.next_verdict(state, &origin, &mut context)
    };
    match verdict {
        Verdict::Continue
            if context.leaves_bodies()
                || finds_stored_form(&mut context, state, &route.action, active, &evaluation, index) =>
        {
            keep(context, worker, state, &evaluation, None);
            Evaluation::Through(evaluation.share())
        }
        Verdict::Refuse(refusal) => {
            let end = PolicyEnd::refused(refusal, state);
            evaluation.end_with(&end, state, &origin, &mut context);
            keep(context, worker, state, &evaluation, Some(&end));
            Evaluation::End(end)
        }
        Verdict::Respond(answer) => {
            let end = PolicyEnd::Answered(answer);
            evaluation.end_with(&end, state, &origin, &mut context);
            keep(context, worker, state, &evaluation, Some(&end));
            Evaluation::End(end)
        }
        verdict => {
            let close = client.closes_after(&active.plan.settings, &state.request);
            let Client { stream, connection_context, peer, requests, .. } = client;
            // Type-erased, so that the code below is compiled once for all kinds of client.
            let client = ErasedClient { stream, connection_context, peer: *peer, requests: *requests };
            let paused = PausedEvaluation { context, evaluation, verdict };
            Evaluation::More(Box::pin(carry(client, worker, state, paused, close)))
        }
    }
}

/// Returns whether the cache has the response in the coding of the client, so that no body has to be changed.
fn finds_stored_form(
    context: &mut Context,
    state: &RequestState,
    action: &Action,
    active: &ActivePlan,
    evaluation: &ChainEvaluation<'_>,
    route: u32,
) -> bool {
    let routed = RoutedRequest { route, share: evaluation.share() };
    matches!(action, Action::Forward(_)) && cache::finds_form(context, &state.request, active, routed)
}

/// A client whose kind is not known any more.
struct ErasedClient<'a> {
    stream: &'a mut dyn ClientStream,
    connection_context: &'a ConnectionContext,
    peer: SocketAddr,
    requests: u64,
}

/// An evaluation that has stopped at a verdict which needs more.
struct PausedEvaluation<'a> {
    context: Box<Context>,
    evaluation: ChainEvaluation<'a>,
    verdict: Verdict,
}

/// Handles the rest of a request whose evaluation has stopped.
async fn carry(
    ErasedClient { stream, connection_context, peer, requests }: ErasedClient<'_>,
    worker: &Rc<Worker>,
    state: &mut RequestState,
    PausedEvaluation { mut context, mut evaluation, verdict }: PausedEvaluation<'_>,
    close: bool,
) -> ConnectionFate {
    let (active, route) = (evaluation.active(), evaluation.route());
    let settings = &active.plan.settings;
    let mut client = Client::of_stream(
        connection_context,
        TransformingClient::new(stream, state.request.version),
        peer,
        requests,
    );
    let ended = resolve(&mut client, worker, state, &mut context, &mut evaluation, verdict).await;
    let share = evaluation.share();
    let (transform, copies) = (context.take_transform(), context.take_copies());
    client.stream.limit_bandwidth(context.take_bandwidth(), &worker.timers);
    keep(context, worker, state, &evaluation, ended.as_ref());
    if let Some(ended) = ended {
        return end(&mut client, worker, state, settings, ended, close).await;
    }
    match transform
        .map_or(Ok(None), |transform| BodyTransform::begin(transform, state, &settings.head_limits))
    {
        Ok(body_transform) => client.stream.decode(body_transform),
        Err(reason) => {
            let close = skip_rest_of_body(state, reason, close);
            return respond::error(&mut client, worker, state, settings, reason, close).await;
        }
    }
    let client_left = mirrors::start(copies, &mut client, worker, state, active, route);
    let routed = RoutedRequest { route, share };
    let next = match cache::is_used(state, &active.route(route).action) {
        true => cache::serve(&mut client, worker, state, active, routed, close).await,
        false => dispatch(&mut client, worker, state, active, routed, close).await,
    };
    if let Some(client_left) = client_left.filter(|_| state.record.reason == Reason::ClientClosed) {
        client_left.notify();
    }
    let rest = client.stream.rest();
    if !rest.is_empty() {
        state.inbox.splice(..0, rest);
    }
    next
}

/// Answers a request that its policies do not let go on. `close`: the connection is closed afterwards, even
/// if the rest of the body could be skipped.
pub(crate) async fn end<S: ClientSide>(
    client: &mut Client<S>,
    worker: &Worker,
    state: &mut RequestState,
    settings: &GatewaySettings,
    end: PolicyEnd,
    close: bool,
) -> ConnectionFate {
    match end {
        PolicyEnd::Refused(reason, status, lines) => {
            let close = skip_rest_of_body(state, reason, close);
            let error = LocalError { reason, status, lines: &lines };
            respond::refusal(client, worker, state, settings, error, close).await
        }
        PolicyEnd::Answered(answer) => {
            let close = skip_body(state, close);
            respond::policy_answer(client, worker, state, settings, &answer, close).await
        }
        PolicyEnd::Gone => {
            state.record.reason = Reason::ClientClosed;
            ConnectionFate::Close
        }
    }
}

/// Keeps the policies' context for the response, and their findings for the access log and the trace, if
/// there is one.
fn keep(
    context: Box<Context>,
    worker: &Worker,
    state: &mut RequestState,
    evaluation: &ChainEvaluation<'_>,
    end: Option<&PolicyEnd>,
) {
    let log = worker.log.borrow();
    if log.wants_findings() {
        if let Some(found) = PolicyFindings::of(&context) {
            state.record.remarks().found = Some(found);
        }
        if log.is_followed() {
            evaluation.note_verdicts(state, end);
        }
    }
    drop(log);
    state.policy_context = Some(context);
}
