//! Decides whether a request is retried, and holds the permits of its attempts.
//!
//! [`RequestAttempts`] counts the attempts of one request. [`RequestAttempts::begin`] asks the adaptive limit
//! and the circuit breaker for each. After a failure, the retry rules, the remaining time and the retry
//! budget decide about another one.

use std::rc::Rc;
use std::time::{Duration, Instant};

use tollgate_http::RequestHead;
use tollgate_http::grpc::GrpcStatus;
use tollgate_observe::Reason;
use tollgate_plan::{Priority, Retry, RetryOn, Route};
use tollgate_upstream::{AdaptivePermit, BreakerPermit, InFlightGuard, Outcome, Pool, Upstream};

use crate::exchange::grpc::ClientDeadline;
use crate::state::time_limit::TimeLimit;

/// Whether, and in which state, the request can be sent again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Replay {
    /// The endpoint has received nothing of it.
    Unsent,
    /// The endpoint may have acted on it. The whole request is here, and can be sent unchanged.
    Whole,
    /// It cannot be sent again: bytes of its body are gone, or the client has received a part of a response.
    Never,
}

/// The failure of an attempt that gave the client no response.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AttemptFailure {
    pub reason: Reason,
    pub again: Replay,
    /// Whether bytes of the body have left the inbox.
    pub body_taken: bool,
    /// The endpoint's share in the failure, connecting included; `None` if the client or the gateway caused
    /// it.
    pub blame: Option<Outcome>,
}

/// The attempts of one request: their number, their permits, and the rules for another one.
pub(crate) struct RequestAttempts<'a> {
    upstream: &'a Upstream,
    rules: &'a Retry,
    total: TimeLimit,
    /// The time limit for the start of another attempt.
    start_limit: TimeLimit,
    /// The client's deadline, if the request is a gRPC call that has one.
    client_deadline: Option<ClientDeadline>,
    /// The number of attempts, the current one included. A request that is sent again after a stale pooled connection,
    /// or goes to another endpoint after a refused connection, remains the same attempt.
    made: u8,
    /// The breaker's permit of the current attempt, which reports its result.
    breaker_permit: Option<BreakerPermit>,
    priority: Priority,
    /// The adaptive limit's permit of the current attempt, until the response head arrives.
    adaptive_permit: Option<AdaptivePermit>,
    /// Whether a page is requested in place of an error: that is a GET, whatever the request's own method.
    is_page: bool,
    /// The state of a request that is retried. Boxed: a plain request pays for a null pointer.
    again: Option<Box<RetryState>>,
}

/// The state of a request that is retried.
#[derive(Default)]
struct RetryState {
    /// Endpoints that were tried without success.
    tried: Vec<Rc<Pool>>,
    /// Counts the current attempt as a retry in progress.
    in_progress: Option<InFlightGuard>,
    /// The wait before it starts.
    wait: Duration,
    /// How many endpoints refused the connection and were not counted as attempts.
    refusals: u8,
}

/// How many refused connections of one request are not counted as attempts. During a rolling restart, several endpoints
/// may be gone before the gateway knows. The bound keeps a request from asking each of a thousand dead endpoints.
const REFUSALS_MAX: u8 = 8;

/// The permits of one of several attempts in progress.
#[derive(Debug, Default)]
pub(super) struct AttemptPermits {
    /// The breaker's permit, which reports its result.
    pub breaker_permit: Option<BreakerPermit>,
    /// The adaptive limit's permit.
    pub adaptive_permit: Option<AdaptivePermit>,
    /// Counts it as a retry in progress, if it is not the first.
    in_progress: Option<InFlightGuard>,
}

