//! Gets a connection for an attempt: waits in the pool's queue if a limit is reached, then opens one.
//!
//! `forward` and `attempt_task` call [`connected`] when the pool has no free connection. If the process is
//! short of file descriptors, it pauses and tries again for a short time.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use tollgate_net::{Deadline, ProxyHeader};
use tollgate_observe::Reason;
use tollgate_upstream::{Acquired, ConnectError, Outcome, Pool};

/// How long a request waits for a file descriptor, or for a connection to become free, before it is refused.
/// Shortages come in bursts, and other connections close all the time.
const SHORTAGE_WAIT_MAX: Duration = Duration::from_millis(500);
/// The first pause between two tries. It doubles each time, up to [`PAUSE_MAX`].
const PAUSE_MIN: Duration = Duration::from_millis(1);
const PAUSE_MAX: Duration = Duration::from_millis(32);

use super::Forwarding;
use super::retry::{AttemptFailure, Replay};
use crate::exchange::upstream_side::{OpenedConnection, UpstreamSide};
use crate::state::client::Client;
use crate::state::client_side::ClientSide;
use crate::state::time_limit::TimeLimit;

impl<S: ClientSide, U: UpstreamSide> Forwarding<'_, S, U> {
    /// Waits for a connection or opens one, and records how long the opening took.
    pub(super) async fn connect(&mut self, pool: &Rc<Pool>, began: Instant) -> Result<U, AttemptFailure> {
        // Bounded by the attempt's own time and by the request's.
        let bounds = ConnectBounds {
            due: self.attempts.head_due(began),
            total: self.attempts.total(),
            connect: self.route.timeouts.connect,
        };
        let client_header = self.client.proxy_header_for(pool);
        let Client { deadline, stream, connection_context, .. } = &mut *self.client;
        let half_close = connection_context.listener.half_close;
        let client_left = |cx: &mut Context<'_>| stream.poll_peer_closed(cx, half_close).is_ready();
        let (connection, took) = connected(pool, client_header, &bounds, deadline, client_left).await?;
        if took.is_some() {
            self.state.record.connect = took;
        }
        Ok(connection)
    }
}

/// The time limits for getting a connection.
#[derive(Debug)]
pub(crate) struct ConnectBounds {
    /// The limit of the attempt.
    pub due: TimeLimit,
    /// The limit of the whole request.
    pub total: TimeLimit,
    /// The endpoint's limit. It starts when the opening starts: a wait in the queue is the gateway's doing.
    pub connect: Option<Duration>,
}

