//! Decides between lower, higher, and a tie.
//!
//! An interval that excludes 1 shows that two series of rounds differ, not that the systems do. The
//! laboratory therefore runs one system against itself in the same rounds (the A/A control). The difference
//! that the control shows is caused by the machine alone, and two systems that differ by no more than that
//! are called a tie.

use crate::bootstrap::Interval;

/// The machine's own noise, as a factor of at least 1 (1.02: two per cent).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Noise {
    factor: f64,
}

impl Noise {
    /// Derives the noise from the ratio intervals of A/A controls that ran next to the systems. It is the
    /// largest value that any of them shows, either as a ratio off 1 (its estimate) or as a blur (half its
    /// interval, as a factor). The far end of the interval would count the blur twice, since the systems' own
    /// interval includes it too: at ten rounds of 2 % noise that missed 5 % of true 5 % differences instead
    /// of 1 %.
    ///
    /// Returns `None` without a control, or if a control's figures are not finite numbers above 0: without a
    /// control there is no verdict.
    pub fn from_controls(controls: &[Interval]) -> Option<Self> {
        let mut factor = None;
        for control in controls {
            if ![control.low, control.estimate, control.high]
                .iter()
                .all(|figure| figure.is_finite() && *figure > 0.0)
            {
                return None;
            }
            let off = control.estimate.max(control.estimate.recip());
            let blur = (control.high / control.low).sqrt();
            factor = Some(off.max(blur).max(factor.unwrap_or(1.0)));
        }
        factor.map(|factor| Self { factor })
    }

    /// Returns the factor, at least 1.
    pub fn factor(&self) -> f64 {
        self.factor
    }
}

/// How a system compares with its baseline. Whether lower is better depends on the quantity, and is not
/// decided here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Below the baseline.
    Lower,
    /// Above the baseline.
    Higher,
    /// Not distinguishable at the A/A noise.
    Tie,
}

/// Compares a ratio's interval with 1. It is a difference only if the interval excludes 1 **and** the
/// estimate lies beyond what the A/A control shows; everything else is a tie.
pub fn compare(ratio: &Interval, noise: &Noise) -> Order {
    if ratio.high < 1.0 && ratio.estimate < noise.factor.recip() {
        Order::Lower
    } else if ratio.low > 1.0 && ratio.estimate > noise.factor {
        Order::Higher
    } else {
        Order::Tie
    }
}

/// Returns whether a ratio shows a growth beyond the allowance (0.03: three per cent): the whole interval
/// lies above `1 + allowance`. The gate for CI uses this, so that noise alone fails no build.
pub fn exceeds(ratio: &Interval, allowance: f64) -> bool {
    ratio.low > 1.0 + allowance
}

/// Returns whether a ratio shows a loss beyond the allowance, for quantities of which more is better: the
/// whole interval lies below `1 - allowance`.
pub fn falls_short(ratio: &Interval, allowance: f64) -> bool {
    ratio.high < 1.0 - allowance
}

#[cfg(test)]
mod tests {
    use super::*;

    fn interval(low: f64, estimate: f64, high: f64) -> Interval {
        Interval { estimate, low, high, level: 0.95, resamples: 2_047 }
    }

    #[test]
    fn noise_is_the_largest_ratio_or_blur_of_any_control() {
        let blurred =
            Noise::from_controls(&[interval(0.99, 1.0, 1.01), interval(0.96, 1.0, 1.0 / 0.96)]).unwrap();
        assert!((blurred.factor() - 1.0 / 0.96).abs() < 1e-12);
        let off = Noise::from_controls(&[interval(0.94, 0.95, 0.96), interval(0.99, 1.0, 1.01)]).unwrap();
        assert!((off.factor() - 1.0 / 0.95).abs() < 1e-12);
        assert_eq!(Noise::from_controls(&[]), None);
        assert_eq!(Noise::from_controls(&[interval(0.0, 1.0, 1.0)]), None);
    }

    #[test]
    fn both_conditions_are_needed() {
        let noise = Noise::from_controls(&[interval(0.98, 1.0, 1.02)]).unwrap();
        assert_eq!(compare(&interval(1.04, 1.05, 1.06), &noise), Order::Higher);
        assert_eq!(compare(&interval(0.94, 0.95, 0.96), &noise), Order::Lower);
        assert_eq!(compare(&interval(0.99, 1.05, 1.11), &noise), Order::Tie, "the interval holds 1");
        assert_eq!(compare(&interval(1.005, 1.01, 1.015), &noise), Order::Tie, "within the A/A noise");
    }

    #[test]
    fn a_gate_fails_only_when_the_interval_excludes_the_allowance() {
        assert!(!exceeds(&interval(1.01, 1.05, 1.09), 0.03));
        assert!(exceeds(&interval(1.031, 1.05, 1.09), 0.03));
        assert!(!falls_short(&interval(0.90, 0.95, 0.98), 0.03));
        assert!(falls_short(&interval(0.90, 0.93, 0.96), 0.03));
    }
}
