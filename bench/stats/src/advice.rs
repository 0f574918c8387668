//! Derives a size from a quota sweep: the smallest CPU limit, and the workers, that carry a target rate.

use std::fmt;

/// One measured setting.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// CPU limit in cores.
    pub cpu_limit: f64,
    /// Worker processes or threads.
    pub workers: u32,
    /// The highest rate that it carried, in requests/s.
    pub max_rps: f64,
}

/// A setting that carries the target rate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Advice {
    /// CPU limit in cores.
    pub cpu_limit: f64,
    /// Worker processes or threads.
    pub workers: u32,
    /// The source of the limit.
    pub basis: Basis,
}

/// The source of an advice. Limits are never extrapolated.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Basis {
    /// This limit was measured and carried this rate. If it is the smallest limit of the sweep, it may be
    /// larger than the target needs.
    Measured {
        /// The rate in requests/s.
        max_rps: f64,
    },
    /// On the straight line between two measured limits with the same workers.
    Interpolated {
        /// The lower limit, which carried less than the target.
        below: Point,
        /// The higher limit, which carried more.
        above: Point,
    },
}

/// Why there is no advice.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum NoAdvice {
    /// The sweep has no points.
    NothingMeasured,
    /// The target rate or a value of a point is not a finite number above 0.
    NotPositive {
        /// The number found.
        found: f64,
    },
    /// The target exceeds everything that was measured. An extrapolated line would ignore what saturates
    /// next.
    BeyondMeasured {
        /// The target rate in requests/s.
        target: f64,
        /// The point with the highest rate.
        best: Point,
    },
}

impl fmt::Display for NoAdvice {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NothingMeasured => write!(out, "no advice: the sweep has no points"),
            Self::NotPositive { found } => {
                write!(out, "no advice: expected rates and limits above 0, found {found}")
            }
            Self::BeyondMeasured { target, best } => write!(
                out,
                "no advice for {target:.0} requests/s: the most that was measured is {:.0} at {} cores with {} workers; \
                 sweep higher limits, or split the rate over several instances",
                best.max_rps, best.cpu_limit, best.workers
            ),
        }
    }
}

impl std::error::Error for NoAdvice {}

/// Returns the smallest CPU limit that carries `target` requests/s, and the workers to run it with. Of equal
/// limits, the one with fewer workers wins.
///
/// For each number of workers, straight lines join the points. If a limit carried less than a smaller limit did, its
/// rate is raised to the smaller limit's rate: more quota does not slow a gateway, so the dip is noise. Of repeated
/// measurements of a setting the lowest rate counts, to be on the safe side.
///
/// # Errors
/// If there are no points, a number is not above 0, or the target exceeds what was measured.
pub fn advise(points: &[Point], target: f64) -> Result<Advice, NoAdvice> {
    let numbers = points.iter().flat_map(|point| [point.cpu_limit, point.max_rps]).chain([target]);
    if let Some(found) = numbers.into_iter().find(|number| !(number.is_finite() && *number > 0.0)) {
        return Err(NoAdvice::NotPositive { found });
    }
    let best =
        points.iter().max_by(|a, b| a.max_rps.total_cmp(&b.max_rps)).ok_or(NoAdvice::NothingMeasured)?;
    let mut workers: Vec<u32> = points.iter().map(|point| point.workers).collect();
    workers.sort_unstable();
    workers.dedup();
    workers
        .into_iter()
        .filter_map(|count| smallest(&curve(points, count), target))
        // `min_by` keeps the first of equals: the fewer workers.
        .min_by(|a, b| a.cpu_limit.total_cmp(&b.cpu_limit))
        .ok_or(NoAdvice::BeyondMeasured { target, best: *best })
}

/// Returns the points of one number of workers by ascending limit, one for each limit, with rates that never
/// fall.
fn curve(points: &[Point], workers: u32) -> Vec<Point> {
    let mut curve: Vec<Point> = points.iter().filter(|point| point.workers == workers).copied().collect();
    curve.sort_by(|a, b| a.cpu_limit.total_cmp(&b.cpu_limit).then(a.max_rps.total_cmp(&b.max_rps)));
    curve.dedup_by(|next, kept| next.cpu_limit == kept.cpu_limit);
    let mut highest = 0.0_f64;
    for point in &mut curve {
        highest = highest.max(point.max_rps);
        point.max_rps = highest;
    }
    curve
}

