//! Bounds the reading of a request body that must be complete before the request goes on. `collect` (buffered
//! requests) and [`policy`](crate::policy) use it: it enforces the body timeout, the minimum rate and the
//! total time limit.

use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use tollgate_http::RequestHead;
use tollgate_observe::Reason;
use tollgate_plan::Route;

use crate::state::backlog::Backlog;
use crate::state::client::Client;
use crate::state::client_side::ClientStream;
use crate::state::pace::Pace;
use crate::state::time_limit::TimeLimit;

/// The time limits of a body that is being read.
pub(crate) struct BodyLimits {
    total: TimeLimit,
    /// The longest wait from one piece to the next.
    each: Option<Duration>,
    /// The least rate of the client.
    pace: Pace,
}

impl BodyLimits {
    /// Starts the limits for a request that started at `started`. `asks`: the client waits for `100
    /// Continue`, which is sent.
    ///
    /// # Errors
    /// When the client is gone.
    pub fn begin<S: ClientStream>(
        client: &mut Client<S>,
        to_client: &mut Backlog,
        route: &Route,
        request: &RequestHead,
        started: Option<Instant>,
        asks: bool,
    ) -> Result<Self, Reason> {
        let total = TimeLimit::new(started.unwrap_or_else(tollgate_net::now), route.timeouts.total);
        let pace = Pace::of_body(&route.rates, &route.timeouts, request, 0);
        let mut body_limits = Self { total, each: route.timeouts.body, pace };
        body_limits.record_progress(client, 0);
        if asks {
            // The gateway asks for the body here, not the origin.
            let sent = client.stream.interim(to_client, b"HTTP/1.1 100 Continue\r\n\r\n");
            sent.map_err(|_| Reason::ClientClosed)?;
        }
        Ok(body_limits)
    }

    /// Records that `bytes` have arrived in total, and sets the deadline for the next ones.
    pub fn record_progress<S>(&mut self, client: &mut Client<S>, bytes: u64) {
        let now = tollgate_net::now();
        self.pace.settle(now, bytes);
        let bound = self.pace.wait(now, self.each);
        client.deadline.set(now, self.total.within(now, bound));
    }

    /// Does not count the time for which the limit of its rate delays the body.
    #[cold]
    fn pacing_changed<S: ClientStream>(&mut self, client: &mut Client<S>) {
        let now = tollgate_net::now();
        self.pace.excuse();
        let bound = match client.stream.is_request_paced() {
            true => None,
            false => self.pace.wait(now, self.each),
        };
        client.deadline.set(now, self.total.within(now, bound));
    }

    /// Waits until more may be read: everything queued for the client must be sent first.
    pub fn poll_may_read<S: ClientStream>(
        &mut self,
        client: &mut Client<S>,
        to_client: &mut Backlog,
        cx: &mut Context<'_>,
    ) -> Poll<Result<(), Reason>> {
        let now = tollgate_net::now;
        if client.stream.pacing_changed() {
            self.pacing_changed(client);
        }
        let mut passed = client.deadline.poll_passed(cx).is_ready();
        if passed && !client.stream.may_send() && self.pace.is_over(now()) && !self.total.is_over() {
            // The client cannot send: other streams have used up the window of its connection.
            self.pace.excuse();
            client.deadline.set(now(), self.total.within(now(), self.each));
            passed = client.deadline.poll_passed(cx).is_ready();
        }
        if passed {
            return Poll::Ready(Err(match self.total.is_over() {
                true => Reason::RequestTimeout,
                false if self.pace.is_over(now()) => Reason::BodyTooSlow,
                false => Reason::BodyTimeout,
            }));
        }
        let flushed = ready!(to_client.poll_flush(cx, &mut client.stream));
        Poll::Ready(flushed.map_err(|_| Reason::ClientClosed))
    }
}
