//! Decides whether a system has warmed up. "Never" is a possible answer.
//!
//! The series (a rate or a CPU cost over equal windows) is cut at its change points ([`crate::segments`]).
//! Counting back from the end, stretches belong to the steady state while their level equals the final level
//! within a tolerance. The rule follows Barrett et al., "Virtual machine warmup blows hot and cold" (2017): a
//! shift too small to matter starts no new state. The steady state must be long enough to be credible, and
//! must neither drift nor oscillate.

use std::fmt;

use crate::fit::line;
use crate::segments::{Segment, segments};

/// The verdict on a series.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Steadiness {
    /// Steady from this window (counted from 0) to the end.
    From(usize),
    /// Not steady within the series.
    Never {
        /// The reason.
        why: Unsteady,
    },
}

/// The reason why a series is not steady.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Unsteady {
    /// Fewer windows than a judgement needs.
    TooShort {
        /// The number of windows.
        windows: usize,
        /// The number of windows needed.
        needed: usize,
    },
    /// A window is not a finite number, or the typical window is not above 0: nothing was served, or nothing
    /// was measured.
    NothingMeasured,
    /// The level still climbs or falls at the end.
    Trend {
        /// The growth in each window as a share of the level: 0.01 is one per cent.
        per_window: f64,
    },
    /// The level goes up and down.
    Oscillation {
        /// The difference of trough and crest as a share of the level.
        swing: f64,
    },
    /// The level shifted so late that too few windows follow.
    LateChange {
        /// The window of the shift.
        at: usize,
        /// How many windows must follow.
        needed: usize,
    },
}

impl fmt::Display for Unsteady {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooShort { windows, needed } => {
                write!(out, "too short to tell: {windows} windows, {needed} are needed")
            }
            Self::NothingMeasured => write!(out, "nothing to judge: windows without a value above 0"),
            Self::Trend { per_window } => {
                let direction = if *per_window > 0.0 { "climbing" } else { "falling" };
                write!(out, "still {direction} by {:.2} % a window", per_window.abs() * 100.0)
            }
            Self::Oscillation { swing } => write!(out, "swings by {:.0} % of its level", swing * 100.0),
            Self::LateChange { at, needed } => {
                write!(out, "level shifted in window {}, and fewer than {needed} windows follow", at + 1)
            }
        }
    }
}

/// The criteria of a steady state.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rule {
    /// Levels that differ by no more than this share count as the same level; a drift or swing up to it is
    /// ignored.
    pub tolerance: f64,
    /// The fewest windows for a judgement.
    pub shortest: usize,
    /// The least share of the whole series that the steady state must last.
    pub share: f64,
}

impl Default for Rule {
    /// 2 % (the laboratory's usual A/A noise; a finer level could not be distinguished later), 10 windows, a
    /// quarter.
    fn default() -> Self {
        Self { tolerance: 0.02, shortest: 10, share: 0.25 }
    }
}

/// How many standard errors make a drift significant: 3 calls one flat series of 60 windows in 250 a trend.
const BELIEVED: f64 = 3.0;

/// The smallest autocorrelation that makes a cycle: half of the variance repeats.
const CYCLE: f64 = 0.5;

/// Judges a series by the default [`Rule`].
pub fn steady(values: &[f64]) -> Steadiness {
    Rule::default().judge(values)
}

/// Judges several series of the same windows (rate and CPU cost) by the default [`Rule`]. The result is
/// steady once all are, and never steady if one never is.
pub fn steady_together(series: &[&[f64]]) -> Steadiness {
    let mut latest = 0;
    for values in series {
        match steady(values) {
            Steadiness::From(start) => latest = latest.max(start),
            never => return never,
        }
    }
    Steadiness::From(latest)
}

impl Rule {
    /// Judges a series of equal windows, in any unit above 0.
    pub fn judge(&self, values: &[f64]) -> Steadiness {
        match self.start(values) {
            Ok(start) => Steadiness::From(start),
            Err(why) => Steadiness::Never { why },
        }
    }

