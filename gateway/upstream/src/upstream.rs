//! One upstream on one worker, as the proxy uses it for each request.
//!
//! An [`Upstream`] joins the parts that a request needs: the [members](Members) among which it picks an
//! endpoint, and the worker's access to the breaker, the adaptive limit and the retry budget, whose state all
//! workers share. [`Upstreams`](crate::Upstreams) creates it. An exchange keeps its first one,
//! also when the plan changes.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use fastrand::Rng;
use tollgate_net::component;
use tollgate_observe::{Slot, WorkerStats};
use tollgate_plan::{Balance, Priority, Retry, Rules, Upstream as Planned};
use tracing::debug;

use crate::adaptive::WorkerAdaptive;
use crate::breaker::WorkerBreaker;
use crate::members::Members;
use crate::outlier::Detector;
use crate::pool::PoolSet;
use crate::retry_budget::RequestCounter;
use crate::sticky::StickyField;
use crate::{
    AdaptiveFull, AdaptivePermit, BreakerPermit, CircuitOpen, InFlightGuard, Outcome, PickHints, Pool,
    StickyValue, UpstreamState,
};

/// One upstream on one worker.
#[derive(Debug)]
pub struct Upstream {
    /// The name of the upstream in the configuration.
    pub name: String,
    /// Its slot in the metrics.
    pub slot: Slot,
    planned: Arc<Planned>,
    pool_set: Rc<PoolSet>,
    /// The field that ties clients to its endpoints.
    sticky: Option<StickyField>,
    members: Members,
    shared: Arc<UpstreamState>,
    detector: Detector,
    /// Counts this worker's requests for the upstream, of which retries are a share.
    requests: RequestCounter,
    breaker: Option<Rc<WorkerBreaker>>,
    adaptive: Option<Rc<WorkerAdaptive>>,
    stats: Arc<WorkerStats>,
    /// For the delays between attempts.
    rng: RefCell<Rng>,
}

impl Upstream {
    /// Creates an upstream from its plan and its pools. It takes over as much as possible from the old one of
    /// its name. `workers` is the number of all workers.
    pub(crate) fn new(
        pool_set: Rc<PoolSet>,
        workers: usize,
        rng: &mut Rng,
        planned: &Arc<Planned>,
        old: Option<&Self>,
    ) -> Self {
        let old = old.map(|old| &old.members);
        let members = Members::new(&pool_set, workers, rng.fork(), planned, old);
        let name = planned.name.clone();
        let sticky = planned.rules.balance.sticky.as_ref().map(|sticky| StickyField::new(sticky, &name));
        let context = pool_set.context();
        let (slot, shared, stats) = (context.slot, context.shared.clone(), context.stats.clone());
        let (breaker, adaptive) = (planned.rules.breaker.as_ref(), planned.rules.adaptive.as_ref());
        Self {
            name,
            slot,
            planned: planned.clone(),
            sticky,
            members,
            detector: Detector::new(&planned.rules.outlier),
            requests: RequestCounter::new(&shared.budget, context.worker),
            breaker: WorkerBreaker::new(&shared.name, breaker, context.worker, &shared.breaker, &stats, slot),
            adaptive: WorkerAdaptive::new(adaptive, &shared.adaptive, &stats, slot),
            pool_set,
            shared,
            stats,
            rng: RefCell::new(rng.fork()),
        }
    }

    /// Whether it was created from this plan.
    pub(crate) fn is_of(&self, planned: &Arc<Planned>) -> bool {
        Arc::ptr_eq(&self.planned, planned)
    }

    /// The pools of its endpoints, which outlive it if its plan changes.
    pub(crate) fn pool_set(&self) -> &Rc<PoolSet> {
        &self.pool_set
    }

    /// Retires all pools, because the upstream left the plan. Their idle connections are closed.
    pub(crate) fn retire(&self) {
        self.members.retire();
    }

    /// Returns the pool of an endpoint for a request; `None` if no endpoint takes requests.
    #[inline]
    pub fn pick(&self, hints: &PickHints<'_>) -> Option<Rc<Pool>> {
        self.members.pick(&self.planned, hints)
    }

    /// Returns whether an endpoint takes requests that is not in `failed`.
    #[cold]
    pub fn has_other(&self, failed: &[&Pool]) -> bool {
        self.members.has_other(&self.planned, failed)
    }

    /// Returns whether an endpoint has left it, or is not available while others are.
    #[cold]
    pub fn has_lost(&self, pool: &Pool) -> bool {
        self.members.has_lost(&self.planned, &pool.state().address)
    }

    /// Returns whether the plan gives it no endpoints, and no way to discover any.
    #[must_use]
    #[cold]
    pub fn is_without_endpoints(&self) -> bool {
        self.planned.endpoints.is_empty() && self.planned.discover.is_none()
    }

    /// The rules by which an endpoint is chosen.
    #[must_use]
    pub fn balance(&self) -> &Balance {
        &self.planned.rules.balance
    }

    /// The rules for failures: retries, limits, outlier detection and others.
    #[must_use]
    pub fn rules(&self) -> &Rules {
        &self.planned.rules
    }

    /// The field that ties clients to its endpoints, if the upstream is sticky.
    #[must_use]
    pub fn sticky_field(&self) -> Option<&StickyField> {
        self.sticky.as_ref()
    }

