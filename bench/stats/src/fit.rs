//! Fits a straight line to measured points, and computes what it leaves unexplained. Used for the question
//! whether throughput grows with the workers.

use std::fmt;

/// A least-squares line with its errors.
#[derive(Clone, Debug, PartialEq)]
pub struct Line {
    /// The value at x = 0, in the unit of y.
    pub intercept: f64,
    /// The growth of y for each unit of x.
    pub slope: f64,
    /// The standard error of the intercept; `None` with two points, which have no degree of freedom left.
    pub intercept_error: Option<f64>,
    /// The standard error of the slope; `None` with two points.
    pub slope_error: Option<f64>,
    /// The share of the variance of y that the line explains, 0..=1; 1 if y does not vary.
    pub r_squared: f64,
    /// Measured minus fitted value for each point, in the given order and the unit of y.
    pub residuals: Vec<f64>,
}

/// Why no line was fitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FitError {
    /// Fewer than two points.
    TooFew,
    /// Every point has the same x.
    SameX,
    /// A coordinate is not a finite number.
    NotFinite,
}

impl fmt::Display for FitError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::TooFew => "a line needs at least two points",
            Self::SameX => "a line needs points at two different x",
            Self::NotFinite => "a line needs finite coordinates",
        })
    }
}

impl std::error::Error for FitError {}

/// Fits `y = intercept + slope x` to `(x, y)` points by ordinary least squares.
///
/// # Errors
/// If there are fewer than two points, all have the same x, or a coordinate is not finite.
pub fn line(points: &[(f64, f64)]) -> Result<Line, FitError> {
    if points.len() < 2 {
        return Err(FitError::TooFew);
    }
    if !points.iter().all(|(x, y)| x.is_finite() && y.is_finite()) {
        return Err(FitError::NotFinite);
    }
    let n = points.len() as f64;
    let mean_x = points.iter().map(|(x, _)| x).sum::<f64>() / n;
    let mean_y = points.iter().map(|(_, y)| y).sum::<f64>() / n;
    // Sums of centred products: the textbook formula with raw squares loses digits if the mean is large.
    let xx: f64 = points.iter().map(|(x, _)| (x - mean_x).powi(2)).sum();
    let xy: f64 = points.iter().map(|(x, y)| (x - mean_x) * (y - mean_y)).sum();
    let yy: f64 = points.iter().map(|(_, y)| (y - mean_y).powi(2)).sum();
    if xx == 0.0 {
        return Err(FitError::SameX);
    }
    let slope = xy / xx;
    let intercept = mean_y - slope * mean_x;
    let residuals: Vec<f64> = points.iter().map(|(x, y)| y - (intercept + slope * x)).collect();
    let unexplained: f64 = residuals.iter().map(|residual| residual * residual).sum();
    let variance = (points.len() > 2).then(|| unexplained / (n - 2.0));
    Ok(Line {
        intercept,
        slope,
        intercept_error: variance.map(|v| (v * (1.0 / n + mean_x * mean_x / xx)).sqrt()),
        slope_error: variance.map(|v| (v / xx).sqrt()),
        r_squared: if yy == 0.0 { 1.0 } else { (1.0 - unexplained / yy).clamp(0.0, 1.0) },
        residuals,
    })
}

/// Returns `QPS(W) / (W * QPS(1))` for each `(workers, rate)` point, in the given order; 1 is perfect
/// scaling. Returns `None` without a point with one worker and a rate above 0, since nothing else can be the
/// reference.
pub fn efficiency(points: &[(u32, f64)]) -> Option<Vec<f64>> {
    let (_, single) = points.iter().find(|(workers, _)| *workers == 1)?;
    if *single <= 0.0 || points.iter().any(|(workers, _)| *workers == 0) {
        return None;
    }
    Some(points.iter().map(|(workers, rate)| rate / (f64::from(*workers) * single)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    // Published by the study `apisix-envoy`: requests/s with 1, 2 and 3 workers.
    const APISIX: [(u32, f64); 3] = [(1, 18_608.4), (2, 34_975.8), (3, 52_334.8)];

    fn close(got: f64, expected: f64, within: f64) {
        assert!((got - expected).abs() <= within, "{got}, expected {expected}");
    }

    #[test]
    fn a_line_done_by_hand() {
        // x 1..5, y 2 4 5 4 5 gives y = 2.2 + 0.6 x, R^2 0.6.
        let fitted = line(&[(1.0, 2.0), (2.0, 4.0), (3.0, 5.0), (4.0, 4.0), (5.0, 5.0)]).unwrap();
        close(fitted.slope, 0.6, 1e-12);
        close(fitted.intercept, 2.2, 1e-12);
        close(fitted.r_squared, 0.6, 1e-12);
        // Unexplained 2.4 over 3 degrees of freedom: variance 0.8; slope error sqrt(0.8 / 10), intercept
        // error sqrt(0.8 * 1.1).
        close(fitted.slope_error.unwrap(), 0.08_f64.sqrt(), 1e-12);
        close(fitted.intercept_error.unwrap(), 0.88_f64.sqrt(), 1e-12);
        for (got, expected) in fitted.residuals.iter().zip([-0.8, 0.6, 1.0, -0.6, -0.2]) {
            close(*got, expected, 1e-12);
        }
    }

    #[test]
    fn the_published_workers_scale_almost_linearly() {
        let points: Vec<(f64, f64)> =
            APISIX.iter().map(|(workers, rate)| (f64::from(*workers), *rate)).collect();
        let fitted = line(&points).unwrap();
        close(fitted.slope, 16_863.2, 0.05);
        assert!(fitted.r_squared > 0.999 && fitted.r_squared < 1.0, "{}", fitted.r_squared);
        close(fitted.residuals.iter().sum::<f64>(), 0.0, 1e-6);
        let efficiency = efficiency(&APISIX).unwrap();
        close(efficiency[0], 1.0, 0.0);
        close(efficiency[1], 1.880 / 2.0, 0.0005);
        close(efficiency[2], 2.812 / 3.0, 0.0005);
    }

    #[test]
    fn two_points_fit_exactly_and_judge_nothing() {
        let fitted = line(&[(1.0, 3.0), (2.0, 5.0)]).unwrap();
        assert_eq!((fitted.intercept, fitted.slope, fitted.slope_error), (1.0, 2.0, None));
    }

    #[test]
    fn what_has_no_line() {
        assert_eq!(line(&[(1.0, 1.0)]), Err(FitError::TooFew));
        assert_eq!(line(&[(1.0, 1.0), (1.0, 2.0)]), Err(FitError::SameX));
        assert_eq!(line(&[(1.0, 1.0), (2.0, f64::NAN)]), Err(FitError::NotFinite));
        assert_eq!(efficiency(&[(2, 10.0), (4, 20.0)]), None);
        assert_eq!(efficiency(&[(1, 0.0), (2, 20.0)]), None);
    }
}
