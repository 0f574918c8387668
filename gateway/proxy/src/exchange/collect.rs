//! Collects a request's body before the request is sent upstream. [`forward`](crate::exchange::forward) calls it for
//! routes that buffer requests, so that a slow upload does not occupy an upstream connection.

use std::future::poll_fn;
use std::task::{Poll, ready};

use tollgate_http::HeadLimits;
use tollgate_http::h1::{BodyLength, BodyPart, BodyReader};
use tollgate_observe::Reason;
use tollgate_plan::{BufferBounds, Route};

use crate::exchange::body_limits::BodyLimits;
use crate::state::client::Client;
use crate::state::client_side::ClientSide;
use crate::state::peer_error::body_error_reason;
use crate::state::request_state::RequestState;
use crate::state::spool::Spool;
use crate::state::worker::Worker;

/// A complete request body.
#[derive(Debug)]
pub(crate) struct Collected {
    /// Its bytes, in memory or on disk.
    pub spool: Spool,
    /// Its length in bytes.
    pub length: u64,
}

/// Reads the whole body, within the bounds of the route.
///
/// # Errors
/// If the body is malformed, too long or incomplete, or if the client is too slow.
pub(crate) async fn collect<S: ClientSide>(
    client: &mut Client<S>,
    worker: &Worker,
    state: &mut RequestState,
    limits: &HeadLimits,
    route: &Route,
    bounds: BufferBounds,
) -> Result<Collected, Reason> {
    let RequestState { request, inbox, to_client, record, .. } = state;
    let mut reader = BodyReader::new(request.length).with_trailer_limits(limits);
    let mut spool = Spool::new(bounds);
    if let BodyLength::Exactly(length) = request.length
        && !spool.can_hold(length)
    {
        return Err(Reason::BodyTooLarge);
    }
    let asks = request.expect_continue && inbox.is_empty();
    let mut body_limits = BodyLimits::begin(client, to_client, route, request, record.started(), asks)?;
    let collected = poll_fn(|cx| {
        loop {
            ready!(body_limits.poll_may_read(client, to_client, cx))?;
            if reader.is_done() {
                return Poll::Ready(Ok(()));
            }
            let mut buffer = worker.receive.borrow_mut();
            let input = if inbox.is_empty() {
                match client.stream.poll_read(cx, &mut buffer).map_err(|error| error.read_reason())? {
                    Poll::Pending => return Poll::Pending,
                    // Trailers are dropped: the body is sent with its length, so trailers have no place.
                    Poll::Ready(0) if reader.end_of_stream() => return Poll::Ready(Ok(())),
                    Poll::Ready(0) => return Poll::Ready(Err(Reason::IncompleteRequest)),
                    Poll::Ready(count) => &mut buffer[..count],
                }
            } else {
                let count = inbox.len().min(buffer.len());
                buffer[..count].copy_from_slice(&inbox[..count]);
                inbox.drain(..count);
                &mut buffer[..count]
            };
            let BodyPart { used, data } = match reader.read(input) {
                Ok(step) => step,
                Err(error) => {
                    record.set_rejected_bytes(reader.rejected_bytes());
                    return Poll::Ready(Err(body_error_reason(error)));
                }
            };
            record.bytes_in += data.len() as u64;
            // Bytes after this body belong to the next request, and come before the bytes still in the inbox.
            inbox.splice(..0, input[used..].iter().copied());
            let too_large = route.body_limit.is_some_and(|limit| record.bytes_in > limit);
            if too_large || !spool.can_hold(record.bytes_in) {
                return Poll::Ready(Err(Reason::BodyTooLarge));
            }
            spool.push(&input[data]).map_err(|_| Reason::ProxyInternalError)?;
            body_limits.record_progress(client, record.bytes_in);
        }
    })
    .await;
    if collected.is_err() {
        state.unread = Some(Box::new(reader));
    }
    collected.map(|()| Collected { length: spool.len(), spool: spool.keep() })
}
