//! A limit of concurrent requests that finds its own height, one for all workers.

mod gradient;

use std::cell::Cell;
use std::rc::Rc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tollgate_observe::{AdaptiveStatus, Slot, WorkerStats};
use tollgate_plan::{Adaptive as Rules, Priority};

use self::gradient::{Gradient, Seen};
use crate::{Upstream, UpstreamState};

/// How many priorities there are.
const PRIORITIES: usize = 3;
/// A worker tells what it has seen so many times in an interval at most.
const TELLS: u32 = 4;
/// For how long after a request of some priority a part of the limit is kept free for the next.
const KEPT: Duration = Duration::from_secs(10);

/// What all workers know of an upstream's adaptive limit.
///
/// A request costs two additions that all workers share, so the limit is exact. What answers take is added up by each
/// worker, and told a few times in an interval.
#[derive(Debug)]
pub(crate) struct Adaptive {
    start: Instant,
    load: Load,
    gate: Gate,
    /// `None`: the limit is off.
    inner: Mutex<Option<Inner>>,
}

/// What every request changes, on a cache line of its own.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Load {
    in_flight: AtomicU32,
    /// The most in the interval.
    peak: AtomicU32,
}

/// What every request reads and few change.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Gate {
    /// The limit for each priority, the lowest first.
    allowed: [AtomicU32; PRIORITIES],
    /// Up to this many under way are no load.
    min: AtomicU32,
    /// In microseconds: longer answers count as this.
    clip: AtomicU64,
    /// The stretch of time: in an odd one no more than `min` were under way at any time.
    stretch: AtomicU32,
}

#[derive(Debug)]
struct Inner {
    gradient: Gradient,
    /// When requests of each priority were last told of.
    wanted: [Option<Duration>; PRIORITIES],
}

