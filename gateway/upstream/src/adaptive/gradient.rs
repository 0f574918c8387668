//! How high a limit of concurrent requests should be, by the latency that it leads to.
//!
//! Pure: what was measured and when goes in, a limit comes out.

use std::time::Duration;

use tollgate_plan::Adaptive as Rules;

/// Answers below which nothing is concluded: the mean of fewer is chance (Netflix's `minWindowSize` has as many).
const ENOUGH: u64 = 10;
/// The limit of an upstream of which nothing is known (that of Netflix's `Gradient2Limit`).
const INITIAL: u32 = 20;
/// Bounds of one step, as Envoy has them: a mean that one stalled answer spoilt does not undo everything.
const STEEPEST: (f64, f64) = (0.5, 2.0);
/// A measurement of the latency without load ends after this, or after three times that latency, with what it has.
const PROBE_MOST: Duration = Duration::from_secs(1);
/// How much a new latency without load, met by chance, counts against what was known.
const NEWER: f64 = 0.3;
/// How much an interval counts for how the latency has been lately.
const RECENT: f64 = 0.1;
/// Times the latency without load as which a longer one counts: one answer of many that took a minute says little.
const CLIP: f64 = 10.0;

/// Latencies of some answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Sum {
    pub count: u64,
    /// In microseconds.
    pub micros: u64,
}

impl Sum {
    pub fn add(&mut self, micros: u64) {
        self.count += 1;
        self.micros = self.micros.saturating_add(micros);
    }

    fn merge(&mut self, more: Self) {
        self.count += more.count;
        self.micros = self.micros.saturating_add(more.micros);
    }

    /// In microseconds; never 0.
    fn mean(self) -> f64 {
        (self.micros as f64 / self.count.max(1) as f64).max(1.0)
    }
}

/// What a worker has seen since it told last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Seen {
    /// Every answer.
    pub all: Sum,
    /// Those to requests beside which there never were more than `min` under way.
    pub calm: Sum,
    /// Which stretch of calm that was.
    pub stretch: u32,
}

/// A limit that follows the latency: the gradient of Envoy's adaptive concurrency. In each interval it is multiplied by
/// how far the latency without load, and a tolerance, lie above the latency met; a square root of room on top lets it
/// climb until requests begin to queue up somewhere.
///
/// Two things are different. It does not climb where half of it is not used: Netflix's rule, without which a quiet
/// upstream's limit rises until it is none. And the latency without load is measured on what comes anyway as long as no
/// more than `min` requests are under way: only an upstream that never is so quiet, and whose latency is not what it is
/// known for, is held down to `min` for a moment.
#[derive(Debug)]
pub(super) struct Gradient {
    rules: Rules,
    limit: f64,
    /// Latency without load, in microseconds.
    base: Option<f64>,
    /// When the interval began, from the start of all.
    began: Duration,
    window: Sum,
    calm: Sum,
    /// Of these calm answers.
    stretch: u32,
    /// When the latency without load was last measured.
    measured_at: Duration,
    /// Since when it is being measured by holding requests back.
    probing: Option<Duration>,
    /// How many times the latency without load the latency is, over some intervals.
    strain: f64,
    /// Less than the latency without load was met under load: it is lower by an unknown part.
    outdated: bool,
}

impl Gradient {
    pub fn new(rules: &Rules) -> Self {
        Self {
            limit: f64::from(INITIAL.clamp(rules.min, rules.max)),
            rules: rules.clone(),
            base: None,
            began: Duration::ZERO,
            window: Sum::default(),
            calm: Sum::default(),
            stretch: 0,
            measured_at: Duration::ZERO,
            probing: None,
            strain: 1.0,
            outdated: false,
        }
    }

    /// Takes over the rules of another plan; what is known stays.
    pub fn change(&mut self, rules: &Rules) {
        self.rules = rules.clone();
        self.limit = self.limit.clamp(rules.min.into(), rules.max.into());
    }

    /// The limit in force.
    pub fn limit(&self) -> u32 {
        if self.probing.is_some() { self.rules.min } else { self.limit.round() as u32 }
    }

    /// Latency without load, if it is known.
    pub fn base(&self) -> Option<Duration> {
        self.base.map(|micros| Duration::from_micros(micros as u64))
    }

