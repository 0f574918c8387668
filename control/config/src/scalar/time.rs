//! Points in time as RFC 3339 writes them.

use super::ScalarError;

/// A point in time: seconds since 1970, and nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp {
    /// Seconds since 1970-01-01T00:00:00Z; negative before.
    pub seconds: i64,
    /// Nanoseconds in that second.
    pub nanoseconds: u32,
}

/// Parses a time such as `2026-01-02T03:04:05Z` (RFC 3339, section 5.6). A leap second counts as the second before it.
pub(crate) fn timestamp(text: &str) -> Result<Timestamp, ScalarError> {
    parse(text.as_bytes()).ok_or_else(|| {
        ScalarError::new("{} is not a time").help("write the time as RFC 3339 does: `2026-01-02T03:04:05Z`")
    })
}

fn parse(text: &[u8]) -> Option<Timestamp> {
    let (date, rest) = text.split_at_checked(10)?;
    let (year, month, day) = (number(&date[..4])?, number(&date[5..7])?, number(&date[8..])?);
    let (b'T' | b't', rest) = rest.split_first().map(|(first, rest)| (*first, rest))? else { return None };
    let (time, rest) = rest.split_at_checked(8)?;
    let (hour, minute, second) = (number(&time[..2])?, number(&time[3..5])?, number(&time[6..])?);
    let is_shaped = date[4] == b'-' && date[7] == b'-' && time[2] == b':' && time[5] == b':';
    let in_range = (1..=12).contains(&month) && (1..=days(year, month)).contains(&day);
    if !is_shaped || !in_range || hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    let (nanoseconds, rest) = fraction(rest)?;
    let offset = offset(rest)?;
    let seconds = days_since_1970(year, month, day) * 86_400 + hour * 3_600 + minute * 60 + second.min(59);
    Some(Timestamp { seconds: seconds - offset, nanoseconds })
}

/// Parses a number of digits alone.
fn number(text: &[u8]) -> Option<i64> {
    let digit = |value: i64, byte: &u8| byte.is_ascii_digit().then(|| value * 10 + i64::from(byte - b'0'));
    text.iter().try_fold(0, digit)
}

/// Parses the fraction of a second, if there is one. Digits after the ninth are dropped.
fn fraction(text: &[u8]) -> Option<(u32, &[u8])> {
    let Some((b'.', rest)) = text.split_first() else { return Some((0, text)) };
    let length = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    if length == 0 {
        return None;
    }
    let digits = rest[..length].iter().chain(std::iter::repeat(&b'0')).take(9);
    let value = digits.fold(0, |value, byte| value * 10 + u32::from(byte - b'0'));
    Some((value, &rest[length..]))
}

/// Parses the offset from UTC, in seconds.
fn offset(text: &[u8]) -> Option<i64> {
    let sign = match text {
        b"Z" | b"z" => return Some(0),
        [b'+', ..] => 1,
        [b'-', ..] => -1,
        _ => return None,
    };
    let [_, h1, h2, b':', m1, m2] = text else { return None };
    let (hours, minutes) = (number(&[*h1, *h2])?, number(&[*m1, *m2])?);
    (hours <= 23 && minutes <= 59).then_some(sign * (hours * 3_600 + minutes * 60))
}

fn days(year: i64, month: i64) -> i64 {
    let is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    match month {
        2 => 28 + i64::from(is_leap),
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Returns the days since 1970-01-01 in the Gregorian calendar. Years begin in March here, so that the leap day is the last.
fn days_since_1970(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    // 719,468 days lie between March of the year 0 and 1970.
    year * 365 + year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400) + of_year - 719_468
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn seconds(text: &str) -> Option<i64> {
        timestamp(text).ok().map(|time| time.seconds)
    }

    #[test]
    fn times_of_rfc_3339() {
        for (text, is) in [
            ("1970-01-01T00:00:00Z", 0),
            ("1969-12-31T23:59:59z", -1),
            ("2000-02-29T12:00:00Z", 951_825_600),
            ("2026-11-27T10:00:00Z", 1_795_773_600),
            ("2026-11-27t10:00:00.5Z", 1_795_773_600),
            ("2026-11-27T11:30:00+01:30", 1_795_773_600),
            ("2026-11-27T02:00:00-08:00", 1_795_773_600),
            // Section 5.8: a leap second.
            ("1990-12-31T23:59:60Z", 662_687_999),
            ("0000-01-01T00:00:00Z", -62_167_219_200),
        ] {
            assert_eq!(seconds(text), Some(is), "{text}");
        }
        assert_eq!(timestamp("1970-01-01T00:00:00.0123456789Z").map(|it| it.nanoseconds), Ok(12_345_678));
        for text in [
            "",
            "2026",
            "2026-11-27",
            "2026-11-27T10:00:00",
            "2026-11-27 10:00:00Z",
            "2026-13-01T00:00:00Z",
            "2026-02-29T00:00:00Z",
            "2026-04-31T00:00:00Z",
            "2026-11-27T24:00:00Z",
            "2026-11-27T10:60:00Z",
            "2026-11-27T10:00:61Z",
            "2026-11-27T10:00:00.Z",
            "2026-11-27T10:00:00+1:00",
            "2026-11-27T10:00:00Zx",
            "+026-11-27T10:00:00Z",
            "1795773600",
        ] {
            assert_eq!(seconds(text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "\\PC{0,40}") {
            let _ = timestamp(&text);
        }

        #[test]
        fn days_follow_each_other(year in 0..9999_i64, month in 1..=12_i64, day in 1..=31_i64) {
            prop_assume!(day <= days(year, month));
            let (next_year, next_month, next_day) = match (day == days(year, month), month) {
                (false, _) => (year, month, day + 1),
                (true, 12) => (year + 1, 1, 1),
                (true, _) => (year, month + 1, 1),
            };
            prop_assert_eq!(days_since_1970(year, month, day) + 1, days_since_1970(next_year, next_month, next_day));
        }
    }
}
