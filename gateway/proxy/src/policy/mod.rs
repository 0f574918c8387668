//! A request meets the policies of its route, and then those of the upstream that it goes to.
//!
//! What they leave to be done with the response does [`Policed`], which stands between the exchange and the client; so
//! neither the exchange nor what answers for the gateway knows of policies, and a request that meets none is carried by code
//! that has no question about them but one.

mod body;
mod call;
mod decoding;
mod policed;
mod questions;
mod rehearse;
mod shadows;
mod tee;

use std::future::{Future, poll_fn};
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;

use tollgate_net::Peek;
use tollgate_observe::Reason;
use tollgate_plan::{Action, Route};
use tollgate_policy::{After, Context, Ended, Origin, Request, Verdict, Waiting};

use self::decoding::Decoding;
use self::policed::Policed;
pub(crate) use self::rehearse::{From as RehearsedFrom, Rehearsed, rehearse};
pub use self::rehearse::{MetPolicy, Said};
use crate::active::ActivePlan;
use crate::affinity::{Asker, client_address};
use crate::client_side::{ClientSide, ClientStream};
use crate::connection::{Client, Link};
use crate::identity::Identity;
use crate::ledger::Found;
use crate::request::{Next, closes_after, pass_over_body, request};
use crate::respond;
use crate::scratch::Scratch;
use crate::worker::Worker;

/// Sees a request through whose route may have policies.
pub(crate) fn police<'a, S: ClientSide>(
    client: &'a mut Client<S>,
    worker: &'a Rc<Worker>,
    scratch: &'a mut Scratch,
    active: &'a Rc<ActivePlan>,
    route: u32,
) -> Pin<Box<dyn Future<Output = Next> + 'a>> {
    let close = closes_after(active, client, scratch);
    let Client { stream, link, peer, requests, .. } = client;
    // Erased: what follows is the same code for every client.
    let client = (&mut *stream as &mut dyn ClientStream, &*link, *peer, *requests);
    Box::pin(async move { carry(client, worker, scratch, active, route, close).await })
}

async fn carry(
    (stream, link, peer, requests): (&mut dyn ClientStream, &Link, SocketAddr, u64),
    worker: &Rc<Worker>,
    scratch: &mut Scratch,
    active: &Rc<ActivePlan>,
    index: u32,
    close: bool,
) -> Next {
    let mut context = Context::default();
    let policed = Policed::new(stream, &mut context, &scratch.request);
    let mut client = Client::of_stream(link, policed, peer, requests);
    let route = active.route(index);
    let met = meet_all(&mut client, worker, scratch, active, (index, route)).await;
    if worker.log.borrow().is_on() {
        scratch.ledger.found = Found::of(client.stream.context());
    }
    let next = match met {
        Met::Through => match decode(&mut client, scratch) {
            Ok(()) => {
                shadows::start(&mut client, worker, scratch, active, index);
                let next = request(&mut client, worker, scratch, active).await;
                let rest = client.stream.rest();
                if !rest.is_empty() {
                    scratch.inbox.splice(..0, rest);
                }
                next
            }
            Err(reason) => {
                respond::error(&mut client, worker, scratch, &active.plan.settings, reason, true).await
            }
        },
        Met::Refused(reason, lines) => {
            let close = !pass_over_body(scratch) || close;
            let settings = &active.plan.settings;
            respond::refusal(&mut client, worker, scratch, settings, (reason, &lines), close).await
        }
        Met::Answered(answer) => {
            let close = !pass_over_body(scratch) || close;
            respond::of_policy(&mut client, worker, scratch, &answer, close).await
        }
        Met::Gone => {
            scratch.ledger.reason = Reason::ClientClosed;
            Next::Close
        }
    };
    drop(client);
    let ledger = &scratch.ledger;
    let now = ledger.ended.unwrap_or_else(tollgate_net::now);
    context.end(&Ended { status: ledger.status, reason: ledger.reason, bytes_out: ledger.bytes_out, now });
    next
}

/// Has another body be made of the request's, if a policy wants that.
fn decode(client: &mut Client<Policed<'_>>, scratch: &mut Scratch) -> Result<(), Reason> {
    if let Some(transform) = client.stream.context().take_transform() {
        let decoding = Decoding::begin(transform, scratch)?;
        client.stream.decode(decoding);
    }
    Ok(())
}

/// What came of it.
enum Met {
    /// All let it through.
    Through,
    /// One refuses it, with these further lines.
    Refused(Reason, Vec<u8>),
    /// One answers it.
    Answered(tollgate_policy::Answer),
    /// The client did not wait for it.
    Gone,
}

