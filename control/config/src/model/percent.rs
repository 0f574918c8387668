//! Percentages.

use std::fmt;

/// The whole, in the unit of [`Percent`]: trillionths. One of three million requests is then 333,333 parts, so
/// rounding changes it by less than a millionth of itself.
const WHOLE: u64 = 1_000_000_000_000;

/// A percentage with up to ten decimals, or a fraction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Percent(u64);

impl Percent {
    /// 100 %.
    pub const ALL: Self = Self(WHOLE);

    /// Makes a whole percentage.
    #[must_use]
    pub const fn whole(percent: u8) -> Self {
        Self(percent as u64 * (WHOLE / 100))
    }

    /// Returns the percentage in trillionths: 1 % is 10,000,000,000.
    #[must_use]
    pub const fn parts(self) -> u64 {
        self.0
    }

    /// Returns the percentage in millionths, rounded up, so that it is 0 only if the percentage is 0. 1 % is 10,000.
    #[must_use]
    pub const fn millionths(self) -> u32 {
        // The largest bound of a percentage is 200 %.
        self.0.div_ceil(WHOLE / 1_000_000) as u32
    }

    /// Returns the percentage as a fraction: 50 % is 0.5.
    #[must_use]
    pub fn share(self) -> f64 {
        self.0 as f64 / WHOLE as f64
    }

    /// Returns this percentage of `number`, rounded down.
    #[must_use]
    pub fn of(self, number: u64) -> u64 {
        u64::try_from(u128::from(number) * u128::from(self.0) / u128::from(WHOLE)).unwrap_or(u64::MAX)
    }

    /// Returns whether the percentage is 0.
    #[must_use]
    pub const fn is_zero(self) -> bool {
        self.0 == 0
    }
}

/// Makes a percentage from trillionths, the form that the reader produces.
impl From<u64> for Percent {
    fn from(parts: u64) -> Self {
        Self(parts)
    }
}

/// Writes the number without a percent sign and without trailing zeros.
impl fmt::Display for Percent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whole, rest) = (self.0 / (WHOLE / 100), self.0 % (WHOLE / 100));
        if rest == 0 {
            return write!(f, "{whole}");
        }
        let decimals = format!("{rest:010}");
        write!(f, "{whole}.{}", decimals.trim_end_matches('0'))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimals_are_kept() {
        for (parts, text) in [
            (0, "0"),
            (1_000_000_000, "0.1"),
            (1_000_000, "0.0001"),
            (333_333, "0.0000333333"),
            (125_000_000_000, "12.5"),
            (WHOLE, "100"),
        ] {
            assert_eq!(Percent(parts).to_string(), text);
        }
        assert_eq!(Percent::whole(50).of(7), 3);
        assert_eq!(Percent(1_000_000_000).of(5_000), 5);
        assert_eq!(Percent(333_333).of(3_000_004), 1);
        assert_eq!(Percent::ALL.of(u64::MAX), u64::MAX);
        assert!((Percent(5_000_000_000).share() - 0.005).abs() < 1e-12);
        assert_eq!(
            [0, 1, WHOLE, 2 * WHOLE].map(|parts| Percent(parts).millionths()),
            [0, 1, 1_000_000, 2_000_000]
        );
    }
}
