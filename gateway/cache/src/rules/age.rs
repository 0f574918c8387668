//! The age of a response when it arrives (RFC 9111, 4.2.3).

use super::directives::seconds;
use crate::Moment;

/// When a request was sent and its response received.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Received {
    /// `request_time`.
    pub requested: Moment,
    /// `response_time`.
    pub received: Moment,
}

impl Received {
    /// `corrected_initial_age`, in milliseconds. `age` is the value of `Age`, and `date` is `Date` in seconds.
    pub(crate) fn initial_age_millis(&self, age: Option<&[u8]>, date: Option<u64>) -> u64 {
        let apparent = date.map_or(0, |date| self.received.seconds().saturating_sub(date));
        let delay = self.received.millis_since(self.requested);
        let corrected = age.map_or(0, age_value) * 1000 + delay;
        corrected.max(apparent.saturating_mul(1000))
    }
}

/// The value of `Age` (5.1): of a list, the first member; what is no number is ignored.
fn age_value(value: &[u8]) -> u64 {
    let first = value.split(|byte| *byte == b',').next().unwrap_or_default().trim_ascii();
    u64::from(seconds(first).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_arithmetic_of_rfc_9111_4_2_3() {
        for (requested, received, age, date, expected) in [
            (10_000, 10_000, None, None, 0),
            // The delay of the response counts only with its age.
            (10_000, 12_500, None, None, 2_500),
            (10_000, 12_500, Some("3"), None, 5_500),
            (10_900, 11_100, None, Some(10), 1_000),
            (10_900, 11_100, None, Some(20), 200),
            (10_000, 11_000, Some("3"), Some(2), 9_000),
            (10_000, 11_000, Some("30"), Some(2), 31_000),
            (10_000, 11_000, Some("7, 9"), None, 8_000),
            (10_000, 11_000, Some("-7"), None, 1_000),
            (10_000, 11_000, Some("x"), None, 1_000),
            (10_000, 10_000, Some("99999999999"), None, (1 << 31) * 1000),
            // The clock was set back.
            (10_000, 9_000, Some("1"), None, 1_000),
        ] {
            let (requested, received) = (Moment::from_millis(requested), Moment::from_millis(received));
            let age = age.map(str::as_bytes);
            let result = Received { requested, received }.initial_age_millis(age, date);
            assert_eq!(result, expected, "{age:?} {date:?}");
        }
    }
}
