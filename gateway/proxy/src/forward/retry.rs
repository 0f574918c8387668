//! Whether a request is tried again.

use std::rc::Rc;
use std::time::{Duration, Instant};

use tollgate_http::RequestHead;
use tollgate_http::grpc::Code;
use tollgate_observe::Reason;
use tollgate_plan::{Priority, Retry, RetryOn, Route};
use tollgate_upstream::{AdaptivePermit, BreakerPermit, Outcome, Pool, UnderWay, Upstream};

use crate::grpc::Patience;
use crate::total::Total;

/// What it would mean to send the request again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Again {
    /// The endpoint has got nothing of it.
    Unsent,
    /// The endpoint may have acted on it. All of it is here, to be sent as it was.
    Whole,
    /// It cannot be: bytes of its body are gone, or the client has got something of a response.
    Never,
}

/// Why an attempt brought the client nothing.
#[derive(Clone, Copy, Debug)]
pub(super) struct Failure {
    pub reason: Reason,
    pub again: Again,
    /// Bytes of the body have left the inbox.
    pub body_taken: bool,
    /// What the endpoint, or the way to it, did; `None`: it was the client, or the gateway itself.
    pub blame: Option<Outcome>,
}

/// The attempts of one request: how many there were, what they may yet use, and whether there is another.
pub(crate) struct Attempts<'a> {
    upstream: &'a Upstream,
    rules: &'a Retry,
    total: Total,
    /// The client's, if the request is a gRPC call with a deadline.
    patience: Option<Patience>,
    /// The present one included. A request that is sent again because it met a stale connection is the same attempt.
    made: u8,
    /// What the breaker wants to hear of the present one.
    permit: Option<BreakerPermit>,
    priority: Priority,
    /// The place of the present one within the adaptive limit, until its response's head is here.
    place: Option<AdaptivePermit>,
    /// Whether a page is asked for in the place of an error: a GET, whatever the request's own method.
    is_page: bool,
    /// What only a request has that is tried again: a plain one pays for a null pointer.
    again: Option<Box<TriedAgain>>,
}

/// What a request has that is tried again.
#[derive(Default)]
struct TriedAgain {
    /// Endpoints that were tried in vain.
    tried: Vec<Rc<Pool>>,
    /// Counts the present attempt.
    under_way: Option<UnderWay>,
    /// How long to wait before it begins.
    wait: Duration,
}

/// What is at stake with one of several attempts that are under way.
#[derive(Debug, Default)]
pub(super) struct Stake {
    /// What the breaker wants to hear of it.
    pub permit: Option<BreakerPermit>,
    /// Its place within the adaptive limit.
    pub place: Option<AdaptivePermit>,
    /// Counts it, if it is not the first.
    under_way: Option<UnderWay>,
}

impl<'a> Attempts<'a> {
    pub fn new(
        upstream: &'a Upstream,
        route: &'a Route,
        total: Total,
        patience: Option<Patience>,
        is_page: bool,
    ) -> Self {
        let rules = route.retry.as_ref().unwrap_or(&upstream.rules().retry);
        let priority = route.priority;
        let (permit, place, again) = (None, None, None);
        Self { upstream, rules, total, patience, made: 0, permit, priority, place, is_page, again }
    }

    /// Endpoints that were tried in vain.
    pub fn tried(&self) -> &[Rc<Pool>] {
        self.again.as_ref().map_or(&[], |again| &again.tried)
    }

    /// The next attempt is to go elsewhere.
    pub fn avoid(&mut self, pool: Rc<Pool>) {
        self.again.get_or_insert_default().tried.push(pool);
    }

    /// The bound of all attempts together.
    pub fn total(&self) -> Total {
        self.total
    }

    /// The bound of the head of a response to an attempt that began then.
    pub fn head_due(&self, began: Instant) -> Total {
        self.total.and(began, self.rules.per_try)
    }

    /// Another attempt begins.
    ///
    /// # Errors
    /// When the breaker or the adaptive limit does not let it through.
    pub fn begin(&mut self, now: Instant) -> Result<(), Reason> {
        // The breaker last: it counts whom it turns away, and each probe that it lets through.
        let place = self.upstream.enter(self.priority, now).map_err(|_| Reason::AdaptiveLimit)?;
        self.permit = self.upstream.admit(now).map_err(|_| Reason::CircuitOpen)?;
        self.place = place;
        self.made = self.made.saturating_add(1);
        Ok(())
    }

    /// Whether there may be another attempt beside the present one, as far as their number goes.
    pub(super) fn is_last(&self) -> bool {
        self.made >= self.rules.attempts
    }

    /// Another attempt begins beside the present one, if time, breaker, limit and budget allow; the dearest question
    /// last.
    pub(super) fn begin_beside(&mut self, now: Instant) -> Option<Stake> {
        let Self { upstream, priority, .. } = *self;
        if self.is_last()
            || !self.total.leaves(now, Duration::ZERO)
            || !upstream.would_admit(now)
            || !upstream.has_room(priority)
        {
            return None;
        }
        let place = upstream.enter(priority, now).ok()?;
        let permit = self.upstream.admit(now).ok()?;
        let under_way = Some(self.upstream.begin_hedge(self.rules, now)?);
        self.made = self.made.saturating_add(1);
        Some(Stake { permit, place, under_way })
    }

    /// Takes out what is at stake with the present attempt: there are to be several.
    pub(super) fn take_stake(&mut self) -> Stake {
        let under_way = self.again.as_mut().and_then(|again| again.under_way.take());
        Stake { permit: self.permit.take(), place: self.place.take(), under_way }
    }