impl Load {
    /// Takes a place, if that leaves no more than `limit`; says how many are under way with it.
    fn take(&self, limit: u32) -> Option<u32> {
        let taken = self
            .in_flight
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |count| (count < limit).then_some(count + 1));
        taken.ok().map(|before| self.reached(before + 1))
    }

    /// Takes a place whatever the limit is.
    fn take_anyway(&self) -> u32 {
        self.reached(self.in_flight.fetch_add(1, Ordering::Relaxed) + 1)
    }

    fn reached(&self, count: u32) -> u32 {
        if count > self.peak.load(Ordering::Relaxed) {
            self.peak.fetch_max(count, Ordering::Relaxed);
        }
        count
    }

    fn give_back(&self) {
        self.in_flight.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Gate {
    /// One more has begun, so that so many are under way: the stretch, if it is a calm one.
    fn enter(&self, in_flight: u32) -> Option<u32> {
        let calm = in_flight <= self.min.load(Ordering::Relaxed);
        let stretch = self.stretch.load(Ordering::Relaxed);
        if is_calm(stretch) == calm {
            return calm.then_some(stretch);
        }
        let next = stretch.wrapping_add(1);
        let turned = self.stretch.compare_exchange(stretch, next, Ordering::Relaxed, Ordering::Relaxed);
        let now = turned.map_or_else(|other| other, |_| next);
        (calm && is_calm(now)).then_some(now)
    }
}

fn is_calm(stretch: u32) -> bool {
    stretch % 2 == 1
}

/// The limit for each priority: a tenth of it is kept free for each higher one that was asked for lately, and whatever
/// is kept, one request may always be under way.
fn allowed(limit: u32, wanted: [bool; PRIORITIES]) -> [u32; PRIORITIES] {
    let share = (limit / 10).max(1);
    std::array::from_fn(|rank| {
        let higher = wanted[rank + 1..].iter().map(|wanted| u32::from(*wanted)).sum::<u32>();
        limit.saturating_sub(share * higher).max(1)
    })
}

impl Adaptive {
    pub fn new(start: Instant) -> Self {
        Self { start, load: Load::default(), gate: Gate::default(), inner: Mutex::default() }
    }

    /// Takes over the rules of a plan.
    fn change(&self, rules: Option<&Rules>) {
        let mut inner = self.lock();
        match (&mut *inner, rules) {
            (_, None) => *inner = None,
            (Some(inner), Some(rules)) => inner.gradient.change(rules),
            (none, Some(rules)) => {
                *none = Some(Inner { gradient: Gradient::new(rules), wanted: Default::default() });
            }
        }
        if let (Some(inner), Some(rules)) = (&*inner, rules) {
            self.gate.min.store(rules.min, Ordering::Relaxed);
            self.publish(inner, self.since_start(tollgate_net::now()));
        }
    }

    fn since_start(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.start)
    }

    /// Takes in what a worker has seen.
    fn tell(&self, now: Duration, seen: Seen, wanted: [bool; PRIORITIES]) {
        let mut inner = self.lock();
        let Some(inner) = &mut *inner else { return };
        for (last, wanted) in inner.wanted.iter_mut().zip(wanted) {
            if wanted {
                *last = Some(now);
            }
        }
        let load = &self.load;
        if inner.gradient.see(now, load.peak.load(Ordering::Relaxed), seen) {
            load.peak.store(load.in_flight.load(Ordering::Relaxed), Ordering::Relaxed);
        }
        self.publish(inner, now);
    }

    fn publish(&self, inner: &Inner, now: Duration) {
        let lately = |at: Duration| now.saturating_sub(at) < KEPT;
        let wanted = inner.wanted.map(|at| at.is_some_and(lately));
        let limits = allowed(inner.gradient.limit(), wanted);
        for (limit, new) in self.gate.allowed.iter().zip(limits) {
            // Only what is different: others read this line.
            if limit.load(Ordering::Relaxed) != new {
                limit.store(new, Ordering::Relaxed);
            }
        }
        let (clip, new) = (&self.gate.clip, inner.gradient.clip());
        if clip.load(Ordering::Relaxed) != new {
            clip.store(new, Ordering::Relaxed);
        }
    }

    /// How it stands; `None`: it is off.
    pub fn status(&self) -> Option<AdaptiveStatus> {
        let inner = self.lock();
        let gradient = &inner.as_ref()?.gradient;
        let in_flight = self.load.in_flight.load(Ordering::Relaxed);
        Some(AdaptiveStatus { limit: gradient.limit(), in_flight, base: gradient.base() })
    }

    fn lock(&self) -> MutexGuard<'_, Option<Inner>> {
        // Nothing that holds the lock can leave it half done.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A worker's hand on the adaptive limit of an upstream.
#[derive(Debug)]
pub(crate) struct WorkerAdaptive {
    shared: Arc<UpstreamState>,
    stats: Arc<WorkerStats>,
    slot: Slot,
    /// From one telling to the next.
    pause: Duration,
    /// What was not told yet.
    seen: Cell<Seen>,
    wanted: Cell<[bool; PRIORITIES]>,
    /// When it is to be told, from the start.
    due: Cell<Duration>,
}

impl WorkerAdaptive {
    /// If the upstream has such a limit.
    pub fn new(
        rules: Option<&Rules>,
        shared: &Arc<UpstreamState>,
        stats: &Arc<WorkerStats>,
        slot: Slot,
    ) -> Option<Rc<Self>> {
        shared.adaptive.change(rules);
        rules.map(|rules| {
            Rc::new(Self {
                shared: shared.clone(),
                stats: stats.clone(),
                slot,
                pause: rules.interval / TELLS,
                seen: Cell::default(),
                wanted: Cell::default(),
                due: Cell::default(),
            })
        })
    }

    /// Lets a request through, or not, which is counted.
    fn enter(self: &Rc<Self>, priority: Priority, now: Instant) -> Option<AdaptivePermit> {
        let Adaptive { load, gate, .. } = &self.shared.adaptive;
        let rank = priority as usize;
        let mut wanted = self.wanted.get();
        wanted[rank] = true;
        self.wanted.set(wanted);
        let Some(in_flight) = load.take(gate.allowed[rank].load(Ordering::Relaxed)) else {
            self.stats.upstream_shed(self.slot, rank);
            self.saw(now, |_| {});
            return None;
        };
        let stretch = gate.enter(in_flight);
        Some(AdaptivePermit { hand: self.clone(), began: now, stretch, counted: true })
    }

    /// Notes something, and tells it when that is due.
    fn saw(&self, now: Instant, note: impl FnOnce(&mut Seen)) {
        let mut seen = self.seen.get();
        note(&mut seen);
        let now = self.shared.adaptive.since_start(now);
        if now >= self.due.get() {
            self.due.set(now + self.pause);
            self.shared.adaptive.tell(now, std::mem::take(&mut seen), self.wanted.take());
        }
        self.seen.set(seen);
    }

    fn answered(&self, took: Duration, stretch: Option<u32>, now: Instant) {
        let gate = &self.shared.adaptive.gate;
        let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        let micros = micros.min(gate.clip.load(Ordering::Relaxed));
        // Calm from its begin to its end.
        let stretch = stretch.filter(|stretch| gate.stretch.load(Ordering::Relaxed) == *stretch);
        self.saw(now, |seen| {
            seen.all.add(micros);
            if let Some(stretch) = stretch {
                if seen.stretch != stretch {
                    (seen.stretch, seen.calm) = (stretch, Default::default());
                }
                seen.calm.add(micros);
            }
        });
    }
}

impl Upstream {
    /// Lets an attempt through, as far as the adaptive limit goes: `Ok(None)` where there is none.
    ///
    /// # Errors
    /// When as many are under way as that allows for this priority, which is counted.
    #[inline]
    pub fn enter(&self, priority: Priority, now: Instant) -> Result<Option<AdaptivePermit>, AdaptiveFull> {
        match &self.adaptive {
            None => Ok(None),
            Some(adaptive) => adaptive.enter(priority, now).map(Some).ok_or(AdaptiveFull),
        }
    }

    /// Whether an attempt that began now would be let through.
    #[must_use]
    pub fn has_room(&self, priority: Priority) -> bool {
        self.adaptive.as_ref().is_none_or(|adaptive| {
            let Adaptive { load, gate, .. } = &adaptive.shared.adaptive;
            let limit = gate.allowed[priority as usize].load(Ordering::Relaxed);
            load.in_flight.load(Ordering::Relaxed) < limit
        })
    }
}

/// The adaptive limit lets nothing more through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AdaptiveFull;

/// One attempt under way, from when it is let through to the head of its response: what comes after that is a matter of
/// the client's speed too. Dropped without a result it tells nothing of the upstream.
#[derive(Debug)]
pub struct AdaptivePermit {
    hand: Rc<WorkerAdaptive>,
    /// When the upstream could begin to work on it.
    began: Instant,
    stretch: Option<u32>,
    counted: bool,
}

impl AdaptivePermit {
    /// The request goes out now: what came before was no work of the upstream's.
    pub fn sending(&mut self, now: Instant) {
        self.began = now;
    }

    /// The upstream waits for the rest of the body, for which a slow client may take its time: that does not count as
    /// load, nor as latency.
    pub fn suspend(&mut self) {
        if std::mem::take(&mut self.counted) {
            self.hand.shared.adaptive.load.give_back();
        }
    }

    /// The whole of the request has gone out. From here on it counts, whatever the limit is by now.
    pub fn resume(&mut self, now: Instant) {
        if !self.counted {
            let Adaptive { load, gate, .. } = &self.hand.shared.adaptive;
            self.counted = true;
            self.began = now;
            self.stretch = gate.enter(load.take_anyway());
        }
    }

    /// The head of its response is here, or it has waited too long for it.
    pub fn done(mut self, now: Instant) {
        if self.counted {
            self.suspend();
            self.hand.answered(now.saturating_duration_since(self.began), self.stretch, now);
        }
    }
}

impl Drop for AdaptivePermit {
    fn drop(&mut self) {
        self.suspend();
    }
}

#[cfg(test)]
mod tests;
