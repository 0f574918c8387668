//! The time limit of a whole exchange (`timeouts.total`). Every wait of an exchange is bounded by
//! [`TimeLimit::within`].

use std::time::{Duration, Instant};

/// The time at which `timeouts.total` ends the exchange, whatever it waits for then; without one, never.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TimeLimit(Option<Instant>);

impl TimeLimit {
    pub fn new(started: Instant, total: Option<Duration>) -> Self {
        Self(total.and_then(|total| started.checked_add(total)))
    }

    /// Returns the bound of a wait that starts now: its own, or the time left of the total if that is
    /// shorter.
    pub fn within(self, now: Instant, own: Option<Duration>) -> Option<Duration> {
        let left = self.0.map(|due| due.saturating_duration_since(now));
        match (own, left) {
            (Some(own), Some(left)) => Some(own.min(left)),
            (own, left) => own.or(left),
        }
    }

    /// Returns the earlier of this limit and one of `own` from `began` on.
    pub fn and(self, began: Instant, own: Option<Duration>) -> Self {
        match own.and_then(|own| began.checked_add(own)) {
            Some(due) => Self(Some(self.0.map_or(due, |whole| whole.min(due)))),
            None => self,
        }
    }

    /// Returns whether a wait of this length that starts now ends before the limit.
    pub fn allows_wait(self, now: Instant, wait: Duration) -> bool {
        self.0.is_none_or(|due| due.saturating_duration_since(now) > wait)
    }

    pub fn is_over(self) -> bool {
        self.0.is_some_and(|due| tollgate_net::now() >= due)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shorter_bound_counts() {
        let (now, second) = (tollgate_net::now(), Duration::from_secs(1));
        let total = TimeLimit::new(now, Some(5 * second));
        assert_eq!(total.within(now + second, Some(second)), Some(second));
        assert_eq!(total.within(now + second, Some(9 * second)), Some(4 * second));
        assert_eq!(total.within(now + second, None), Some(4 * second));
        assert_eq!(total.within(now + 9 * second, None), Some(Duration::ZERO));
        assert_eq!(TimeLimit::new(now, None).within(now, None), None);
        assert!(total.allows_wait(now, 4 * second) && !total.allows_wait(now, 5 * second));
        assert!(TimeLimit::new(now, None).allows_wait(now, Duration::MAX));
        assert_eq!(total.and(now, Some(second)).within(now, None), Some(second));
        assert_eq!(total.and(now, Some(9 * second)).within(now, None), Some(5 * second));
        assert_eq!(total.and(now, None).within(now, None), Some(5 * second));
        assert_eq!(TimeLimit::new(now, None).and(now, Some(second)).within(now, None), Some(second));
        assert!(!total.is_over() && TimeLimit::new(now, Some(Duration::ZERO)).is_over());
    }
}
