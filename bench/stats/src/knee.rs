//! Finds the knee of a latency-against-rate curve: the last rate before latency starts to climb.
//!
//! The method follows Kneedle (Satopaa et al., "Finding a 'kneedle' in a haystack", 2011), for a curve that
//! rises and bends upwards: scale both axes to 0..1 and take the point farthest below the diagonal. Three
//! rules avoid false knees. The point lies within the measured range. It is well below the diagonal (a
//! straight line is not below it at all). Latency beyond it is well above latency before it (the noise of a
//! flat curve fills the scaled axis too).

use crate::median::median;

/// The least depth below the diagonal, in scaled units: a curve of latency ~ rate^2 has 0.25, a straight line
/// 0.
const DEPTH: f64 = 0.25;

/// The least ratio of the median latency beyond the knee to the median latency up to it.
const RISE: f64 = 1.5;

/// The point at which latency starts to climb.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Knee {
    /// The index of the point among the given points.
    pub index: usize,
    /// Its rate in requests/s.
    pub rate: f64,
    /// Its latency in the given unit.
    pub latency: f64,
    /// Its distance below the diagonal, 0.25..1: 1 is a right angle.
    pub depth: f64,
}

/// Returns the knee of `(rate, latency)` points in any order. `None` if there is none, if there are fewer
/// than five points, or if a coordinate is not finite. Points beyond saturation may repeat a rate (a higher
/// offered rate, but the same served rate).
pub fn knee(points: &[(f64, f64)]) -> Option<Knee> {
    if points.len() < 5 || !points.iter().all(|(rate, latency)| rate.is_finite() && latency.is_finite()) {
        return None;
    }
    let mut order: Vec<usize> = (0..points.len()).collect();
    order.sort_by(|a, b| points[*a].0.total_cmp(&points[*b].0).then(points[*a].1.total_cmp(&points[*b].1)));
    let (first, last) = (points[order[0]].0, points[order[order.len() - 1]].0);
    let low = points.iter().map(|point| point.1).fold(f64::INFINITY, f64::min);
    let high = points.iter().map(|point| point.1).fold(f64::NEG_INFINITY, f64::max);
    if last <= first || high <= low {
        return None;
    }
    let depth =
        |index: usize| (points[index].0 - first) / (last - first) - (points[index].1 - low) / (high - low);
    let place = (0..order.len()).max_by(|a, b| depth(order[*a]).total_cmp(&depth(order[*b])))?;
    let latencies =
        |places: &[usize]| median(&places.iter().map(|index| points[*index].1).collect::<Vec<_>>());
    // There are no points beyond the last one, so its median is `None`.
    let (before, beyond) = (latencies(&order[..=place])?, latencies(&order[place + 1..])?);
    let index = order[place];
    let found = place > 0 && depth(index) >= DEPTH && beyond >= RISE * before;
    found.then(|| Knee { index, rate: points[index].0, latency: points[index].1, depth: depth(index) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queue_bends_before_saturation() {
        // M/M/1 with 1 ms of service: latency 1 / (1 - load). Farthest from the diagonal of 0..0.95 is at 1 -
        // sqrt(0.05) = 0.78.
        let points: Vec<(f64, f64)> =
            (0..20).map(|i| f64::from(i) * 0.05).map(|load| (load * 1000.0, 1.0 / (1.0 - load))).collect();
        let found = knee(&points).unwrap();
        assert!((750.0..=800.0).contains(&found.rate), "{found:?}");
        assert!(found.depth > 0.5, "{found:?}");
    }

    #[test]
    fn a_cliff_has_its_knee_on_the_last_good_point() {
        let points = [(100.0, 1.0), (200.0, 1.0), (300.0, 1.1), (400.0, 1.2), (500.0, 1.4), (510.0, 2000.0)];
        let found = knee(&points).unwrap();
        assert_eq!((found.index, found.rate, found.latency), (4, 500.0, 1.4));
    }

    #[test]
    fn order_does_not_matter() {
        let points = [(510.0, 2000.0), (100.0, 1.0), (500.0, 1.4), (200.0, 1.0), (400.0, 1.2), (300.0, 1.1)];
        assert_eq!(knee(&points).unwrap().index, 2);
    }

    #[test]
    fn no_knee() {
        let straight: Vec<(f64, f64)> = (1..12).map(|i| (f64::from(i), 2.0 * f64::from(i))).collect();
        assert_eq!(knee(&straight), None, "straight");
        let flat = [(1.0, 1.00), (2.0, 1.02), (3.0, 0.99), (4.0, 1.01), (5.0, 1.0), (6.0, 1.02), (7.0, 1.01)];
        assert_eq!(knee(&flat), None, "flat with noise");
        let spike = [(1.0, 1.0), (2.0, 1.0), (3.0, 9.0), (4.0, 1.0), (5.0, 1.0), (6.0, 1.0)];
        assert_eq!(knee(&spike), None, "one spike");
        let early = [(1.0, 1.0), (2.0, 5.0), (3.0, 8.0), (4.0, 9.0), (5.0, 9.5), (6.0, 9.7)];
        assert_eq!(knee(&early), None, "bends the other way");
        assert_eq!(knee(&[(1.0, 1.0), (2.0, 1.0), (3.0, 1.0), (4.0, 100.0)]), None, "too few points");
        assert_eq!(
            knee(&[(1.0, 1.0), (2.0, 1.0), (3.0, f64::NAN), (4.0, 3.0), (5.0, 9.0)]),
            None,
            "not a number"
        );
        assert_eq!(knee(&[(1.0, 1.0); 6]), None, "one rate");
    }
}