    fn start(&self, values: &[f64]) -> Result<usize, Unsteady> {
        // A line needs at least two windows, whatever the rule says.
        let shortest = self.shortest.max(2);
        if values.len() < shortest {
            return Err(Unsteady::TooShort { windows: values.len(), needed: shortest });
        }
        let stretches = segments(values);
        let (Some(last), true) =
            (stretches.last(), crate::median::median(values).is_some_and(|typical| typical > 0.0))
        else {
            return Err(Unsteady::NothingMeasured);
        };
        let level = last.mean;
        let first = stretches
            .iter()
            .rposition(|stretch| !self.same(stretch.mean, level))
            .map_or(0, |other| other + 1);
        let share_of_all = (values.len() as f64 * self.share).ceil() as usize;
        let needed = shortest.max(share_of_all).max(outlasting(&stretches[..=first]));
        // The earliest stretch of the final level may include the last bend of the warm-up: a shift too small
        // to matter, but still a drift. So the steady state may start later, up to half-way through. A drift
        // that is as fast there is not a bend, so its growth is taken over the whole length.
        let earliest = stretches[first].start;
        let length = values.len() - earliest;
        let eighths = (0..=4).map(|eighth| earliest + length * eighth / 8);
        let mut starts: Vec<usize> =
            stretches[first..].iter().map(|stretch| stretch.start).chain(eighths).collect();
        starts.sort_unstable();
        let mut spoiled = None;
        for start in starts.into_iter().filter(|start| values.len() - start >= needed) {
            match self.spoils(&values[start..], length) {
                None => return Ok(start),
                Some(why) => spoiled = spoiled.or(Some(why)),
            }
        }
        Err(spoiled.unwrap_or_else(|| self.late(values, &stretches, needed)))
    }

    fn same(&self, one: f64, other: f64) -> bool {
        (one - other).abs() <= self.tolerance * other.abs()
    }

    /// Returns the reason if there is a swing, or a drift within one level that would matter over this number
    /// of windows.
    fn spoils(&self, end: &[f64], windows: usize) -> Option<Unsteady> {
        if let Some(per_window) =
            drift(end).filter(|growth| growth.abs() * (windows - 1) as f64 > self.tolerance)
        {
            return Some(Unsteady::Trend { per_window });
        }
        cycle(end).filter(|swing| *swing > self.tolerance).map(|swing| Unsteady::Oscillation { swing })
    }

    /// Names the reason for a too short end, from the levels that lead to it.
    fn late(&self, values: &[f64], stretches: &[Segment], needed: usize) -> Unsteady {
        let moves: Vec<f64> = stretches
            .windows(2)
            .map(|pair| (pair[1].mean - pair[0].mean) / pair[1].mean.abs().max(f64::MIN_POSITIVE))
            .filter(|step| step.abs() > self.tolerance)
            .collect();
        let turns = moves.windows(2).filter(|pair| pair[0].signum() != pair[1].signum()).count();
        let final_climb =
            moves.iter().rev().take_while(|step| step.signum() == moves[moves.len() - 1].signum()).count();
        let at = stretches.last().map_or(0, |stretch| stretch.start);
        if turns >= 2 {
            let (low, high) =
                stretches.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), stretch| {
                    (low.min(stretch.mean), high.max(stretch.mean))
                });
            let level = values.iter().sum::<f64>() / values.len() as f64;
            return Unsteady::Oscillation { swing: (high - low) / level };
        }
        match drift(&values[values.len().saturating_sub(needed)..]) {
            Some(per_window) if final_climb >= 2 => Unsteady::Trend { per_window },
            _ => Unsteady::LateChange { at, needed },
        }
    }
}

