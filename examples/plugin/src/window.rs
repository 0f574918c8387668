//! Daily time windows.

use std::fmt::{self, Display};

/// The number of seconds in a day.
pub const DAY: u64 = 86_400;

/// The hours of a day in which the plugin is active, in UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Window {
    /// All day.
    Always,
    /// From one second of the day to another, which may be on the next day.
    Daily {
        /// The first second of the window.
        from: u64,
        /// The first second after the window.
        to: u64,
    },
}

impl Window {
    /// Returns `None` outside the window. Inside, returns the remaining seconds, or `Some(None)` if there is
    /// no end. `now` is a second of the day.
    pub fn left(&self, now: u64) -> Option<Option<u64>> {
        let Self::Daily { from, to } = *self else { return Some(None) };
        let (since, length) = ((now + DAY - from) % DAY, (to + DAY - from) % DAY);
        (since < length).then(|| Some(length - since))
    }
}

/// Parses `02:30` into a second of the day.
pub fn second(text: &str) -> Option<u64> {
    let (hours, minutes) = text.split_once(':')?;
    let number = |text: &str, below: u64| {
        let digits = text.len() == 2 && text.bytes().all(|byte| byte.is_ascii_digit());
        text.parse::<u64>().ok().filter(|number| digits && *number < below)
    };
    Some(number(hours, 24)? * 3600 + number(minutes, 60)? * 60)
}

impl Display for Window {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Window::Always => f.write_str("all day"),
            Window::Daily { from, to } => {
                let (hour, minute) = (|second| second / 3600, |second| second / 60 % 60);
                let (a, b, c, d) = (hour(from), minute(from), hour(to), minute(to));
                write!(f, "from {a:02}:{b:02} to {c:02}:{d:02} UTC")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hours_are_read_strictly() {
        assert_eq!((second("00:00"), second("23:59")), (Some(0), Some(86_340)));
        for text in ["24:00", "1:00", "01:60", "+1:00", "0100", "", "01:00:00"] {
            assert_eq!(second(text), None, "{text}");
        }
    }

    #[test]
    fn a_window_may_span_midnight() {
        let window = Window::Daily { from: 82_800, to: 3600 };
        assert_eq!((window.left(82_799), window.left(82_800)), (None, Some(Some(7200))));
        assert_eq!((window.left(3599), window.left(3600)), (Some(Some(1)), None));
        assert_eq!(window.to_string(), "from 23:00 to 01:00 UTC");
        assert_eq!(Window::Always.left(5), Some(None));
    }
}
