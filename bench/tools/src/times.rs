//! Builds distributions from counted times.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Serializer, V2DeflateSerializer};
use std::collections::BTreeMap;
use tollgate_lab_record::Distribution;

/// Times and how often each occurred.
#[derive(Debug, Clone, Default)]
pub(crate) struct Times {
    counts: BTreeMap<u64, u64>,
    total: u64,
}

/// The percentiles that are listed for a whole histogram.
const PERCENTILES: [f64; 8] = [50.0, 75.0, 90.0, 95.0, 99.0, 99.9, 99.99, 99.999];

impl Times {
    /// Adds a time in microseconds, `times` times.
    pub(crate) fn add(&mut self, us: u64, times: u64) {
        let count = self.counts.entry(us).or_default();
        *count = count.saturating_add(times);
        self.total = self.total.saturating_add(times);
    }

    /// Returns the smallest recorded time that at least this percentage of the times do not exceed; `None`
    /// without times.
    pub(crate) fn percentile(&self, percentile: f64) -> Option<f64> {
        let wanted = (self.total as f64 * percentile / 100.0).ceil().max(1.0);
        let mut seen = 0u64;
        for (us, count) in &self.counts {
            seen = seen.saturating_add(*count);
            if seen as f64 >= wanted {
                return Some(*us as f64);
            }
        }
        None
    }

    /// Returns the distribution with its histogram; `None` without times.
    pub(crate) fn distribution(&self) -> Option<Distribution> {
        if self.total == 0 {
            return None;
        }
        let total = self.total as f64;
        let mean = self.counts.iter().map(|(us, count)| *us as f64 * *count as f64).sum::<f64>() / total;
        let variance =
            self.counts.iter().map(|(us, count)| (*us as f64 - mean).powi(2) * *count as f64).sum::<f64>()
                / total;
        Some(Distribution {
            count: self.total,
            mean_us: mean,
            stdev_us: Some(variance.sqrt()),
            min_us: self.counts.keys().next().map(|us| *us as f64),
            max_us: self.counts.keys().next_back().map(|us| *us as f64),
            percentiles: PERCENTILES.iter().filter_map(|at| Some((*at, self.percentile(*at)?))).collect(),
            histogram: self.histogram(),
        })
    }

    /// Returns `None` if a time is too long for a histogram of nanoseconds.
    fn histogram(&self) -> Option<String> {
        let mut histogram = Histogram::<u64>::new_with_bounds(1, 3_600_000_000_000, 3).ok()?;
        for (us, count) in &self.counts {
            histogram.record_n(us.saturating_mul(1000), *count).ok()?;
        }
        let mut bytes = Vec::new();
        V2DeflateSerializer::new().serialize(&histogram, &mut bytes).ok()?;
        Some(STANDARD.encode(bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hdrhistogram::serialization::Deserializer;

    #[test]
    fn figures_are_exact_and_the_histogram_holds_the_same_times() {
        let mut times = Times::default();
        assert_eq!(times.distribution(), None);
        times.add(100, 98);
        times.add(1_000, 1);
        times.add(5_000, 1);
        let reported = times.distribution().unwrap();
        assert_eq!((reported.count, reported.mean_us), (100, 158.0));
        assert_eq!((reported.min_us, reported.max_us), (Some(100.0), Some(5_000.0)));
        assert_eq!(reported.percentile(50.0), Some(100.0));
        assert_eq!(reported.percentile(99.0), Some(1_000.0));
        assert_eq!(reported.percentile(99.9), Some(5_000.0));
        assert!((reported.stdev_us.unwrap() - 494.8).abs() < 0.1);
        let bytes = STANDARD.decode(reported.histogram.unwrap()).unwrap();
        let histogram: Histogram<u64> = Deserializer::new().deserialize(&mut &bytes[..]).unwrap();
        assert_eq!(histogram.len(), 100);
        assert!(histogram.equivalent(histogram.value_at_quantile(0.5), 100_000));
    }

    #[test]
    fn a_time_beyond_all_sense_leaves_the_histogram_out() {
        let mut times = Times::default();
        times.add(u64::MAX, u64::MAX);
        times.add(1, 5);
        let reported = times.distribution().unwrap();
        assert_eq!((reported.histogram, reported.count), (None, u64::MAX));
    }
}