    /// In microseconds: longer ones are to count as this.
    pub fn clip(&self) -> u64 {
        self.base.map_or(u64::MAX, |base| (base * CLIP) as u64)
    }

    /// Takes in what a worker has seen. `now` is the time from the start of all, `peak` the most that were under way at
    /// once since the interval began. Says whether another one has begun.
    pub fn see(&mut self, now: Duration, peak: u32, seen: Seen) -> bool {
        self.window.merge(seen.all);
        if seen.calm.count > 0 {
            self.see_calm(seen.stretch, seen.calm);
        }
        if let Some(since) = self.probing {
            return self.go_on_probing(now, since);
        }
        if self.base.is_none() && self.calm.count < ENOUGH && peak > self.rules.min {
            self.probe(now);
        }
        let enough = self.window.count == 0 || self.window.count >= ENOUGH;
        let over = enough && now.saturating_sub(self.began) >= self.rules.interval;
        if over {
            self.turn(now, peak);
        }
        over
    }

    fn see_calm(&mut self, stretch: u32, answers: Sum) {
        // The latest stretch of calm counts. Numbers may wrap; a worker that tells late tells of one shortly before.
        match stretch.wrapping_sub(self.stretch) {
            0 => self.calm.merge(answers),
            1..=0x7fff_ffff => (self.stretch, self.calm) = (stretch, answers),
            _ => {}
        }
    }

    /// An interval is over.
    fn turn(&mut self, now: Duration, peak: u32) {
        self.began = now;
        let window = std::mem::take(&mut self.window);
        if window.count == 0 {
            return;
        }
        let calm = self.calm.count >= ENOUGH;
        if calm {
            let answers = std::mem::take(&mut self.calm);
            self.learn(answers.mean(), NEWER);
            self.measured(now);
        }
        let Some(base) = self.base else { return };
        let (mean, tolerated) = (window.mean(), 1.0 + self.rules.tolerance.share());
        if mean * tolerated < base {
            // No load makes an upstream faster: it is.
            self.learn(mean, 0.5);
            self.outdated = true;
        }
        self.strain += (mean / base - self.strain) * RECENT;
        let gradient = base * tolerated / mean;
        // What is slow with so few under way is not so because of them.
        if gradient >= 1.0 || !calm {
            self.step(gradient, peak);
        }
        let due = now.saturating_sub(self.measured_at) >= self.rules.probe;
        if due && (self.strain > tolerated || self.outdated) {
            self.probe(now);
        }
    }

    fn step(&mut self, gradient: f64, peak: u32) {
        let scaled = self.limit * gradient.clamp(STEEPEST.0, STEEPEST.1);
        let next = (scaled + scaled.sqrt()).clamp(self.rules.min.into(), self.rules.max.into());
        let used = f64::from(peak) * 2.0 >= self.limit;
        if used || next < self.limit {
            self.limit = next;
        }
    }

    /// Begins to measure the latency without load.
    fn probe(&mut self, now: Duration) {
        self.probing = Some(now);
        self.calm = Sum::default();
    }

    /// Says whether it is over, and an interval begins.
    fn go_on_probing(&mut self, now: Duration, since: Duration) -> bool {
        // Of a slow upstream no more than a tenth of the time.
        let most =
            self.base().map_or(PROBE_MOST, |base| (3 * base).min(self.rules.probe / 10).max(PROBE_MOST));
        let late = now.saturating_sub(since) >= most;
        // Of an upstream of which nothing is known, one answer at least.
        if self.calm.count < ENOUGH && !(late && (self.calm.count > 0 || self.base.is_some())) {
            return false;
        }
        if self.calm.count > 0 {
            let answers = std::mem::take(&mut self.calm);
            self.learn(answers.mean(), 1.0);
        }
        self.probing = None;
        self.measured(now);
        // What was met while the load went down says nothing.
        self.window = Sum::default();
        self.began = now;
        true
    }

    fn measured(&mut self, now: Duration) {
        (self.measured_at, self.strain, self.outdated) = (now, 1.0, false);
    }

    /// Moves the latency without load towards `micros`, by that part of the way.
    fn learn(&mut self, micros: f64, part: f64) {
        self.base = Some(self.base.map_or(micros, |base| base + (micros - base) * part));
    }
}

#[cfg(test)]
mod tests;
