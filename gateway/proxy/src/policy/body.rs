//! All of a request's body is read for a policy that wants to see it, and goes on with the request all the same.

use std::future::poll_fn;
use std::task::{Poll, ready};

use tollgate_http::h1::Length;
use tollgate_observe::Reason;
use tollgate_plan::Route;

use super::policed::Policed;
use super::tee::{Tee, Teed};
use crate::client_side::{Duplex, unread};
use crate::connection::Client;
use crate::intake::Intake;
use crate::scratch::Scratch;
use crate::worker::Worker;

/// How many times its data a body may be with its framing, and what it may be more: chunks of one byte are six times that.
const FRAMED: usize = 8;
const SLACK: usize = 64 * 1024;

/// How much of a body a policy wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wanted {
    /// All of it, up to so many bytes; a longer one is refused.
    Whole(usize),
    /// Its beginning, up to so many bytes.
    Begin(usize),
}

/// Reads a body, or its beginning, and returns whether that is all of it. The bytes stay in the inbox with their framing, as if
/// they had come with the head.
///
/// # Errors
/// When it is malformed, too long, stalls, or ends too early.
pub(super) async fn read(
    client: &mut Client<Policed<'_>>,
    worker: &Worker,
    scratch: &mut Scratch,
    route: &Route,
    wanted: Wanted,
) -> Result<(Vec<u8>, bool), Reason> {
    let Scratch { request, inbox, to_client, ledger, .. } = scratch;
    if request.length.is_empty() {
        return Ok((Vec::new(), true));
    }
    let limits = &{ worker.active.borrow().plan.settings.head_limits };
    let (mut tee, most) = match wanted {
        Wanted::Whole(most) => {
            if matches!(request.length, Length::Exactly(length) if length > most as u64) {
                return Err(Reason::BodyTooLarge);
            }
            (Tee::new(request.length, most, limits), most)
        }
        Wanted::Begin(most) => (Tee::begin(request.length, most, limits), most),
    };
    if !inbox.is_empty() {
        match tee.take(inbox) {
            Teed::Whole(body) => return Ok((body, true)),
            Teed::Begin(body) => return Ok((body, false)),
            Teed::GivenUp(reason) => return Err(reason),
            Teed::More => {}
        }
    }
    let asks = std::mem::take(&mut request.expect_continue);
    let mut intake = Intake::begin(client, to_client, route, request, ledger.started(), asks)?;
    let mut came = 0;
    poll_fn(|cx| {
        loop {
            ready!(intake.poll_may_read(client, to_client, cx))?;
            let mut buffer = worker.receive.borrow_mut();
            let read = match client.stream.poll_read(cx, &mut buffer) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Err(error)) => return Poll::Ready(Err(unread(&error))),
                Poll::Ready(Ok(count)) => &buffer[..count],
            };
            inbox.extend_from_slice(read);
            came += read.len() as u64;
            match tee.take(read) {
                Teed::Whole(body) => return Poll::Ready(Ok((body, true))),
                Teed::Begin(body) => return Poll::Ready(Ok((body, false))),
                Teed::GivenUp(reason) => return Poll::Ready(Err(reason)),
                // Chunks of a byte each, written with all the zeros that are allowed, are 21 times their data.
                Teed::More if inbox.len() > most.saturating_mul(FRAMED).saturating_add(SLACK) => {
                    return Poll::Ready(match wanted {
                        Wanted::Whole(_) => Err(Reason::BodyTooLarge),
                        Wanted::Begin(_) => Ok((tee.so_far(), false)),
                    });
                }
                Teed::More => {}
            }
            intake.went_on(client, came);
        }
    })
    .await
}