impl<'a> RequestAttempts<'a> {
    /// Creates the attempts of a request; the first one starts at `now`.
    pub fn new(
        upstream: &'a Upstream,
        route: &'a Route,
        now: Instant,
        total: TimeLimit,
        client_deadline: Option<ClientDeadline>,
        is_page: bool,
    ) -> Self {
        let rules = route.retry.as_ref().unwrap_or(&upstream.rules().retry);
        let priority = route.priority;
        let (breaker_permit, adaptive_permit, again) = (None, None, None);
        Self {
            upstream,
            rules,
            total,
            start_limit: total.and(now, rules.within),
            client_deadline,
            made: 0,
            breaker_permit,
            priority,
            adaptive_permit,
            is_page,
            again,
        }
    }

    /// Returns the endpoints that were tried without success.
    pub fn tried(&self) -> &[Rc<Pool>] {
        self.again.as_ref().map_or(&[], |again| &again.tried)
    }

    /// Makes the next attempts avoid this endpoint.
    pub fn avoid(&mut self, pool: Rc<Pool>) {
        self.again.get_or_insert_default().tried.push(pool);
    }

    /// Returns the time limit of all attempts together.
    pub fn total(&self) -> TimeLimit {
        self.total
    }

    /// Returns the time limit for the response head of an attempt that started at `began`.
    pub fn head_due(&self, began: Instant) -> TimeLimit {
        self.total.and(began, self.rules.per_try)
    }

    /// Starts another attempt.
    ///
    /// # Errors
    /// If the breaker or the adaptive limit refuses it.
    pub fn begin(&mut self, now: Instant) -> Result<(), Reason> {
        // The breaker comes last, because it counts each refusal and each probe.
        let adaptive_permit =
            self.upstream.acquire_adaptive(self.priority, now).map_err(|_| Reason::AdaptiveLimit)?;
        self.breaker_permit = self.upstream.acquire_breaker(now).map_err(|_| Reason::CircuitOpen)?;
        self.adaptive_permit = adaptive_permit;
        self.made = self.made.saturating_add(1);
        Ok(())
    }

    /// Returns whether the rules allow no attempt after the current one.
    pub(super) fn is_last(&self) -> bool {
        self.made >= self.rules.attempts
    }

    /// Starts another attempt in parallel with the current one, if time, breaker, limit and budget allow it.
    /// The most expensive check comes last.
    pub(super) fn begin_hedge(&mut self, now: Instant) -> Option<AttemptPermits> {
        let Self { upstream, priority, .. } = *self;
        if self.is_last()
            || !self.start_limit.allows_wait(now, Duration::ZERO)
            || !upstream.breaker_would_admit(now)
            || !upstream.has_adaptive_capacity(priority)
        {
            return None;
        }
        let adaptive_permit = upstream.acquire_adaptive(priority, now).ok()?;
        let breaker_permit = self.upstream.acquire_breaker(now).ok()?;
        let in_progress = Some(self.upstream.try_begin_hedge(self.rules, now)?);
        self.made = self.made.saturating_add(1);
        Some(AttemptPermits { breaker_permit, adaptive_permit, in_progress })
    }

    /// Takes the permits of the current attempt, because several are about to run.
    pub(super) fn take_permits(&mut self) -> AttemptPermits {
        let in_progress = self.again.as_mut().and_then(|again| again.in_progress.take());
        AttemptPermits {
            breaker_permit: self.breaker_permit.take(),
            adaptive_permit: self.adaptive_permit.take(),
            in_progress,
        }
    }

    /// Makes the attempt with these permits the current one.
    pub(super) fn put_permits(&mut self, permits: AttemptPermits) {
        (self.breaker_permit, self.adaptive_permit) = (permits.breaker_permit, permits.adaptive_permit);
        if permits.in_progress.is_some() {
            self.again.get_or_insert_default().in_progress = permits.in_progress;
        }
    }

    /// Called when the request is sent on a connection. The latency of the upstream counts from here.
    #[inline]
    pub fn sending(&mut self, now: Instant) {
        if let Some(adaptive_permit) = &mut self.adaptive_permit {
            adaptive_permit.sending(now);
        }
    }

