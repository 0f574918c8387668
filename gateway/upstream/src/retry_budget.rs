//! The retry budget, which keeps retries to a small share of the requests even if every request fails.
//!
//! A worker counts each request in its own [`Window`]. Only a worker that wants to retry takes the shared
//! lock, adds up the windows of all workers, and spends one retry of the common [`RetryBudget`].

use std::cell::Cell;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tollgate_plan::Retry;

use crate::window::{SPAN_TICKS, Window};

/// The retries that all workers together may send to an upstream: a share of the requests of the last 10 s,
/// or a minimum rate per second, whichever is greater.
///
/// A limit of attempts per request does not bound the load on an upstream if every request fails: the load is
/// multiplied, and layers of gateways multiply each other. A share of the incoming requests bounds it.
/// Finagle's `RetryBudget` has the same terms; Envoy's budget is a share of the requests in flight.
///
/// A request costs one store into the worker's own counter. Shared state is touched only for a retry.
#[derive(Debug)]
pub(crate) struct RetryBudget {
    start: Instant,
    inner: Mutex<BudgetCounts>,
}

#[derive(Debug, Default)]
struct BudgetCounts {
    /// The windows of the workers, by worker number.
    workers: Vec<Arc<Window<1>>>,
    /// The retries that were granted.
    granted: Window<1>,
    /// The latest tick of any call to `try_spend`.
    latest: u32,
}

impl RetryBudget {
    pub fn new(start: Instant) -> Self {
        Self { start, inner: Mutex::default() }
    }

    /// Returns the window of a worker, the same one at each call.
    fn worker(&self, number: usize) -> Arc<Window<1>> {
        let workers = &mut self.lock().workers;
        while workers.len() <= number {
            workers.push(Arc::default());
        }
        workers[number].clone()
    }

    /// Returns the tick of a time: whole seconds since the start.
    #[inline]
    pub fn tick(&self, now: Instant) -> u32 {
        now.saturating_duration_since(self.start).as_secs() as u32
    }