/// Returns how many windows the last of these stretches must last to be a plateau instead of one more stair. A slow
/// climb is cut into stairs, each of them flat. Two or more in one direction are a climb. The level after a climb must
/// last 1.5 times as long as its longest step.
fn outlasting(stretches: &[Segment]) -> usize {
    let steps: Vec<f64> = stretches.windows(2).map(|pair| (pair[1].mean - pair[0].mean).signum()).collect();
    let climb = steps.iter().rev().take_while(|step| **step == steps[steps.len() - 1]).count();
    let last = stretches.len() - 1;
    let longest = stretches[last - climb..last].iter().map(|stair| stair.end - stair.start).max();
    longest.filter(|_| climb >= 2).map_or(0, |stair| (stair * 3).div_ceil(2))
}

/// Returns the growth in each window as a share of the mean, if it exceeds [`BELIEVED`] standard errors.
fn drift(values: &[f64]) -> Option<f64> {
    let points: Vec<(f64, f64)> =
        values.iter().enumerate().map(|(index, value)| (index as f64, *value)).collect();
    let fitted = line(&points).ok()?;
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    let believed = fitted.slope.abs() > BELIEVED * fitted.slope_error?;
    (believed && mean != 0.0).then(|| fitted.slope / mean.abs())
}

/// Returns the difference of trough and crest as a share of the mean, if there is a cycle of 2 windows to a
/// third of the series.
fn cycle(values: &[f64]) -> Option<f64> {
    let n = values.len();
    let mean = values.iter().sum::<f64>() / n as f64;
    let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / n as f64;
    let floor = CYCLE.max(BELIEVED / (n as f64).sqrt());
    let repeats = (2..=n / 3).any(|lag| {
        let shared = values.iter().zip(&values[lag..]).map(|(a, b)| (a - mean) * (b - mean)).sum::<f64>()
            / (n - lag) as f64;
        shared > floor * variance
    });
    // A sine of variance v has crests at sqrt(2 v).
    repeats.then(|| 2.0 * (2.0 * variance).sqrt() / mean.abs())
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand_pcg::Pcg64;
    use rand_pcg::rand_core::Rng;

    /// Returns a series with multiplicative noise of the given standard deviation (sum of 12 uniforms: near
    /// normal).
    fn noisy(count: usize, noise: f64, seed: u128, shape: impl Fn(f64) -> f64) -> Vec<f64> {
        let mut coin = Pcg64::new(seed, 9);
        let mut normal =
            || (0..12).map(|_| (coin.next_u64() >> 11) as f64 / (1u64 << 53) as f64).sum::<f64>() - 6.0;
        (0..count).map(|i| shape(i as f64) * (1.0 + noise * normal())).collect()
    }

    /// Returns how many of 200 seeded series satisfy the claim.
    fn times(
        count: usize,
        noise: f64,
        shape: impl Fn(f64) -> f64 + Copy,
        claim: impl Fn(Steadiness) -> bool,
    ) -> usize {
        (0..200).filter(|seed| claim(steady(&noisy(count, noise, *seed, shape)))).count()
    }

    fn from(range: std::ops::RangeInclusive<usize>) -> impl Fn(Steadiness) -> bool {
        move |verdict| matches!(verdict, Steadiness::From(start) if range.contains(&start))
    }

    fn never(verdict: Steadiness) -> bool {
        matches!(verdict, Steadiness::Never { .. })
    }

    #[test]
    fn flat_with_noise_is_steady_from_the_start() {
        for noise in [0.002, 0.01, 0.05] {
            let found = times(60, noise, |_| 1000.0, from(0..=0));
            assert!(found >= 194, "noise {noise}: {found} of 200");
        }
    }

    #[test]
    fn a_step_is_steady_after_it() {
        let found = times(60, 0.01, |i| if i < 20.0 { 800.0 } else { 1000.0 }, from(20..=20));
        assert!(found >= 190, "{found} of 200");
    }

    #[test]
    fn a_jvm_warm_up_is_steady_on_its_plateau() {
        // Slow start, exponential approach; within 2 % of the plateau after window 15 (0.6 exp(-15 / 4.5) =
        // 0.021).
        let found = times(60, 0.01, |i| 1000.0 * (1.0 - 0.6 * (-i / 4.5).exp()), from(9..=29));
        assert!(found >= 190, "{found} of 200");
        let straight = times(60, 0.01, |i| 1000.0 * (0.4 + 0.6 * (i / 25.0).min(1.0)), from(22..=29));
        assert!(straight >= 190, "{straight} of 200");
    }

    #[test]
    fn still_climbing_is_never_steady() {
        for (count, noise, growth) in
            [(60, 0.01, 0.003), (60, 0.01, 0.005), (60, 0.02, 0.01), (30, 0.01, 0.01), (60, 0.0, 0.01)]
        {
            let found = times(count, noise, |i| 1000.0 * (1.0 + growth * i), never);
            assert!(found >= 194, "{count} windows, noise {noise}, {growth} a window: {found} of 200");
        }
        let verdict = steady(&noisy(60, 0.005, 1, |i| 1000.0 * (1.0 + 0.01 * i)));
        assert!(
            matches!(verdict, Steadiness::Never { why: Unsteady::Trend { per_window } } if (0.003..0.01).contains(&per_window)),
            "{verdict:?}"
        );
    }

    #[test]
    fn a_saw_tooth_is_never_steady() {
        for period in [4.0, 10.0, 20.0] {
            let found = times(60, 0.01, |i| 1000.0 * (1.0 + 0.2 * (i % period) / period), never);
            assert!(found >= 194, "period {period}: {found} of 200");
        }
        let verdict = steady(&noisy(60, 0.01, 1, |i| 1000.0 * (1.0 + 0.2 * (i % 10.0) / 10.0)));
        assert!(
            matches!(verdict, Steadiness::Never { why: Unsteady::Oscillation { swing } } if (0.05..0.3).contains(&swing)),
            "{verdict:?}"
        );
    }

    #[test]
    fn a_fast_cycle_is_never_steady_though_no_level_shifts() {
        let verdict = steady(&noisy(60, 0.01, 1, |i| if i % 2.0 == 0.0 { 900.0 } else { 1100.0 }));
        assert!(matches!(verdict, Steadiness::Never { why: Unsteady::Oscillation { .. } }), "{verdict:?}");
    }

    #[test]
    fn a_late_step_is_not_believed_yet() {
        let series = noisy(60, 0.01, 1, |i| if i < 54.0 { 800.0 } else { 1000.0 });
        assert_eq!(steady(&series), Steadiness::Never { why: Unsteady::LateChange { at: 54, needed: 15 } });
    }

    #[test]
    fn short_or_empty_series() {
        assert_eq!(
            steady(&[1.0; 9]),
            Steadiness::Never { why: Unsteady::TooShort { windows: 9, needed: 10 } }
        );
        assert_eq!(steady(&[0.0; 20]), Steadiness::Never { why: Unsteady::NothingMeasured });
        let mut broken = [5.0; 20];
        broken[3] = f64::NAN;
        assert_eq!(steady(&broken), Steadiness::Never { why: Unsteady::NothingMeasured });
        assert_eq!(steady(&[5.0; 20]), Steadiness::From(0));
    }

    #[test]
    fn together_means_the_latest_and_one_never_spoils_all() {
        let rate = noisy(60, 0.01, 1, |_| 1000.0);
        let cost = noisy(60, 0.01, 2, |i| if i < 20.0 { 30.0 } else { 20.0 });
        let climbing = noisy(60, 0.01, 3, |i| 10.0 + i);
        assert_eq!(steady_together(&[&rate, &cost]), Steadiness::From(20));
        assert!(never(steady_together(&[&rate, &climbing, &cost])));
    }

    #[test]
    fn reasons_are_for_people() {
        assert_eq!(Unsteady::Trend { per_window: -0.0123 }.to_string(), "still falling by 1.23 % a window");
        assert_eq!(
            Unsteady::TooShort { windows: 3, needed: 10 }.to_string(),
            "too short to tell: 3 windows, 10 are needed"
        );
    }
}
