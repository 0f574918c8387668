//! Dates in fields (RFC 9110, 5.6.7).

use std::time::{Duration, SystemTime};

/// The last second of the year 9999, counted from 1970: the year of a date has four digits.
const LAST_SECOND: u64 = 253_402_300_799;

/// Parses a date in one of the three formats, to seconds since 1970. `None`: it is malformed, or before 1970.
#[must_use]
pub fn parse_date(value: &[u8]) -> Option<u64> {
    let date = httpdate::parse_http_date(std::str::from_utf8(value).ok()?.trim()).ok()?;
    date.duration_since(SystemTime::UNIX_EPOCH).ok().map(|since| since.as_secs())
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
        ] {
            assert_eq!(parse_date(text.as_bytes()), Some(784_111_777), "{text}");
        }
        for text in [
            "",
            "0",
            "-1",
            "Sun, 06 Nov 1994",
            "Sun, 06 Nov 1994 25:49:37 GMT",
            "Mon, 01 Jan 1900 00:00:00 GMT",
        ] {
            assert_eq!(parse_date(text.as_bytes()), None, "{text}");
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
