//! A connection is opened, where a cap is in the way after its turn has come.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::rc::Rc;
use std::task::Poll;
use std::time::{Duration, Instant};

use tollgate_net::Peek;
use tollgate_observe::Reason;
use tollgate_upstream::{ConnectError, Connection, Granted, Outcome, Pool};

use super::Forwarding;
use super::retry::{Again, Failure};
use crate::client_side::ClientSide;
use crate::connection::Client;

impl<S: ClientSide> Forwarding<'_, S> {
    /// Opens a connection, or waits for one where a cap is in the way, and notes how long the opening took.
    pub(super) async fn connect(&mut self, pool: &Rc<Pool>, began: Instant) -> Result<Connection, Failure> {
        // No more than is left of the attempt's own time, or of the whole.
        let (due, total) = (self.attempts.head_due(began), self.attempts.total());
        let over = |otherwise| if total.is_over() { Reason::RequestTimeout } else { otherwise };
        // The queue has a bound of its own, and who waits in it waits for the gateway: `timeouts.connect` is the
        // endpoint's time.
        let now = tollgate_net::now();
        let turn = unless_over(self.client, now, due.within(now, None), pool.turn()).await;
        let opening = match turn.map_err(|end| end.unwrap_or_else(|| over(Reason::QueueTimeout))) {
            Ok(Granted::Place(opening)) => opening,
            Ok(Granted::Connection(free)) => return Ok(free),
            Err(reason) => return Err(Failure { blame: None, ..Failure::unconnected(reason) }),
        };
        let start = tollgate_net::now();
        let bound = due.within(start, self.route.timeouts.connect);
        let connected = unless_over(self.client, start, bound, opening.connect()).await;
        match connected.map_err(|end| end.unwrap_or_else(|| over(Reason::ConnectionTimeout))) {
            Ok(connection) => {
                self.scratch.ledger.connect = Some(tollgate_net::now().saturating_duration_since(start));
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

/// What a wait comes to, unless the client goes away, or the time is up (`None`) before.
async fn unless_over<T, S: ClientSide>(
    client: &mut Client<S>,
    now: Instant,
    bound: Option<Duration>,
    wait: impl Future<Output = Result<T, ConnectError>>,
) -> Result<T, Option<Reason>> {
    client.deadline.set(now, bound);
    let mut wait = pin!(wait);
    poll_fn(|cx| {
        if let Poll::Ready(result) = wait.as_mut().poll(cx) {
            return Poll::Ready(result.map_err(|error| Some(error.reason())));
        }
        if client.stream.poll_peek(cx) == Poll::Ready(Peek::Reset) {
            return Poll::Ready(Err(Some(Reason::ClientClosed)));
        }
        client.deadline.poll_passed(cx).map(|()| Err(None))
    })
    .await
}
