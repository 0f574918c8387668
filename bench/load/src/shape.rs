//! Rates that change over time. A [`Stage`] is a span in which the rate moves evenly from one value to
//! another; a ramp, steps, a spike and a sine wave are lists of stages. `Curve` answers when the request of
//! a given number is due, exactly and without a clock, so that `pace` can schedule any shape as it schedules
//! a constant rate.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::f64::consts::TAU;

/// A span of time with a rate that moves evenly from one value to another.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Stage {
    /// Length in seconds.
    pub seconds: f64,
    /// Requests per second at the beginning.
    pub from: f64,
    /// Requests per second at the end.
    pub to: f64,
}

impl Stage {
    /// Creates a stage.
    pub fn new(seconds: f64, from: f64, to: f64) -> Self {
        Self { seconds, from, to }
    }

    /// Returns the number of requests in the first `seconds` of the stage.
    fn count(&self, seconds: f64) -> f64 {
        let slope = (self.to - self.from) / self.seconds;
        seconds * (self.from + slope * seconds / 2.0)
    }

    /// Returns after how many seconds this number of requests is reached.
    fn time(&self, count: f64) -> f64 {
        let slope = (self.to - self.from) / self.seconds;
        // The solution of the quadratic equation in the form that stays exact for a slope near 0.
        2.0 * count / (self.from + (self.from * self.from + 2.0 * slope * count).max(0.0).sqrt())
    }
}

/// Returns the mean rate of the first `seconds`. After the last stage its last rate continues.
pub fn mean(stages: &[Stage], seconds: f64) -> f64 {
    let mut left = seconds;
    let mut count = 0.0;
    for stage in stages {
        let span = stage.seconds.min(left);
        count += stage.count(span);
        left -= span;
    }
    let last = stages.last().map_or(0.0, |stage| stage.to);
    (count + left * last) / seconds
}

/// Parts of a period into which a sine wave is divided; the rate is then within 0.13 % of its amplitude.
const SINE_PARTS: u32 = 64;

/// Returns the stages of a sine wave around `middle` requests per second. There are 64 in each `period`, which must be
/// above 0.
pub fn sine(seconds: f64, middle: f64, amplitude: f64, period: f64) -> Vec<Stage> {
    let step = period / f64::from(SINE_PARTS);
    let rate = |at: f64| (middle + amplitude * (TAU * at / period).sin()).max(0.0);
    let mut stages = Vec::new();
    let mut at = 0.0;
    while at < seconds {
        let span = step.min(seconds - at);
        stages.push(Stage::new(span, rate(at), rate(at + span)));
        at += step;
    }
    stages
}

/// The stages in a form that finds the time of a request.
#[derive(Debug, Clone)]
pub(crate) struct Curve {
    /// Each stage with its beginning: seconds and requests from the start.
    pieces: Vec<(f64, f64, Stage)>,
    /// The end of the last stage.
    end: (f64, f64),
    last: f64,
}

impl Curve {
    /// Builds a curve that has the first rate for `lead` seconds before the stages.
    pub(crate) fn new(stages: &[Stage], lead: f64) -> Self {
        let first = stages.first().map_or(0.0, |stage| stage.from);
        let lead = (lead > 0.0).then(|| Stage::new(lead, first, first));
        let mut end = (0.0, 0.0);
        let pieces = lead
            .into_iter()
            .chain(stages.iter().copied())
            .map(|stage| {
                let piece = (end.0, end.1, stage);
                end = (end.0 + stage.seconds, end.1 + stage.count(stage.seconds));
                piece
            })
            .collect();
        Self { pieces, end, last: stages.last().map_or(0.0, |stage| stage.to) }
    }

    /// Returns after how many nanoseconds `count` requests are due; `u64::MAX` if that number is never
    /// reached.
    pub(crate) fn nanos(&self, count: f64) -> u64 {
        let seconds = if count >= self.end.1 {
            self.end.0 + (count - self.end.1) / self.last
        } else {
            let at = self.pieces.partition_point(|(_, before, _)| *before <= count).saturating_sub(1);
            self.pieces.get(at).map_or(f64::INFINITY, |(begin, before, stage)| {
                begin + if count > *before { stage.time(count - before).min(stage.seconds) } else { 0.0 }
            })
        };
        // The cast saturates; 0 requests at a rate of 0 are no number.
        if seconds.is_nan() { u64::MAX } else { (seconds * 1e9).round() as u64 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Counts the requests of each second.
    fn by_second(stages: &[Stage], lead: f64, seconds: u64) -> Vec<usize> {
        let curve = Curve::new(stages, lead);
        let mut counts = vec![0; seconds as usize];
        for index in 0.. {
            let second = curve.nanos(f64::from(index)) / 1_000_000_000;
            match counts.get_mut(second as usize) {
                Some(count) => *count += 1,
                None => return counts,
            }
        }
        counts
    }

    #[test]
    fn a_ramp_has_the_sum_of_its_trapezoid() {
        let ramp = [Stage::new(4.0, 0.0, 400.0)];
        assert_eq!(by_second(&ramp, 0.0, 4), [50, 150, 250, 350]);
        assert!((mean(&ramp, 4.0) - 200.0).abs() < 1e-9);
        // The last rate continues.
        assert_eq!(by_second(&ramp, 0.0, 6)[4..], [400, 400]);
        assert!((mean(&ramp, 8.0) - 300.0).abs() < 1e-9);
    }

    #[test]
    fn steps_and_a_lead() {
        let steps = [Stage::new(2.0, 10.0, 10.0), Stage::new(2.0, 30.0, 30.0)];
        assert_eq!(by_second(&steps, 1.0, 5), [10, 10, 10, 30, 30]);
    }

    #[test]
    fn a_rate_of_zero_is_skipped_and_never_ends_in_a_loop() {
        let pause = [Stage::new(1.0, 5.0, 5.0), Stage::new(1.0, 0.0, 0.0), Stage::new(1.0, 5.0, 5.0)];
        assert_eq!(by_second(&pause, 0.0, 3), [5, 0, 5]);
        let ends = [Stage::new(1.0, 5.0, 0.0)];
        assert_eq!(Curve::new(&ends, 0.0).nanos(3.0), u64::MAX);
    }

    #[test]
    fn a_sine_wave_has_its_mean_and_its_swing() {
        let wave = sine(8.0, 1_000.0, 500.0, 8.0);
        assert!((mean(&wave, 8.0) - 1_000.0).abs() < 0.01, "{}", mean(&wave, 8.0));
        let counts = by_second(&wave, 0.0, 8);
        assert!(counts[1] > 1_400 && counts[5] < 600, "{counts:?}");
    }
}
