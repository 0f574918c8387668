//! Percentiles from a histogram's buckets.

use serde::{Deserialize, Serialize};

use crate::{BUCKETS, HistogramSnapshot};

/// The upper bound of the first bucket, in seconds. Each bound is twice the previous one; the last bucket has
/// none.
const FIRST: f64 = 1e-4;

/// A latency distribution: a histogram and its percentiles.
///
/// A percentile is interpolated within its bucket, as in Prometheus, so its error is the width of the bucket:
/// a factor of two at most. In the last bucket, which has no upper bound, it is the lower bound.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Latency {
    /// Number of observations.
    pub count: u64,
    /// Sum of the observations, in seconds.
    pub sum: f64,
    /// Observations per bucket (not cumulative): at most 100 us, 200 us, ... 104.9 s, and longer.
    pub buckets: Vec<u64>,
    /// The 50th percentile, in seconds; `None`: no observations.
    pub p50: Option<f64>,
    /// The 90th percentile, in seconds.
    pub p90: Option<f64>,
    /// The 99th percentile, in seconds.
    pub p99: Option<f64>,
}

impl Latency {
    pub(crate) fn new(histogram: &HistogramSnapshot) -> Self {
        Self::of(histogram.counts.to_vec(), histogram.seconds())
    }

    fn of(buckets: Vec<u64>, sum: f64) -> Self {
        let count = buckets.iter().sum();
        let at = |part| percentile(&buckets, count, part);
        Self { count, sum, p50: at(0.5), p90: at(0.9), p99: at(0.99), buckets }
    }

    /// Returns the observations since an earlier reading of the same histogram.
    #[must_use]
    pub fn since(&self, before: &Latency) -> Latency {
        let earlier = before.buckets.iter().copied().chain(std::iter::repeat(0));
        let buckets = self.buckets.iter().zip(earlier).map(|(now, then)| now.saturating_sub(then)).collect();
        Latency::of(buckets, (self.sum - before.sum).max(0.0))
    }
}

/// Returns the value below which the fraction `part` of all observations lies.
pub(super) fn percentile(buckets: &[u64], count: u64, part: f64) -> Option<f64> {
    if count == 0 {
        return None;
    }
    let rank = part * count as f64;
    let mut below = 0.0;
    for (index, &inside) in buckets.iter().enumerate() {
        let inside = inside as f64;
        if inside > 0.0 && below + inside >= rank {
            let upper = FIRST * f64::from(1_u32 << index.min(BUCKETS));
            let lower = if index == 0 { 0.0 } else { upper / 2.0 };
            let seconds = match index {
                BUCKETS.. => lower,
                _ => lower + (upper - lower) * (rank - below) / inside,
            };
            // Round to the microsecond: the bucket is wider.
            return Some((seconds * 1e6).round() / 1e6);
        }
        below += inside;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn latency(counts: &[(usize, u64)]) -> Latency {
        let mut histogram = HistogramSnapshot::default();
        for (bucket, count) in counts {
            histogram.counts[*bucket] = *count;
        }
        Latency::new(&histogram)
    }

    #[test]
    fn percentiles_lie_within_their_buckets() {
        let near = |value: Option<f64>, expected: f64| {
            let value = value.expect("known");
            assert!((value - expected).abs() < 1e-9, "{value}, not {expected}");
        };
        // 100 observations between 0 and 100 us, assumed to be evenly spread.
        let one = latency(&[(0, 100)]);
        near(one.p50, 50e-6);
        near(one.p99, 99e-6);
        // The 90th of 100 is the last one below 200 us; the 99th lies in the bucket of 0.8 to 1.6 ms.
        let two = latency(&[(1, 90), (4, 10)]);
        near(two.p90, 200e-6);
        near(two.p99, 800e-6 + 800e-6 * 0.9);
        near(latency(&[(BUCKETS, 3)]).p50, 104.8576);
    }

    #[test]
    fn an_empty_histogram_has_no_percentile() {
        assert_eq!((latency(&[]).p50, latency(&[]).count), (None, 0));
    }

    #[test]
    fn counts_since_the_last_reading() {
        let (then, now) = (latency(&[(0, 100)]), latency(&[(0, 100), (7, 5)]));
        let between = now.since(&then);
        assert_eq!(between.count, 5);
        assert!(between.p50.is_some_and(|value| (0.0064..=0.0128).contains(&value)), "{between:?}");
        assert_eq!(now.since(&Latency::default()).count, 105);
    }
}
