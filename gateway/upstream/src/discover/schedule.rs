//! Decides when a name is looked up again.

use std::time::Duration;

use tollgate_plan::DnsRules;

/// Longest wait after failures. A recovered name server is noticed within this time.
const LONGEST_RETRY: Duration = Duration::from_secs(30);
/// Shortest wait after a failure, whatever `min_ttl` is, because a failure often returns at once.
const SHORTEST_RETRY: Duration = Duration::from_millis(100);

/// Decides when a name is looked up again: shortly before its answer expires, or after a failure with a
/// growing delay. Both have jitter, so neither the names of one gateway nor several gateways ask in step.
#[derive(Debug)]
pub(super) struct LookupSchedule {
    min_ttl: Duration,
    max_ttl: Duration,
    failures: u32,
    random: fastrand::Rng,
}

impl LookupSchedule {
    pub(super) fn new(rules: &DnsRules, random: fastrand::Rng) -> Self {
        Self { min_ttl: rules.min_ttl, max_ttl: rules.max_ttl.max(rules.min_ttl), failures: 0, random }
    }

    /// Returns how long to wait after an answer that is valid for `ttl`: 75 to 95 % of it, within the
    /// configured bounds.
    pub(super) fn answered(&mut self, ttl: Duration) -> Duration {
        self.failures = 0;
        ttl.clamp(self.min_ttl, self.max_ttl).mul_f64(0.75 + 0.2 * self.random.f64())
    }

    /// Returns how long to wait after a failure: `min_ttl`, doubled with each further failure up to 30 s or
    /// `max_ttl`, and reduced by up to a half as jitter.
    pub(super) fn failed(&mut self) -> Duration {
        let first = self.min_ttl.max(SHORTEST_RETRY);
        let longest = self.max_ttl.min(LONGEST_RETRY).max(first);
        let wait = first.saturating_mul(1 << self.failures.min(16)).min(longest);
        self.failures = self.failures.saturating_add(1);
        wait.mul_f64(0.5 + 0.5 * self.random.f64())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn schedule(min: u64, max: u64, seed: u64) -> LookupSchedule {
        let rules = DnsRules {
            min_ttl: Duration::from_millis(min),
            max_ttl: Duration::from_millis(max),
            servers: Vec::new(),
        };
        LookupSchedule::new(&rules, fastrand::Rng::with_seed(seed))
    }

    proptest! {
        #[test]
        fn an_answer_is_asked_for_again_before_it_expires(
            min in 1_u64..5_000, more in 0_u64..100_000, ttl in 0_u64..1_000_000, seed: u64
        ) {
            let max = min + more;
            let ttl_used = Duration::from_millis(ttl.clamp(min, max));
            let wait = schedule(min, max, seed).answered(Duration::from_millis(ttl));
            prop_assert!(wait < ttl_used && wait >= ttl_used.mul_f64(0.75));
        }

        #[test]
        fn failures_are_retried_with_growing_distance(
            min in 1_u64..5_000, more in 0_u64..100_000, times in 1_usize..40, seed: u64
        ) {
            let mut schedule = schedule(min, min + more, seed);
            let waits: Vec<_> = (0..times).map(|_| schedule.failed()).collect();
            let first = Duration::from_millis(min).max(SHORTEST_RETRY);
            let longest = Duration::from_millis(min + more).min(LONGEST_RETRY).max(first);
            for (n, wait) in waits.iter().enumerate() {
                let full = first.saturating_mul(1 << n.min(16)).min(longest);
                prop_assert!(*wait >= full / 2 && *wait <= full, "{n}: {wait:?} of {full:?}");
            }
            schedule.answered(Duration::ZERO);
            prop_assert!(schedule.failed() <= first, "an answer ends the row of failures");
        }
    }

    #[test]
    fn two_gateways_do_not_ask_in_step() {
        let ttl = Duration::from_secs(60);
        let waits: std::collections::HashSet<_> =
            (0..100).map(|seed| schedule(1_000, 60_000, seed).answered(ttl)).collect();
        assert!(waits.len() > 90, "{}", waits.len());
    }

    #[test]
    fn the_least_and_the_longest_ttl() {
        let longest = Duration::from_secs(u32::MAX.into());
        for (min, max, ttl, most) in [
            (Duration::ZERO, Duration::ZERO, longest, Duration::ZERO),
            (Duration::ZERO, longest, Duration::ZERO, Duration::ZERO),
            (Duration::ZERO, Duration::MAX, longest, longest),
            (longest, Duration::ZERO, Duration::ZERO, longest),
        ] {
            let rules = DnsRules { min_ttl: min, max_ttl: max, servers: Vec::new() };
            let mut schedule = LookupSchedule::new(&rules, fastrand::Rng::with_seed(1));
            assert!(schedule.answered(ttl) <= most, "{min:?} to {max:?}: {ttl:?}");
            schedule.failures = u32::MAX;
            assert!(schedule.failed() <= longest);
            assert_eq!(schedule.failures, u32::MAX);
        }
    }
}
