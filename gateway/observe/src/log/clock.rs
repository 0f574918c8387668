//! Wall-clock time for log lines, formatted once per second.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use time::OffsetDateTime;

const MONTHS: [&[u8; 3]; 12] =
    [b"Jan", b"Feb", b"Mar", b"Apr", b"May", b"Jun", b"Jul", b"Aug", b"Sep", b"Oct", b"Nov", b"Dec"];

/// Converts the monotonic time of a record to UTC text.
///
/// The text of the current second is cached. Each new second also reads the system clock again, so the log
/// follows when that clock is set.
#[derive(Debug)]
pub(super) struct WallClock {
    /// Start of the cached second, on the monotonic clock.
    second: Instant,
    /// `2026-01-31T23:59:59.`
    rfc3339: [u8; 20],
    /// `31/Jan/2026:23:59:59 +0000`
    local: [u8; 26],
}

impl WallClock {
    pub(super) fn new() -> WallClock {
        let now = Instant::now();
        let mut clock = WallClock {
            second: now,
            rfc3339: *b"0000-00-00T00:00:00.",
            local: *b"00/Jan/0000:00:00:00 +0000",
        };
        clock.refresh(now, now, SystemTime::now());
        clock
    }

    /// Updates the cached texts to the second that contains `at`, and returns its millisecond.
    #[inline]
    pub(super) fn advance(&mut self, at: Instant) -> u32 {
        match at.checked_duration_since(self.second) {
            Some(since) if since.as_secs() == 0 => since.subsec_millis(),
            _ => self.refresh(at, Instant::now(), SystemTime::now()),
        }
    }

    /// Returns date and time up to the dot before the milliseconds.
    #[inline]
    pub(super) fn rfc3339(&self) -> &[u8; 20] {
        &self.rfc3339
    }

    /// Returns nginx's `$time_local`, in UTC.
    #[inline]
    pub(super) fn local(&self) -> &[u8; 26] {
        &self.local
    }

    #[cold]
    fn refresh(&mut self, at: Instant, now: Instant, wall: SystemTime) -> u32 {
        let wall = wall.duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
        let wall = match at.checked_duration_since(now) {
            Some(ahead) => wall.saturating_add(ahead),
            None => wall.saturating_sub(now.duration_since(at)),
        };
        let into = Duration::from_nanos(wall.subsec_nanos().into());
        // Soon after the machine's start, the monotonic clock may have no earlier instant.
        self.second = at.checked_sub(into).unwrap_or(at);
        self.format(wall.as_secs());
        wall.subsec_millis()
    }

    fn format(&mut self, seconds: u64) {
        let time = i64::try_from(seconds).ok().and_then(|s| OffsetDateTime::from_unix_timestamp(s).ok());
        let time = time.unwrap_or(OffsetDateTime::UNIX_EPOCH);
        let year = time.year().unsigned_abs();
        let (month, day) = (u8::from(time.month()), time.day());
        let clock = [time.hour(), time.minute(), time.second()];

        digits(&mut self.rfc3339[0..4], year);
        digits(&mut self.rfc3339[5..7], month.into());
        digits(&mut self.rfc3339[8..10], day.into());
        digits(&mut self.local[0..2], day.into());
        self.local[3..6].copy_from_slice(MONTHS[usize::from(month - 1)]);
        digits(&mut self.local[7..11], year);
        for (index, part) in clock.into_iter().enumerate() {
            digits(&mut self.rfc3339[11 + 3 * index..][..2], part.into());
            digits(&mut self.local[12 + 3 * index..][..2], part.into());
        }
    }
}

/// Fills `text` with the last decimal digits of `number`.
pub(super) fn digits(text: &mut [u8], mut number: u32) {
    for digit in text.iter_mut().rev() {
        *digit = b'0' + (number % 10) as u8;
        number /= 10;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64, millis: u64) -> (WallClock, u32, Instant) {
        let mut clock = WallClock::new();
        let now = Instant::now() + Duration::from_secs(1);
        let wall = UNIX_EPOCH + Duration::from_secs(seconds) + Duration::from_millis(millis);
        let shown = clock.refresh(now, now, wall);
        (clock, shown, now)
    }

    #[test]
    fn known_dates() {
        let cases = [
            (0, "1970-01-01T00:00:00.", "01/Jan/1970:00:00:00 +0000"),
            (951_782_399, "2000-02-28T23:59:59.", "28/Feb/2000:23:59:59 +0000"),
            (951_782_400, "2000-02-29T00:00:00.", "29/Feb/2000:00:00:00 +0000"),
            (1_767_225_599, "2025-12-31T23:59:59.", "31/Dec/2025:23:59:59 +0000"),
            (4_107_542_400, "2100-03-01T00:00:00.", "01/Mar/2100:00:00:00 +0000"),
        ];
        for (seconds, rfc3339, local) in cases {
            let (clock, millis, _) = at(seconds, 7);
            assert_eq!(clock.rfc3339(), rfc3339.as_bytes());
            assert_eq!(clock.local(), local.as_bytes());
            assert_eq!(millis, 7);
        }
    }

    #[test]
    fn within_a_second_the_text_stays() {
        let (mut clock, _, now) = at(1_000, 250);
        assert_eq!(clock.advance(now + Duration::from_millis(749)), 999);
        assert_eq!(clock.advance(now - Duration::from_millis(250)), 0);
        assert_eq!(clock.rfc3339(), b"1970-01-01T00:16:40.");
    }

    #[test]
    fn each_second_follows_the_system_clock() {
        let (mut clock, _, now) = at(1_000, 0);
        clock.advance(now + Duration::from_secs(1));
        let today = OffsetDateTime::now_utc();
        let year = today.year().to_string();
        assert_eq!(&clock.rfc3339()[..4], year.as_bytes());
        let later = clock.second;
        clock.advance(later - Duration::from_millis(1));
        assert!(clock.second < later, "an earlier record gets its own second");
    }

    #[test]
    fn times_outside_the_calendar_do_not_panic() {
        let (clock, _, _) = at(u32::MAX as u64 * 1_000, 0);
        assert_eq!(&clock.rfc3339()[..4], b"1970");
    }
}
