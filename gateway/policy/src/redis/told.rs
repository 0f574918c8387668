//! What the standard error hears of a store: that it is lost, and that it is back, however often that happens.

use std::time::{Duration, Instant};

/// Between two times that it is lost, at least.
const SAY: Duration = Duration::from_secs(60);

/// What was said last.
#[derive(Debug, Default)]
pub(super) struct Told {
    /// When it was said to be lost.
    lost: Option<Instant>,
    /// Whether it is still to be said that it is back.
    owed: bool,
}

impl Told {
    /// Whether this is to be said: each loss once, but one a minute at most, and the return from each loss that was said.
    pub fn is_news(&mut self, reached: bool, now: Instant) -> bool {
        if reached {
            return std::mem::take(&mut self.owed);
        }
        let is_news = !self.owed && self.lost.is_none_or(|lost| now.saturating_duration_since(lost) >= SAY);
        if is_news {
            *self = Self { lost: Some(now), owed: true };
        }
        is_news
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_store_that_comes_and_goes_does_not_fill_the_log() {
        let (mut told, start) = (Told::default(), Instant::now());
        let mut at =
            |seconds: u64, reached: bool| told.is_news(reached, start + Duration::from_secs(seconds));
        assert!(!at(0, true), "that it is there is expected");
        assert_eq!([at(1, false), at(2, false), at(3, true), at(4, true)], [true, false, true, false]);
        assert_eq!([at(5, false), at(6, true), at(59, false), at(60, true)], [false; 4]);
        assert_eq!([at(61, false), at(62, true)], [true; 2]);
    }
}
