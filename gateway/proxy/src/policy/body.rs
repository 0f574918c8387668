//! Reads a request body, or its beginning, for a policy that inspects it. The bytes stay in the inbox, so the
//! request goes on with its body unchanged. [`resolve()`](super::resolve::resolve) calls it.

use std::future::poll_fn;
use std::task::{Poll, ready};

use tollgate_http::HeadLimits;
use tollgate_http::h1::BodyLength;
use tollgate_observe::Reason;
use tollgate_plan::Route;

use super::tee::{Tee, TeeProgress};
use super::transforming_client::TransformingClient;
use crate::exchange::body_limits::BodyLimits;
use crate::state::client::Client;
use crate::state::client_side::Duplex;
use crate::state::request_state::RequestState;
use crate::state::worker::Worker;

/// Bounds of what is buffered, as a multiple of the body's data plus a constant. Chunks of one byte each are
/// six times their data.
const FRAMED: usize = 8;
const SLACK: usize = 64 * 1024;

/// How much of a body a policy needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BodyNeed {
    /// All of it, up to this many bytes; a longer body is refused.
    Whole(usize),
    /// Its beginning, up to this many bytes.
    Begin(usize),
}

/// Reads a body, or its beginning. Returns the data, and whether that is the whole body. The bytes stay in
/// the inbox with their framing, as if they had arrived with the head.
///
/// # Errors
/// If the body is malformed, too long or incomplete, or if the client is too slow.
pub(super) async fn read(
    client: &mut Client<TransformingClient<'_>>,
    worker: &Worker,
    state: &mut RequestState,
    limits: &HeadLimits,
    route: &Route,
    wanted: BodyNeed,
) -> Result<(Vec<u8>, bool), Reason> {
    let RequestState { request, inbox, to_client, record, .. } = state;
    if request.length.is_empty() {
        return Ok((Vec::new(), true));
    }
    let (mut tee, max_bytes) = match wanted {
        BodyNeed::Whole(max_bytes) => {
            if matches!(request.length, BodyLength::Exactly(length) if length > max_bytes as u64) {
                return Err(Reason::BodyTooLarge);
            }
            (Tee::new(request.length, max_bytes, limits), max_bytes)
        }
        BodyNeed::Begin(max_bytes) => (Tee::begin(request.length, max_bytes, limits), max_bytes),
    };
    if !inbox.is_empty() {
        match tee.take(inbox) {
            TeeProgress::Whole(body) => return Ok((body, true)),
            TeeProgress::Begin(body) => return Ok((body, false)),
            TeeProgress::GivenUp(reason) => return Err(reason),
            TeeProgress::More => {}
        }
    }
    let asks = std::mem::take(&mut request.expect_continue);
    let mut body_limits = BodyLimits::begin(client, to_client, route, request, record.started(), asks)?;
    let mut came = 0;
    poll_fn(|cx| {
        loop {
            ready!(body_limits.poll_may_read(client, to_client, cx))?;
            let mut buffer = worker.receive.borrow_mut();
            let read = match client.stream.poll_read(cx, &mut buffer) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error.read_reason())),
                Poll::Ready(Ok(count)) => &buffer[..count],
            };
            inbox.extend_from_slice(read);
            came += read.len() as u64;
            match tee.take(read) {
                TeeProgress::Whole(body) => return Poll::Ready(Ok((body, true))),
                TeeProgress::Begin(body) => return Poll::Ready(Ok((body, false))),
                TeeProgress::GivenUp(reason) => return Poll::Ready(Err(reason)),
                // Chunks of one byte each, with all the leading zeros that are allowed, are 21 times their
                // data.
                TeeProgress::More if inbox.len() > max_bytes.saturating_mul(FRAMED).saturating_add(SLACK) => {
                    return Poll::Ready(match wanted {
                        BodyNeed::Whole(_) => Err(Reason::BodyTooLarge),
                        BodyNeed::Begin(_) => Ok((tee.so_far(), false)),
                    });
                }
                TeeProgress::More => {}
            }
            body_limits.record_progress(client, came);
        }
    })
    .await
}
