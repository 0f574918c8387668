//! Skips the rest of a request's body when the gateway itself answers.
//!
//! All code that answers in the endpoint's place calls [`skip_body`] or [`skip_rest_of_body`], which skip
//! the bytes in the inbox and return whether the connection closes after the answer. If only a little of
//! the body is missing, they leave its reader in the state. [`request`](crate::front::request) then calls
//! [`discard`] after the answer.
//!
//! Invariant: a connection goes on only at the exact end of the body, and the wait for that is bounded in
//! bytes and time.

use std::future::poll_fn;
use std::task::Poll;
use std::time::Duration;

use tollgate_http::Version;
use tollgate_http::h1::{BodyLength, BodyReader};
use tollgate_observe::Reason;

use crate::state::client::Client;
use crate::state::request_state::RequestState;
use crate::state::worker::Worker;

/// The most bytes of a body that are read after an answer, framing included: enough for a form or a call, not
/// for an upload.
const BYTES_MAX: usize = 64 * 1024;
/// How long they are awaited. A client that writes the head and the body separately needs a round trip at
/// most.
const WAIT_MAX: Duration = Duration::from_secs(2);

/// Skips the body of a request before an answer. Returns whether the connection closes after the answer: if
/// `close` says so already, or if much of the body is missing.
pub(crate) fn skip_body(state: &mut RequestState, close: bool) -> bool {
    !skip(state) || close
}

/// Skips a body before the answer with an error; the reason decides whether the rest may be awaited. If some
/// of the body was read, its reader is in the state. Returns whether the connection closes, as [`skip_body`].
pub(crate) fn skip_rest_of_body(state: &mut RequestState, reason: Reason, close: bool) -> bool {
    !skip_rest(state, reason) || close
}

/// Returns whether the connection can carry another request: all of the body was received, or only a little
/// is missing.
fn skip(state: &mut RequestState) -> bool {
    match state.request.length {
        BodyLength::None | BodyLength::Exactly(0) => true,
        BodyLength::Exactly(length) if length <= state.inbox.len() as u64 => {
            state.inbox.drain(..length as usize);
            state.record.bytes_in = length;
            true
        }
        length => read_rest(state, BodyReader::new(length), true),
    }
}

fn skip_rest(state: &mut RequestState, reason: Reason) -> bool {
    // These bodies have no end, or the client is too slow to wait for it.
    let is_cut = matches!(
        reason,
        Reason::BadChunk
            | Reason::TrailersTooLarge
            | Reason::IncompleteRequest
            | Reason::BodyTimeout
            | Reason::BodyTooSlow
            | Reason::ClientClosed
    );
    // The rest of a body that is too large is not awaited.
    let waits = reason != Reason::BodyTooLarge;
    match state.unread.take() {
        _ if is_cut => false,
        Some(reader) => read_rest(state, *reader, waits),
        None => skip(state) && (waits || state.unread.take().is_none()),
    }
}

/// Reads the body's bytes in the inbox. `waits`: whether the rest may be awaited.
#[cold]
fn read_rest(state: &mut RequestState, mut reader: BodyReader, waits: bool) -> bool {
    let RequestState { request, inbox, record, unread, .. } = state;
    if reader.is_done() {
        return true;
    }
    // The end of such a body is not in the bytes of the connection.
    if request.version == Version::Http2 || request.length == BodyLength::UntilClose {
        return false;
    }
    // A client that waits for a 100 may send its body or not (RFC 9110, 10.1.1), so its next request may
    // begin at either end.
    if request.expect_continue && inbox.is_empty() {
        return false;
    }
    let Ok(step) = reader.read(inbox) else { return false };
    record.bytes_in += step.data.len() as u64;
    inbox.drain(..step.used);
    if reader.is_done() {
        return true;
    }
    let is_little = waits && reader.remaining().is_none_or(|left| left <= BYTES_MAX as u64);
    if is_little {
        *unread = Some(Box::new(reader));
    }
    is_little
}

/// Reads the rest of a body after the answer. Returns whether it came in time, so that the connection can
/// carry another request.
pub(crate) async fn discard(
    client: &mut Client,
    worker: &Worker,
    inbox: &mut Vec<u8>,
    mut body: Box<BodyReader>,
) -> bool {
    client.deadline.set(tollgate_net::now(), Some(WAIT_MAX));
    let mut left = BYTES_MAX;
    poll_fn(|cx| {
        loop {
            let mut buffer = worker.receive.borrow_mut();
            let count = match client.stream.poll_read(cx, &mut buffer) {
                Poll::Pending => return client.deadline.poll_passed(cx).map(|()| false),
                Poll::Ready(Ok(count @ 1..)) => count,
                Poll::Ready(_) => return Poll::Ready(false),
            };
            // The reader leaves half a line of a chunk or of trailers to the next read, so the inbox keeps
            // it.
            inbox.extend_from_slice(&buffer[..count]);
            let Ok(step) = body.read(inbox) else { return Poll::Ready(false) };
            inbox.drain(..step.used);
            if body.is_done() {
                return Poll::Ready(true);
            }
            left = left.saturating_sub(count);
            if left == 0 {
                return Poll::Ready(false);
            }
        }
    })
    .await
}