/// Waits for a free connection, or for a permit and then opens one. Returns the connection, and how long the
/// opening took if there was one. `client_header` names the client to the endpoint. `client_left` returns
/// whether the connection is no longer needed, and may register a waker.
///
/// # Errors
/// If there is no connection in time, or if `client_left` returns true.
pub(crate) async fn connected<U: OpenedConnection>(
    pool: &Rc<Pool>,
    client_header: ProxyHeader,
    bounds: &ConnectBounds,
    deadline: &Deadline,
    mut client_left: impl FnMut(&mut Context<'_>) -> bool,
) -> Result<(U, Option<Duration>), AttemptFailure> {
    let over = |otherwise| if bounds.total.is_over() { Reason::RequestTimeout } else { otherwise };
    let mut shortage = None;
    loop {
        // The queue has its own bound.
        let now = tollgate_net::now();
        deadline.set(now, bounds.due.within(now, None));
        let turn = {
            let wait = pin!(U::wait_for_connection(pool));
            unless_over(deadline, &mut client_left, ConnectStep::Queue, wait).await
        };
        let opening = match turn.map_err(|end| end.unwrap_or_else(|| over(Reason::QueueTimeout))) {
            Ok(Acquired::Permit(opening)) => opening,
            Ok(Acquired::Connection(free)) => return Ok((free, None)),
            Err(reason) => {
                return Err(AttemptFailure { blame: None, ..AttemptFailure::not_connected(reason) });
            }
        };
        let start = tollgate_net::now();
        deadline.set(start, bounds.due.within(start, bounds.connect));
        let opened = {
            let wait = pin!(U::open(opening, client_header));
            unless_over(deadline, &mut client_left, ConnectStep::Open, wait).await
        };
        let opened = opened.map_err(|end| end.unwrap_or_else(|| over(Reason::ConnectionTimeout)));
        match opened {
            Ok(Some(connection)) => {
                return Ok((connection, Some(tollgate_net::now().saturating_duration_since(start))));
            }
            Ok(None) => {}
            Err(Reason::Overload) => {
                let shortage = shortage.get_or_insert_with(|| Shortage::since(start));
                let pause = shortage.pause(bounds, tollgate_net::now()).ok_or(Reason::Overload);
                let pause = pause.map_err(AttemptFailure::not_connected)?;
                if let Some(free) = waited(pool, pause, deadline, &mut client_left)
                    .await
                    .map_err(AttemptFailure::not_connected)?
                {
                    return Ok((free, None));
                }
            }
            Err(reason) => return Err(AttemptFailure::not_connected(reason)),
        }
    }
}

/// A lack of file descriptors or memory for a new connection.
struct Shortage {
    since: Instant,
    /// The next pause.
    pause: Duration,
}

impl Shortage {
    fn since(since: Instant) -> Self {
        Self { since, pause: PAUSE_MIN }
    }

    /// Returns how long to wait before the next try; `None` if there is none.
    fn pause(&mut self, bounds: &ConnectBounds, now: Instant) -> Option<Duration> {
        let most = bounds.connect.map_or(SHORTAGE_WAIT_MAX, |connect| connect.min(SHORTAGE_WAIT_MAX));
        let pause = bounds.due.within(now, Some(self.pause))?;
        self.pause = (self.pause * 2).min(PAUSE_MAX);
        (now.saturating_duration_since(self.since) + pause < most).then_some(pause)
    }
}

/// Waits for a pause, then returns a connection if one is free.
///
/// # Errors
/// If the client leaves during the pause.
async fn waited<U: OpenedConnection>(
    pool: &Rc<Pool>,
    pause: Duration,
    deadline: &Deadline,
    client_left: &mut impl FnMut(&mut Context<'_>) -> bool,
) -> Result<Option<U>, Reason> {
    deadline.set(tollgate_net::now(), Some(pause));
    poll_fn(|cx| match client_left(cx) {
        true => Poll::Ready(Err(Reason::ClientClosed)),
        false => deadline.poll_passed(cx).map(Ok),
    })
    .await?;
    Ok(U::take(pool, tollgate_net::now()))
}

impl AttemptFailure {
    /// Describes the failure of an attempt that got no connection.
    fn not_connected(reason: Reason) -> Self {
        let blame = match reason {
            Reason::ClientClosed
            | Reason::ConnectionLimitReached
            | Reason::QueueTimeout
            | Reason::Overload => None,
            _ => Some(Outcome::NoConnection),
        };
        Self { reason, again: Replay::Unsent, body_taken: false, blame }
    }
}

/// The step of getting a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ConnectStep {
    /// Waiting in the pool's queue. A grant that the request does not take goes to the next in the queue, so the
    /// client is checked first.
    Queue,
    /// Opening the connection.
    Open,
}

/// Returns the result of `wait`, unless the client leaves or the time is up (`None`) before. It borrows the future,
/// because an async function keeps a future that moves into it twice: 1,100 bytes for each request.
async fn unless_over<T>(
    deadline: &Deadline,
    client_left: &mut impl FnMut(&mut Context<'_>) -> bool,
    step: ConnectStep,
    mut wait: Pin<&mut impl Future<Output = Result<T, ConnectError>>>,
) -> Result<T, Option<Reason>> {
    let mut waits = false;
    poll_fn(|cx| {
        // The queue may have granted a connection since. If the client has left, that goes to the next in the
        // queue.
        let asks_first = step == ConnectStep::Queue && std::mem::replace(&mut waits, true);
        if asks_first && client_left(cx) {
            return Poll::Ready(Err(Some(Reason::ClientClosed)));
        }
        if let Poll::Ready(result) = wait.as_mut().poll(cx) {
            return Poll::Ready(result.map_err(|error| Some(error.reason())));
        }
        if !asks_first && client_left(cx) {
            return Poll::Ready(Err(Some(Reason::ClientClosed)));
        }
        deadline.poll_passed(cx).map(|()| Err(None))
    })
    .await
}