    /// Called when the upstream waits for a body that the client still sends. That time does not count as
    /// latency.
    pub fn waits_for_body(&mut self) {
        if let Some(adaptive_permit) = &mut self.adaptive_permit {
            adaptive_permit.suspend();
        }
    }

    /// Called when the whole request was sent.
    #[inline]
    pub fn sent(&mut self, now: Instant) {
        if let Some(adaptive_permit) = &mut self.adaptive_permit {
            adaptive_permit.resume(now);
        }
    }

    /// Returns whether the client's own deadline explains a failure with this HTTP status. Such a failure
    /// counts against nothing and is not retried. It reads the clock: on a machine that is short of
    /// processors, the response may come long after the worker's turn started, so the time of the turn would
    /// be too old.
    #[inline]
    pub fn is_clients_choice(&self, status: u16) -> bool {
        status >= 500
            && self
                .client_deadline
                .is_some_and(|client_deadline| client_deadline.explains(status, tollgate_net::now()))
    }

    /// Returns whether the client's deadline has passed.
    pub(super) fn has_client_given_up(&self) -> bool {
        self.client_deadline.is_some_and(|client_deadline| client_deadline.is_over(tollgate_net::now()))
    }

    /// Called when the response head arrives. Reports the result to the adaptive limit and the breaker.
    pub fn answered(&mut self, status: u16, now: Instant) {
        // A response with an error may skip the work, so its latency means nothing.
        if let Some(adaptive_permit) = self.adaptive_permit.take()
            && status < 500
        {
            adaptive_permit.done(now);
        }
        if let Some(breaker_permit) = self.breaker_permit.take() {
            breaker_permit.done(now, status >= 500);
        }
    }

    /// Called when no response will arrive. Without blame, it says nothing about the upstream.
    pub fn failed(&mut self, blame: Option<Outcome>) {
        if let Some(adaptive_permit) = self.adaptive_permit.take()
            && blame == Some(Outcome::TimedOut)
        {
            adaptive_permit.done(tollgate_net::now());
        }
        if let Some(breaker_permit) = self.breaker_permit.take()
            && blame.is_some()
        {
            breaker_permit.done(tollgate_net::now(), true);
        }
    }

    /// Returns whether the request may be sent again, even if an endpoint may have acted on it.
    pub fn may_repeat(&self, again: Replay, request: &RequestHead) -> bool {
        let methods = &self.rules.methods;
        match again {
            Replay::Unsent => true,
            Replay::Whole if self.is_page => true,
            Replay::Whole if methods.is_empty() => request.method.is_idempotent(),
            Replay::Whole => {
                let method = request.slice(request.method_text);
                methods.iter().any(|listed| listed.as_bytes() == method)
            }
            Replay::Never => false,
        }
    }

    /// Returns whether the rules allow a retry after a response with this status.
    #[inline]
    pub fn retries_status(&self, status: u16) -> bool {
        let statuses = &self.rules.on.statuses;
        !statuses.is_empty() && statuses.binary_search(&status).is_ok()
    }

    /// Returns whether such a response is held back from the client, because another attempt follows.
    pub fn holds_back(&mut self, again: Replay, request: &RequestHead) -> bool {
        self.may_repeat(again, request) && self.grant_retry()
    }

    /// Returns whether the response to a gRPC call with this status is held back, because another attempt
    /// follows.
    pub fn holds_back_call(&mut self, code: GrpcStatus) -> bool {
        self.rules.on.grpc.binary_search(&code.number()).is_ok() && self.grant_retry()
    }

    /// Returns whether another attempt follows this failure.
    pub(super) fn another(&mut self, failure: &AttemptFailure, request: &RequestHead) -> bool {
        is_wanted(&self.rules.on, failure.reason)
            && self.may_repeat(failure.again, request)
            && self.grant_retry()
    }

