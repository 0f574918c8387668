//! The breaker: past a ratio of failed or slow calls an upstream is left alone for a while.

use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tollgate_observe::{BreakerTurn, Slot, WorkerStats};
use tollgate_plan::{Breaker as Rules, Percent};

use crate::window::{SPAN, Window};
use crate::{Upstream, UpstreamState};

/// Kinds of counts in a window.
const CALLS: usize = 0;
const FAILED: usize = 1;
const SLOW: usize = 2;

/// Whether an upstream gets requests, as its breaker says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BreakerState {
    /// It does; they are counted.
    Closed,
    /// It does not.
    Open,
    /// A few probe it, the others wait for what becomes of those.
    HalfOpen,
}

/// What all workers know of an upstream's breaker.
///
/// As in resilience4j: closed, it counts over a window of time, and past a ratio of failures (or of slow calls) it
/// opens; after a time it lets a few calls through, and by their ratios closes or opens again. Where it is closed, a
/// call reads one word and counts for its own worker; only a call that went wrong adds up what all workers counted.
#[derive(Debug)]
pub(crate) struct Breaker {
    start: Instant,
    /// A [`Word`].
    word: AtomicU64,
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    /// What each worker counts, by its number.
    workers: Vec<Arc<Window<3>>>,
    /// How long they reach.
    window: Duration,
    /// Of the probes while half open: under way, and what became of the others.
    under_way: u32,
    done: u32,
    failed: u32,
    slow: u32,
}

/// State, generation and time in one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Word {
    state: BreakerState,
    /// Grows with each change: what began before one says nothing about what came after it.
    generation: u32,
    /// Until when it stays open, in milliseconds from the start.
    until: u64,
}

