//! Waits for the ClientHello of a TLS connection, in any number of pieces.

use std::future::poll_fn;
use std::task::Poll;

use tollgate_tls::{CLIENT_HELLO_MAX_BYTES, ClientHello, FirstBytes};

use crate::state::client::Client;

/// Why no ClientHello arrived.
pub(super) enum HelloEnd {
    TimedOut,
    Closed,
}

/// Reads until the first bytes decide, within `timeouts.handshake`. Returns the bytes too.
///
/// # Errors
/// If the client closes its direction, or the time passes.
pub(super) async fn read_hello(client: &mut Client) -> Result<(FirstBytes, Vec<u8>), HelloEnd> {
    let worker = client.worker().clone();
    let bound = worker.active.borrow().plan.settings.timeouts.handshake;
    client.deadline.set(tollgate_net::now(), bound);
    let mut received = Vec::new();
    let first = poll_fn(|cx| {
        loop {
            let mut buffer = worker.receive.borrow_mut();
            let room = CLIENT_HELLO_MAX_BYTES - received.len();
            match client.stream.poll_read(cx, &mut buffer[..room]) {
                Poll::Ready(Ok(0) | Err(_)) => return Poll::Ready(Err(HelloEnd::Closed)),
                Poll::Ready(Ok(count)) => received.extend_from_slice(&buffer[..count]),
                Poll::Pending => return client.deadline.poll_passed(cx).map(|()| Err(HelloEnd::TimedOut)),
            }
            match ClientHello::read(&received) {
                FirstBytes::Partial => {}
                first => return Poll::Ready(Ok(first)),
            }
        }
    });
    let first = first.await?;
    Ok((first, received))
}
