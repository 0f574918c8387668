//! A point of time by the wall clock.

use std::time::SystemTime;

/// A point of time by the wall clock, in milliseconds since 1970.
///
/// Ages are computed in milliseconds and rounded down only where they are written, so that a response is not stale a
/// second too early because two clock readings fall into different seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Moment(u64);

impl Moment {
    /// The moment this many milliseconds after the beginning of 1970.
    #[must_use]
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis)
    }

    /// The moment this many seconds after the beginning of 1970.
    #[must_use]
    pub const fn from_seconds(seconds: u64) -> Self {
        Self(seconds.saturating_mul(1000))
    }

    /// Milliseconds since 1970.
    #[must_use]
    pub const fn millis(self) -> u64 {
        self.0
    }

    /// Whole seconds since 1970, as a `Date` gives them.
    #[must_use]
    pub const fn seconds(self) -> u64 {
        self.0 / 1000
    }

    /// Milliseconds since an earlier moment; 0 if that is later, because the clock was set back.
    #[must_use]
    pub const fn millis_since(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}

impl From<SystemTime> for Moment {
    /// A time before 1970 counts as its beginning.
    fn from(time: SystemTime) -> Self {
        let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        Self(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn moments_come_from_the_clock() {
        let time = SystemTime::UNIX_EPOCH + Duration::from_millis(1_234_567);
        let moment = Moment::from(time);
        assert_eq!((moment.millis(), moment.seconds()), (1_234_567, 1234));
        assert_eq!(Moment::from(SystemTime::UNIX_EPOCH - Duration::from_secs(1)), Moment::default());
        assert_eq!(moment.millis_since(Moment::from_seconds(1234)), 567);
        assert_eq!(Moment::from_seconds(1).millis_since(moment), 0);
    }
}
