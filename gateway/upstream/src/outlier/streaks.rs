//! Failures in a row, counted over all workers.

use std::sync::atomic::{AtomicU64, Ordering};

use tollgate_plan::Outlier;

use super::EjectionCause;

/// Failures in a row of one endpoint, exact over all workers.
///
/// Both counts are in one word, so a success costs one load from a cache line that no thread writes while all
/// is well. The upper half counts 5xx responses and failures, the lower half only gateway errors.
#[derive(Debug, Default)]
pub(super) struct Streaks(AtomicU64);

/// How many failures in a row cause an ejection; `u32::MAX` if none do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct StreakLimits {
    any: u32,
    gateway: u32,
}

impl StreakLimits {
    pub(super) fn new(rules: &Outlier) -> Self {
        let limit = |limit: Option<u32>| limit.filter(|_| rules.enabled).unwrap_or(u32::MAX);
        Self { any: limit(rules.consecutive_5xx), gateway: limit(rules.consecutive_gateway_errors) }
    }
}

impl Streaks {
    /// Resets both counts. A failure that another worker reports at the same time counts as earlier.
    #[inline]
    pub(super) fn reset(&self) {
        if self.0.load(Ordering::Relaxed) != 0 {
            self.0.store(0, Ordering::Relaxed);
        }
    }

    /// Counts a failure. When a limit is reached, exactly one caller gets the cause, and both counts start
    /// again. If the ejection is refused, it is requested again after the same number of failures.
    pub(super) fn failure(&self, gateway: bool, limits: StreakLimits) -> Option<EjectionCause> {
        let mut known = self.0.load(Ordering::Relaxed);
        loop {
            let any = ((known >> 32) as u32).saturating_add(1);
            let own = if gateway { (known as u32).saturating_add(1) } else { 0 };
            let cause = match (own >= limits.gateway, any >= limits.any) {
                (true, _) => Some(EjectionCause::ConsecutiveGatewayErrors),
                (false, true) => Some(EjectionCause::Consecutive5xx),
                (false, false) => None,
            };
            let next = if cause.is_some() { 0 } else { u64::from(any) << 32 | u64::from(own) };
            match self.0.compare_exchange_weak(known, next, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return cause,
                Err(other) => known = other,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limits(any: Option<u32>, gateway: Option<u32>) -> StreakLimits {
        StreakLimits::new(&Outlier {
            consecutive_5xx: any,
            consecutive_gateway_errors: gateway,
            ..Outlier::default()
        })
    }

    #[test]
    fn in_a_row_means_without_a_success_between() {
        let streaks = Streaks::default();
        let limits = limits(Some(3), None);
        for _ in 0..10 {
            assert_eq!(streaks.failure(true, limits), None);
            assert_eq!(streaks.failure(false, limits), None);
            streaks.reset();
        }
        assert_eq!(streaks.failure(false, limits), None);
        assert_eq!(streaks.failure(true, limits), None);
        assert_eq!(streaks.failure(false, limits), Some(EjectionCause::Consecutive5xx));
        assert_eq!(streaks.failure(false, limits), None, "it starts over");
    }

    #[test]
    fn a_5xx_ends_a_streak_of_gateway_errors() {
        let streaks = Streaks::default();
        let limits = limits(None, Some(2));
        for _ in 0..5 {
            assert_eq!(streaks.failure(true, limits), None);
            assert_eq!(streaks.failure(false, limits), None);
        }
        assert_eq!(streaks.failure(true, limits), None);
        assert_eq!(streaks.failure(true, limits), Some(EjectionCause::ConsecutiveGatewayErrors));
    }

    #[test]
    fn off_is_never() {
        let off = StreakLimits::new(&Outlier { enabled: false, ..Outlier::default() });
        for limits in [off, limits(None, None)] {
            let streaks = Streaks::default();
            assert!((0..1000).all(|_| streaks.failure(true, limits).is_none()));
        }
    }

    #[test]
    fn no_failure_is_lost_between_threads() {
        let streaks = Streaks::default();
        let limits = limits(Some(5), None);
        let ejections: usize = std::thread::scope(|scope| {
            let count = || (0..10_000).filter(|_| streaks.failure(false, limits).is_some()).count();
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(count)).collect();
            threads.into_iter().map(|thread| thread.join().expect("no panic")).sum()
        });
        assert_eq!(ejections, 40_000 / 5);
    }
}
