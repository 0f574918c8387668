//! Copies of a request go elsewhere, each as a task of its own, when its body has been read.

use std::rc::Rc;

use tollgate_http::h1::Length;
use tollgate_policy::{Shadow, ShadowEnd};

use super::call::{Call, Calling};
use super::policed::Policed;
use super::tee::{Tee, Teed};
use crate::active::ActivePlan;
use crate::connection::Client;
use crate::scratch::Scratch;
use crate::worker::Worker;

/// Bytes of an answer to a copy that are read, for the connection's sake. Nobody wants them.
const ANSWER: usize = 1024 * 1024;

/// A copy that waits for the rest of its body.
pub(super) struct Copying {
    tee: Tee,
    send: Box<dyn FnOnce(Vec<u8>)>,
}

impl Copying {
    /// Takes what was read; says whether more is wanted.
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

/// Sends copies of the request in `scratch`, or has them wait for its body.
pub(super) fn start(
    shadows: Vec<Shadow>,
    client: &mut Client<Policed<'_>>,
    worker: &Rc<Worker>,
    scratch: &Scratch,
    active: &Rc<ActivePlan>,
    route: u32,
) {
    for shadow in shadows {
        let length = scratch.request.length;
        if matches!(length, Length::Exactly(length) if length > shadow.body as u64) {
            continue;
        }
        let tee = Tee::new(length, shadow.body);
        let calling = Calling::new(client, worker, scratch, active, route);
        let send = sender(shadow, calling, scratch);
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
}

/// What sends a copy when its body is there.
fn sender(shadow: Shadow, calling: Calling, scratch: &Scratch) -> Box<dyn FnOnce(Vec<u8>)> {
    let Shadow { upstream, marks, timeout, watch, place, .. } = shadow;
    let mut head = scratch.request.clone();
    marks.apply(&mut head);
    let path = scratch.path.clone();
    Box::new(move |body| {
        let call = Call { upstream, head, path, body, timeout, most: ANSWER };
        tollgate_net::spawn(async move {
            watch.shadow(match calling.call(call).await {
                Ok(status) => ShadowEnd::Answered(status),
                Err(reason) => ShadowEnd::Failed(reason),
            });
            drop(place);
        });
    })
}
