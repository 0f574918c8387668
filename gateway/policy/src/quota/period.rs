//! Calendar days and months in UTC, for `quota`. A [`CalendarPeriod`] is one of them, with its start, length
//! and remaining time.

use std::time::{Duration, SystemTime};

use super::{left, seconds};

const DAY: u64 = 86_400;

/// A type of calendar period.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Period {
    /// From midnight to midnight, UTC.
    Day,
    /// From the first of a month to the first of the next one, UTC.
    Month,
}

/// One period of the calendar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CalendarPeriod {
    /// The start, in seconds since 1970.
    pub begin: u64,
    /// The length of the period.
    pub length: Duration,
    /// The remaining time.
    pub left: Duration,
}

impl Period {
    /// Returns the name in the configuration.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Period::Day => "day",
            Period::Month => "month",
        }
    }

    /// Returns the period that contains this time.
    pub(super) fn span(self, now: SystemTime) -> CalendarPeriod {
        let day = seconds(now) / DAY;
        let (begin, end) = match self {
            Period::Day => (day, day + 1),
            Period::Month => month(day),
        };
        let length = Duration::from_secs((end - begin) * DAY);
        CalendarPeriod { begin: begin * DAY, length, left: left(now, end * DAY) }
    }
}

/// Returns the first day of the month that contains a day, and of the next month, as days since 1970. Four
/// hundred years of the Gregorian calendar have 146,097 days.
fn month(day: u64) -> (u64, u64) {
    let is_leap =
        |year: u64| year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    let mut rest = day % 146_097;
    // Starts at 1970, because 2370 has the same calendar.
    let mut year = 1970;
    loop {
        let days = if is_leap(year) { 366 } else { 365 };
        if rest < days {
            break;
        }
        rest -= days;
        year += 1;
    }
    let february = if is_leap(year) { 29 } else { 28 };
    let mut first = day - rest;
    for days in [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31] {
        if day < first + days {
            return (first, first + days);
        }
        first += days;
    }
    (first, first + 31)
}

#[cfg(test)]
mod tests {
    use std::time::UNIX_EPOCH;

    use super::*;

    fn span(period: Period, seconds: u64) -> (u64, u64, u64) {
        let span = period.span(UNIX_EPOCH + Duration::from_secs(seconds));
        (span.begin, span.length.as_secs() / DAY, span.left.as_secs())
    }

    #[test]
    fn days_and_months() {
        // 2024-02-29 12:00, 2026-11-22 00:00, 1970-01-01 00:00, and 2100-02-28 23:59:59, which is not in a
        // leap year.
        assert_eq!(span(Period::Day, 1_709_208_000), (1_709_164_800, 1, 43_200));
        assert_eq!(span(Period::Month, 1_709_208_000), (1_706_745_600, 29, 43_200));
        assert_eq!(span(Period::Month, 1_795_305_600), (1_793_491_200, 30, 9 * DAY));
        assert_eq!(span(Period::Month, 0), (0, 31, 31 * DAY));
        assert_eq!(span(Period::Month, 4_107_542_399), (4_105_123_200, 28, 1));
    }

    #[test]
    fn months_follow_each_other_without_a_gap() {
        let mut day = 0;
        for _ in 0..12 * 800 {
            let (first, next) = month(day);
            assert_eq!(first, day);
            assert!((28..=31).contains(&(next - first)));
            assert_eq!(month(next - 1), (first, next));
            day = next;
        }
        assert_eq!(day, 2 * 146_097, "800 years");
    }
}