    /// Whether a sticky cookie names an endpoint that takes requests.
    #[must_use]
    pub fn accepts_cookie(&self, cookie: &[u8]) -> bool {
        self.members.accepts_cookie(&self.planned, cookie)
    }

    /// Returns the value of the sticky cookie for an endpoint, if the upstream is sticky.
    #[must_use]
    pub fn sticky_value(&self, pool: &Pool) -> Option<StickyValue> {
        self.members.sticky_value(pool)
    }

    /// Whether its endpoints speak HTTP/2.
    #[inline]
    #[must_use]
    pub fn is_http2(&self) -> bool {
        self.planned.http2.is_some()
    }

    /// State of the upstream that all workers share.
    #[must_use]
    pub fn state(&self) -> &Arc<UpstreamState> {
        &self.shared
    }

    /// Reports the outcome of an attempt at one of its endpoints, for outlier detection.
    ///
    /// A success costs a few instructions. While all endpoints are well, it writes nothing that another
    /// worker reads or writes.
    #[inline]
    pub fn report(&self, pool: &Pool, outcome: Outcome) {
        if let Some(cause) = self.detector.record(outcome, pool.traffic(), &pool.state().outlier) {
            self.shared.eject(pool.state(), cause);
        }
    }

    /// Admits an attempt to the adaptive limit. Returns `Ok(None)` if the upstream has no such limit.
    ///
    /// # Errors
    /// Returns [`AdaptiveFull`] if the limit for this priority is reached. The rejection is counted.
    #[inline]
    pub fn acquire_adaptive(
        &self,
        priority: Priority,
        now: Instant,
    ) -> Result<Option<AdaptivePermit>, AdaptiveFull> {
        match &self.adaptive {
            None => Ok(None),
            Some(adaptive) => adaptive.enter(priority, now).map(Some).ok_or(AdaptiveFull),
        }
    }

    /// Whether an attempt that starts now would be admitted. Changes nothing.
    #[must_use]
    pub fn has_adaptive_capacity(&self, priority: Priority) -> bool {
        self.adaptive.as_ref().is_none_or(|adaptive| adaptive.has_capacity(priority))
    }

    /// Admits a call, or rejects it. Returns `Ok(None)` if the upstream has no breaker.
    ///
    /// # Errors
    /// Returns [`CircuitOpen`] if the breaker is open or all its probes are in flight. The rejection is
    /// counted.
    #[inline]
    pub fn acquire_breaker(&self, now: Instant) -> Result<Option<BreakerPermit>, CircuitOpen> {
        match &self.breaker {
            None => Ok(None),
            Some(breaker) => breaker.admit(now).map(Some).ok_or(CircuitOpen),
        }
    }

    /// Whether a call that starts now would be admitted. Changes nothing.
    pub fn breaker_would_admit(&self, now: Instant) -> bool {
        self.breaker.as_ref().is_none_or(|breaker| breaker.would_admit(now))
    }

    /// Counts a request for this upstream. Retries may be a share of these.
    #[inline]
    pub fn count_request(&self, now: Instant) {
        self.requests.count(now, &self.shared.budget);
    }

    /// Asks for a retry, within `limits.retries` and the budget of all workers. Returns `None` if either is
    /// exhausted. Both outcomes are counted in the metrics.
    pub fn try_begin_retry(&self, rules: &Retry, now: Instant) -> Option<InFlightGuard> {
        let granted = self.try_grant(rules, now);
        if granted.is_some() {
            debug!(target: component::UPSTREAM, upstream = self.name.as_str(), "a retry starts");
            self.stats.upstream_retried(self.slot);
        }
        granted
    }

    /// Counts a request that goes on to another endpoint because one refused the connection. That needs no budget: the
    /// upstream has received nothing, so such a request does not add to its load.
    pub fn count_move(&self) {
        debug!(target: component::UPSTREAM, upstream = self.name.as_str(), "a refused request goes to another endpoint");
        self.stats.upstream_retried(self.slot);
    }

    /// Asks for a second, hedged attempt while the first is still running. The rules are those of
    /// [`try_begin_retry`](Self::try_begin_retry).
    pub fn try_begin_hedge(&self, rules: &Retry, now: Instant) -> Option<InFlightGuard> {
        let granted = self.try_grant(rules, now);
        if granted.is_some() {
            debug!(target: component::UPSTREAM, upstream = self.name.as_str(), "a hedged attempt starts");
            self.stats.upstream_hedged(self.slot);
        }
        granted
    }

    fn try_grant(&self, rules: &Retry, now: Instant) -> Option<InFlightGuard> {
        // The budget is last, because a retry that it granted cannot be returned.
        let under_way = self.shared.try_begin_retry().filter(|_| self.shared.budget.try_spend(now, rules));
        if under_way.is_none() {
            let upstream = self.name.as_str();
            debug!(target: component::UPSTREAM, upstream, "no retry: the limit or the budget is used up");
            self.stats.upstream_retry_denied(self.slot);
        }
        under_way
    }

    /// Returns a random duration from 0 to `most`, uniformly distributed. Used as the jitter of a retry's
    /// delay.
    pub fn random_delay(&self, most: Duration) -> Duration {
        let most = u64::try_from(most.as_nanos()).unwrap_or(u64::MAX);
        Duration::from_nanos(self.rng.borrow_mut().u64(0..=most))
    }
}
