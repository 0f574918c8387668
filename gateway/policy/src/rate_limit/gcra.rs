//! The generic cell rate algorithm as a virtual schedule (ITU-T I.371, annex A). A bucket is a single number:
//! the time at which it will be full again.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Time units per nanosecond. A rate of a million per second is accurate to 0.003 %, and 36 years fit into a
/// `u64`.
const UNITS_PER_NANOSECOND: u64 = 16;

/// A rate and a burst tolerance; times are in [`UNITS_PER_NANOSECOND`] per nanosecond.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Gcra {
    /// The time between two requests at the rate.
    pub interval: u64,
    /// The time in which an empty bucket fills.
    pub tolerance: u64,
}

/// The decision on a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Decision {
    /// Whether the request passes.
    pub passes: bool,
    /// The number of further requests that would pass now.
    pub remaining: u64,
    /// The time until a refused request would pass.
    pub wait: Duration,
    /// The time until the bucket is full.
    pub full: Duration,
}

impl Gcra {
    /// Creates a rate of `count` per `period` with bursts of `burst`.
    pub fn new(count: u64, period: Duration, burst: u64) -> Self {
        let interval = (units(period) / count.max(1)).max(1);
        Self { interval, tolerance: interval.saturating_mul(burst.max(1)).min(u64::MAX / 4) }
    }

    /// Returns the time in which this cost is replenished.
    #[inline]
    pub fn replenish_time(&self, cost: u64) -> u64 {
        self.interval.saturating_mul(cost).min(u64::MAX / 4)
    }

    /// Decides on a request of this cost at `now`, for a bucket that is full at `full`. Returns the new time
    /// at which the bucket is full, or the time to wait.
    #[inline]
    pub fn decide(&self, full: u64, now: u64, cost: u64) -> Result<u64, u64> {
        let next = full.max(now).saturating_add(self.replenish_time(cost));
        let ahead = next - now;
        if ahead <= self.tolerance { Ok(next) } else { Err(ahead - self.tolerance) }
    }

    /// Converts the result of [`decide`](Self::decide) to a decision with durations.
    pub fn decision(&self, full: u64, now: u64, decided: Result<u64, u64>) -> Decision {
        let (passes, full, wait) = match decided {
            Ok(next) => (true, next, 0),
            Err(wait) => (false, full, wait),
        };
        let ahead = full.saturating_sub(now);
        let remaining = self.tolerance.saturating_sub(ahead) / self.interval;
        Decision { passes, remaining, wait: duration(wait), full: duration(ahead) }
    }

    /// Returns when a bucket is full after a response charges an additional cost, even if the bucket has
    /// less. The deficit is at most `debt`.
    pub fn full_after_debit(&self, full: u64, now: u64, cost: u64, debt: u64) -> u64 {
        let most = now.saturating_add(self.tolerance).saturating_add(self.replenish_time(debt));
        full.max(now).saturating_add(self.replenish_time(cost)).min(most)
    }

    /// Converts a decision of a shared store, which returns the time until the bucket is full.
    pub fn decision_from_store(&self, passes: bool, full: Duration, cost: u64) -> Decision {
        let ahead = units(full);
        let wait = if passes {
            0
        } else {
            (ahead + self.replenish_time(cost)).saturating_sub(self.tolerance).max(1)
        };
        let remaining = self.tolerance.saturating_sub(ahead) / self.interval;
        Decision { passes, remaining, wait: duration(wait), full }
    }

    /// Returns the interval and the tolerance in microseconds.
    pub fn microseconds(&self) -> (f64, f64) {
        let one = (1000 * UNITS_PER_NANOSECOND) as f64;
        (self.interval as f64 / one, self.tolerance as f64 / one)
    }
}

fn units(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX).saturating_mul(UNITS_PER_NANOSECOND).min(u64::MAX / 4)
}

fn duration(units: u64) -> Duration {
    Duration::from_nanos(units.div_ceil(UNITS_PER_NANOSECOND))
}

/// A clock that counts from its start.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock(Instant);

impl Clock {
    /// Starts a clock.
    pub fn start() -> Self {
        Self(tollgate_net::now())
    }

    /// Returns the time since the start.
    pub fn elapsed(&self) -> Duration {
        tollgate_net::now().saturating_duration_since(self.0)
    }

    /// Returns the time since the start in [`UNITS_PER_NANOSECOND`] per nanosecond.
    #[inline]
    pub fn now(&self) -> u64 {
        let since = self.elapsed();
        since.as_secs() * (1_000_000_000 * UNITS_PER_NANOSECOND)
            + u64::from(since.subsec_nanos()) * UNITS_PER_NANOSECOND
    }
}

/// A bucket that all workers share: a decision is one compare-and-swap.
#[derive(Debug, Default)]
pub(crate) struct Bucket(AtomicU64);

impl Bucket {
    /// Decides on a request of this cost. Also returns the time at which the bucket was full before.
    #[inline]
    pub fn decide(&self, gcra: &Gcra, now: u64, cost: u64) -> (u64, Result<u64, u64>) {
        // No other data depends on this number, so relaxed ordering suffices.
        let mut full = self.0.load(Ordering::Relaxed);
        loop {
            let decided = gcra.decide(full, now, cost);
            let Ok(next) = decided else { return (full, decided) };
            match self.0.compare_exchange_weak(full, next, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return (full, decided),
                Err(other) => full = other,
            }
        }
    }

