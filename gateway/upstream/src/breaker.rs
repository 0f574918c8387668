//! The circuit breaker: if the ratio of failed or slow calls is too high, the upstream gets no requests for a
//! while.
//!
//! [`Breaker`] is the state that all workers share; [`WorkerBreaker`] is one worker's access to it. The proxy
//! calls [`acquire_breaker`](crate::Upstream::acquire_breaker) before an attempt and reports the result through
//! [`BreakerPermit`].

use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tollgate_net::component;
use tollgate_observe::{BreakerTransition, Slot, WorkerStats};
use tollgate_plan::{Breaker as BreakerRules, Percent};
use tracing::debug;

use crate::window::{SPAN_TICKS, Window};

/// Indices of the counters of a window.
const CALLS: usize = 0;
const FAILED: usize = 1;
const SLOW: usize = 2;

/// The state of a breaker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BreakerState {
    /// Requests pass and are counted.
    Closed,
    /// Requests are rejected.
    Open,
    /// A few probes pass. Other requests are rejected until the probes have finished.
    HalfOpen,
}

/// State of an upstream's breaker that all workers share.
///
/// The rules are those of resilience4j. A closed breaker counts calls over a time window and opens when the
/// ratio of failures, or of slow calls, is reached. After a time it lets a few calls through, and closes or
/// opens again by their ratios. While it is closed, a call reads one word and counts in its own worker's
/// window. Only a call that failed or was slow adds up the windows of all workers.
#[derive(Debug)]
pub(crate) struct Breaker {
    start: Instant,
    /// A [`PackedState`].
    packed_state: AtomicU64,
    inner: Mutex<BreakerCounts>,
}

#[derive(Debug, Default)]
struct BreakerCounts {
    /// The windows of the workers, by worker number.
    workers: Vec<Arc<Window<3>>>,
    /// The length of the windows.
    window: Duration,
    /// Probes of the half-open state: how many are in flight, how many finished, and how these ended.
    in_flight: u32,
    done: u32,
    failed: u32,
    slow: u32,
}

/// State, generation and time, packed into one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct PackedState {
    state: BreakerState,
    /// Incremented with each change of state. A call that began in one generation does not count in a later
    /// one.
    generation: u32,
    /// When an open breaker lets probes through, in milliseconds since the start.
    until: u64,
}

impl PackedState {
    const STATE_BITS: u32 = 2;
    const GENERATION_BITS: u32 = 22;
    /// Distance between the ticks of two generations. It exceeds [`SPAN_TICKS`], and ticks and generations
    /// wrap together.
    const GENERATION_TICKS: u32 = 1 << (u32::BITS - Self::GENERATION_BITS);

    fn unpack(word: u64) -> Self {
        let state = match word & 3 {
            0 => BreakerState::Closed,
            1 => BreakerState::Open,
            _ => BreakerState::HalfOpen,
        };
        let generation = (word >> Self::STATE_BITS) as u32 & ((1 << Self::GENERATION_BITS) - 1);
        Self { state, generation, until: word >> (Self::STATE_BITS + Self::GENERATION_BITS) }
    }

    fn pack(self) -> u64 {
        let generation = u64::from(self.generation) & ((1 << Self::GENERATION_BITS) - 1);
        let until = self.until << (Self::STATE_BITS + Self::GENERATION_BITS);
        until | generation << Self::STATE_BITS | self.state as u64
    }

    fn next(self, state: BreakerState, until: u64) -> Self {
        Self { state, generation: self.generation.wrapping_add(1), until }
    }
}

impl Breaker {
    pub fn new(start: Instant) -> Self {
        Self { start, packed_state: AtomicU64::new(0), inner: Mutex::default() }
    }

    /// Returns the window of a worker, the same one at each call while the window length stays the same.
    fn worker(&self, number: usize, window: Duration) -> Arc<Window<3>> {
        let inner = &mut *self.lock();
        let workers = &mut inner.workers;
        if inner.window != window {
            // With another tick length, ticks have other numbers. Old windows would treat new counts as late
            // for a long time.
            inner.window = window;
            workers.clear();
        }
        while workers.len() <= number {
            workers.push(Arc::default());
        }
        workers[number].clone()
    }

    #[inline]
    fn packed_state(&self) -> PackedState {
        PackedState::unpack(self.packed_state.load(Ordering::Relaxed))
    }

    pub fn state(&self) -> BreakerState {
        self.packed_state().state
    }

    fn milliseconds(&self, now: Instant) -> u64 {
        let since = now.saturating_duration_since(self.start);
        since.as_secs() * 1000 + u64::from(since.subsec_millis())
    }