fn smallest(curve: &[Point], target: f64) -> Option<Advice> {
    let place = curve.iter().position(|point| point.max_rps >= target)?;
    let above = curve[place];
    if place == 0 || above.max_rps == target {
        let basis = Basis::Measured { max_rps: above.max_rps };
        return Some(Advice { cpu_limit: above.cpu_limit, workers: above.workers, basis });
    }
    let below = curve[place - 1];
    let part = (target - below.max_rps) / (above.max_rps - below.max_rps);
    let cpu_limit = below.cpu_limit + part * (above.cpu_limit - below.cpu_limit);
    Some(Advice { cpu_limit, workers: above.workers, basis: Basis::Interpolated { below, above } })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(cpu_limit: f64, workers: u32, max_rps: f64) -> Point {
        Point { cpu_limit, workers, max_rps }
    }

    fn sweep() -> Vec<Point> {
        vec![
            point(0.25, 1, 5_000.0),
            point(0.5, 1, 10_500.0),
            point(1.0, 1, 20_000.0),
            point(2.0, 1, 20_100.0),
            point(0.5, 2, 9_000.0),
            point(1.0, 2, 19_000.0),
            point(2.0, 2, 39_000.0),
        ]
    }

    #[test]
    fn between_two_limits_it_interpolates() {
        let advice = advise(&sweep(), 15_250.0).unwrap();
        assert_eq!((advice.cpu_limit, advice.workers), (0.75, 1));
        let Basis::Interpolated { below, above } = advice.basis else { panic!("{advice:?}") };
        assert_eq!((below.cpu_limit, above.cpu_limit), (0.5, 1.0));
    }

    #[test]
    fn a_rate_that_one_worker_cannot_carry_takes_two() {
        let advice = advise(&sweep(), 29_000.0).unwrap();
        assert_eq!((advice.cpu_limit, advice.workers), (1.5, 2));
    }

    #[test]
    fn a_measured_limit_is_called_measured() {
        let exact = advise(&sweep(), 20_000.0).unwrap();
        assert_eq!((exact.cpu_limit, exact.basis), (1.0, Basis::Measured { max_rps: 20_000.0 }));
        let below_all = advise(&sweep(), 100.0).unwrap();
        assert_eq!((below_all.cpu_limit, below_all.basis), (0.25, Basis::Measured { max_rps: 5_000.0 }));
    }

    #[test]
    fn beyond_the_sweep_it_refuses_and_says_what_to_do() {
        let refused = advise(&sweep(), 50_000.0).unwrap_err();
        assert_eq!(refused, NoAdvice::BeyondMeasured { target: 50_000.0, best: point(2.0, 2, 39_000.0) });
        assert!(refused.to_string().contains("39000 at 2 cores with 2 workers"), "{refused}");
    }

    #[test]
    fn equal_limits_take_fewer_workers() {
        let advice = advise(&[point(1.0, 4, 10.0), point(1.0, 2, 10.0)], 10.0).unwrap();
        assert_eq!(advice.workers, 2);
    }

    #[test]
    fn a_dip_is_noise_and_a_repeat_counts_by_its_lowest() {
        let dip = [point(0.5, 1, 10.0), point(1.0, 1, 9.0), point(2.0, 1, 20.0)];
        assert_eq!(advise(&dip, 15.0).unwrap().cpu_limit, 1.5);
        let repeat = [point(1.0, 1, 12.0), point(1.0, 1, 10.0), point(2.0, 1, 20.0)];
        assert!(advise(&repeat, 11.0).unwrap().cpu_limit > 1.0);
    }

    #[test]
    fn what_cannot_be_answered() {
        assert_eq!(advise(&[], 1.0), Err(NoAdvice::NothingMeasured));
        assert_eq!(advise(&sweep(), 0.0), Err(NoAdvice::NotPositive { found: 0.0 }));
        assert!(matches!(advise(&[point(1.0, 1, f64::NAN)], 1.0), Err(NoAdvice::NotPositive { .. })));
    }
}