    /// Reverts a decision on this cost.
    pub fn undo(&self, gcra: &Gcra, cost: u64) {
        let less = |full: u64| Some(full.saturating_sub(gcra.replenish_time(cost)));
        let _ = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
    }

    /// Charges this cost even if the bucket has less.
    pub fn debit(&self, gcra: &Gcra, now: u64, cost: u64, debt: u64) {
        let more = |full: u64| Some(gcra.full_after_debit(full, now, cost, debt));
        let _ = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000 * UNITS_PER_NANOSECOND;

    #[test]
    fn it_is_exact_under_every_load() {
        for (count, period, burst, offered) in [
            (1000, 1, 100, 4000),
            (1000, 1, 1, 4000),
            (3, 1, 3, 50),
            (7, 60, 7, 1),
            (1_000_000, 1, 1000, 4_000_000),
        ] {
            let gcra = Gcra::new(count, Duration::from_secs(period), burst);
            let seconds = if offered > 10_000 { 1 } else { 10 * period };
            let bucket = Bucket::default();
            let mut passed = 0;
            for n in 0..offered * seconds {
                // A schedule without drift.
                let now = SECOND + (u128::from(n) * u128::from(SECOND) / u128::from(offered)) as u64;
                let (full, decided) = bucket.decide(&gcra, now, 1);
                let decision = gcra.decision(full, now, decided);
                assert_eq!(decision.passes, decided.is_ok());
                passed += u64::from(decided.is_ok());
                let most = burst as f64 + (n as f64 / offered as f64) * count as f64 / period as f64;
                assert!(passed as f64 <= most * 1.0001 + 1.0, "{passed} of {most} at {n}");
                // A request is refused only if the allowed number has already passed.
                if decided.is_err() {
                    assert!(passed as f64 >= most * 0.9999 - 1.0, "{passed} of {most} at {n}");
                }
            }
            let expected = burst + seconds * count / period;
            assert!(passed.abs_diff(expected) <= expected / 1000 + 1, "{passed} of {expected}");
        }
    }

    #[test]
    fn many_threads_get_no_more() {
        let gcra = Gcra::new(1, Duration::from_secs(3600), 1000);
        let bucket = Bucket::default();
        let passed: usize = std::thread::scope(|scope| {
            let run = || (0..1000).filter(|_| bucket.decide(&gcra, SECOND, 1).1.is_ok()).count();
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(run)).collect();
            threads.into_iter().map(|thread| thread.join().expect("no panic")).sum()
        });
        assert_eq!(passed, 1000);
    }

    #[test]
    fn remaining_requests_and_times() {
        let gcra = Gcra::new(1, Duration::from_secs(1), 3);
        let bucket = Bucket::default();
        let taken = |now: u64| {
            let (full, decided) = bucket.decide(&gcra, now * SECOND, 1);
            let decision = gcra.decision(full, now * SECOND, decided);
            (decision.passes, decision.remaining, decision.wait.as_secs(), decision.full.as_secs())
        };
        assert_eq!([taken(10), taken(10), taken(10)], [(true, 2, 0, 1), (true, 1, 0, 2), (true, 0, 0, 3)]);
        assert_eq!(taken(10), (false, 0, 1, 3));
        assert_eq!(taken(11), (true, 0, 0, 3));
        assert_eq!(taken(100), (true, 2, 0, 1));
        bucket.undo(&gcra, 1);
        assert_eq!(taken(100), (true, 2, 0, 1), "taken back");
    }

    #[test]
    fn a_cost_counts_as_several_requests() {
        let gcra = Gcra::new(1, Duration::from_secs(1), 5);
        let bucket = Bucket::default();
        let passes = |now: u64, cost: u64| bucket.decide(&gcra, now * SECOND, cost).1;
        assert!(passes(10, 4).is_ok());
        assert_eq!(passes(10, 2), Err(SECOND), "a second yet");
        assert!(passes(10, 1).is_ok(), "one is left");
        assert!(passes(11, 1).is_ok() && passes(11, 1).is_err());
        assert!(passes(100, u64::MAX).is_err(), "no cost overflows");
        assert!(passes(100, 5).is_ok());
        // A response reports a higher cost than the bucket had.
        bucket.debit(&gcra, 100 * SECOND, 10, 7);
        assert_eq!(passes(100, 1), Err(8 * SECOND), "seven below nothing at most");
        assert!(passes(107, 1).is_err() && passes(108, 1).is_ok());
    }

    #[test]
    fn no_answer_of_a_store_overflows() {
        for gcra in [
            Gcra::new(1, Duration::from_secs(1), 1),
            Gcra::new(1, Duration::MAX, u64::MAX),
            Gcra::new(u64::MAX, Duration::ZERO, 0),
        ] {
            for full in [Duration::ZERO, Duration::from_micros(i64::MAX as u64), Duration::MAX] {
                for cost in [0, 1, u64::MAX] {
                    for passes in [false, true] {
                        let decision = gcra.decision_from_store(passes, full, cost);
                        assert_eq!((decision.passes, decision.wait.is_zero()), (passes, passes));
                    }
                }
            }
            let now = 36 * 365 * 86_400 * SECOND;
            for cost in [0, 1, u64::MAX] {
                for full in [0, now, gcra.full_after_debit(now, now, u64::MAX, u64::MAX)] {
                    let _ = gcra.decision(full, now / 2, gcra.decide(full, now / 2, cost));
                }
            }
        }
    }
}
