//! The rest of a request's body, when the gateway answers itself and nobody wants it.
//!
//! [`pass_over_body`] skips what is here and says whether the connection can go on. Where a little is still to come it can: the
//! reader stays in the scratch, and [`discard`] reads that rest once the client has its answer. Both are bounded, so that no
//! client chooses how long a connection is held.

use std::future::poll_fn;
use std::task::Poll;
use std::time::Duration;

use tollgate_http::Version;
use tollgate_http::h1::{BodyReader, Length};
use tollgate_observe::Reason;

use crate::connection::Client;
use crate::scratch::Scratch;
use crate::worker::Worker;

/// Bytes of a body that are awaited behind an answer, framing included: a form or a call, and no upload.
const MOST_BYTES: usize = 64 * 1024;
/// How long they are awaited. Clients that write a head and a body one after the other need a round trip at most.
const LONGEST: Duration = Duration::from_secs(2);

/// Skips a body that nobody wants. Says whether the connection can carry another request: all of it is here, or a little is
/// still to come. If not, the connection is closed after the answer.
pub(crate) fn pass_over_body(scratch: &mut Scratch) -> bool {
    match scratch.request.length {
        Length::None | Length::Exactly(0) => true,
        Length::Exactly(length) if length <= scratch.inbox.len() as u64 => {
            scratch.inbox.drain(..length as usize);
            scratch.ledger.bytes_in = length;
            true
        }
        length => pass_over(scratch, BodyReader::new(length), true),
    }
}

/// The same where the gateway answers with an error, whose reason may say that the rest is not to be awaited. Of a body of which
/// some was read, the reader is in the scratch.
pub(crate) fn pass_over_rest(scratch: &mut Scratch, reason: Reason) -> bool {
    // Where these bodies end is not known.
    let is_cut = matches!(
        reason,
        Reason::BadChunk
            | Reason::TrailersTooLarge
            | Reason::IncompleteRequest
            | Reason::BodyTimeout
            | Reason::ClientClosed
    );
    // Nobody waits for more of what is too much already.
    let waits = reason != Reason::BodyTooLarge;
    match scratch.unread.take() {
        _ if is_cut => false,
        Some(reader) => pass_over(scratch, *reader, waits),
        None => pass_over_body(scratch) && (waits || scratch.unread.take().is_none()),
    }
}

/// `waits`: what is still to come may be awaited.
#[cold]
fn pass_over(scratch: &mut Scratch, mut reader: BodyReader, waits: bool) -> bool {
    let Scratch { request, inbox, ledger, unread, .. } = scratch;
    if reader.is_done() {
        return true;
    }
    // The end of such a body is not among the bytes of a connection.
    if request.version == Version::Http2 || request.length == Length::UntilClose {
        return false;
    }
    // A client that waits for a word may send its body or not (RFC 9110, 10.1.1): only a close tells where its next request
    // begins.
    if request.expect_continue && inbox.is_empty() {
        return false;
    }
    let Ok(step) = reader.read(inbox) else { return false };
    ledger.bytes_in += step.data.len() as u64;
    inbox.drain(..step.used);
    if reader.is_done() {
        return true;
    }
    let is_little = waits && reader.left().is_none_or(|left| left <= MOST_BYTES as u64);
    if is_little {
        *unread = Some(Box::new(reader));
    }
    is_little
}

/// Reads the rest of a body when its client has been answered. Says whether it came, so that the connection can carry another
/// request.
pub(crate) async fn discard(
    client: &mut Client,
    worker: &Worker,
    inbox: &mut Vec<u8>,
    mut body: Box<BodyReader>,
) -> bool {
    client.deadline.set(tollgate_net::now(), Some(LONGEST));
    let mut left = MOST_BYTES;
    poll_fn(|cx| {
        loop {
            let mut buffer = worker.receive.borrow_mut();
            let count = match client.stream.poll_read(cx, &mut buffer) {
                Poll::Pending => return client.deadline.poll_passed(cx).map(|()| false),
                Poll::Ready(Ok(count @ 1..)) => count,
                Poll::Ready(_) => return Poll::Ready(false),
            };
            // The reader leaves half a line of a chunk or of trailers to the next read, so the inbox keeps it.
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