    /// Takes one retry from the budget. Returns `false` if none is left.
    pub fn try_spend(&self, now: Instant, rules: &Retry) -> bool {
        let mut inner = self.lock();
        // A worker that read the clock first may take the lock last. Requests and retries are summed over the
        // same seconds, so the share is exact in each span.
        let tick = self.tick(now).max(inner.latest);
        inner.latest = tick;
        let requests: u64 = inner.workers.iter().map(|worker| worker.sum(0, tick)).sum();
        let share = rules.budget.of(requests);
        let always = u64::from(rules.budget_min) * u64::from(SPAN_TICKS);
        let granted = inner.granted.sum(0, tick) < share.max(always);
        if granted {
            inner.granted.add(0, tick);
        }
        granted
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BudgetCounts> {
        // A panic under the lock cannot leave the counts half changed.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The requests that one worker counts.
#[derive(Debug)]
pub(crate) struct RequestCounter {
    window: Arc<Window<1>>,
    /// The current tick, and when the next one begins. Most requests compare with `until` and compute no
    /// tick.
    tick: Cell<u32>,
    until: Cell<Option<Instant>>,
}

impl RequestCounter {
    /// Creates the counter of the worker with this number.
    pub fn new(budget: &RetryBudget, worker: usize) -> Self {
        Self { window: budget.worker(worker), tick: Cell::new(0), until: Cell::new(None) }
    }

    /// Counts a request.
    #[inline]
    pub fn count(&self, now: Instant, budget: &RetryBudget) {
        if self.until.get().is_none_or(|until| now >= until) {
            self.start_tick(now, budget);
        }
        self.window.add(0, self.tick.get());
    }

    #[cold]
    fn start_tick(&self, now: Instant, budget: &RetryBudget) {
        let tick = budget.tick(now);
        self.tick.set(tick);
        self.until.set(Some(budget.start + Duration::from_secs(u64::from(tick) + 1)));
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn rules(percent: u8, budget_min: u32) -> Retry {
        let budget = tollgate_plan::Percent::whole(percent);
        Retry { budget, budget_min, ..Retry::default() }
    }

    /// Simulates requests that all fail, each `gap` after the one before, on workers in turn. Each asks for
    /// `wanted` retries. Returns when each request came and how many of its retries were granted.
    fn storm(
        budget: &RetryBudget,
        rules: &Retry,
        workers: usize,
        gaps: &[Duration],
        wanted: usize,
    ) -> Vec<(Instant, usize)> {
        let counts: Vec<_> = (0..workers).map(|worker| RequestCounter::new(budget, worker)).collect();
        let mut now = budget.start;
        let one = |(index, gap): (usize, &Duration)| {
            now += *gap;
            counts[index % workers].count(now, budget);
            (now, (0..wanted).filter(|_| budget.try_spend(now, rules)).count())
        };
        gaps.iter().enumerate().map(one).collect()
    }

    #[test]
    fn a_storm_is_held_to_its_share_on_any_number_of_workers() {
        for workers in [1, 3, 8] {
            let budget = RetryBudget::new(tollgate_net::now());
            let storm = storm(&budget, &rules(20, 3), workers, &[Duration::from_millis(2); 30_000], 3);
            let retries: usize = storm.iter().map(|(_, granted)| granted).sum();
            assert!((5_900..=6_000).contains(&retries), "{retries} retries of 30,000 requests");
        }
    }

    #[test]
    fn a_quiet_upstream_has_some() {
        let budget = RetryBudget::new(tollgate_net::now());
        let storm = storm(&budget, &rules(20, 3), 1, &[Duration::from_secs(1); 100], 3);
        assert!(storm.iter().all(|(_, granted)| *granted == 3), "{storm:?}");
    }

    #[test]
    fn none_is_none() {
        let budget = RetryBudget::new(tollgate_net::now());
        let storm = storm(&budget, &rules(0, 0), 2, &[Duration::from_millis(1); 1000], 1);
        assert!(storm.iter().all(|(_, granted)| *granted == 0));
    }

    #[test]
    fn saved_retries_expire_with_the_window() {
        let budget = RetryBudget::new(tollgate_net::now());
        let count = RequestCounter::new(&budget, 0);
        (0..1000).for_each(|_| count.count(budget.start, &budget));
        let later = |seconds| budget.start + Duration::from_secs(seconds);
        let granted = |now| (0..1000).filter(|_| budget.try_spend(now, &rules(20, 0))).count();
        assert_eq!(granted(later(9)), 200);
        assert_eq!(granted(later(10)), 0);
    }

    proptest! {
        /// Whenever a retry is granted, the retries of the last ten seconds are within the share or the
        /// minimum.
        #[test]
        fn none_is_let_through_beyond_the_share(
            percent in 0_u8..=100,
            minimum in 0_u32..5,
            workers in 1_usize..5,
            gaps in prop::collection::vec(0_u64..2_000, 1..400),
        ) {
            let budget = RetryBudget::new(tollgate_net::now());
            let gaps: Vec<_> = gaps.into_iter().map(Duration::from_millis).collect();
            let storm = storm(&budget, &rules(percent, minimum), workers, &gaps, 2);
            for (now, _) in storm.iter().filter(|(_, granted)| *granted > 0) {
                let tick = budget.tick(*now);
                let span = storm.iter().filter(|(at, _)| at <= now && tick - budget.tick(*at) < SPAN_TICKS);
                let (requests, retries) = span.fold((0, 0), |sum, (_, granted)| (sum.0 + 1, sum.1 + granted));
                let allowed = (requests * usize::from(percent) / 100).max(minimum as usize * SPAN_TICKS as usize);
                prop_assert!(retries <= allowed, "{retries} retries of {requests} requests");
            }
        }
    }
}
