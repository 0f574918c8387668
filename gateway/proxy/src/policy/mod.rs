//! A request meets the policies of its route, and then those of the upstream that it goes to.
//!
//! [`Walk`] goes from policy to policy for as long as they let the request go on at once, and [`meet()`] from there where one
//! wants more. What they leave to be done with the response does [`Policed`], which stands between the exchange and the
//! client; so neither the exchange nor what answers for the gateway knows of policies, and a request that meets none, or
//! none that wants more, is carried by code that has no question about them but one.

mod body;
mod call;
mod decoding;
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

use tollgate_observe::Reason;
use tollgate_plan::Action;
use tollgate_policy::{Context, Ended, Refusal, Verdict};

use self::decoding::Decoding;
use self::meet::{Met, meet};
use self::policed::Policed;
pub(crate) use self::rehearse::{From as RehearsedFrom, Rehearsed, rehearse};
pub use self::rehearse::{MetPolicy, Said};
use self::walk::Walk;
use crate::active::ActivePlan;
use crate::client_side::{ClientSide, ClientStream};
use crate::connection::{Client, Link};
use crate::ledger::Found;
use crate::request::{Next, closes_after, pass_over_body, request};
use crate::respond;
use crate::scratch::Scratch;
use crate::worker::Worker;

/// What sees a request through whose policies are not done with it.
type Carried<'a> = Pin<Box<dyn Future<Output = Next> + 'a>>;

/// Has a request meet its policies. Most let it go on after a look, and want nothing more of it: it is carried then like
/// one that has met nobody, to this one of its route's upstreams (nothing: it goes to none, or none was chosen).
///
/// # Errors
/// Where one wants more, what sees the request through.
pub(crate) fn police<'a, S: ClientSide>(
    client: &'a mut Client<S>,
    worker: &'a Rc<Worker>,
    scratch: &'a mut Scratch,
    active: &'a Rc<ActivePlan>,
    index: u32,
) -> Result<Option<usize>, Carried<'a>> {
    let mut context = Context::default();
    let route = active.route(index);
    let from = (&scratch.request.head, client.peer);
    let mut walk = Walk::of_route(active, index, client.link.listener.bind, from);
    let verdict = if matches!(route.action, Action::Forward(_)) && worker.sheds(route.priority) {
        // Who is turned away anyway costs nobody anything. Said here and now: a moment later there may be room again, and
        // the request would go on without having met anybody.
        worker.stats.shed(route.priority as usize);
        walk.end();
        Refusal::from(Reason::Overload).into()
    } else {
        let secure = client.stream.tls().is_some();
        let origin = walk.origin(worker, scratch, client.link.tls.as_deref(), secure);
        walk.on(scratch, origin, &mut context)
    };
    if matches!(verdict, Verdict::Continue) && context.is_settled() {
        take_down(&context, worker, scratch);
        return Ok(walk.share());
    }
    let close = closes_after(active, client, scratch);
    let Client { stream, link, peer, requests, .. } = client;
    // Erased: what follows is the same code for every client.
    let client = (&mut *stream as &mut dyn ClientStream, &*link, *peer, *requests);
    Err(Box::pin(carry(client, worker, scratch, (active, index), close, (context, walk, verdict))))
}

async fn carry(
    (stream, link, peer, requests): (&mut dyn ClientStream, &Link, SocketAddr, u64),
    worker: &Rc<Worker>,
    scratch: &mut Scratch,
    (active, index): (&Rc<ActivePlan>, u32),
    close: bool,
    (mut context, mut walk, verdict): (Context, Walk<'_>, Verdict),
) -> Next {
    let policed = Policed::new(stream, &mut context, &scratch.request);
    let mut client = Client::of_stream(link, policed, peer, requests);
    let met = meet(&mut client, worker, scratch, (active, index), &mut walk, verdict).await;
    client.stream.goes_to(walk.share());
    take_down(client.stream.context(), worker, scratch);
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

/// What policies have found out goes into the log, if there is one.
fn take_down(context: &Context, worker: &Worker, scratch: &mut Scratch) {
    if worker.log.borrow().is_on() {
        scratch.ledger.found = Found::of(context);
    }
}

/// Has another body be made of the request's, if a policy wants that.
fn decode(client: &mut Client<Policed<'_>>, scratch: &mut Scratch) -> Result<(), Reason> {
    if let Some(transform) = client.stream.context().take_transform() {
        let decoding = Decoding::begin(transform, scratch)?;
        client.stream.decode(decoding);
    }
    Ok(())
}
