//! Histograms of durations, with buckets of doubling width.

use std::time::Duration;

use super::counter::Counter;

/// Number of finite buckets. Their upper bounds are 100 us, 200 us, ... each twice the previous one, up to
/// 104.9 s, so that the default timeouts of 60 s fall inside. One further bucket counts longer durations.
pub const BUCKETS: usize = 21;

const FIRST_NANOS: u64 = 100_000;

/// A histogram that one thread writes.
#[derive(Debug, Default)]
pub(super) struct Histogram {
    counts: [Counter; BUCKETS + 1],
    nanos: Counter,
}

impl Histogram {
    #[inline]
    pub(super) fn observe(&self, duration: Duration) {
        let nanos =
            duration.as_secs().saturating_mul(1_000_000_000).saturating_add(duration.subsec_nanos().into());
        self.counts[bucket(nanos)].increment();
        self.nanos.add(nanos);
    }

    pub(super) fn add_to(&self, sum: &mut HistogramSnapshot) {
        for (total, count) in sum.counts.iter_mut().zip(&self.counts) {
            *total += count.get();
        }
        sum.nanos = sum.nanos.wrapping_add(self.nanos.get());
    }
}

/// Returns the least bucket `k` with `nanos <= 100_000 * 2^k`. Because the bounds double, it is the bit
/// length of `(nanos - 1) / 100_000`: a multiplication and a count of leading zeros, no search.
#[inline]
fn bucket(nanos: u64) -> usize {
    let quotient = nanos.saturating_sub(1) / FIRST_NANOS;
    let length = (u64::BITS - quotient.leading_zeros()) as usize;
    length.min(BUCKETS)
}

/// A histogram at one moment, added up over the workers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HistogramSnapshot {
    /// Durations in each bucket (not cumulative); the last bucket has no upper bound.
    pub counts: [u64; BUCKETS + 1],
    /// Sum of all durations, in nanoseconds.
    pub nanos: u64,
}

impl HistogramSnapshot {
    /// Adds the counts of another histogram.
    pub(crate) fn add(&mut self, other: &HistogramSnapshot) {
        for (sum, count) in self.counts.iter_mut().zip(other.counts) {
            *sum += count;
        }
        self.nanos = self.nanos.wrapping_add(other.nanos);
    }

    /// Returns the number of durations.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Returns the sum of all durations, in seconds.
    #[must_use]
    pub fn seconds(&self) -> f64 {
        self.nanos as f64 / 1e9
    }

    /// Returns the upper bound of each bucket in seconds, with its count.
    #[must_use]
    pub fn buckets(&self) -> [(f64, u64); BUCKETS + 1] {
        std::array::from_fn(|index| {
            let bound = match index {
                BUCKETS => f64::INFINITY,
                // Divide a whole number, so that the bound prints as 0.0002 and not as
                // 0.00019999999999999998.
                _ => ((FIRST_NANOS / 1_000) << index) as f64 / 1e6,
            };
            (bound, self.counts[index])
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bound_belongs_to_its_bucket_and_what_follows_to_the_next() {
        assert_eq!(bucket(0), 0);
        for index in 0..BUCKETS {
            let bound = FIRST_NANOS << index;
            assert_eq!(bucket(bound - 1), index);
            assert_eq!(bucket(bound), index);
            assert_eq!(bucket(bound + 1), index + 1);
        }
        assert_eq!(bucket(u64::MAX), BUCKETS);
    }

    #[test]
    fn a_minute_has_a_finite_bucket() {
        assert!(bucket(60_000_000_000) < BUCKETS);
    }

    #[test]
    fn bounds_print_short() {
        let bounds = HistogramSnapshot::default().buckets().map(|(bound, _)| bound.to_string());
        assert_eq!(bounds[..4], ["0.0001", "0.0002", "0.0004", "0.0008"]);
        assert_eq!(bounds[BUCKETS - 1..], ["104.8576", "inf"]);
    }

    #[test]
    fn sums_and_counts() {
        let histogram = Histogram::default();
        for millis in [1, 1, 70_000, 200_000] {
            histogram.observe(Duration::from_millis(millis));
        }
        histogram.observe(Duration::MAX);
        let mut sum = HistogramSnapshot::default();
        histogram.add_to(&mut sum);
        assert_eq!(sum.count(), 5);
        assert_eq!((sum.counts[4], sum.counts[BUCKETS - 1], sum.counts[BUCKETS]), (2, 1, 2));
    }
}
