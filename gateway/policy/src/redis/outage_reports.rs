//! Limits the messages on standard error about a store that is lost and comes back repeatedly.

use std::time::{Duration, Instant};

/// The minimum time between two reports of a loss.
const REPORT_INTERVAL: Duration = Duration::from_secs(60);

/// The state of the reports.
#[derive(Debug, Default)]
pub(super) struct OutageReports {
    /// The time of the last reported loss.
    lost: Option<Instant>,
    /// Whether the recovery from a reported loss is still unreported.
    recovery_unreported: bool,
}

impl OutageReports {
    /// Whether to report this change. Losses are reported at most once a minute, and the recovery from each
    /// reported loss once.
    pub fn must_report(&mut self, reached: bool, now: Instant) -> bool {
        if reached {
            return std::mem::take(&mut self.recovery_unreported);
        }
        let is_news = !self.recovery_unreported
            && self.lost.is_none_or(|lost| now.saturating_duration_since(lost) >= REPORT_INTERVAL);
        if is_news {
            *self = Self { lost: Some(now), recovery_unreported: true };
        }
        is_news
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_store_that_comes_and_goes_does_not_fill_the_log() {
        let (mut reports, start) = (OutageReports::default(), Instant::now());
        let mut at =
            |seconds: u64, reached: bool| reports.must_report(reached, start + Duration::from_secs(seconds));
        assert!(!at(0, true), "that it is there is expected");
        assert_eq!([at(1, false), at(2, false), at(3, true), at(4, true)], [true, false, true, false]);
        assert_eq!([at(5, false), at(6, true), at(59, false), at(60, true)], [false; 4]);
        assert_eq!([at(61, false), at(62, true)], [true; 2]);
    }
}
