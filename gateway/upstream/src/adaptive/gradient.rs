//! Computes how high a limit of concurrent requests should be, from the latencies that it leads to.
//!
//! Pure: [`Adaptive`](super::Adaptive) passes in measurements with their times, and reads the limit.

use std::time::Duration;

use tollgate_plan::Adaptive as AdaptiveRules;

/// Fewest answers from which anything is concluded; the mean of fewer is chance. Netflix's `minWindowSize`
/// has the same value.
const ANSWERS_MIN: u64 = 10;
/// The limit of an upstream without measurements, as in Netflix's `Gradient2Limit`.
const INITIAL_LIMIT: u32 = 20;
/// Bounds of the factor of one step, as in Envoy, so that one stalled answer does not undo everything.
const STEP_FACTOR_BOUNDS: (f64, f64) = (0.5, 2.0);
/// How long a measurement of the base latency may last. On a slow upstream the bound rises to three times the
/// base latency, but at most to a tenth of `probe`. A measurement that reaches the bound uses the answers
/// that it has.
const PROBE_TIME_MAX: Duration = Duration::from_secs(1);
/// Weight of a new base latency, measured without holding requests back, against the old one.
const NEW_BASE_WEIGHT: f64 = 0.3;
/// Weight of one interval in the moving average of the strain.
const RATIO_WEIGHT: f64 = 0.1;
/// Multiple of the base latency above which a latency is cut off: one answer that took a minute says little.
const LATENCY_CLIP: f64 = 10.0;

/// The sum of the latencies of some answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct LatencySum {
    pub count: u64,
    /// In microseconds.
    pub micros: u64,
}

impl LatencySum {
    pub fn add(&mut self, micros: u64) {
        self.count += 1;
        self.micros = self.micros.saturating_add(micros);
    }

    fn merge(&mut self, more: Self) {
        self.count += more.count;
        self.micros = self.micros.saturating_add(more.micros);
    }

    /// Returns the mean in microseconds; never 0.
    fn mean(self) -> f64 {
        (self.micros as f64 / self.count.max(1) as f64).max(1.0)
    }
}

/// Latencies that a worker measured since its last report.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Measurements {
    /// All answers.
    pub all: LatencySum,
    /// Answers to requests during which at most `min` requests were in flight at any time.
    pub calm: LatencySum,
    /// The number of the calm period of these answers.
    pub calm_period: u32,
}

/// A limit that follows the latency: the gradient of Envoy's adaptive concurrency. In each interval the limit
/// is multiplied by the ratio of the base latency, plus a tolerance, to the measured latency. The square root
/// of the limit is added as headroom, so the limit climbs until requests begin to queue somewhere.
///
/// Two rules differ from Envoy. The limit does not climb while less than half of it is used. This is
/// Netflix's rule; without it, the limit of a quiet upstream rises until it limits nothing. And the base
/// latency is measured on ordinary traffic as long as at most `min` requests are in flight. Only an upstream
/// that is never so quiet, and whose latency deviates from its base latency, is held down to `min` for a
/// moment.
#[derive(Debug)]
pub(super) struct Gradient {
    rules: AdaptiveRules,
    limit: f64,
    /// The base latency: the latency without load, in microseconds.
    base_latency: Option<f64>,
    /// When the interval began, since the start of the process.
    began: Duration,
    window: LatencySum,
    calm: LatencySum,
    /// The number of the calm period of the answers in `calm`.
    calm_period: u32,
    /// When the base latency was last measured.
    measured_at: Duration,
    /// Since when requests are held back to measure the base latency.
    probing: Option<Duration>,
    /// Ratio of the latency to the base latency, as a moving average over intervals.
    latency_ratio: f64,
    /// A latency below the base latency was measured under load, so the base latency is too high by an
    /// unknown amount.
    outdated: bool,
}

impl Gradient {
    pub fn new(rules: &AdaptiveRules) -> Self {
        Self {
            limit: f64::from(INITIAL_LIMIT.clamp(rules.min, rules.max)),
            rules: rules.clone(),
            base_latency: None,
            began: Duration::ZERO,
            window: LatencySum::default(),
            calm: LatencySum::default(),
            calm_period: 0,
            measured_at: Duration::ZERO,
            probing: None,
            latency_ratio: 1.0,
            outdated: false,
        }
    }

    /// Adopts the rules of another plan. Measurements are kept.
    pub fn set_rules(&mut self, rules: &AdaptiveRules) {
        self.rules = rules.clone();
        self.limit = self.limit.clamp(rules.min.into(), rules.max.into());
    }

    /// Returns the limit in force.
    pub fn limit(&self) -> u32 {
        if self.probing.is_some() { self.rules.min } else { self.limit.round() as u32 }
    }

    /// Returns the base latency, if it is known.
    pub fn base_latency(&self) -> Option<Duration> {
        self.base_latency.map(|micros| Duration::from_micros(micros as u64))
    }

