//! Percentages.

use std::fmt;

/// A percentage with up to four decimals.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Percent(u32);

impl Percent {
    /// 100 %.
    pub const ALL: Self = Self::whole(100);

    /// Makes a whole percentage.
    #[must_use]
    pub const fn whole(percent: u8) -> Self {
        Self(percent as u32 * 10_000)
    }

    /// Returns the percentage in millionths: 1 % is 10,000.
    #[must_use]
    pub const fn millionths(self) -> u32 {
        self.0
    }

    /// Returns the percentage as a fraction: 50 % is 0.5.
    #[must_use]
    pub fn share(self) -> f64 {
        f64::from(self.0) / 1e6
    }

    /// Returns this percentage of `number`, rounded down.
    #[must_use]
    pub fn of(self, number: u64) -> u64 {
        u64::try_from(u128::from(number) * u128::from(self.0) / 1_000_000).unwrap_or(u64::MAX)
    }

    /// Returns whether the percentage is 0.
    #[must_use]
    pub const fn is_zero(self) -> bool {
        self.0 == 0
    }
}

/// Makes a percentage from millionths, the form that the reader produces.
impl TryFrom<u64> for Percent {
    type Error = std::num::TryFromIntError;

    fn try_from(millionths: u64) -> Result<Self, Self::Error> {
        u32::try_from(millionths).map(Self)
    }
}

/// Writes the number without a percent sign and without trailing zeros.
impl fmt::Display for Percent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whole, rest) = (self.0 / 10_000, self.0 % 10_000);
        if rest == 0 {
            return write!(f, "{whole}");
        }
        let decimals = format!("{rest:04}");
        write!(f, "{whole}.{}", decimals.trim_end_matches('0'))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimals_are_kept() {
        let percent = |millionths: u64| Percent::try_from(millionths).expect("it fits");
        for (millionths, text) in
            [(0, "0"), (1_000, "0.1"), (1, "0.0001"), (125_000, "12.5"), (1_000_000, "100")]
        {
            assert_eq!(percent(millionths).to_string(), text);
        }
        assert_eq!(Percent::whole(50).of(7), 3);
        assert_eq!(percent(1_000).of(5_000), 5);
        assert_eq!(Percent::ALL.of(u64::MAX), u64::MAX);
        assert!((percent(5_000).share() - 0.005).abs() < 1e-12);
    }
}
