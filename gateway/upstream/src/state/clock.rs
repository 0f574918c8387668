//! Times in atomics.

use std::time::{Duration, Instant};

/// Conversion between `Instant` and stamps, the form of a time in the atomics: milliseconds since the start
/// plus 1. 0 means never.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StampClock(Instant);

impl StampClock {
    pub(crate) fn new(start: Instant) -> Self {
        Self(start)
    }

    pub(crate) fn stamp(self, at: Instant) -> u64 {
        let since = at.saturating_duration_since(self.0);
        u64::try_from(since.as_millis()).unwrap_or(u64::MAX - 1).saturating_add(1)
    }

    pub(crate) fn instant(self, stamp: u64) -> Instant {
        self.0 + Duration::from_millis(stamp.saturating_sub(1))
    }
}
