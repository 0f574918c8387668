//! Upstreams are asked beside a request, all at once, and the request waits for what they say.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;

use tollgate_http::h1::{Progress, RequestParser};
use tollgate_http::{HeadLimits, Name, RequestHead};
use tollgate_observe::Reason;
use tollgate_policy::{Consumer, Question, Said};
use tollgate_route::{Normalised, PathRules, normalise};

use super::call::Calling;
use super::policed::Policed;
use crate::active::ActivePlan;
use crate::connection::Client;
use crate::scratch::Scratch;
use crate::worker::Worker;

/// What a question's head may be: it is made of one that was within the bounds, and of templates.
const LIMITS: HeadLimits = HeadLimits { line: 64 << 10, head: 1 << 20, fields: 10_000 };

type Answered = Result<Said, Reason>;
type Asking = Pin<Box<dyn Future<Output = Answered>>>;

/// Asks all of them at once, for this consumer. Dropped, all are called off.
pub(super) fn ask(
    client: &Client<Policed<'_>>,
    worker: &Rc<Worker>,
    scratch: &Scratch,
    active: &Rc<ActivePlan>,
    (route, questions): (u32, Vec<Question>),
    consumer: Option<Arc<Consumer>>,
) -> impl Future<Output = Vec<Answered>> + use<> {
    let paths = &active.plan.settings.paths;
    let asking = questions.into_iter().map(|question| -> Asking {
        let Some(head) = head(&scratch.request, &question, paths) else {
            return Box::pin(std::future::ready(Err(Reason::BadPath)));
        };
        let calling = Calling::new(client, worker, scratch, active, route);
        Box::pin(calling.ask(question, head, consumer.clone()))
    });
    let mut asking: Vec<Result<Asking, Answered>> = asking.map(Ok).collect();
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

/// The head of a question: of the request's what says who asks. Nothing if the path is not in normal form, so that nobody
/// behind reads another one than was meant.
fn head(request: &RequestHead, question: &Question, paths: &PathRules) -> Option<RequestHead> {
    let Question { path, query, host, .. } = question;
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

/// Whether a field concerns the request's own body, or which form or part of an answer is wanted.
fn is_of_the_message(id: Name, name: &[u8]) -> bool {
    const OTHERS: [&[u8]; 4] = [b"accept-encoding", b"range", b"te", b"trailer"];
    let begins = |with: &[u8]| name.get(..with.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(with));
    matches!(id, Name::Host | Name::ContentLength | Name::Expect | Name::Accept | Name::Alias)
        || OTHERS.iter().any(|other| name.eq_ignore_ascii_case(other))
        || begins(b"content-")
        || begins(b"if-")
}
