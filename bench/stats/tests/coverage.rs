//! Tests how often the 95 % interval of a paired ratio contains the true value, in 1,000 seeded trials:
//! between 93 and 97 %.
//!
//! Each trial draws rounds of two systems' costs whose true ratio is known. A disturbance of the round
//! (log-normal, 10 %) affects both; each measurement has its own noise. 10,000 trials with
//! each of the kinds of noise below gave (per cent):
//!
//! | rounds | 4 | 5 | 6 | 7 | 8 | 10 | 12 | 15 | 20 | 30 |
//! |---|---|---|---|---|---|---|---|---|---|---|
//! | log-normal | 86.9 | 93.4 | 95.9 | 95.1 | 95.3 | 94.8 | 94.9 | 95.0 | 95.0 | 95.2 |
//! | outliers | 87.7 | 93.9 | 96.1 | 95.3 | 95.5 | 95.0 | 94.9 | 94.7 | 94.8 | 95.0 |
//! | heavy tails | 87.4 | 93.7 | 95.9 | 95.4 | 95.1 | 94.9 | 94.9 | 95.0 | 94.9 | 95.3 |
//! | outliers in one system only | 87.2 | 93.3 | 95.5 | 94.1 | 93.9 | 93.0 | 92.4 | 91.9 | 90.8 | 88.7 |
//!
//! With 4 and 5 rounds the interval itself reports a level of 87.5 and 93.75 %.

use rand_pcg::Pcg64;
use rand_pcg::rand_core::Rng;
use tollgate_lab_stats::bootstrap::{Bootstrap, Interval};
use tollgate_lab_stats::paired::ratio;
use tollgate_lab_stats::tie::{Noise, Order, compare};

const TRIALS: usize = 1_000;

/// Random numbers for synthetic rounds.
struct Chance(Pcg64);

impl Chance {
    fn new(seed: usize) -> Self {
        Self(Pcg64::new(seed as u128, 77))
    }

    /// Returns a uniform number in 0..1, both ends excluded.
    fn uniform(&mut self) -> f64 {
        ((self.0.next_u64() >> 12) as f64 + 0.5) / (1u64 << 52) as f64
    }

    /// Returns a standard normal number, by Box and Muller.
    fn normal(&mut self) -> f64 {
        (-2.0 * self.uniform().ln()).sqrt() * (std::f64::consts::TAU * self.uniform()).cos()
    }
}

/// A function that returns the logarithm of one measurement's noise.
type Law = fn(&mut Chance) -> f64;

fn log_normal(chance: &mut Chance) -> f64 {
    0.02 * chance.normal()
}

/// One measurement in ten is disturbed: up to some 40 % slower, never faster.
fn disturbed(chance: &mut Chance) -> f64 {
    let outlier = if chance.uniform() < 0.1 { 0.2 * chance.normal().abs() } else { 0.0 };
    log_normal(chance) + outlier
}

/// Student's t with 2 degrees of freedom, whose variance is infinite.
fn heavy_tailed(chance: &mut Chance) -> f64 {
    let halves = (chance.normal().powi(2) + chance.normal().powi(2)) / 2.0;
    0.02 * chance.normal() / halves.sqrt()
}

fn rounds(chance: &mut Chance, count: usize, truth: f64, of_a: Law, of_b: Law) -> Vec<(f64, f64)> {
    (0..count)
        .map(|_| {
            let weather = (0.1 * chance.normal()).exp();
            (25.0 * truth * weather * of_a(chance).exp(), 25.0 * weather * of_b(chance).exp())
        })
        .collect()
}

fn interval(seed: usize, count: usize, truth: f64, of_a: Law, of_b: Law) -> Interval {
    let mut chance = Chance::new(seed);
    let rounds = rounds(&mut chance, count, truth, of_a, of_b);
    ratio(&rounds, &Bootstrap { seed: seed as u64, ..Bootstrap::default() }).unwrap()
}

fn coverage(count: usize, of_a: Law, of_b: Law) -> f64 {
    let hits = (0..TRIALS).filter(|seed| interval(*seed, count, 1.05, of_a, of_b).contains(1.05)).count();
    hits as f64 / TRIALS as f64
}

fn covers(law: Law) {
    for count in [6, 7, 10, 20] {
        let share = coverage(count, law, law);
        assert!((0.93..=0.97).contains(&share), "{count} rounds: {share}");
    }
}

#[test]
fn covers_under_log_normal_noise() {
    covers(log_normal);
}

#[test]
fn covers_with_outliers() {
    covers(disturbed);
}

#[test]
fn covers_under_heavy_tails() {
    covers(heavy_tailed);
}

/// Compares an A/A control with a second pair of series of the given true ratio, in the same number of
/// rounds.
fn verdicts(count: usize, truth: f64, law: Law) -> impl Iterator<Item = Order> {
    (0..TRIALS).map(move |seed| {
        let control = interval(seed, count, 1.0, law, law);
        let noise = Noise::from_controls(&[control]).unwrap();
        compare(&interval(seed + TRIALS, count, truth, law, law), &noise)
    })
}

#[test]
fn a_system_against_itself_ties() {
    for (count, law) in
        [(7, log_normal as Law), (10, log_normal), (20, log_normal), (10, disturbed), (10, heavy_tailed)]
    {
        let ties = verdicts(count, 1.0, law).filter(|order| *order == Order::Tie).count();
        assert!(ties >= 950, "{count} rounds: {ties} ties of {TRIALS}");
    }
}

#[test]
fn five_per_cent_are_found_in_two_per_cent_of_noise() {
    for (truth, found) in [(1.05, Order::Higher), (1.0 / 1.05, Order::Lower)] {
        let times = verdicts(10, truth, log_normal).filter(|order| *order == found).count();
        assert!(times >= 950, "{truth}: {times} of {TRIALS}");
    }
}

/// The limit of the claim. If only one system is ever disturbed, the noise is not symmetric: the estimate is
/// biased, and more rounds narrow the interval around the biased value. From 10 rounds on it covers less than
/// its level.
#[test]
fn one_sided_disturbance_is_outside_the_claim() {
    let share = coverage(20, disturbed, log_normal);
    assert!((0.85..0.93).contains(&share), "{share}");
}