    /// From now on this attempt is the present one.
    pub(super) fn put_stake(&mut self, stake: Stake) {
        (self.permit, self.place) = (stake.permit, stake.place);
        if stake.under_way.is_some() {
            self.again.get_or_insert_default().under_way = stake.under_way;
        }
    }

    /// The request goes out on a connection now. Until then the upstream had nothing to do with it.
    #[inline]
    pub fn sending(&mut self, now: Instant) {
        if let Some(place) = &mut self.place {
            place.sending(now);
        }
    }

    /// The upstream waits for a body that the client still sends.
    pub fn waits_for_body(&mut self) {
        if let Some(place) = &mut self.place {
            place.suspend();
        }
    }

    /// The whole request has gone out.
    #[inline]
    pub fn sent(&mut self, now: Instant) {
        if let Some(place) = &mut self.place {
            place.resume(now);
        }
    }

    /// Whether the client's own deadline explains a failure with this HTTP status. Such a failure counts against nothing,
    /// and is not tried again. Reads the clock: the time of the worker's turn is too old on a machine that is short of
    /// processors, where the answer may come long after the turn began.
    #[inline]
    pub fn is_clients_choice(&self, status: u16) -> bool {
        status >= 500 && self.patience.is_some_and(|patience| patience.explains(status, tollgate_net::now()))
    }

    /// Whether the client's deadline has passed.
    pub(super) fn has_client_given_up(&self) -> bool {
        self.patience.is_some_and(|patience| patience.is_over(tollgate_net::now()))
    }

    /// The head of the response is here.
    pub fn answered(&mut self, status: u16, now: Instant) {
        // An error may take less time than the work that was not done: it tells nothing of the latency.
        if let Some(place) = self.place.take()
            && status < 500
        {
            place.done(now);
        }
        if let Some(permit) = self.permit.take() {
            permit.done(now, status >= 500);
        }
    }

    /// No response will come. Nobody to blame: then it says nothing about the upstream.
    pub fn failed(&mut self, blame: Option<Outcome>) {
        if let Some(place) = self.place.take()
            && blame == Some(Outcome::TimedOut)
        {
            place.done(tollgate_net::now());
        }
        if let Some(permit) = self.permit.take()
            && blame.is_some()
        {
            permit.done(tollgate_net::now(), true);
        }
    }

    /// Whether the request may be sent again, though it may have been acted upon.
    pub fn may_repeat(&self, again: Again, request: &RequestHead) -> bool {
        let methods = &self.rules.methods;
        match again {
            Again::Unsent => true,
            Again::Whole if self.is_page => true,
            Again::Whole if methods.is_empty() => request.method.is_idempotent(),
            Again::Whole => {
                let method = request.slice(request.method_text);
                methods.iter().any(|listed| listed.as_bytes() == method)
            }
            Again::Never => false,
        }
    }

    /// Whether a response with this status is one after which there may be another attempt.
    #[inline]
    pub fn minds(&self, status: u16) -> bool {
        let statuses = &self.rules.on.statuses;
        !statuses.is_empty() && statuses.binary_search(&status).is_ok()
    }

    /// Whether such a response is held back from the client: there is another attempt.
    pub fn holds_back(&mut self, again: Again, request: &RequestHead) -> bool {
        self.may_repeat(again, request) && self.grant()
    }

    /// Whether the answer to a gRPC call that ended so is held back from the client: there is another attempt.
    pub fn holds_back_call(&mut self, code: Code) -> bool {
        self.rules.on.grpc.binary_search(&code.number()).is_ok() && self.grant()
    }

    /// Whether there is another attempt after this failure.
    pub(super) fn another(&mut self, failure: &Failure, request: &RequestHead) -> bool {
        is_wanted(&self.rules.on, failure.reason) && self.may_repeat(failure.again, request) && self.grant()
    }

    /// How long to wait before the attempt that was granted last.
    pub(super) fn wait(&self) -> Duration {
        self.again.as_ref().map_or(Duration::ZERO, |again| again.wait)
    }

    /// Whether attempts, time, breaker, limit and budget allow for another one; the dearest question last.
    fn grant(&mut self) -> bool {
        let Self { upstream, rules, total, made, priority, .. } = *self;
        if made >= rules.attempts {
            return false;
        }
        let now = tollgate_net::now();
        let again = self.again.get_or_insert_default();
        again.wait = backoff(rules, made, |most| upstream.draw(most));
        if !total.leaves(now, again.wait) || !upstream.would_admit(now) || !upstream.has_room(priority) {
            return false;
        }
        // A request has one retry under way at most: the one before has ended.
        again.under_way = None;
        again.under_way = upstream.begin_retry(rules, now);
        again.under_way.is_some()
    }
}

/// Whether the rules name this reason.
fn is_wanted(on: &RetryOn, reason: Reason) -> bool {
    match reason {
        Reason::DnsError | Reason::ConnectionRefused | Reason::ConnectionTimeout => on.connect_failure,
        Reason::ConnectionTerminated => on.reset,
        Reason::HttpResponseTimeout | Reason::ConnectionWriteTimeout => on.timeout,
        _ => false,
    }
}

/// The wait after so many attempts: doubled each time, up to a bound, and any part of that ("full jitter": M. Brooker,
/// "Exponential Backoff And Jitter", 2015), so that those who failed together do not come back together.
fn backoff(rules: &Retry, made: u8, draw: impl FnOnce(Duration) -> Duration) -> Duration {
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
