//! The retry budget: however much fails, retries are a small share of the requests.

use std::cell::Cell;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tollgate_plan::Retry;

use crate::window::{SPAN, Window};
use crate::{UnderWay, Upstream};

/// How many retries all workers together may send to an upstream: a share of the requests that came for it in the last
/// 10 s, or so many a second, whichever is more.
///
/// A limit of attempts for each request does not bound the load on an upstream of which every request fails: it is
/// multiplied, and layers of gateways multiply each other. A share of what comes does (Finagle's `RetryBudget` has the
/// same terms, Envoy's is a share of what is under way).
///
/// A request costs a store into the worker's own count; what is shared is touched only by who wants to try again.
#[derive(Debug)]
pub(crate) struct Budget {
    start: Instant,
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    /// What each worker counts, by its number.
    workers: Vec<Arc<Window<1>>>,
    /// The retries that were let through.
    granted: Window<1>,
    /// The latest second that anyone asked in.
    latest: u32,
}

impl Budget {
    pub fn new(start: Instant) -> Self {
        Self { start, inner: Mutex::default() }
    }

    /// The count of a worker; the same one each time.
    fn worker(&self, number: usize) -> Arc<Window<1>> {
        let workers = &mut self.lock().workers;
        while workers.len() <= number {
            workers.push(Arc::default());
        }
        workers[number].clone()
    }

    /// The second that it is.
    #[inline]
    pub fn tick(&self, now: Instant) -> u32 {
        now.saturating_duration_since(self.start).as_secs() as u32
    }

