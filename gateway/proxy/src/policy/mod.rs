//! Evaluates the policies of a request's route, and then the policies of the upstream that it goes to.
//!
//! [`police`] is the entry: [`request`](crate::request) calls it once the route is found. [`Walk`] evaluates
//! policies in order while each lets the request go on at once. If one needs more (the body, a wait, a
//! question to an upstream), [`meet()`] continues from there in a boxed future.
//!
//! What the policies still want afterwards is kept in the [scratch](crate::scratch::Scratch::met): they see
//! the head of the response in [`respond()`], and the end of the request when it is recorded. [`Policed`]
//! stands between the exchange and the client only if a policy replaces or copies a body. All other requests
//! run through the same code as requests without policies.

mod body;
mod call;
mod decoding;
mod live;
mod meet;
mod policed;
mod questions;
mod rehearse;
mod shadows;
mod tee;
mod walk;

use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;
use std::rc::Rc;

use tollgate_http::{Method, RequestHead, Version};
use tollgate_observe::Reason;
use tollgate_plan::{Action, GatewaySettings};
use tollgate_policy::{Answer, BodyKind, Context, Refusal, Transform, Verdict};

use self::decoding::Decoding;
pub(crate) use self::live::LivePolicy;
use self::meet::meet;
use self::policed::Policed;
pub(crate) use self::rehearse::{From as RehearsedFrom, Rehearsed, rehearse};
pub use self::rehearse::{MetPolicy, Said};
use self::walk::Walk;
use crate::active::ActivePlan;
use crate::client_side::{ClientSide, ClientStream};
use crate::connection::{Client, Link};
use crate::ledger::Found;
use crate::pass_over::{pass_over_body, pass_over_rest};
use crate::request::{Next, closes_after, request};
use crate::respond;
use crate::scratch::Scratch;
use crate::worker::Worker;

/// The rest of a request's handling, for a request that its policies delay or whose bodies they change.
type Carried<'a> = Pin<Box<dyn Future<Output = Next> + 'a>>;

/// The result of evaluating the policies of a request.
pub(crate) enum Met<'a> {
    /// The request goes on to this upstream of its route, by number. `None`: it goes to none, or none was
    /// chosen.
    Through(Option<usize>),
    /// The request ends here.
    End(End),
    /// The policies need more: this future handles the rest of the request.
    More(Carried<'a>),
}

/// How a request ends that its policies do not let go on.
pub(crate) enum End {
    /// A policy refuses it, with a status that replaces the reason's, and with these additional field lines.
    Refused(Reason, Option<u16>, Vec<u8>),
    /// A policy answers it.
    Answered(Answer),
    /// The client has left in the meantime.
    Gone,
}

impl End {
    /// Converts a refusal, and records its detail in the ledger.
    fn refused(refusal: Refusal, scratch: &mut Scratch) -> Self {
        if let Some(detail) = refusal.detail {
            scratch.ledger.remarks().detail = Some(detail.into());
        }
        Self::Refused(refusal.reason, refusal.status, refusal.lines)
    }
}

/// Evaluates the policies of a request. Most let the request go on, or refuse it, without waiting. The caller
/// passes [`Met::End`] to [`end()`].
pub(crate) fn police<'a, S: ClientSide>(
    client: &'a mut Client<S>,
    worker: &'a Rc<Worker>,
    scratch: &'a mut Scratch,
    active: &'a Rc<ActivePlan>,
    index: u32,
) -> Met<'a> {
    let mut context = worker.contexts.take().unwrap_or_default();
    let route = active.route(index);
    let from = (&scratch.ledger.announced, client.peer);
    let mut walk = Walk::of_route(active, index, &client.link.listener.bind, from);
    let secure = client.stream.tls().is_some();
    let origin = walk.origin(worker, scratch, client.link.tls.as_deref(), secure);
    let verdict = if matches!(route.action, Action::Forward(_)) && worker.rejects(route.priority) {
        // A request that is shed anyway costs no policy anything. The decision is made once: if it were made
        // again later, there could be room by then, and the request would go on without its policies.
        worker.stats.shed(route.priority as usize);
        walk.end();
        Refusal::from(Reason::Overload).into()
    } else {
        walk.on(scratch, &origin, &mut context)
    };
    match verdict {
        Verdict::Continue if context.leaves_bodies() => {
            keep(context, worker, scratch);
            Met::Through(walk.share())
        }
        Verdict::Refuse(refusal) => {
            let end = End::refused(refusal, scratch);
            walk.end_with(&end, scratch, &origin, &mut context);
            keep(context, worker, scratch);
            Met::End(end)
        }
        Verdict::Answer(answer) => {
            let end = End::Answered(answer);
            walk.end_with(&end, scratch, &origin, &mut context);
            keep(context, worker, scratch);
            Met::End(end)
        }
        verdict => {
            let close = closes_after(&active.plan.settings, client, scratch);
            let Client { stream, link, peer, requests, .. } = client;
            // Type-erased, so that the code below is compiled once for all kinds of client.
            let client = (&mut *stream as &mut dyn ClientStream, &*link, *peer, *requests);
            Met::More(Box::pin(carry(
                client,
                worker,
                scratch,
                (active, index),
                close,
                (context, walk, verdict),
            )))
        }
    }
}