/// The request meets the policies of its route, then an upstream is chosen for it, and it meets that one's.
async fn meet_all(
    client: &mut Client<Policed<'_>>,
    worker: &Rc<Worker>,
    scratch: &mut Scratch,
    active: &Rc<ActivePlan>,
    (index, route): (u32, &Route),
) -> Met {
    // Who is turned away anyway costs nobody anything. Said here and now: a moment later there may be room again, and the
    // request would go on without having met anybody.
    if matches!(route.action, Action::Forward(_)) && worker.sheds(route.priority) {
        worker.stats.shed(route.priority as usize);
        return Met::Refused(Reason::Overload, Vec::new());
    }
    let bind = client.link.listener.bind;
    let chain = route.policies.as_ref().and_then(|chains| chains.at(bind));
    if let Some(chain) = chain {
        match meet(client, worker, scratch, active, (index, chain)).await {
            Met::Through => {}
            met => return met,
        }
    }
    let Action::Forward(shares) = &route.action else { return Met::Through };
    let named = client.stream.context().upstream.clone();
    let by_name = named
        .and_then(|name| shares.iter().position(|share| active.plan.upstreams[share.upstream].name == *name));
    let share = by_name.or_else(|| {
        let asker = Asker::new(scratch, &active.plan.settings, &client.peer);
        active.next_share(index, &asker)
    });
    // Else it would be chosen once more, and could go where nobody has asked that upstream's policies.
    let Some(share) = share else { return Met::Refused(Reason::DestinationUnavailable, Vec::new()) };
    client.stream.goes_to(share);
    match active.plan.upstream_chains[shares[share].upstream] {
        Some(chain) => meet(client, worker, scratch, active, (index, chain)).await,
        None => Met::Through,
    }
}

/// The request meets one policy after the other.
async fn meet(
    client: &mut Client<Policed<'_>>,
    worker: &Rc<Worker>,
    scratch: &mut Scratch,
    active: &Rc<ActivePlan>,
    (index, chain): (u32, u32),
) -> Met {
    let route = active.route(index);
    let forwarded = &active.plan.settings.forwarded;
    let tls = client.link.tls.clone();
    let origin = Origin {
        peer: client.peer,
        client: client_address(forwarded, &scratch.request.head, client.peer.ip()),
        secure: client.stream.tls().is_some(),
        certificate: tls.as_ref().and_then(|tls| tls.identity.as_ref()).and_then(Identity::der),
        route: &route.name,
        worker: worker.id,
        now: scratch.ledger.started().unwrap_or_else(tollgate_net::now),
    };
    let mut rest = active.plan.chain(chain).iter();
    let met = 'chain: loop {
        let Some(policy) = rest.next() else { return Met::Through };
        let mut verdict = policy.request(&mut seen(scratch, origin, client.stream.context()));
        loop {
            let note = client.stream.context().note.take();
            scratch.ledger.detail = note.or(scratch.ledger.detail);
            match verdict {
                Verdict::Continue => break,
                Verdict::Refuse(refusal) => {
                    scratch.ledger.detail = refusal.detail.or(scratch.ledger.detail);
                    break 'chain Met::Refused(refusal.reason, refusal.lines);
                }
                Verdict::Answer(answer) => break 'chain Met::Answered(answer),
                Verdict::Sleep(time, after) => verdict = Verdict::Wait(sleep(worker, time, after)),
                Verdict::Wait(waiting) => {
                    let Some(after) = unless_gone(client, waiting).await else { return Met::Gone };
                    let origin = Origin { now: tollgate_net::now(), ..origin };
                    verdict = after(&mut seen(scratch, origin, client.stream.context()));
                }
                Verdict::Body(most, after) => {
                    let body = match body::read(client, worker, scratch, route, most).await {
                        Ok(body) => body,
                        Err(Reason::ClientClosed) => return Met::Gone,
                        Err(reason) => break 'chain Met::Refused(reason, Vec::new()),
                    };
                    let origin = Origin { now: tollgate_net::now(), ..origin };
                    verdict = after(&body, &mut seen(scratch, origin, client.stream.context()));
                }
                Verdict::Call(questions, after) => {
                    let asking = questions::ask(client, worker, scratch, active, (index, questions));
                    let Some(heard) = unless_gone(client, asking).await else { return Met::Gone };
                    let origin = Origin { now: tollgate_net::now(), ..origin };
                    verdict = after(heard, &mut seen(scratch, origin, client.stream.context()));
                }
            }
        }
    };
    rest.for_each(|policy| policy.passed_over(&mut seen(scratch, origin, client.stream.context())));
    met
}

/// The request as a policy sees it.
fn seen<'a>(scratch: &'a mut Scratch, origin: Origin<'a>, context: &'a mut Context) -> Request<'a> {
    let Scratch { request, path, ledger, .. } = scratch;
    Request::new(request, path, origin, context, &ledger.request_id)
}

/// Stands still for so long, by the worker's own timers.
fn sleep(worker: &Rc<Worker>, time: Duration, after: After) -> Waiting {
    let deadline = worker.timers.deadline();
    deadline.set(tollgate_net::now(), Some(time));
    Box::pin(async move {
        poll_fn(|cx| deadline.poll_passed(cx)).await;
        after
    })
}

/// Waits for something, unless the client goes meanwhile.
async fn unless_gone<T>(client: &mut Client<Policed<'_>>, waiting: impl Future<Output = T>) -> Option<T> {
    let mut waiting = pin!(waiting);
    let mut watched = true;
    poll_fn(|cx| {
        if let Poll::Ready(done) = waiting.as_mut().poll(cx) {
            return Poll::Ready(Some(done));
        }
        if watched {
            match client.stream.poll_peek(cx) {
                Poll::Ready(Peek::Reset) => return Poll::Ready(None),
                // Its next request, or half of the connection closed: it waits still.
                Poll::Ready(Peek::Data | Peek::End) => watched = false,
                Poll::Pending => {}
            }
        }
        Poll::Pending
    })
    .await
}
