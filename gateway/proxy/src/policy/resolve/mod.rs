//! Evaluates policies that need more than the head of a request: they call an upstream, wait, or read the
//! body.
//!
//! [`evaluate`](super::evaluate) calls [`resolve`] with the first verdict that is not immediate; `call` does
//! so for the policies of an upstream that it asks. The loop resolves each verdict, then continues with the
//! next policy. It ends early if the client leaves.

pub(super) mod call;
mod questions;

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;

use tollgate_observe::Reason;
use tollgate_policy::{Context, Continuation, Origin, PendingVerdict, Verdict};

use super::body;
use super::body::BodyNeed;
use super::chain_evaluation::{ChainEvaluation, note, seen};
use super::policy_end::PolicyEnd;
use super::transforming_client::TransformingClient;
use crate::state::client::Client;
use crate::state::client_side::ClientStream;
use crate::state::request_state::RequestState;
use crate::state::worker::Worker;

/// Resolves `verdict`, then evaluates the remaining policies. Returns `None` if all let the request through.
pub(super) async fn resolve(
    client: &mut Client<TransformingClient<'_>>,
    worker: &Rc<Worker>,
    state: &mut RequestState,
    context: &mut Context,
    evaluation: &mut ChainEvaluation<'_>,
    mut verdict: Verdict,
) -> Option<PolicyEnd> {
    let active = evaluation.active();
    let (limits, route) = (&active.plan.settings.head_limits, active.route(evaluation.route()));
    let tls = client.connection_context.tls.clone();
    let mut origin = evaluation.origin(worker, state, tls.as_deref(), client.stream.tls().is_some());
    let is_followed = worker.log.borrow().is_followed();
    let mut other_system = "another system";
    let end = loop {
        let waits_for = match &verdict {
            Verdict::Continue | Verdict::Refuse(_) | Verdict::Respond(_) | Verdict::Sleep(..) => None,
            Verdict::Wait(_) => Some(std::mem::replace(&mut other_system, "another system")),
            Verdict::Body(..) | Verdict::BodyStart(..) => Some("the body"),
            Verdict::Call(..) => Some("an upstream"),
        };
        let wait = waits_for.filter(|_| is_followed).map(|waits_for| (waits_for, tollgate_net::now()));
        verdict = match verdict {
            Verdict::Continue => match evaluation.next_verdict(state, &origin, context) {
                Verdict::Continue => return None,
                verdict => verdict,
            },
            Verdict::Refuse(refusal) => break PolicyEnd::refused(refusal, state),
            Verdict::Respond(answer) => break PolicyEnd::Answered(answer),
            Verdict::Sleep(time, after) => {
                other_system = "a delay";
                Verdict::Wait(sleep(worker, time, after))
            }
            Verdict::Wait(waiting) => {
                let Some(after) = unless_gone(client, waiting).await else { return Some(PolicyEnd::Gone) };
                continue_with(state, context, &mut origin, after)
            }
            Verdict::Body(most, after) => {
                let wanted = BodyNeed::Whole(most);
                let (body, _) = match body::read(client, worker, state, limits, route, wanted).await {
                    Ok(body) => body,
                    Err(Reason::ClientClosed) => return Some(PolicyEnd::Gone),
                    Err(reason) => break PolicyEnd::Refused(reason, None, Vec::new()),
                };
                continue_with(state, context, &mut origin, |request| after(&body, request))
            }
            Verdict::BodyStart(most, after) => {
                let wanted = BodyNeed::Begin(most);
                let read = body::read(client, worker, state, limits, route, wanted).await;
                let (body, whole) = match read {
                    Ok(read) => read,
                    Err(Reason::ClientClosed) => return Some(PolicyEnd::Gone),
                    Err(reason) => break PolicyEnd::Refused(reason, None, Vec::new()),
                };
                continue_with(state, context, &mut origin, |request| after(&body, whole, request))
            }
            Verdict::Call(questions, after) => {
                let consumer = context.consumer.clone();
                let asking = questions::ask(client, worker, state, evaluation, questions, consumer);
                let Some(responses) = unless_gone(client, asking).await else { return Some(PolicyEnd::Gone) };
                continue_with(state, context, &mut origin, |request| after(responses, request))
            }
        };
        if let Some((waited_for, began)) = wait {
            let took = tollgate_net::now().saturating_duration_since(began);
            evaluation.note_wait(state, waited_for, took);
        }
    };
    evaluation.end_with(&end, state, &origin, context);
    Some(end)
}

/// Passes a policy the result that it has waited for, and returns its verdict. Time has passed, so this
/// policy and the following ones see a new `now`.
fn continue_with<'a>(
    state: &mut RequestState,
    context: &mut Context,
    origin: &mut Origin<'a>,
    after: impl FnOnce(&mut tollgate_policy::Request<'_>) -> Verdict,
) -> Verdict {
    origin.now = tollgate_net::now();
    let verdict = after(&mut seen(state, origin, context));
    note(state, context);
    verdict
}

/// Waits for `time`, with the worker's timers.
fn sleep(worker: &Rc<Worker>, time: Duration, after: Continuation) -> PendingVerdict {
    let deadline = worker.timers.deadline();
    deadline.set(tollgate_net::now(), Some(time));
    Box::pin(async move {
        poll_fn(|cx| deadline.poll_passed(cx)).await;
        after
    })
}

/// Waits for `waiting`. Returns `None` if the client leaves first.
async fn unless_gone<T>(
    client: &mut Client<TransformingClient<'_>>,
    waiting: impl Future<Output = T>,
) -> Option<T> {
    let mut waiting = pin!(waiting);
    poll_fn(|cx| match waiting.as_mut().poll(cx) {
        Poll::Ready(done) => Poll::Ready(Some(done)),
        Poll::Pending => client.poll_peer_closed(cx).map(|()| None),
    })
    .await
}
