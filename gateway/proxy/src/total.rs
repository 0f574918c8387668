//! The bound of a whole exchange.

use std::time::{Duration, Instant};

/// When `timeouts.total` is over, whatever the exchange waits for then.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Total(Option<Instant>);

impl Total {
    pub fn new(started: Instant, total: Option<Duration>) -> Self {
        Self(total.and_then(|total| started.checked_add(total)))
    }

    /// The bound of one wait that begins now: its own, or what is left of the whole.
    pub fn within(self, now: Instant, own: Option<Duration>) -> Option<Duration> {
        let left = self.0.map(|due| due.saturating_duration_since(now));
        match (own, left) {
            (Some(own), Some(left)) => Some(own.min(left)),
            (own, left) => own.or(left),
        }
    }

    pub fn is_over(self) -> bool {
        self.0.is_some_and(|due| Instant::now() >= due)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shorter_bound_counts() {
        let (now, second) = (Instant::now(), Duration::from_secs(1));
        let total = Total::new(now, Some(5 * second));
        assert_eq!(total.within(now + second, Some(second)), Some(second));
        assert_eq!(total.within(now + second, Some(9 * second)), Some(4 * second));
        assert_eq!(total.within(now + second, None), Some(4 * second));
        assert_eq!(total.within(now + 9 * second, None), Some(Duration::ZERO));
        assert_eq!(Total::new(now, None).within(now, None), None);
        assert!(!total.is_over() && Total::new(now, Some(Duration::ZERO)).is_over());
    }
}
