//! Order statistics: median, quantiles, median absolute deviation.
//!
//! Every function returns `None` for an empty slice and for one with a NaN, since neither has an order.

/// The factor from the median absolute deviation of normal data to its standard deviation: 1 / (75th
/// percentile of a standard normal).
pub const NORMAL_MAD: f64 = 1.482_602_218_505_602;

/// Returns the values in ascending order, or `None` if they have no order.
pub(crate) fn sorted(values: &[f64]) -> Option<Vec<f64>> {
    if values.is_empty() || values.iter().any(|value| value.is_nan()) {
        return None;
    }
    let mut ordered = values.to_vec();
    ordered.sort_by(f64::total_cmp);
    Some(ordered)
}

/// Returns the median; for an even number of values, the mean of the middle two.
pub fn median(values: &[f64]) -> Option<f64> {
    quantile(values, 0.5)
}

/// Returns the `q` quantile (`q` is clamped to 0..=1) by Hyndman and Fan's **type 7**: linear between the
/// order statistics at position `(n - 1) q` counted from 0. It is the default of R and NumPy, so that figures
/// are easy to check.
pub fn quantile(values: &[f64], q: f64) -> Option<f64> {
    let ordered = sorted(values)?;
    Some(at_position(&ordered, (ordered.len() - 1) as f64 * q.clamp(0.0, 1.0)))
}

/// Interpolates linearly at a fractional position of an ascending, non-empty slice. Positions beyond the ends
/// give the end values.
pub(crate) fn at_position(ordered: &[f64], position: f64) -> f64 {
    let last = ordered.len() - 1;
    let below = (position.max(0.0).floor() as usize).min(last);
    let above = (below + 1).min(last);
    let part = (position - below as f64).clamp(0.0, 1.0);
    // The test for equality prevents NaN from two infinite neighbours.
    if part == 0.0 || ordered[below] == ordered[above] {
        ordered[below]
    } else {
        ordered[below] + part * (ordered[above] - ordered[below])
    }
}

/// Returns the median absolute deviation from the median, unscaled. Multiply by [`NORMAL_MAD`] to compare it
/// with a standard deviation.
pub fn mad(values: &[f64]) -> Option<f64> {
    let middle = median(values)?;
    let deviations: Vec<f64> = values.iter().map(|value| (value - middle).abs()).collect();
    median(&deviations)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn median_of_odd_and_even_counts() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[4.0, 1.0, 3.0, 2.0]), Some(2.5));
        assert_eq!(median(&[7.0]), Some(7.0));
    }

    #[test]
    fn no_order_no_answer() {
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[1.0, f64::NAN]), None);
        assert_eq!(mad(&[]), None);
    }

    #[test]
    fn quantiles_are_type_seven() {
        // R: quantile(c(1, 2, 3, 4, 10), c(0.1, 0.25, 0.9), type = 7) gives 1.4, 2.0, 7.6.
        let values = [10.0, 2.0, 1.0, 4.0, 3.0];
        for (q, expected) in [(0.0, 1.0), (0.1, 1.4), (0.25, 2.0), (0.9, 7.6), (1.0, 10.0), (2.0, 10.0)] {
            let got = quantile(&values, q).unwrap();
            assert!((got - expected).abs() < 1e-12, "q {q}: {got}, expected {expected}");
        }
    }

    #[test]
    fn deviation_ignores_an_outlier() {
        assert_eq!(mad(&[1.0, 2.0, 3.0, 4.0, 1000.0]), Some(1.0));
    }

    #[test]
    fn infinite_values_stay_infinite() {
        assert_eq!(median(&[f64::INFINITY, f64::INFINITY]), Some(f64::INFINITY));
    }
}
