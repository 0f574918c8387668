//! Applies the laboratory's statistics to the content of a result file: typical values of rounds, ratios,
//! merged latencies.

use tollgate_lab_record::{Distribution, Summary};
use tollgate_lab_stats::bootstrap::{Bootstrap, Interval};
use tollgate_lab_stats::histogram::Histogram;
use tollgate_lab_stats::tie::{Noise, Order, compare};
use tollgate_lab_stats::{median, paired};

/// Points of a percentile curve for each halving of the distance to 100 %.
const CURVE_STEPS: u32 = 4;

/// Returns the median; `None` without values.
pub(crate) fn median(values: &[f64]) -> Option<f64> {
    median::median(values)
}

/// Returns a typical value of the rounds with its interval; `None` if no round has a value above 0.
pub(crate) fn interval(rounds: &[f64]) -> Option<Summary> {
    paired::usable_typical(rounds, &Bootstrap::default()).map(summary)
}

/// Returns the ratio over rounds in which both systems were measured; `None` if there are none.
pub(crate) fn paired_ratio(pairs: &[(f64, f64)]) -> Option<Summary> {
    paired::usable_ratio(pairs, &Bootstrap::default()).map(summary)
}

/// Returns the ratio of two runs that share no rounds.
pub(crate) fn unpaired_ratio(new: &[f64], old: &[f64]) -> Option<Summary> {
    Some(independent_ratio(interval(new)?, interval(old)?))
}

/// Returns the ratio of two independent estimates above 0. The logarithm of each has its own interval; the
/// half-widths add as squares.
pub(crate) fn independent_ratio(a: Summary, b: Summary) -> Summary {
    let estimate = (a.estimate / b.estimate).ln();
    let below = (a.estimate / a.low).ln().hypot((b.high / b.estimate).ln());
    let above = (a.high / a.estimate).ln().hypot((b.estimate / b.low).ln());
    Summary {
        estimate: estimate.exp(),
        low: (estimate - below).exp(),
        high: (estimate + above).exp(),
        rounds: a.rounds.min(b.rounds),
    }
}

/// Returns a ratio with its interval widened by a factor, on a logarithmic scale.
pub(crate) fn widened(ratio: Summary, factor: f64) -> Summary {
    let end = |end: f64| ratio.estimate * (end / ratio.estimate).powf(factor);
    Summary { low: end(ratio.low), high: end(ratio.high), ..ratio }
}

/// Returns whether a ratio is below 1, above 1, or within the noise that the A/A control shows. Without a
/// control, any interval that excludes 1 counts as a difference. Returns `None` with too few rounds for an
/// interval.
pub(crate) fn order(ratio: Summary, control: Option<Summary>) -> Option<Order> {
    if ratio.rounds < 2 || ratio.low >= ratio.high {
        return None;
    }
    let exact = Summary { estimate: 1.0, low: 1.0, high: 1.0, rounds: 1 };
    let noise = Noise::from_controls(&[as_interval(control.unwrap_or(exact))])?;
    Some(compare(&as_interval(ratio), &noise))
}

/// Converts a summary to the type of the statistics crate.
pub(crate) fn as_interval(summary: Summary) -> Interval {
    Interval {
        estimate: summary.estimate,
        low: summary.low,
        high: summary.high,
        level: level(summary.rounds),
        resamples: 0,
    }
}

/// Returns the probability that an interval over this number of rounds contains the true value: see
/// [`tollgate_lab_stats::bootstrap`].
pub(crate) fn level(rounds: u32) -> f64 {
    (1.0 - 2.0_f64.powi(1 - rounds.min(60) as i32)).min(0.95)
}

fn summary((interval, rounds): (Interval, u32)) -> Summary {
    Summary { estimate: interval.estimate, low: interval.low, high: interval.high, rounds }
}

/// Returns the mean over all requests of all rounds, in microseconds.
pub(crate) fn mean(rounds: &[&Distribution]) -> Option<f64> {
    let count: u64 = rounds.iter().map(|times| times.count).sum();
    if count == 0 {
        // Some tools report a mean but no count.
        return median(
            &rounds.iter().map(|times| times.mean_us).filter(|mean| *mean > 0.0).collect::<Vec<_>>(),
        );
    }
    Some(rounds.iter().map(|times| times.mean_us * times.count as f64).sum::<f64>() / count as f64)
}

