//! Sends copies of a request to other upstreams (mirrors), each in its own task, once the body was read.
//!
//! [`start`] creates the copies after the policies have let the request through. A copy never delays the
//! request; it is cancelled if the client leaves before its own response.

use std::cell::{Cell, RefCell};
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::rc::Rc;
use std::task::{Poll, Waker};

use tollgate_http::h1::BodyLength;
use tollgate_policy::{Shadow, ShadowEnd};

use super::call::{Call, Calling};
use super::policed::Policed;
use super::tee::{Tee, Teed};
use crate::active::ActivePlan;
use crate::connection::Client;
use crate::scratch::Scratch;
use crate::worker::Worker;

/// Bytes of the response to a copy that are read and discarded, so that the connection can be used again.
const ANSWER: usize = 1024 * 1024;

/// Whether the client of a request has left before its response. Its copies are then cancelled, just as the
/// request is.
#[derive(Debug, Default)]
pub(super) struct Departure {
    left: Cell<bool>,
    /// The wakers of the tasks that send the copies.
    tasks: RefCell<Vec<Waker>>,
}

impl Departure {
    /// Records that the client has left, and wakes the tasks.
    pub fn tell(&self) {
        self.left.set(true);
        self.tasks.take().into_iter().for_each(Waker::wake);
    }

    /// Waits for `copy`. Returns `None` if the client leaves first.
    async fn unless_left<T>(&self, copy: impl Future<Output = T>) -> Option<T> {
        let mut copy = pin!(copy);
        poll_fn(|cx| {
            if self.left.get() {
                return Poll::Ready(None);
            }
            let mut tasks = self.tasks.borrow_mut();
            if !tasks.iter().any(|known| known.will_wake(cx.waker())) {
                tasks.push(cx.waker().clone());
            }
            drop(tasks);
            copy.as_mut().poll(cx).map(Some)
        })
        .await
    }
}

/// A copy that waits for the rest of its body.
pub(super) struct Copying {
    tee: Tee,
    send: Box<dyn FnOnce(Vec<u8>)>,
}

impl Copying {
    /// Takes bytes that were read. Returns the copy again if more are needed.
    pub fn take(self, read: &[u8]) -> Option<Self> {
        let Self { mut tee, send } = self;
        match tee.take(read) {
            Teed::More => return Some(Self { tee, send }),
            Teed::Whole(body) => send(body),
            Teed::Begin(_) | Teed::GivenUp(_) => {}
        }
        None
    }
}

/// Sends the copies of the request in `scratch`, or makes them wait for its body. The caller calls
/// [`Departure::tell`] on the result if the client leaves.
pub(super) fn start(
    shadows: Vec<Shadow>,
    client: &mut Client<Policed<'_>>,
    worker: &Rc<Worker>,
    scratch: &Scratch,
    active: &Rc<ActivePlan>,
    route: u32,
) -> Option<Rc<Departure>> {
    if shadows.is_empty() {
        return None;
    }
    let departure = Rc::<Departure>::default();
    for shadow in shadows {
        let length = scratch.request.length;
        if matches!(length, BodyLength::Exactly(length) if length > shadow.body as u64) {
            continue;
        }
        let tee = Tee::new(length, shadow.body, &active.plan.settings.head_limits);
        let calling = Calling::new(client, worker, scratch, active, route);
        let send = sender(shadow, calling, scratch, departure.clone());
        if length.is_empty() {
            send(Vec::new());
            continue;
        }
        let mut copying = Some(Copying { tee, send });
        if !scratch.inbox.is_empty() {
            copying = copying.and_then(|copying| copying.take(&scratch.inbox));
        }
        client.stream.copy(copying);
    }
    Some(departure)
}

/// Returns the function that sends a copy when its body is complete.
fn sender(
    shadow: Shadow,
    calling: Calling,
    scratch: &Scratch,
    departure: Rc<Departure>,
) -> Box<dyn FnOnce(Vec<u8>)> {
    let Shadow { upstream, marks, timeout, watch, place, .. } = shadow;
    let mut head = scratch.request.clone();
    marks.apply(&mut head);
    let path = scratch.path.clone();
    Box::new(move |body| {
        let call = Call { upstream, head, path, body, timeout, most: ANSWER };
        tollgate_net::spawn(async move {
            match departure.unless_left(calling.call(call)).await {
                Some(Ok(status)) => watch.shadow(ShadowEnd::Answered(status)),
                Some(Err(reason)) => watch.shadow(ShadowEnd::Failed(reason)),
                // A watch that is dropped without a result counts the copy as cancelled.
                None => {}
            }
            drop(place);
        });
    })
}