    /// Returns the current tick of the windows. The ticks of two generations are more than a span apart. So
    /// the counts of one generation are out of range in the next, and no worker has to clear another worker's
    /// counts.
    fn tick(&self, now: Instant, rules: &BreakerRules, generation: u32) -> u32 {
        let width = (rules.window.as_millis() as u64 / u64::from(SPAN_TICKS)).max(1);
        ((self.milliseconds(now) / width) as u32)
            .wrapping_add(generation.wrapping_mul(PackedState::GENERATION_TICKS))
    }

    fn lock(&self) -> MutexGuard<'_, BreakerCounts> {
        // A panic under the lock cannot leave the value half changed.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the state. The caller holds the lock, so no other thread changes it at the same time.
    fn transition(&self, inner: &mut BreakerCounts, to: PackedState) {
        let BreakerCounts { in_flight, done, failed, slow, .. } = inner;
        (*in_flight, *done, *failed, *slow) = (0, 0, 0, 0);
        self.packed_state.store(to.pack(), Ordering::Relaxed);
    }

    fn open(
        &self,
        inner: &mut BreakerCounts,
        from: PackedState,
        rules: &BreakerRules,
        now: Instant,
    ) -> BreakerTransition {
        let open = u64::try_from(rules.open.as_millis()).unwrap_or(u64::from(u32::MAX));
        self.transition(inner, from.next(BreakerState::Open, self.milliseconds(now) + open));
        match from.state {
            BreakerState::Closed => BreakerTransition::Opened,
            BreakerState::Open | BreakerState::HalfOpen => BreakerTransition::OpenedAgain,
        }
    }

    /// Whether a call that starts now would be admitted. Changes nothing.
    fn would_admit(&self, rules: &BreakerRules, now: Instant) -> bool {
        let word = self.packed_state();
        match word.state {
            BreakerState::Closed => true,
            BreakerState::Open => self.milliseconds(now) >= word.until,
            BreakerState::HalfOpen => {
                let inner = self.lock();
                inner.in_flight + inner.done < rules.probes
            }
        }
    }

    /// Admits or rejects a call. Returns the generation of its permit and whether it is a probe.
    fn admit(&self, rules: &BreakerRules, now: Instant) -> Option<(u32, bool)> {
        let word = self.packed_state();
        if word.state == BreakerState::Closed {
            return Some((word.generation, false));
        }
        let mut inner = self.lock();
        let mut word = self.packed_state();
        if word.state == BreakerState::Open {
            if self.milliseconds(now) < word.until {
                return None;
            }
            word = word.next(BreakerState::HalfOpen, 0);
            self.transition(&mut inner, word);
        }
        match word.state {
            BreakerState::HalfOpen if inner.in_flight + inner.done < rules.probes => {
                inner.in_flight += 1;
                Some((word.generation, true))
            }
            BreakerState::HalfOpen => None,
            // The probes of another worker have closed the breaker since the first look.
            _ => Some((word.generation, false)),
        }
    }

    /// Evaluates the ratios after a call that failed or was slow, and opens the breaker if one is reached.
    fn evaluate(&self, rules: &BreakerRules, now: Instant, generation: u32) -> Option<BreakerTransition> {
        let mut inner = self.lock();
        let word = self.packed_state();
        if word.state != BreakerState::Closed || word.generation != generation {
            return None;
        }
        let tick = self.tick(now, rules, generation);
        let sum = |kind| inner.workers.iter().map(|worker| worker.sum(kind, tick)).sum::<u64>();
        let calls = sum(CALLS);
        let enough = calls >= u64::from(rules.minimum.max(1));
        let bad = is_bad(rules, calls, sum(FAILED), sum(SLOW));
        (enough && bad).then(|| self.open(&mut inner, word, rules, now))
    }

    /// Records the result of a probe. `None` means that the result is unknown; another call may then probe
    /// instead.
    fn probe_finished(
        &self,
        rules: &BreakerRules,
        now: Instant,
        generation: u32,
        result: Option<CallResult>,
    ) -> Option<BreakerTransition> {
        let mut inner = self.lock();
        let word = self.packed_state();
        if word.state != BreakerState::HalfOpen || word.generation != generation {
            return None;
        }
        inner.in_flight = inner.in_flight.saturating_sub(1);
        let result = result?;
        inner.done += 1;
        inner.failed += u32::from(result.failed);
        inner.slow += u32::from(result.slow);
        // Once the ratio is certain to be reached, the remaining probes cannot change the decision.
        if is_bad(rules, rules.probes.into(), inner.failed.into(), inner.slow.into()) {
            return Some(self.open(&mut inner, word, rules, now));
        }
        if inner.done < rules.probes {
            return None;
        }
        self.transition(&mut inner, word.next(BreakerState::Closed, 0));
        Some(BreakerTransition::Closed)
    }

    /// Closes the breaker, because the new plan has none.
    fn close(&self) -> Option<BreakerTransition> {
        if self.state() == BreakerState::Closed {
            return None;
        }
        let mut inner = self.lock();
        let word = self.packed_state();
        if word.state == BreakerState::Closed {
            return None;
        }
        self.transition(&mut inner, word.next(BreakerState::Closed, 0));
        Some(BreakerTransition::Closed)
    }
}

