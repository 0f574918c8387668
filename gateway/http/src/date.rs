//! Dates in fields (RFC 9110, 5.6.7).

use std::cell::Cell;
use std::time::{Duration, SystemTime};

/// The last second of the year 9999, counted from 1970: the year of a date has four digits.
const LAST_SECOND: u64 = 253_402_300_799;

/// Parses a date in one of the three formats, to seconds since 1970, in any case (RFC 9111, 4.2). `None`: it is
/// malformed, or before 1970.
#[must_use]
pub fn parse_date(value: &[u8]) -> Option<u64> {
    thread_local! {
        /// The last date in the preferred format, with its seconds. Responses of one second have the same `Date`.
        static LAST: Cell<([u8; 29], u64)> = const { Cell::new((*b"Thu, 01 Jan 1970 00:00:00 GMT", 0)) };
    }
    let (last, seconds) = LAST.get();
    if value == last {
        return Some(seconds);
    }
    let text = std::str::from_utf8(value).ok()?.trim();
    let seconds = parse_in_any_case(text).or_else(|| parse_in_the_2070s(text))?;
    if let Ok(preferred) = value.try_into() {
        LAST.set((preferred, seconds));
    }
    Some(seconds)
}

fn parse_in_any_case(text: &str) -> Option<u64> {
    let date =
        httpdate::parse_http_date(text).or_else(|_| httpdate::parse_http_date(&in_usual_case(text))).ok()?;
    date.duration_since(SystemTime::UNIX_EPOCH).ok().map(|since| since.as_secs())
}

/// Parses a date with two digits of the year, which mean a year that is at most 50 years ahead (RFC 9110, 5.6.7): from 70
/// to 76 they mean the 2070s. The library takes them for the 1970s, in which the day of the week is another one. A reading
/// of the clock would be exact, but the form is obsolete since 1994.
fn parse_in_the_2070s(text: &str) -> Option<u64> {
    /// Weekdays and leap years repeat after 28 years until 2099, so the library can check the same date this much earlier.
    const YEARS: u64 = 3 * 28;
    let (start, rest) = text.rsplit_once('-')?;
    let (year, time) = rest.split_at_checked(2)?;
    let year: u64 = year.parse().ok().filter(|year| (70..=76).contains(year))?;
    let earlier = format!("{start}-{}{time}", year + 100 - YEARS);
    parse_in_any_case(&earlier).map(|seconds| seconds + YEARS / 4 * (4 * 365 + 1) * 86_400)
}

/// Returns a date with the case of RFC 9110: `Sun, 06 Nov 1994 08:49:37 GMT`.
fn in_usual_case(text: &str) -> String {
    let mut is_first = true;
    let usual = |letter: char| match std::mem::replace(&mut is_first, !letter.is_ascii_alphabetic()) {
        true => letter.to_ascii_uppercase(),
        false => letter.to_ascii_lowercase(),
    };
    text.chars().map(usual).collect::<String>().replace("Gmt", "GMT")
}

/// Writes a date, given in seconds since 1970. A later one than a date can say is written as the last one.
#[must_use]
pub fn format_date(seconds: u64) -> String {
    httpdate::fmt_http_date(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds.min(LAST_SECOND)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_three_formats() {
        for text in [
            "Sun, 06 Nov 1994 08:49:37 GMT",
            "Sunday, 06-Nov-94 08:49:37 GMT",
            "Sun Nov  6 08:49:37 1994",
            " Sun, 06 Nov 1994 08:49:37 GMT ",
            "sUn, 06 nOV 1994 08:49:37 gmt",
            "SUNDAY, 06-NOV-94 08:49:37 Gmt",
            "sun nov  6 08:49:37 1994",
        ] {
            assert_eq!(parse_date(text.as_bytes()), Some(784_111_777), "{text}");
        }
        for text in [
            "",
            "0",
            "-1",
            "Sun, 06 Nov 1994",
            "Sun, 06 Nov 1994 25:49:37 GMT",
            "Sun, 06 Nov 1994 08:49:37 UTC",
            "Sun, 06 Nov 1994 08:49:37 +0000",
            "Sun, 6 Nov 1994 08:49:37 GMT",
            "Sun, 06 Nov 94 08:49:37 GMT",
            "Sun, 06 Nov 1994 8:49:37 GMT",
            "Sun,  06 Nov 1994 08:49:37 GMT",
            "Sun 06 Nov 1994 08:49:37 GMT",
            "Mon, 01 Jan 1900 00:00:00 GMT",
        ] {
            assert_eq!(parse_date(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn two_digits_of_a_year_mean_at_most_fifty_years_ahead() {
        for (text, expected) in [
            ("Wednesday, 01-Jan-70 00:00:00 GMT", "Wed, 01 Jan 2070 00:00:00 GMT"),
            ("monday, 29-feb-72 00:00:00 gmt", "Mon, 29 Feb 2072 00:00:00 GMT"),
            ("Thursday, 31-Dec-76 23:59:59 GMT", "Thu, 31 Dec 2076 23:59:59 GMT"),
            ("Saturday, 01-Jan-77 00:00:00 GMT", "Sat, 01 Jan 1977 00:00:00 GMT"),
            ("Friday, 31-Dec-99 23:59:59 GMT", "Fri, 31 Dec 1999 23:59:59 GMT"),
            ("Thursday, 18-Aug-50 02:01:18 GMT", "Thu, 18 Aug 2050 02:01:18 GMT"),
            ("Thu, 01 Jan 1970 00:00:01 GMT", "Thu, 01 Jan 1970 00:00:01 GMT"),
            // The day of the week says which one is meant.
            ("Thursday, 01-Jan-70 00:00:00 GMT", "Thu, 01 Jan 1970 00:00:00 GMT"),
        ] {
            let read = parse_date(text.as_bytes()).map(format_date);
            assert_eq!(read.as_deref(), Some(expected), "{text}");
        }
    }

    #[test]
    fn written_dates_are_read() {
        for seconds in [0, 784_111_777, LAST_SECOND] {
            assert_eq!(parse_date(format_date(seconds).as_bytes()), Some(seconds));
        }
        assert_eq!(format_date(u64::MAX), format_date(LAST_SECOND));
    }
}
