//! A 95 % interval from few rounds, by the double-or-nothing bootstrap.
//!
//! Each resample includes every round twice or not at all, by the toss of a fair coin, and takes the centre
//! of the included rounds. The interval runs between percentiles of these centres. This is the half-sampling
//! of McCarthy ("Pseudo-replication", 1969), named double-or-nothing by Owen and Eckles ("Bootstrapping data
//! arrays of arbitrary order", 2012).
//!
//! **Why this method.** The usual bootstrap draws n of n rounds with replacement, and its percentile interval
//! is too narrow for few rounds. For half-sampling, Hartigan proved ("Using subsample values as typical
//! values", 1969) that the 2^n - 1 subset means cut the line into 2^n pieces, each of which contains the true
//! centre equally often. This holds at any n, for any noise that is symmetric about the centre, however heavy
//! its tails. Maritz extended it to M-estimators ("A note on exact robust confidence intervals for location",
//! 1979). The table in `tests/coverage.rs` shows the coverage in practice.
//!
//! **Rejected methods.** Coverage in per cent and median width in per cent of the ratio, in 2,000 trials of
//! the noises in `tests/coverage.rs`:
//!
//! | rounds, noise | percentiles of the mean | percentiles of the median | studentised (bootstrap-t) | this |
//! |---|---|---|---|---|
//! | 7, log-normal | 86.7, 3.6 | 87.4, 4.1 | 94.7, 5.6 | 95.1, 5.2 |
//! | 7, outliers | 85.2, 8.0 | 88.1, 5.4 | 93.8, 13.9 | 94.7, 8.8 |
//! | 10, outliers | 88.6, 8.1 | 94.1, 5.6 | 91.8, 12.5 | 94.8, 6.0 |
//! | 20, outliers | 89.7, 6.9 | 93.7, 3.6 | 88.1, 8.6 | 95.1, 3.9 |
//!
//! **Assumptions.** Rounds are independent, and the noise is symmetric. That is true of the logarithm of a
//! ratio if disturbances affect both systems alike. If only one of the two is disturbed, the centre itself
//! moves towards the disturbance (the cut of [`crate::centre`] bounds how far), and the interval covers less
//! often; `tests/coverage.rs` tests that too. With n rounds no interval can reach a level above 1 - 2^(1-n):
//! [`Interval::level`] is the level that is really reached, 0.875 for 4 rounds.

use rand_pcg::Pcg64;
use rand_pcg::rand_core::Rng;

use crate::centre::Huber;
use crate::median::{at_position, sorted};

/// A factor on the probability outside the interval. The theorem is exact for a known cut; here the cut is
/// estimated from the same rounds, which cost 0.3 to 0.8 points of coverage in 10,000 trials at 7 to 30
/// rounds. A reduction by a tenth compensates for it.
const CALIBRATION: f64 = 0.9;

/// An estimate and the range that contains the true value with the stated probability. Always `low <=
/// estimate <= high`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interval {
    /// The best single figure, in the unit of the values.
    pub estimate: f64,
    /// The lower end, in the same unit.
    pub low: f64,
    /// The upper end, in the same unit.
    pub high: f64,
    /// The probability of the interval, in 0..1. Lower than the requested level if there are too few rounds
    /// for it.
    pub level: f64,
    /// The number of resamples behind the ends; 2^n - 1 means that every subset was used and chance had no
    /// influence.
    pub resamples: usize,
}

impl Interval {
    /// Returns the interval of an increasing function of the value: `exp` for logarithms, a factor above 0
    /// for another unit.
    pub fn map(self, grows: impl Fn(f64) -> f64) -> Self {
        Self { estimate: grows(self.estimate), low: grows(self.low), high: grows(self.high), ..self }
    }

    /// Returns whether the value lies within the interval, ends included.
    pub fn contains(&self, value: f64) -> bool {
        self.low <= value && value <= self.high
    }
}

/// The parameters of the bootstrap.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bootstrap {
    /// The requested probability, in 0..1.
    pub level: f64,
    /// The highest number of resamples, at least 1. If there are no more than this many subsets (2^n - 1),
    /// each subset is used once instead.
    pub resamples: usize,
    /// The seed of the coin: PCG-64 (XSL RR 128/64), whose sequence is fixed by its definition.
    pub seed: u64,
}

impl Default for Bootstrap {
    /// 95 %, 2,047 resamples (every subset of up to 11 rounds), seed 1.
    fn default() -> Self {
        Self { level: 0.95, resamples: 2_047, seed: 1 }
    }
}

