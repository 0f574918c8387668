//! A connection is opened.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::rc::Rc;
use std::task::Poll;
use std::time::Instant;

use tollgate_net::Peek;
use tollgate_observe::Reason;
use tollgate_upstream::{Connection, Outcome, Pool};

use super::Forwarding;
use super::retry::{Again, Failure};
use crate::client_side::ClientSide;

impl<S: ClientSide> Forwarding<'_, S> {
    /// Opens a connection, or waits for one where a cap is in the way, and notes how long the opening took.
    pub(super) async fn connect(&mut self, pool: &Rc<Pool>, began: Instant) -> Result<Connection, Failure> {
        let start = tollgate_net::now();
        // Both: no more than is left of the attempt's own time, or of the whole.
        let bound = self.attempts.head_due(began).within(start, self.route.timeouts.connect);
        let (client, total) = (&mut *self.client, self.attempts.total());
        client.deadline.set(start, bound);
        let mut connecting = pin!(pool.connect());
        let connected = poll_fn(|cx| {
            if let Poll::Ready(result) = connecting.as_mut().poll(cx) {
                return Poll::Ready(result.map_err(|error| error.reason()));
            }
            if client.stream.poll_peek(cx) == Poll::Ready(Peek::Reset) {
                return Poll::Ready(Err(Reason::ClientClosed));
            }
            client.deadline.poll_passed(cx).map(|()| {
                Err(if total.is_over() { Reason::RequestTimeout } else { Reason::ConnectionTimeout })
            })
        });
        match connected.await {
            Ok(connection) => {
                // Where a cap was in the way it may be one that came free.
                let opened = !connection.is_reused();
                let took = || tollgate_net::now().saturating_duration_since(start);
                self.scratch.ledger.connect = opened.then(took);
                Ok(connection)
            }
            Err(reason) => Err(Failure::unconnected(reason)),
        }
    }
}

impl Failure {
    /// Of an attempt that got no connection.
    pub(super) fn unconnected(reason: Reason) -> Self {
        let blame = match reason {
            Reason::ClientClosed
            | Reason::ConnectionLimitReached
            | Reason::QueueTimeout
            | Reason::Overload => None,
            _ => Some(Outcome::NoConnection),
        };
        Self { reason, again: Again::Unsent, body_taken: false, blame }
    }
}