/// Returns a percentile over all requests of all rounds, in microseconds, from the merged histograms. If a
/// tool reports percentiles only, returns the median over the rounds (percentiles are never averaged).
pub(crate) fn percentile(rounds: &[&Distribution], percent: f64) -> Option<f64> {
    match merged(rounds) {
        Some(all) => Some(all.percentile(percent) as f64 / 1e3),
        None => median(&rounds.iter().filter_map(|times| times.percentile(percent)).collect::<Vec<_>>()),
    }
}

/// Returns the whole percentile curve: percentile (0-100) and microseconds.
pub(crate) fn curve(rounds: &[&Distribution]) -> Vec<(f64, f64)> {
    if let Some(all) = merged(rounds) {
        return all.curve(CURVE_STEPS).into_iter().map(|(at, nanos)| (at, nanos as f64 / 1e3)).collect();
    }
    let Some(first) = rounds.first() else { return Vec::new() };
    let listed = first.percentiles.iter().map(|(at, _)| *at);
    listed.filter_map(|at| Some((at, percentile(rounds, at)?))).collect()
}

fn merged(rounds: &[&Distribution]) -> Option<Histogram> {
    let mut all = Histogram::new();
    for times in rounds {
        all.merge(&Histogram::decode(times.histogram.as_deref()?).ok()?);
    }
    (!all.is_empty()).then_some(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(nanos: &[u64], with_histogram: bool) -> Distribution {
        let mut histogram = Histogram::new();
        for nano in nanos {
            histogram.record(*nano);
        }
        Distribution {
            count: histogram.count(),
            mean_us: histogram.mean_us(),
            percentiles: vec![(50.0, histogram.percentile(50.0) as f64 / 1e3)],
            histogram: with_histogram.then(|| histogram.encode()),
            ..Default::default()
        }
    }

    #[test]
    fn histograms_are_merged_and_percentiles_are_not_averaged() {
        let (fast, slow) = (times(&[1000; 98], true), times(&[100_000; 2], true));
        let p50 = percentile(&[&fast, &slow], 50.0).unwrap();
        assert!((p50 - 1.0).abs() < 0.01, "{p50}: the average of 1 and 100 would be 50.5");
        let p99 = percentile(&[&fast, &slow], 99.0).unwrap();
        assert!((p99 - 100.0).abs() < 0.2, "{p99}");
        let all = mean(&[&fast, &slow]).unwrap();
        assert!((all - 2.98).abs() < 0.02, "{all}");
    }

    #[test]
    fn a_tool_without_histograms_gives_the_median_of_its_rounds() {
        let rounds = [times(&[1000], false), times(&[2000], false), times(&[90_000], false)];
        let p50 = percentile(&rounds.iter().collect::<Vec<_>>(), 50.0).unwrap();
        assert!((p50 - 2.0).abs() < 0.01, "{p50}");
        assert_eq!(curve(&rounds.iter().collect::<Vec<_>>()).len(), 1);
        assert_eq!(percentile(&[], 50.0), None);
    }

    #[test]
    fn an_unpaired_ratio_is_wider_than_either_side() {
        let new = [10.0, 10.2, 9.9, 10.1, 10.0, 10.05];
        let old = [20.0, 20.6, 19.7, 20.1, 20.2, 19.9];
        let ratio = unpaired_ratio(&new, &old).unwrap();
        assert!((ratio.estimate - 0.5).abs() < 0.01);
        let one = interval(&old).unwrap();
        assert!(ratio.high / ratio.low >= one.high / one.low);
        assert_eq!(unpaired_ratio(&[], &old), None);
    }

    #[test]
    fn few_rounds_promise_less() {
        assert_eq!(level(1), 0.0);
        assert_eq!(level(4), 0.875);
        assert_eq!(level(6), 0.95);
    }
}
