//! A connection is opened, where a cap is in the way after its turn has come.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use tollgate_net::{Deadline, ProxyHeader};
use tollgate_observe::Reason;
use tollgate_upstream::{ConnectError, Granted, Outcome, Pool};

/// So long a request waits for a file descriptor, or for a connection that comes free meanwhile, before it is turned
/// away: a shortage comes in bursts, and others' connections close all the time.
const SHORTAGE: Duration = Duration::from_millis(500);
/// From one look for either to the next, the first time; twice as long each time, up to [`LONGEST`].
const FIRST: Duration = Duration::from_millis(1);
const LONGEST: Duration = Duration::from_millis(32);

use super::Forwarding;
use super::retry::{Again, Failure};
use crate::client_side::ClientSide;
use crate::connection::Client;
use crate::total::Total;
use crate::upstream_side::UpstreamSide;

impl<S: ClientSide, U: UpstreamSide> Forwarding<'_, S, U> {
    /// Opens a connection, or waits for one where a cap is in the way, and notes how long the opening took.
    pub(super) async fn connect(&mut self, pool: &Rc<Pool>, began: Instant) -> Result<U, Failure> {
        // No more than is left of the attempt's own time, or of the whole.
        let bounds = Bounds {
            due: self.attempts.head_due(began),
            total: self.attempts.total(),
            connect: self.route.timeouts.connect,
        };
        let whose = self.client.named_to(pool);
        let Client { deadline, stream, link, .. } = &mut *self.client;
        let half_close = link.listener.half_close;
        let gone = |cx: &mut Context<'_>| stream.poll_gone(cx, half_close).is_ready();
        let (connection, took) = connected(pool, whose, &bounds, deadline, gone).await?;
        if took.is_some() {
            self.scratch.ledger.connect = took;
        }
        Ok(connection)
    }
}

/// How long it may take to come by a connection.
#[derive(Debug)]
pub(super) struct Bounds {
    /// The attempt's.
    pub due: Total,
    /// The whole request's.
    pub total: Total,
    /// The endpoint's, from when it is asked for a connection on: who waits for a turn waits for the gateway.
    pub connect: Option<Duration>,
}

/// Opens a connection, or waits for one where a cap is in the way; with it comes how long the opening took, if one was
/// opened, and `whose` it is then. `gone` is asked whether it is wanted no more, and may leave a waker.
///
/// # Errors
/// When there is none in time, or `gone` says so.
pub(super) async fn connected<U: UpstreamSide>(
    pool: &Rc<Pool>,
    whose: ProxyHeader,
    bounds: &Bounds,
    deadline: &Deadline,
    mut gone: impl FnMut(&mut Context<'_>) -> bool,
) -> Result<(U, Option<Duration>), Failure> {
    let over = |otherwise| if bounds.total.is_over() { Reason::RequestTimeout } else { otherwise };
    let mut shortage = None;
    loop {
        // The queue has a bound of its own.
        let now = tollgate_net::now();
        deadline.set(now, bounds.due.within(now, None));
        let turn = unless_over(deadline, &mut gone, true, U::turn(pool)).await;
        let opening = match turn.map_err(|end| end.unwrap_or_else(|| over(Reason::QueueTimeout))) {
            Ok(Granted::Place(opening)) => opening,
            Ok(Granted::Connection(free)) => return Ok((free, None)),
            Err(reason) => return Err(Failure { blame: None, ..Failure::unconnected(reason) }),
        };
        let start = tollgate_net::now();
        deadline.set(start, bounds.due.within(start, bounds.connect));
        let opened = unless_over(deadline, &mut gone, false, U::open(opening, whose)).await;
        let opened = opened.map_err(|end| end.unwrap_or_else(|| over(Reason::ConnectionTimeout)));
        match opened {
            Ok(Some(connection)) => {
                return Ok((connection, Some(tollgate_net::now().saturating_duration_since(start))));
            }
            Ok(None) => {}
            Err(Reason::Overload) => {
                let shortage = shortage.get_or_insert_with(|| Shortage::since(start));
                let pause = shortage.pause(bounds, tollgate_net::now()).ok_or(Reason::Overload);
                let pause = pause.map_err(Failure::unconnected)?;
                if let Some(free) =
                    waited(pool, pause, deadline, &mut gone).await.map_err(Failure::unconnected)?
                {
                    return Ok((free, None));
                }
            }
            Err(reason) => return Err(Failure::unconnected(reason)),
        }
    }
}

/// There is no file descriptor, or no memory, for a connection.
struct Shortage {
    since: Instant,
    /// The next pause.
    pause: Duration,
}

impl Shortage {
    fn since(since: Instant) -> Self {
        Self { since, pause: FIRST }
    }

    /// How long to wait before the next look, if there is to be one.
    fn pause(&mut self, bounds: &Bounds, now: Instant) -> Option<Duration> {
        let most = bounds.connect.map_or(SHORTAGE, |connect| connect.min(SHORTAGE));
        let pause = bounds.due.within(now, Some(self.pause))?;
        self.pause = (self.pause * 2).min(LONGEST);
        (now.saturating_duration_since(self.since) + pause < most).then_some(pause)
    }
}

/// A connection that has come free after a pause.
///
/// # Errors
/// When the client has gone meanwhile.
async fn waited<U: UpstreamSide>(
    pool: &Rc<Pool>,
    pause: Duration,
    deadline: &Deadline,
    gone: &mut impl FnMut(&mut Context<'_>) -> bool,
) -> Result<Option<U>, Reason> {
    deadline.set(tollgate_net::now(), Some(pause));
    poll_fn(|cx| match gone(cx) {
        true => Poll::Ready(Err(Reason::ClientClosed)),
        false => deadline.poll_passed(cx).map(Ok),
    })
    .await?;
    Ok(U::take(pool, tollgate_net::now()))
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

/// What a wait comes to, unless the client goes away, or the time is up (`None`) before. `queued`: what it is
/// given passes on if it is not taken, so the client is asked first whether it has gone.
async fn unless_over<T>(
    deadline: &Deadline,
    gone: &mut impl FnMut(&mut Context<'_>) -> bool,
    queued: bool,
    wait: impl Future<Output = Result<T, ConnectError>>,
) -> Result<T, Option<Reason>> {
    let mut wait = pin!(wait);
    let mut waits = false;
    poll_fn(|cx| {
        // It may have been given what others wait for meanwhile: if it has gone, that is theirs.
        let asks_first = queued && std::mem::replace(&mut waits, true);
        if asks_first && gone(cx) {
            return Poll::Ready(Err(Some(Reason::ClientClosed)));
        }
        if let Poll::Ready(result) = wait.as_mut().poll(cx) {
            return Poll::Ready(result.map_err(|error| Some(error.reason())));
        }
        if !asks_first && gone(cx) {
            return Poll::Ready(Err(Some(Reason::ClientClosed)));
        }
        deadline.poll_passed(cx).map(|()| Err(None))
    })
    .await
}