/// Whether the ratio of failed or slow calls reaches its limit.
fn is_bad(rules: &BreakerRules, calls: u64, failed: u64, slow: u64) -> bool {
    let too_many = |some: u64, percent: Percent| {
        some > 0 && some.saturating_mul(1_000_000) >= calls.saturating_mul(u64::from(percent.millionths()))
    };
    too_many(failed, rules.failures) || (rules.slow_after.is_some() && too_many(slow, rules.slow))
}

#[derive(Clone, Copy, Debug)]
struct CallResult {
    failed: bool,
    slow: bool,
}

/// A worker's access to the breaker of an upstream.
#[derive(Debug)]
pub(crate) struct WorkerBreaker {
    /// The name of the upstream, for messages.
    upstream: String,
    rules: BreakerRules,
    shared: Arc<Breaker>,
    window: Arc<Window<3>>,
    stats: Arc<WorkerStats>,
    slot: Slot,
}

impl WorkerBreaker {
    /// Creates the access for the worker with this number. Returns `None` if the upstream has no breaker, and
    /// then closes the shared one.
    pub fn new(
        upstream: &str,
        rules: Option<&BreakerRules>,
        worker: usize,
        shared: &Arc<Breaker>,
        stats: &Arc<WorkerStats>,
        slot: Slot,
    ) -> Option<Rc<Self>> {
        let Some(rules) = rules else {
            if let Some(turn) = shared.close() {
                stats.upstream_breaker(slot, turn);
            }
            return None;
        };
        Some(Rc::new(Self {
            upstream: upstream.to_owned(),
            rules: rules.clone(),
            window: shared.worker(worker, rules.window),
            shared: shared.clone(),
            stats: stats.clone(),
            slot,
        }))
    }

    /// Whether a call that starts now would be admitted. Changes nothing.
    pub fn would_admit(&self, now: Instant) -> bool {
        self.shared.would_admit(&self.rules, now)
    }

    /// Admits or rejects a call. A rejection is counted.
    pub fn admit(self: &Rc<Self>, now: Instant) -> Option<BreakerPermit> {
        let Some((generation, probe)) = self.shared.admit(&self.rules, now) else {
            self.stats.upstream_breaker_refused(self.slot);
            return None;
        };
        Some(BreakerPermit { breaker: self.clone(), began: now, generation, probe })
    }

    fn count(&self, turn: Option<BreakerTransition>) {
        if let Some(turn) = turn {
            let upstream = self.upstream.as_str();
            debug!(target: component::UPSTREAM, upstream, change = ?turn, "the breaker changed");
            self.stats.upstream_breaker(self.slot, turn);
        }
    }
}

/// The error of a call that the breaker rejects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CircuitOpen;

/// One call that a breaker admitted. If it is dropped without a result, it does not count, and another call
/// may take the place of a probe.
#[derive(Debug)]
pub struct BreakerPermit {
    breaker: Rc<WorkerBreaker>,
    began: Instant,
    generation: u32,
    probe: bool,
}

impl BreakerPermit {
    /// Reports that another attempt answered first, so no task awaits this call. Its result is unknown, but
    /// it counts as slow if it already exceeded the limit for slow calls.
    pub fn superseded(self, now: Instant) {
        let took = now.saturating_duration_since(self.began);
        if self.breaker.rules.slow_after.is_some_and(|bound| took > bound) {
            self.done(now, false);
        }
    }

    /// Reports that the call was answered or failed. The elapsed time decides whether it was slow.
    pub fn done(mut self, now: Instant, failed: bool) {
        let WorkerBreaker { rules, shared: breaker, window, .. } = &*self.breaker;
        let took = now.saturating_duration_since(self.began);
        let slow = rules.slow_after.is_some_and(|bound: Duration| took > bound);
        if self.probe {
            self.probe = false;
            let result = Some(CallResult { failed, slow });
            return self.breaker.count(breaker.probe_finished(rules, now, self.generation, result));
        }
        let word = breaker.packed_state();
        if word.state != BreakerState::Closed || word.generation != self.generation {
            return;
        }
        let tick = breaker.tick(now, rules, self.generation);
        window.add(CALLS, tick);
        if failed {
            window.add(FAILED, tick);
        }
        if slow {
            window.add(SLOW, tick);
        }
        if failed || slow {
            self.breaker.count(breaker.evaluate(rules, now, self.generation));
        }
    }
}

impl Drop for BreakerPermit {
    fn drop(&mut self) {
        if self.probe {
            let WorkerBreaker { rules, shared, .. } = &*self.breaker;
            // Without a result nothing is evaluated, so the time does not matter.
            let turn = shared.probe_finished(rules, self.began, self.generation, None);
            self.breaker.count(turn);
        }
    }
}

#[cfg(test)]
mod tests;
