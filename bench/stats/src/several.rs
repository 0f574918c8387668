//! Several comparisons at once. Each of many 95 % intervals misses in 5 % of runs, so that a table of fifteen
//! shows a false difference in every second run. Wider intervals hold together: with the factor of
//! [`widening`], the chance that any of them misses is at most 5 % (Bonferroni, "Teoria statistica delle classi
//! e calcolo delle probabilità", 1936).
//!
//! The factor is a ratio of quantiles of Student's t, whose tails are heavier the fewer rounds there are.
//! The resampled ends of [`crate::bootstrap`] cannot be moved out to such levels: seven rounds have no
//! subset that is rare enough.

use std::f64::consts::{FRAC_PI_2, PI};

/// The chance that an interval misses.
const MISSES: f64 = 0.05;

/// Returns the factor by which half the width of each of `count` 95 % intervals grows, so that all of them hold
/// together with 95 %. `freedom` is the number of degrees of freedom behind each, at least 1. The factor is at
/// least 1; it is 1 for a single interval.
pub fn widening(count: usize, freedom: u32) -> f64 {
    let freedom = freedom.max(1);
    quantile(MISSES / count.max(1) as f64, freedom) / quantile(MISSES, freedom)
}

/// Returns the value that the absolute value of Student's t exceeds with probability `outside`.
fn quantile(outside: f64, freedom: u32) -> f64 {
    // The search is over the angle, since the quantile has no upper bound.
    let (mut low, mut high) = (0.0, FRAC_PI_2);
    for _ in 0..100 {
        let angle = f64::midpoint(low, high);
        if 1.0 - within(angle, freedom) > outside {
            low = angle;
        } else {
            high = angle;
        }
    }
    f64::from(freedom).sqrt() * f64::midpoint(low, high).tan()
}

/// Returns the probability that the absolute value of Student's t is below the root of `freedom` times the
/// tangent of `angle` (Abramowitz and Stegun, "Handbook of Mathematical Functions", 26.7.3 and 26.7.4).
fn within(angle: f64, freedom: u32) -> f64 {
    let (sine, cosine) = angle.sin_cos();
    let even = freedom.is_multiple_of(2);
    // The terms of both series differ only in where they begin.
    let mut term = if even { 1.0 } else { cosine };
    let mut sum = if freedom == 1 { 0.0 } else { term };
    let mut at = if even { 2 } else { 3 };
    while at < freedom {
        term *= cosine * cosine * f64::from(at - 1) / f64::from(at);
        sum += term;
        at += 2;
    }
    if even { sine * sum } else { 2.0 / PI * (angle + sine * sum) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_those_of_the_tables() {
        for (outside, freedom, wanted) in [
            (0.05, 1, 12.706),
            (0.05, 2, 4.303),
            (0.05, 3, 3.182),
            (0.05, 10, 2.228),
            (0.01, 5, 4.032),
            (0.001, 7, 5.408),
            (0.002, 12, 3.930),
            (0.05, 200, 1.972),
        ] {
            let found = quantile(outside, freedom);
            assert!((found - wanted).abs() < 0.001, "{outside}, {freedom}: {found}");
        }
    }

    #[test]
    fn more_comparisons_need_wider_intervals_and_more_rounds_narrower_ones() {
        assert!((widening(1, 10) - 1.0).abs() < 1e-9);
        assert!((widening(0, 10) - 1.0).abs() < 1e-9);
        let factors: Vec<f64> = [2, 5, 15, 60].map(|count| widening(count, 12)).to_vec();
        assert!(factors.windows(2).all(|pair| pair[0] < pair[1]), "{factors:?}");
        assert!(widening(15, 6) > widening(15, 12) && widening(15, 12) > 1.5);
    }
}
