//! Dates in fields (RFC 9110, 5.6.7).

use std::time::{Duration, SystemTime};

/// The last second of the year 9999, counted from 1970: the year of a date has four digits.
const LAST_SECOND: u64 = 253_402_300_799;

/// Parses a date in one of the three formats, to seconds since 1970, in any case (RFC 9111, 4.2). `None`: it is
/// malformed, or before 1970.
#[must_use]
pub fn parse_date(value: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(value).ok()?.trim();
    let date =
        httpdate::parse_http_date(text).or_else(|_| httpdate::parse_http_date(&in_usual_case(text))).ok()?;
    let seconds = date.duration_since(SystemTime::UNIX_EPOCH).ok()?.as_secs();
    // Only the form with two digits of the year has hyphens.
    let is_of_this_century = text.contains('-') && seconds < TWO_DIGIT_YEARS_END;
    Some(if is_of_this_century { seconds + CENTURY_SECONDS } else { seconds })
}

/// The 100 years from a date in the years 1970 to 1999 on.
const CENTURY_SECONDS: u64 = 36_525 * 86_400;
/// The beginning of 1977. Two digits of a year mean a year that is at most 50 years ahead (RFC 9110, 5.6.7), so from 70
/// to 76 they mean the 2070s, which the library takes for the 1970s. A reading of the clock would be exact, but the
/// form is obsolete since 1994.
const TWO_DIGIT_YEARS_END: u64 = 7 * 365 * 86_400 + 2 * 86_400;

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
            ("Thursday, 01-Jan-70 00:00:00 GMT", "Wed, 01 Jan 2070 00:00:00 GMT"),
            ("Thursday, 31-Dec-76 23:59:59 GMT", "Thu, 31 Dec 2076 23:59:59 GMT"),
            ("Saturday, 01-Jan-77 00:00:00 GMT", "Sat, 01 Jan 1977 00:00:00 GMT"),
            ("Friday, 31-Dec-99 23:59:59 GMT", "Fri, 31 Dec 1999 23:59:59 GMT"),
            ("Thursday, 18-Aug-50 02:01:18 GMT", "Thu, 18 Aug 2050 02:01:18 GMT"),
            ("Thu, 01 Jan 1970 00:00:01 GMT", "Thu, 01 Jan 1970 00:00:01 GMT"),
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