impl Word {
    const STATE_BITS: u32 = 2;
    const GENERATION_BITS: u32 = 22;
    /// How far apart the ticks of two generations are: more than a [`SPAN`], and such that ticks and generations wrap
    /// together.
    const TICKS_APART: u32 = 1 << (u32::BITS - Self::GENERATION_BITS);

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
        Self { start, word: AtomicU64::new(0), inner: Mutex::default() }
    }

    /// The window of a worker; the same one each time, while they reach as far.
    fn worker(&self, number: usize, window: Duration) -> Arc<Window<3>> {
        let inner = &mut *self.lock();
        let workers = &mut inner.workers;
        if inner.window != window {
            // Ticks of another length have other numbers: for a long time what is counted would be taken for late.
            inner.window = window;
            workers.clear();
        }
        while workers.len() <= number {
            workers.push(Arc::default());
        }
        workers[number].clone()
    }

    #[inline]
    fn word(&self) -> Word {
        Word::unpack(self.word.load(Ordering::Relaxed))
    }

    pub fn state(&self) -> BreakerState {
        self.word().state
    }

    fn milliseconds(&self, now: Instant) -> u64 {
        let since = now.saturating_duration_since(self.start);
        since.as_secs() * 1000 + u64::from(since.subsec_millis())
    }

    /// The tick of the windows. Each generation has its own, more than a span apart: so what was counted in one is over
    /// in the next, without anyone having to clear another worker's counts.
    fn tick(&self, now: Instant, rules: &Rules, generation: u32) -> u32 {
        let width = (rules.window.as_millis() as u64 / u64::from(SPAN)).max(1);
        ((self.milliseconds(now) / width) as u32).wrapping_add(generation.wrapping_mul(Word::TICKS_APART))
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // Nothing that holds the lock can leave it half done.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Moves on to another state. For who holds the lock: so nobody else moves it meanwhile.
    fn turn(&self, inner: &mut Inner, to: Word) {
        let Inner { under_way, done, failed, slow, .. } = inner;
        (*under_way, *done, *failed, *slow) = (0, 0, 0, 0);
        self.word.store(to.pack(), Ordering::Relaxed);
    }

    fn open(&self, inner: &mut Inner, from: Word, rules: &Rules, now: Instant) -> BreakerTurn {
        let open = u64::try_from(rules.open.as_millis()).unwrap_or(u64::from(u32::MAX));
        self.turn(inner, from.next(BreakerState::Open, self.milliseconds(now) + open));
        match from.state {
            BreakerState::Closed => BreakerTurn::Opened,
            BreakerState::Open | BreakerState::HalfOpen => BreakerTurn::OpenedAgain,
        }
    }

    /// Whether a call that began now would be let through.
    fn admits(&self, rules: &Rules, now: Instant) -> bool {
        let word = self.word();
        match word.state {
            BreakerState::Closed => true,
            BreakerState::Open => self.milliseconds(now) >= word.until,
            BreakerState::HalfOpen => {
                let inner = self.lock();
                inner.under_way + inner.done < rules.probes
            }
        }
    }

    /// Lets a call through, or not. The generation is the permit's; the flag: it is a probe.
    fn admit(&self, rules: &Rules, now: Instant) -> Option<(u32, bool)> {
        let word = self.word();
        if word.state == BreakerState::Closed {
            return Some((word.generation, false));
        }
        let mut inner = self.lock();
        let mut word = self.word();
        if word.state == BreakerState::Open {
            if self.milliseconds(now) < word.until {
                return None;
            }
            word = word.next(BreakerState::HalfOpen, 0);
            self.turn(&mut inner, word);
        }
        match word.state {
            BreakerState::HalfOpen if inner.under_way + inner.done < rules.probes => {
                inner.under_way += 1;
                Some((word.generation, true))
            }
            BreakerState::HalfOpen => None,
            // Another worker's probes have closed it meanwhile.
            _ => Some((word.generation, false)),
        }
    }

    /// A call that went wrong: perhaps it was one too many.
    fn judge(&self, rules: &Rules, now: Instant, generation: u32) -> Option<BreakerTurn> {
        let mut inner = self.lock();
        let word = self.word();
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

    /// What became of a probe; `None`: nobody knows, and another call may probe in its place.
    fn probed(
        &self,
        rules: &Rules,
        now: Instant,
        generation: u32,
        result: Option<CallResult>,
    ) -> Option<BreakerTurn> {
        let mut inner = self.lock();
        let word = self.word();
        if word.state != BreakerState::HalfOpen || word.generation != generation {
            return None;
        }
        inner.under_way = inner.under_way.saturating_sub(1);
        let result = result?;
        inner.done += 1;
        inner.failed += u32::from(result.failed);
        inner.slow += u32::from(result.slow);
        // Once the ratio is sure to be reached, the others can change nothing.
        if is_bad(rules, rules.probes.into(), inner.failed.into(), inner.slow.into()) {
            return Some(self.open(&mut inner, word, rules, now));
        }
        if inner.done < rules.probes {
            return None;
        }
        self.turn(&mut inner, word.next(BreakerState::Closed, 0));
        Some(BreakerTurn::Closed)
    }

    /// Closes it: a plan without a breaker has come.
    fn close(&self) -> Option<BreakerTurn> {
        if self.state() == BreakerState::Closed {
            return None;
        }
        let mut inner = self.lock();
        let word = self.word();
        if word.state == BreakerState::Closed {
            return None;
        }
        self.turn(&mut inner, word.next(BreakerState::Closed, 0));
        Some(BreakerTurn::Closed)
    }
}

/// Whether so many of these calls are too many.
fn is_bad(rules: &Rules, calls: u64, failed: u64, slow: u64) -> bool {
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

/// A worker's hand on the breaker of an upstream.
#[derive(Debug)]
pub(crate) struct WorkerBreaker {
    rules: Rules,
    shared: Arc<UpstreamState>,
    window: Arc<Window<3>>,
    stats: Arc<WorkerStats>,
    slot: Slot,
}

impl WorkerBreaker {
    /// For a worker of this number, if the upstream has a breaker.
    pub fn new(
        rules: Option<&Rules>,
        worker: usize,
        shared: &Arc<UpstreamState>,
        stats: &Arc<WorkerStats>,
        slot: Slot,
    ) -> Option<Rc<Self>> {
        let Some(rules) = rules else {
            if let Some(turn) = shared.breaker.close() {
                stats.upstream_breaker(slot, turn);
            }
            return None;
        };
        Some(Rc::new(Self {
            rules: rules.clone(),
            window: shared.breaker.worker(worker, rules.window),
            shared: shared.clone(),
            stats: stats.clone(),
            slot,
        }))
    }

    /// Whether a call that began now would be let through.
    pub fn admits(&self, now: Instant) -> bool {
        self.shared.breaker.admits(&self.rules, now)
    }

    /// Lets a call through, or not.
    pub fn admit(self: &Rc<Self>, now: Instant) -> Option<BreakerPermit> {
        let Some((generation, probe)) = self.shared.breaker.admit(&self.rules, now) else {
            self.stats.upstream_breaker_refused(self.slot);
            return None;
        };
        Some(BreakerPermit { breaker: self.clone(), began: now, generation, probe })
    }

    fn count(&self, turn: Option<BreakerTurn>) {
        if let Some(turn) = turn {
            self.stats.upstream_breaker(self.slot, turn);
        }
    }
}

impl Upstream {
    /// Lets a call through: `Ok(None)` where there is no breaker.
    ///
    /// # Errors
    /// When the breaker is open, which is counted.
    #[inline]
    pub fn admit(&self, now: Instant) -> Result<Option<BreakerPermit>, CircuitOpen> {
        match &self.breaker {
            None => Ok(None),
            Some(breaker) => breaker.admit(now).map(Some).ok_or(CircuitOpen),
        }
    }

    /// Whether a call that began now would be let through.
    pub fn would_admit(&self, now: Instant) -> bool {
        self.breaker.as_ref().is_none_or(|breaker| breaker.admits(now))
    }
}

/// The breaker lets nothing through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CircuitOpen;

/// One call that a breaker has let through. Dropped without a result it counts for nothing, and the place of a probe is
/// another's.
#[derive(Debug)]
pub struct BreakerPermit {
    breaker: Rc<WorkerBreaker>,
    began: Instant,
    generation: u32,
    probe: bool,
}

impl BreakerPermit {
    /// Nobody waits for the call any longer, because another one answered first. What it would have come to nobody
    /// knows; that it was slow is known by now, or is not.
    pub fn overtaken(self, now: Instant) {
        let took = now.saturating_duration_since(self.began);
        if self.breaker.rules.slow_after.is_some_and(|bound| took > bound) {
            self.done(now, false);
        }
    }

    /// The call has been answered, or has failed. It is slow or not by the time that this took.
    pub fn done(mut self, now: Instant, failed: bool) {
        let WorkerBreaker { rules, shared, window, .. } = &*self.breaker;
        let breaker = &shared.breaker;
        let took = now.saturating_duration_since(self.began);
        let slow = rules.slow_after.is_some_and(|bound: Duration| took > bound);
        if self.probe {
            self.probe = false;
            let result = Some(CallResult { failed, slow });
            return self.breaker.count(breaker.probed(rules, now, self.generation, result));
        }
        let word = breaker.word();
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
            self.breaker.count(breaker.judge(rules, now, self.generation));
        }
    }
}

impl Drop for BreakerPermit {
    fn drop(&mut self) {
        if self.probe {
            let WorkerBreaker { rules, shared, .. } = &*self.breaker;
            // Without a result nothing is judged, so the time does not matter.
            let turn = shared.breaker.probed(rules, self.began, self.generation, None);
            self.breaker.count(turn);
        }
    }
}

#[cfg(test)]
mod tests;
