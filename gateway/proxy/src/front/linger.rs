//! Closes an HTTP/1 connection in a way that does not lose the last response.

use std::future::poll_fn;
use std::task::Poll;
use std::time::Duration;

use crate::state::client::Client;

/// The most bytes that are read and discarded.
const MAX_BYTES: usize = 1024 * 1024;
/// How long reading goes on.
const MAX_TIME: Duration = Duration::from_secs(2);

/// Closes the gateway's direction, then reads and discards what the client still sends. Closing a socket with
/// unread bytes sends a reset, which can overtake the response (RFC 9112, 9.6).
pub(crate) async fn linger(mut client: Box<Client>) {
    let worker = client.worker().clone();
    client.deadline.set(tollgate_net::now(), Some(MAX_TIME));
    let mut left = MAX_BYTES;
    let mut ended = false;
    poll_fn(|cx| {
        if !ended {
            match client.stream.poll_shutdown(cx) {
                Poll::Ready(Ok(())) => ended = true,
                Poll::Ready(Err(_)) => return Poll::Ready(()),
                // Over TLS, the close notice waits behind the response.
                Poll::Pending => {}
            }
        }
        loop {
            if client.deadline.poll_passed(cx).is_ready() {
                return Poll::Ready(());
            }
            let mut buffer = worker.receive.borrow_mut();
            match client.stream.poll_read(cx, &mut buffer) {
                Poll::Ready(Ok(count)) if count > 0 && count < left => left -= count,
                Poll::Ready(_) => return Poll::Ready(()),
                Poll::Pending => return Poll::Pending,
            }
        }
    })
    .await;
}
