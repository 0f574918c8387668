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
use tollgate_policy::{CopyResult, RequestCopy};

use super::pending_copy::PendingCopy;
use super::resolve::call::{Call, CallOrigin};
use super::tee::Tee;
use super::transforming_client::TransformingClient;
use crate::state::active::ActivePlan;
use crate::state::client::Client;
use crate::state::request_state::RequestState;
use crate::state::worker::Worker;

/// Bytes of the response to a copy that are read and discarded, so that the connection can be used again.
const RESPONSE_MAX_BYTES: usize = 1024 * 1024;

/// Whether the client of a request has left before its response. Its copies are then cancelled, just as the
/// request is.
#[derive(Debug, Default)]
pub(super) struct ClientLeft {
    left: Cell<bool>,
    /// The wakers of the tasks that send the copies.
    tasks: RefCell<Vec<Waker>>,
}

impl ClientLeft {
    /// Records that the client has left, and wakes the tasks.
    pub fn notify(&self) {
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

/// Sends the copies of the request in `state`, or makes them wait for its body. The caller calls
/// [`ClientLeft::notify`] on the result if the client leaves.
pub(super) fn start(
    mirrors: Vec<RequestCopy>,
    client: &mut Client<TransformingClient<'_>>,
    worker: &Rc<Worker>,
    state: &RequestState,
    active: &Rc<ActivePlan>,
    route: u32,
) -> Option<Rc<ClientLeft>> {
    if mirrors.is_empty() {
        return None;
    }
    let client_left = Rc::<ClientLeft>::default();
    for shadow in mirrors {
        let length = state.request.length;
        if matches!(length, BodyLength::Exactly(length) if length > shadow.body as u64) {
            continue;
        }
        let tee = Tee::new(length, shadow.body, &active.plan.settings.head_limits);
        let origin = CallOrigin::new(client, worker, state, active, route);
        let send = sender(shadow, origin, state, client_left.clone());
        if length.is_empty() {
            send(Vec::new());
            continue;
        }
        let mut pending_copy = Some(PendingCopy { tee, send });
        if !state.inbox.is_empty() {
            pending_copy = pending_copy.and_then(|pending_copy| pending_copy.take(&state.inbox));
        }
        client.stream.copy(pending_copy);
    }
    Some(client_left)
}

/// Returns the function that sends a copy when its body is complete.
fn sender(
    shadow: RequestCopy,
    origin: CallOrigin,
    state: &RequestState,
    client_left: Rc<ClientLeft>,
) -> Box<dyn FnOnce(Vec<u8>)> {
    let RequestCopy { upstream, marks, timeout, watch, place, .. } = shadow;
    let mut head = state.request.clone();
    marks.apply(&mut head);
    let path = state.path.clone();
    Box::new(move |body| {
        let call = Call { upstream, head, path, body, timeout, max_bytes: RESPONSE_MAX_BYTES };
        tollgate_net::spawn(async move {
            match client_left.unless_left(origin.call(call)).await {
                Some(Ok(status)) => watch.shadow(CopyResult::Answered(status)),
                Some(Err(reason)) => watch.shadow(CopyResult::Failed(reason)),
                // A watch that is dropped without a result counts the copy as cancelled.
                None => {}
            }
            drop(place);
        });
    })
}