async fn carry(
    (stream, link, peer, requests): (&mut dyn ClientStream, &Link, SocketAddr, u64),
    worker: &Rc<Worker>,
    scratch: &mut Scratch,
    (active, index): (&Rc<ActivePlan>, u32),
    close: bool,
    (mut context, mut walk, verdict): (Box<Context>, Walk<'_>, Verdict),
) -> Next {
    let settings = &active.plan.settings;
    let mut client = Client::of_stream(link, Policed::new(stream, scratch.request.version), peer, requests);
    let ended = meet(&mut client, worker, scratch, &mut context, (active, index), &mut walk, verdict).await;
    client.stream.goes_to(walk.share());
    let (transform, copies) = (context.take_transform(), context.take_shadows());
    keep(context, worker, scratch);
    if let Some(ended) = ended {
        return end(&mut client, worker, scratch, settings, (ended, close)).await;
    }
    match transform.map_or(Ok(None), |transform| Decoding::begin(transform, scratch, &settings.head_limits)) {
        Ok(decoding) => client.stream.decode(decoding),
        Err(reason) => {
            let close = !pass_over_rest(scratch, reason) || close;
            return respond::error(&mut client, worker, scratch, settings, reason, close).await;
        }
    }
    let departure = shadows::start(copies, &mut client, worker, scratch, active, index);
    let next = request(&mut client, worker, scratch, active).await;
    if let Some(departure) = departure.filter(|_| scratch.ledger.reason == Reason::ClientClosed) {
        departure.tell();
    }
    let rest = client.stream.rest();
    if !rest.is_empty() {
        scratch.inbox.splice(..0, rest);
    }
    next
}

/// Answers a request that its policies do not let go on. `close`: the connection is closed afterwards, even
/// if the rest of the body could be skipped.
pub(crate) async fn end<S: ClientSide>(
    client: &mut Client<S>,
    worker: &Worker,
    scratch: &mut Scratch,
    settings: &GatewaySettings,
    (end, close): (End, bool),
) -> Next {
    match end {
        End::Refused(reason, status, lines) => {
            let close = !pass_over_rest(scratch, reason) || close;
            respond::refusal(client, worker, scratch, settings, (reason, status, &lines), close).await
        }
        End::Answered(answer) => {
            let close = !pass_over_body(scratch) || close;
            respond::of_policy(client, worker, scratch, &answer, close).await
        }
        End::Gone => {
            scratch.ledger.reason = Reason::ClientClosed;
            Next::Close
        }
    }
}

/// Whether the gateway or an endpoint wrote a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Author {
    Gateway,
    Endpoint,
}

/// Lets the policies of a request change the head of its final response. `slot` receives a transform of the
/// body, if a policy has one; `None`: the body stays as it is.
#[inline(never)]
pub(crate) fn respond(
    context: &mut Context,
    request: &RequestHead,
    (status, author): (u16, Author),
    head: &mut Vec<u8>,
    slot: Option<&mut Option<Box<dyn Transform>>>,
) {
    if !context.responds() {
        return;
    }
    // A client of HTTP/1.0 needs the length before the body, so its body cannot be transformed.
    let bodiless = request.method == Method::Head || matches!(status, 100..200 | 204 | 304);
    let body = match author {
        Author::Gateway => BodyKind::Fixed,
        Author::Endpoint if bodiless => BodyKind::Absent,
        Author::Endpoint if slot.is_none() || request.version == Version::Http10 => BodyKind::Fixed,
        Author::Endpoint => BodyKind::Free,
    };
    let slot = slot.filter(|_| body == BodyKind::Free);
    let transform = context.respond(head, body, request.version == Version::Http11);
    if let Some(slot) = slot {
        *slot = transform;
    }
}

/// Keeps the policies' context for the response, and their findings for the access log, if there is one.
fn keep(context: Box<Context>, worker: &Worker, scratch: &mut Scratch) {
    if worker.log.borrow().is_on() {
        if let Some(found) = Found::of(&context) {
            scratch.ledger.remarks().found = Some(found);
        }
    }
    scratch.met = Some(context);
}
