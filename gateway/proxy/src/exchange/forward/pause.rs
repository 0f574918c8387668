//! Waits before another attempt.

use std::future::poll_fn;
use std::task::Poll;
use std::time::Instant;

use tollgate_observe::Reason;

use super::Forwarding;
use crate::state::client_side::ClientSide;

impl<S: ClientSide, U> Forwarding<'_, S, U> {
    /// Waits for the random backoff of the next attempt. Returns the time at its end.
    ///
    /// # Errors
    /// If the client leaves during the wait.
    pub(super) async fn pause(&mut self) -> Result<Instant, Reason> {
        let (now, wait) = (tollgate_net::now(), self.attempts.wait());
        if wait.is_zero() {
            return Ok(now);
        }
        let client = &mut *self.client;
        client.deadline.set(now, Some(wait));
        poll_fn(|cx| {
            if client.poll_peer_closed(cx).is_ready() {
                return Poll::Ready(Err(Reason::ClientClosed));
            }
            client.deadline.poll_passed(cx).map(Ok)
        })
        .await?;
        Ok(tollgate_net::now())
    }
}