    /// Grants another attempt in place of the current one, whose endpoint refused the connection. The endpoint has
    /// received nothing, so this costs neither an attempt nor budget, and needs no wait.
    pub(super) fn move_on(&mut self) -> bool {
        let Self { upstream, rules, start_limit, priority, .. } = *self;
        if rules.attempts < 2 || !rules.on.connect_failure {
            return false;
        }
        let again = self.again.get_or_insert_default();
        if again.refusals == REFUSALS_MAX
            || !start_limit.allows_wait(tollgate_net::now(), Duration::ZERO)
            || !upstream.breaker_would_admit(tollgate_net::now())
            || !upstream.has_adaptive_capacity(priority)
        {
            return false;
        }
        again.refusals += 1;
        again.wait = Duration::ZERO;
        self.made = self.made.saturating_sub(1);
        upstream.count_move();
        true
    }

    /// Returns the wait before the attempt that was granted last.
    pub(super) fn wait(&self) -> Duration {
        self.again.as_ref().map_or(Duration::ZERO, |again| again.wait)
    }

    /// Grants another attempt if number, time, breaker, limit and budget allow it. The most expensive check
    /// comes last.
    fn grant_retry(&mut self) -> bool {
        let Self { upstream, rules, start_limit, made, priority, .. } = *self;
        if made >= rules.attempts {
            return false;
        }
        let now = tollgate_net::now();
        let again = self.again.get_or_insert_default();
        again.wait = backoff(rules, made, |most| upstream.random_delay(most));
        if !start_limit.allows_wait(now, again.wait)
            || !upstream.breaker_would_admit(now)
            || !upstream.has_adaptive_capacity(priority)
        {
            return false;
        }
        // A request has at most one retry in progress, and the previous one is over.
        again.in_progress = None;
        again.in_progress = upstream.try_begin_retry(rules, now);
        again.in_progress.is_some()
    }
}

/// Returns whether the rules allow a retry for this reason.
pub(crate) fn is_wanted(on: &RetryOn, reason: Reason) -> bool {
    match reason {
        Reason::DnsError | Reason::ConnectionRefused | Reason::ConnectionTimeout => on.connect_failure,
        Reason::ConnectionTerminated => on.reset,
        Reason::HttpResponseTimeout | Reason::ConnectionWriteTimeout => on.timeout,
        _ => false,
    }
}

/// Returns the wait after `made` attempts. Its bound doubles each time, up to a maximum, and the wait is a
/// random part of that ("full jitter": M. Brooker, "Exponential Backoff And Jitter", 2015). So clients that
/// failed together do not come back together.
pub(crate) fn backoff(rules: &Retry, made: u8, draw: impl FnOnce(Duration) -> Duration) -> Duration {
    let doubled = 1_u32.checked_shl(u32::from(made.saturating_sub(1))).unwrap_or(u32::MAX);
    draw(rules.backoff.saturating_mul(doubled).min(rules.backoff_max))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_their_bound() {
        let rules = Retry::default();
        let most = |made| backoff(&rules, made, |most| most).as_millis();
        assert_eq!([1, 2, 3, 4, 5, 6, 40, 255].map(most), [25, 50, 100, 200, 250, 250, 250, 250]);
        assert_eq!(backoff(&rules, 3, |_| Duration::ZERO), Duration::ZERO);
    }

    #[test]
    fn each_condition_has_its_reasons() {
        let none = RetryOn { connect_failure: false, reset: false, ..RetryOn::default() };
        let wanted = |on: &RetryOn| -> Vec<_> {
            let reasons = Reason::ALL.iter().filter(|reason| is_wanted(on, **reason));
            reasons.map(|reason| reason.as_str()).collect()
        };
        assert_eq!(wanted(&none), [""; 0]);
        let connect = ["dns_error", "connection_refused", "connection_timeout"];
        assert_eq!(wanted(&RetryOn { connect_failure: true, ..none.clone() }), connect);
        assert_eq!(wanted(&RetryOn { reset: true, ..none.clone() }), ["connection_terminated"]);
        let timeouts = ["http_response_timeout", "connection_write_timeout"];
        assert_eq!(wanted(&RetryOn { timeout: true, ..none }), timeouts);
    }
}
