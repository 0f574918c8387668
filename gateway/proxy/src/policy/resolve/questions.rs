//! Sends a policy's questions to upstreams, all at once, while the request waits for the answers. Each
//! question becomes a [`CallOrigin::ask`].

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;

use tollgate_http::h1::{Progress, RequestParser};
use tollgate_http::{HeadLimits, Name, RequestHead};
use tollgate_observe::Reason;
use tollgate_policy::{Consumer, UpstreamRequest, UpstreamResponse};
use tollgate_route::{Normalised, PathRules, normalise};

use super::super::chain_evaluation::ChainEvaluation;
use super::super::transforming_client::TransformingClient;
use super::call::CallOrigin;
use crate::state::client::Client;
use crate::state::request_state::RequestState;
use crate::state::worker::Worker;

/// Limits of a question's head. It is built from the request's head, which was within its limits, and from
/// templates.
const LIMITS: HeadLimits = HeadLimits { line: 64 << 10, head: 1 << 20, fields: 10_000 };

type QuestionResult = Result<UpstreamResponse, Reason>;
type QuestionFuture = Pin<Box<dyn Future<Output = QuestionResult>>>;

/// Asks all questions at once on behalf of `consumer`, and returns the answers in the same order. Dropping
/// the future cancels all of them.
pub(super) fn ask(
    client: &Client<TransformingClient<'_>>,
    worker: &Rc<Worker>,
    state: &RequestState,
    evaluation: &ChainEvaluation<'_>,
    questions: Vec<UpstreamRequest>,
    consumer: Option<Arc<Consumer>>,
) -> impl Future<Output = Vec<QuestionResult>> + use<> {
    let (active, route) = (evaluation.active(), evaluation.route());
    let paths = &active.plan.settings.paths;
    let asking = questions.into_iter().map(|question| -> QuestionFuture {
        let Some(head) = head(&state.request, &question, paths) else {
            return Box::pin(std::future::ready(Err(Reason::BadPath)));
        };
        let origin = CallOrigin::new(client, worker, state, active, route);
        Box::pin(origin.ask(question, head, consumer.clone()))
    });
    let mut asking: Vec<Result<QuestionFuture, QuestionResult>> = asking.map(Ok).collect();
    poll_fn(move |cx| {
        let mut waits = false;
        for one in &mut asking {
            if let Ok(future) = one {
                match future.as_mut().poll(cx) {
                    Poll::Ready(answered) => *one = Err(answered),
                    Poll::Pending => waits = true,
                }
            }
        }
        if waits {
            return Poll::Pending;
        }
        let all = std::mem::take(&mut asking).into_iter();
        Poll::Ready(all.map(|one| one.err().unwrap_or(Err(Reason::ProxyInternalError))).collect())
    })
}

/// Builds the head of a question, with those fields of the request that identify the client. Returns `None`
/// if the path is not in normal form: an upstream could then understand another path than was meant.
fn head(request: &RequestHead, question: &UpstreamRequest, paths: &PathRules) -> Option<RequestHead> {
    let UpstreamRequest { path, query, host, .. } = question;
    if !path.starts_with(b"/")
        || !matches!(normalise(path, paths, &mut Vec::new()), Ok(Normalised::Unchanged))
    {
        return None;
    }
    let own = Some(request.slice(request.authority)).filter(|own| !own.is_empty());
    let host = host.as_deref().map(str::as_bytes).or(own).unwrap_or(question.upstream.as_bytes());
    let mark: &[u8] = if query.is_empty() { b"" } else { b"?" };
    let mut text = [b"GET ".as_slice(), path, mark, query, b" HTTP/1.1\r\nHost: ", host, b"\r\n"].concat();
    let head = &request.head;
    for field in head.fields().iter().filter(|field| !field.nominated && !field.id.is_hop_by_hop()) {
        let name = head.slice(field.name);
        if !is_of_the_message(field.id, name) {
            for piece in [name, b": ", head.slice(field.value), b"\r\n"] {
                text.extend_from_slice(piece);
            }
        }
    }
    text.extend_from_slice(b"Accept: application/json\r\n\r\n");
    let mut out = RequestHead::default();
    let whole =
        matches!(RequestParser::default().advance(&text, &mut out, &LIMITS), Ok(Progress::Complete(_)));
    whole.then_some(out)
}

/// Returns whether a field describes the request's own body, or asks for a certain form or part of the
/// response.
fn is_of_the_message(id: Name, name: &[u8]) -> bool {
    const OTHERS: [&[u8]; 4] = [b"accept-encoding", b"range", b"te", b"trailer"];
    let begins = |with: &[u8]| name.get(..with.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(with));
    matches!(id, Name::Host | Name::ContentLength | Name::Expect | Name::Accept | Name::AmbiguousSpelling)
        || OTHERS.iter().any(|other| name.eq_ignore_ascii_case(other))
        || begins(b"content-")
        || begins(b"if-")
}