    /// Returns the latency, in microseconds, to which longer latencies are cut off.
    pub fn clip(&self) -> u64 {
        self.base_latency.map_or(u64::MAX, |base| (base * LATENCY_CLIP) as u64)
    }

    /// Adds the measurements of a worker. `now` is the time since the start of the process, and `peak` is the
    /// highest number of requests in flight since the interval began. Returns whether a new interval begins.
    pub fn add(&mut self, now: Duration, peak: u32, measured: Measurements) -> bool {
        self.window.merge(measured.all);
        if measured.calm.count > 0 {
            self.add_calm(measured.calm_period, measured.calm);
        }
        if let Some(since) = self.probing {
            return self.continue_probing(now, since);
        }
        if self.base_latency.is_none() && self.calm.count < ANSWERS_MIN && peak > self.rules.min {
            self.probe(now);
        }
        let enough = self.window.count == 0 || self.window.count >= ANSWERS_MIN;
        let over = enough && now.saturating_sub(self.began) >= self.rules.interval;
        if over {
            self.end_interval(now, peak);
        }
        over
    }

    fn add_calm(&mut self, calm_period: u32, answers: LatencySum) {
        // The latest calm period counts. Numbers may wrap; a worker that reports late reports a period
        // shortly before.
        match calm_period.wrapping_sub(self.calm_period) {
            0 => self.calm.merge(answers),
            1..=0x7fff_ffff => (self.calm_period, self.calm) = (calm_period, answers),
            _ => {}
        }
    }

    /// Ends an interval and adjusts the limit.
    fn end_interval(&mut self, now: Duration, peak: u32) {
        self.began = now;
        let window = std::mem::take(&mut self.window);
        if window.count == 0 {
            return;
        }
        let calm = self.calm.count >= ANSWERS_MIN;
        if calm {
            let answers = std::mem::take(&mut self.calm);
            self.adjust_base(answers.mean(), NEW_BASE_WEIGHT);
            self.finish_measurement(now);
        }
        let Some(base) = self.base_latency else { return };
        let (mean, tolerated) = (window.mean(), 1.0 + self.rules.tolerance.share());
        if mean * tolerated < base {
            // Load makes no upstream faster, so the upstream itself has become faster.
            self.adjust_base(mean, 0.5);
            self.outdated = true;
        }
        self.latency_ratio += (mean / base - self.latency_ratio) * RATIO_WEIGHT;
        let gradient = base * tolerated / mean;
        // With this few requests in flight, they are not the cause of the latency.
        if gradient >= 1.0 || !calm {
            self.step(gradient, peak);
        }
        let due = now.saturating_sub(self.measured_at) >= self.rules.probe;
        if due && (self.latency_ratio > tolerated || self.outdated) {
            self.probe(now);
        }
    }

    fn step(&mut self, gradient: f64, peak: u32) {
        let scaled = self.limit * gradient.clamp(STEP_FACTOR_BOUNDS.0, STEP_FACTOR_BOUNDS.1);
        let next = (scaled + scaled.sqrt()).clamp(self.rules.min.into(), self.rules.max.into());
        let used = f64::from(peak) * 2.0 >= self.limit;
        if used || next < self.limit {
            self.limit = next;
        }
    }

    /// Starts to measure the base latency by holding requests back.
    fn probe(&mut self, now: Duration) {
        self.probing = Some(now);
        self.calm = LatencySum::default();
    }

    /// Continues the measurement. Returns whether it is finished, so that an interval begins.
    fn continue_probing(&mut self, now: Duration, since: Duration) -> bool {
        // At most a tenth of the time for a slow upstream.
        let most = self
            .base_latency()
            .map_or(PROBE_TIME_MAX, |base| (3 * base).min(self.rules.probe / 10).max(PROBE_TIME_MAX));
        let late = now.saturating_sub(since) >= most;
        // An upstream without a base latency needs at least one answer.
        if self.calm.count < ANSWERS_MIN && !(late && (self.calm.count > 0 || self.base_latency.is_some())) {
            return false;
        }
        if self.calm.count > 0 {
            let answers = std::mem::take(&mut self.calm);
            self.adjust_base(answers.mean(), 1.0);
        }
        self.probing = None;
        self.finish_measurement(now);
        // Latencies measured while the load went down say nothing.
        self.window = LatencySum::default();
        self.began = now;
        true
    }

    fn finish_measurement(&mut self, now: Duration) {
        (self.measured_at, self.latency_ratio, self.outdated) = (now, 1.0, false);
    }

    /// Moves the base latency towards `micros` by the given part of the distance.
    fn adjust_base(&mut self, micros: f64, part: f64) {
        self.base_latency = Some(self.base_latency.map_or(micros, |base| base + (micros - base) * part));
    }
}

#[cfg(test)]
mod tests;
