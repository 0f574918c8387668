//! Formats times for the API and the audit log.

use std::time::{SystemTime, UNIX_EPOCH};

/// Formats a time by RFC 3339.
pub fn since_1970(at: SystemTime) -> String {
    let milliseconds = at.duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
    rfc3339(u64::try_from(milliseconds).unwrap_or_default())
}

/// Formats milliseconds since 1970 by RFC 3339: `2026-01-31T23:59:59.123Z`.
pub fn rfc3339(at: u64) -> String {
    let days = at / 86_400_000;
    let (year, month, day) = date(days);
    let (seconds, milliseconds) = (at / 1000 % 86_400, at % 1000);
    let (hour, minute, second) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{milliseconds:03}Z")
}

/// Returns the date `days` days after 1970-01-01. It counts years that begin in March, so that the leap day
/// is the last.
fn date(days: u64) -> (u64, u64, u64) {
    let days = days + 719_468;
    let (era, of_era) = (days / 146_097, days % 146_097);
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let (year, month) = (year + era * 400, if month < 10 { month + 3 } else { month - 9 });
    (year + u64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_moments() {
        for (at, text) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (951_782_400_000, "2000-02-29T00:00:00.000Z"),
            (1_790_000_000_250, "2026-09-21T14:13:20.250Z"),
            (4_107_542_399_999, "2100-02-28T23:59:59.999Z"),
            (4_107_542_400_000, "2100-03-01T00:00:00.000Z"),
        ] {
            assert_eq!(rfc3339(at), text);
        }
    }
}