impl Bootstrap {
    /// Returns the interval of the centre ([`crate::centre`]) of independent values. `None` if there are no
    /// values or one is not finite.
    pub fn centre(&self, values: &[f64]) -> Option<Interval> {
        let huber = Huber::for_values(values)?;
        let ordered = sorted(values)?;
        let estimate = huber.centre_of_sorted(&ordered);
        let mut kept = Vec::with_capacity(ordered.len());
        let mut centres: Vec<f64> = Vec::with_capacity(self.resamples);
        for subset in self.subsets(ordered.len()) {
            subset.pick(&ordered, &mut kept);
            centres.push(huber.centre_of_sorted(&kept));
        }
        centres.sort_by(f64::total_cmp);
        let gaps = (centres.len() + 1) as f64;
        // The centres cut the line into `gaps` pieces; excluding `rank` of them on each side gives the level
        // 1 - 2 rank / gaps.
        let wanted = gaps * (1.0 - self.level) / 2.0 * CALIBRATION;
        let rank = wanted.clamp(1.0, gaps / 2.0);
        Some(Interval {
            estimate,
            low: at_position(&centres, rank - 1.0).min(estimate),
            high: at_position(&centres, gaps - rank - 1.0).max(estimate),
            level: if wanted < 1.0 { 1.0 - 2.0 * rank / gaps } else { self.level },
            resamples: centres.len(),
        })
    }

    fn subsets(&self, count: usize) -> Vec<Subset> {
        let limit = self.resamples.max(1) as u64;
        if count < 64 && (1u64 << count) - 1 <= limit {
            return (1..1u64 << count).map(|kept| Subset(vec![kept])).collect();
        }
        let mut coin = Pcg64::new(u128::from(self.seed), 0);
        (0..limit).map(|_| Subset::toss(&mut coin, count)).collect()
    }
}

/// The values that a resample keeps: one bit each, 64 in a word.
struct Subset(Vec<u64>);

impl Subset {
    fn toss(coin: &mut Pcg64, count: usize) -> Self {
        let past_the_end = (64 - count % 64) % 64;
        loop {
            let mut kept: Vec<u64> = (0..count.div_ceil(64)).map(|_| coin.next_u64()).collect();
            if let Some(last) = kept.last_mut() {
                *last &= u64::MAX >> past_the_end;
            }
            // An empty resample has no centre.
            if kept.iter().any(|word| *word != 0) {
                return Self(kept);
            }
        }
    }

    /// Fills `kept` with the values that this resample keeps, in order.
    fn pick(&self, ordered: &[f64], kept: &mut Vec<f64>) {
        kept.clear();
        for (values, word) in ordered.chunks(64).zip(&self.0) {
            let chosen = values.iter().enumerate().filter(|(bit, _)| word >> bit & 1 == 1);
            kept.extend(chosen.map(|(_, value)| *value));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_rounds_try_every_subset_and_promise_less() {
        let four = Bootstrap::default().centre(&[1.0, 2.0, 3.0, 4.0]).unwrap();
        assert_eq!((four.resamples, four.level), (15, 0.875));
        assert_eq!((four.low, four.high), (1.0, 4.0));
        let seven = Bootstrap::default().centre(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0]).unwrap();
        assert_eq!((seven.resamples, seven.level), (127, 0.95));
        assert!(seven.low > 1.0 && seven.high < 7.0, "{seven:?}");
    }

    #[test]
    fn one_round_promises_nothing() {
        let one = Bootstrap::default().centre(&[5.0]).unwrap();
        assert_eq!((one.estimate, one.low, one.high, one.level), (5.0, 5.0, 5.0, 0.0));
    }

    #[test]
    fn more_rounds_narrow_the_interval() {
        let wave = |count: u32| -> Vec<f64> { (0..count).map(|i| (f64::from(i) * 2.4).sin()).collect() };
        let width = |count| {
            let interval = Bootstrap::default().centre(&wave(count)).unwrap();
            interval.high - interval.low
        };
        assert!(width(80) < 0.6 * width(20), "{} and {}", width(80), width(20));
    }

    #[test]
    fn same_seed_same_interval_other_seed_another() {
        let values: Vec<f64> = (0..20).map(|i| f64::from(i * i)).collect();
        let with = |seed| Bootstrap { seed, ..Bootstrap::default() }.centre(&values).unwrap();
        assert_eq!(with(7), with(7));
        assert_ne!(with(7), with(8));
    }

    #[test]
    fn the_coin_never_changes() {
        // A published result names its seed: a new version of the generator must not change the sequence.
        let mut coin = Pcg64::new(1, 0);
        let words = [coin.next_u64(), coin.next_u64()];
        // Computed from the definition (O'Neill 2014): state 1, stream 0, multiplier
        // 0x2360ed051fc65da44385df649fccf645.
        assert_eq!(words, [8_166_798_131_594_814_449, 501_888_437_550_476_719]);
    }

    #[test]
    fn all_words_of_a_long_subset_are_used() {
        let mut coin = Pcg64::new(3, 0);
        let values: Vec<f64> = (0..130).map(f64::from).collect();
        let mut picked = Vec::new();
        Subset::toss(&mut coin, 130).pick(&values, &mut picked);
        assert!(picked.len() > 40 && picked.len() < 90, "{}", picked.len());
        assert!(picked.iter().any(|v| *v < 64.0) && picked.iter().any(|v| (64.0..128.0).contains(v)));
    }

    #[test]
    fn not_finite_no_interval() {
        assert_eq!(Bootstrap::default().centre(&[]), None);
        assert_eq!(Bootstrap::default().centre(&[1.0, f64::NAN, 2.0]), None);
    }
}