    /// Takes one retry from the budget; `false`: none is left.
    pub fn spend(&self, now: Instant, rules: &Retry) -> bool {
        let mut inner = self.lock();
        // Who looked at the clock first may come last. Requests and retries are those of the same seconds, so that the
        // share is exact in each span.
        let tick = self.tick(now).max(inner.latest);
        inner.latest = tick;
        let requests: u64 = inner.workers.iter().map(|worker| worker.sum(0, tick)).sum();
        let share = rules.budget.of(requests);
        let always = u64::from(rules.budget_min) * u64::from(SPAN);
        let granted = inner.granted.sum(0, tick) < share.max(always);
        if granted {
            inner.granted.add(0, tick);
        }
        granted
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Inner> {
        // Nothing that holds the lock can leave the counts half done.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What one worker counts.
#[derive(Debug)]
pub(crate) struct Requests {
    window: Arc<Window<1>>,
    /// The second that it is, and when the next one begins: so that not every request asks how long ago something was.
    tick: Cell<u32>,
    until: Cell<Option<Instant>>,
}

impl Requests {
    /// Of the worker with this number.
    pub fn new(budget: &Budget, worker: usize) -> Self {
        Self { window: budget.worker(worker), tick: Cell::new(0), until: Cell::new(None) }
    }

    #[inline]
    fn count(&self, now: Instant, budget: &Budget) {
        if self.until.get().is_none_or(|until| now >= until) {
            self.turn(now, budget);
        }
        self.window.add(0, self.tick.get());
    }

    #[cold]
    fn turn(&self, now: Instant, budget: &Budget) {
        let tick = budget.tick(now);
        self.tick.set(tick);
        self.until.set(Some(budget.start + Duration::from_secs(u64::from(tick) + 1)));
    }
}

impl Upstream {
    /// A request has come for it: of these, retries may be a share.
    #[inline]
    pub fn count_request(&self, now: Instant) {
        self.requests.count(now, &self.state().budget);
    }

    /// A retry begins, within the limit of those under way and the budget of all workers. `None`: one of them is spent.
    /// Counted either way.
    pub fn begin_retry(&self, rules: &Retry, now: Instant) -> Option<UnderWay> {
        let granted = self.grant(rules, now);
        if granted.is_some() {
            self.stats.upstream_retried(self.slot);
        }
        granted
    }

    /// A second attempt begins beside a slow first one: as [`begin_retry`](Self::begin_retry).
    pub fn begin_hedge(&self, rules: &Retry, now: Instant) -> Option<UnderWay> {
        let granted = self.grant(rules, now);
        if granted.is_some() {
            self.stats.upstream_hedged(self.slot);
        }
        granted
    }

    fn grant(&self, rules: &Retry, now: Instant) -> Option<UnderWay> {
        // The budget last: what it has given it does not take back.
        let under_way = self.state().begin_retry().filter(|_| self.state().budget.spend(now, rules));
        if under_way.is_none() {
            self.stats.upstream_retry_denied(self.slot);
        }
        under_way
    }

    /// Some time, none as likely as another, up to this.
    pub fn draw(&self, most: Duration) -> Duration {
        let most = u64::try_from(most.as_nanos()).unwrap_or(u64::MAX);
        Duration::from_nanos(self.rng.borrow_mut().u64(0..=most))
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

    /// Requests that all fail, each `gap` after the one before, on workers in turn; each asks for `wanted` retries.
    /// Says for each whether its retries were granted.
    fn storm(
        budget: &Budget,
        rules: &Retry,
        workers: usize,
        gaps: &[Duration],
        wanted: usize,
    ) -> Vec<(Instant, usize)> {
        let counts: Vec<_> = (0..workers).map(|worker| Requests::new(budget, worker)).collect();
        let mut now = budget.start;
        let one = |(index, gap): (usize, &Duration)| {
            now += *gap;
            counts[index % workers].count(now, budget);
            (now, (0..wanted).filter(|_| budget.spend(now, rules)).count())
        };
        gaps.iter().enumerate().map(one).collect()
    }

    #[test]
    fn a_storm_is_held_to_its_share_on_any_number_of_workers() {
        for workers in [1, 3, 8] {
            let budget = Budget::new(tollgate_net::now());
            let storm = storm(&budget, &rules(20, 3), workers, &[Duration::from_millis(2); 30_000], 3);
            let retries: usize = storm.iter().map(|(_, granted)| granted).sum();
            assert!((5_900..=6_000).contains(&retries), "{retries} retries of 30,000 requests");
        }
    }

    #[test]
    fn a_quiet_upstream_has_some() {
        let budget = Budget::new(tollgate_net::now());
        let storm = storm(&budget, &rules(20, 3), 1, &[Duration::from_secs(1); 100], 3);
        assert!(storm.iter().all(|(_, granted)| *granted == 3), "{storm:?}");
    }

    #[test]
    fn none_is_none() {
        let budget = Budget::new(tollgate_net::now());
        let storm = storm(&budget, &rules(0, 0), 2, &[Duration::from_millis(1); 1000], 1);
        assert!(storm.iter().all(|(_, granted)| *granted == 0));
    }

    #[test]
    fn what_was_saved_up_is_over_after_the_span() {
        let budget = Budget::new(tollgate_net::now());
        let count = Requests::new(&budget, 0);
        (0..1000).for_each(|_| count.count(budget.start, &budget));
        let later = |seconds| budget.start + Duration::from_secs(seconds);
        let granted = |now| (0..1000).filter(|_| budget.spend(now, &rules(20, 0))).count();
        assert_eq!(granted(later(9)), 200);
        assert_eq!(granted(later(10)), 0);
    }

    proptest! {
        /// Whenever a retry is let through, those of the last ten seconds are within the share, or the minimum.
        #[test]
        fn none_is_let_through_beyond_the_share(
            percent in 0_u8..=100,
            minimum in 0_u32..5,
            workers in 1_usize..5,
            gaps in prop::collection::vec(0_u64..2_000, 1..400),
        ) {
            let budget = Budget::new(tollgate_net::now());
            let gaps: Vec<_> = gaps.into_iter().map(Duration::from_millis).collect();
            let storm = storm(&budget, &rules(percent, minimum), workers, &gaps, 2);
            for (now, _) in storm.iter().filter(|(_, granted)| *granted > 0) {
                let tick = budget.tick(*now);
                let span = storm.iter().filter(|(at, _)| at <= now && tick - budget.tick(*at) < SPAN);
                let (requests, retries) = span.fold((0, 0), |sum, (_, granted)| (sum.0 + 1, sum.1 + granted));
                let allowed = (requests * usize::from(percent) / 100).max(minimum as usize * SPAN as usize);
                prop_assert!(retries <= allowed, "{retries} retries of {requests} requests");
            }
        }
    }
}
