//! The adaptive limit of concurrent requests of an upstream, common to all workers.
//!
//! [`Adaptive`] is the shared state, [`WorkerAdaptive`] one worker's access to it. The proxy calls
//! [`acquire_adaptive`](crate::Upstream::acquire_adaptive) before an attempt and reports its latency through
//! [`AdaptivePermit`]. [`gradient`] computes the limit.

mod gradient;

use std::cell::Cell;
use std::rc::Rc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tollgate_observe::{AdaptiveStatus, Slot, WorkerStats};
use tollgate_plan::{Adaptive as AdaptiveRules, Priority};

use self::gradient::{Gradient, Measurements};

/// The number of priorities.
const PRIORITIES: usize = 3;
/// Upper bound of a worker's reports per interval.
const REPORTS_PER_INTERVAL: u32 = 4;
/// How long after a request of some priority a part of the limit stays reserved for that priority.
const RESERVED_FOR: Duration = Duration::from_secs(10);

/// State of an upstream's adaptive limit that all workers share.
///
/// A request costs two atomic additions that all workers share, so the limit is exact. Each worker adds up
/// the latencies of its own requests and reports them a few times per interval.
#[derive(Debug)]
pub(crate) struct Adaptive {
    start: Instant,
    counts: InFlightCounts,
    admission: AdmissionLimits,
    /// `None` if the limit is off.
    inner: Mutex<Option<LimitState>>,
}

/// Counts that every request changes, on their own cache line.
#[derive(Debug, Default)]
#[repr(align(128))]
struct InFlightCounts {
    in_flight: AtomicU32,
    /// Highest `in_flight` of the interval.
    peak: AtomicU32,
}

/// Values that every request reads and that rarely change.
#[derive(Debug, Default)]
#[repr(align(128))]
struct AdmissionLimits {
    /// The limit for each priority, the lowest priority first.
    allowed: [AtomicU32; PRIORITIES],
    /// Up to this many requests in flight count as no load.
    min: AtomicU32,
    /// In microseconds; longer latencies count as this.
    clip: AtomicU64,
    /// Number of the current period. During a period with an odd number, at most `min` requests were in
    /// flight at any time: it is calm.
    calm_period: AtomicU32,
}

#[derive(Debug)]
struct LimitState {
    gradient: Gradient,
    /// When a worker last reported a request of each priority.
    wanted: [Option<Duration>; PRIORITIES],
}

impl InFlightCounts {
    /// Counts a request if `in_flight` stays within `limit`. Returns the new `in_flight`.
    fn try_acquire(&self, limit: u32) -> Option<u32> {
        let taken = self
            .in_flight
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |count| (count < limit).then_some(count + 1));
        taken.ok().map(|before| self.reached(before + 1))
    }

    /// Counts a request regardless of the limit. Returns the new `in_flight`.
    fn acquire(&self) -> u32 {
        self.reached(self.in_flight.fetch_add(1, Ordering::Relaxed) + 1)
    }

    fn reached(&self, count: u32) -> u32 {
        if count > self.peak.load(Ordering::Relaxed) {
            self.peak.fetch_max(count, Ordering::Relaxed);
        }
        count
    }

    fn release(&self) {
        self.in_flight.fetch_sub(1, Ordering::Relaxed);
    }
}

impl AdmissionLimits {
    /// Updates the period after a request began and `in_flight` requests are in flight. Returns the period's
    /// number if it is calm.
    fn update_period(&self, in_flight: u32) -> Option<u32> {
        let calm = in_flight <= self.min.load(Ordering::Relaxed);
        let calm_period = self.calm_period.load(Ordering::Relaxed);
        if is_calm(calm_period) == calm {
            return calm.then_some(calm_period);
        }
        let next = calm_period.wrapping_add(1);
        let turned =
            self.calm_period.compare_exchange(calm_period, next, Ordering::Relaxed, Ordering::Relaxed);
        let now = turned.map_or_else(|other| other, |_| next);
        (calm && is_calm(now)).then_some(now)
    }
}

fn is_calm(calm_period: u32) -> bool {
    calm_period % 2 == 1
}

/// Computes the limit for each priority. A tenth is reserved for each higher priority that was recently
/// requested. Each priority may always have one request in flight.
fn allowed(limit: u32, wanted: [bool; PRIORITIES]) -> [u32; PRIORITIES] {
    let share = (limit / 10).max(1);
    std::array::from_fn(|rank| {
        let higher = wanted[rank + 1..].iter().map(|wanted| u32::from(*wanted)).sum::<u32>();
        limit.saturating_sub(share * higher).max(1)
    })
}

impl Adaptive {
    pub fn new(start: Instant) -> Self {
        Self {
            start,
            counts: InFlightCounts::default(),
            admission: AdmissionLimits::default(),
            inner: Mutex::default(),
        }
    }

    /// Adopts the rules of a plan.
    fn apply_rules(&self, rules: Option<&AdaptiveRules>) {
        let mut inner = self.lock();
        match (&mut *inner, rules) {
            (_, None) => *inner = None,
            (Some(inner), Some(rules)) => inner.gradient.set_rules(rules),
            (none, Some(rules)) => {
                *none = Some(LimitState { gradient: Gradient::new(rules), wanted: Default::default() });
            }
        }
        if let (Some(inner), Some(rules)) = (&*inner, rules) {
            self.admission.min.store(rules.min, Ordering::Relaxed);
            self.publish(inner, self.since_start(tollgate_net::now()));
        }
    }

    fn since_start(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.start)
    }

    /// Adds the measurements of a worker.
    fn report(&self, now: Duration, measured: Measurements, wanted: [bool; PRIORITIES]) {
        let mut inner = self.lock();
        let Some(inner) = &mut *inner else { return };
        for (last, wanted) in inner.wanted.iter_mut().zip(wanted) {
            if wanted {
                *last = Some(now);
            }
        }
        let load = &self.counts;
        if inner.gradient.add(now, load.peak.load(Ordering::Relaxed), measured) {
            load.peak.store(load.in_flight.load(Ordering::Relaxed), Ordering::Relaxed);
        }
        self.publish(inner, now);
    }

    fn publish(&self, inner: &LimitState, now: Duration) {
        let lately = |at: Duration| now.saturating_sub(at) < RESERVED_FOR;
        let wanted = inner.wanted.map(|at| at.is_some_and(lately));
        let limits = allowed(inner.gradient.limit(), wanted);
        for (limit, new) in self.admission.allowed.iter().zip(limits) {
            // Only if it differs, because other workers read this cache line.
            if limit.load(Ordering::Relaxed) != new {
                limit.store(new, Ordering::Relaxed);
            }
        }
        let (clip, new) = (&self.admission.clip, inner.gradient.clip());
        if clip.load(Ordering::Relaxed) != new {
            clip.store(new, Ordering::Relaxed);
        }
    }

    /// Returns the current state for the metrics; `None` if the limit is off.
    pub fn status(&self) -> Option<AdaptiveStatus> {
        let inner = self.lock();
        let gradient = &inner.as_ref()?.gradient;
        let in_flight = self.counts.in_flight.load(Ordering::Relaxed);
        Some(AdaptiveStatus { limit: gradient.limit(), in_flight, base: gradient.base_latency() })
    }

    fn lock(&self) -> MutexGuard<'_, Option<LimitState>> {
        // A panic under the lock cannot leave the value half changed.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A worker's access to the adaptive limit of an upstream.
#[derive(Debug)]
pub(crate) struct WorkerAdaptive {
    shared: Arc<Adaptive>,
    stats: Arc<WorkerStats>,
    slot: Slot,
    /// Time between two reports.
    pause: Duration,
    /// Measurements that were not reported yet.
    measured: Cell<Measurements>,
    wanted: Cell<[bool; PRIORITIES]>,
    /// When the next report is due, since the start.
    due: Cell<Duration>,
}

impl WorkerAdaptive {
    /// Creates the access if the upstream has an adaptive limit. Applies the rules to the shared state either
    /// way.
    pub fn new(
        rules: Option<&AdaptiveRules>,
        shared: &Arc<Adaptive>,
        stats: &Arc<WorkerStats>,
        slot: Slot,
    ) -> Option<Rc<Self>> {
        shared.apply_rules(rules);
        rules.map(|rules| {
            Rc::new(Self {
                shared: shared.clone(),
                stats: stats.clone(),
                slot,
                pause: rules.interval / REPORTS_PER_INTERVAL,
                measured: Cell::default(),
                wanted: Cell::default(),
                due: Cell::default(),
            })
        })
    }

    /// Admits or rejects a request. A rejection is counted.
    pub fn enter(self: &Rc<Self>, priority: Priority, now: Instant) -> Option<AdaptivePermit> {
        let Adaptive { counts: load, admission, .. } = &*self.shared;
        let rank = priority as usize;
        let mut wanted = self.wanted.get();
        wanted[rank] = true;
        self.wanted.set(wanted);
        let Some(in_flight) = load.try_acquire(admission.allowed[rank].load(Ordering::Relaxed)) else {
            self.stats.upstream_shed(self.slot, rank);
            self.record(now, |_| {});
            return None;
        };
        let calm_period = admission.update_period(in_flight);
        Some(AdaptivePermit { access: self.clone(), began: now, calm_period, counted: true })
    }

    /// Whether an attempt that starts now would be admitted. Changes nothing.
    pub fn has_capacity(&self, priority: Priority) -> bool {
        let Adaptive { counts: load, admission, .. } = &*self.shared;
        let limit = admission.allowed[priority as usize].load(Ordering::Relaxed);
        load.in_flight.load(Ordering::Relaxed) < limit
    }

    /// Records a measurement, and reports all measurements if a report is due.
    fn record(&self, now: Instant, note: impl FnOnce(&mut Measurements)) {
        let mut measured = self.measured.get();
        note(&mut measured);
        let now = self.shared.since_start(now);
        if now >= self.due.get() {
            self.due.set(now + self.pause);
            self.shared.report(now, std::mem::take(&mut measured), self.wanted.take());
        }
        self.measured.set(measured);
    }

    fn record_latency(&self, took: Duration, calm_period: Option<u32>, now: Instant) {
        let admission = &self.shared.admission;
        let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        let micros = micros.min(admission.clip.load(Ordering::Relaxed));
        // Counts as calm only if the period is still the one in which the request began.
        let calm_period =
            calm_period.filter(|calm_period| admission.calm_period.load(Ordering::Relaxed) == *calm_period);
        self.record(now, |measured| {
            measured.all.add(micros);
            if let Some(calm_period) = calm_period {
                if measured.calm_period != calm_period {
                    (measured.calm_period, measured.calm) = (calm_period, Default::default());
                }
                measured.calm.add(micros);
            }
        });
    }
}

/// The error of an attempt that the adaptive limit rejects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AdaptiveFull;

/// One attempt in flight, from admission to the head of its response. Later bytes also depend on the client's
/// speed. If it is dropped without a result, it adds no measurement.
#[derive(Debug)]
pub struct AdaptivePermit {
    access: Rc<WorkerAdaptive>,
    /// When the upstream could begin to work on the attempt.
    began: Instant,
    calm_period: Option<u32>,
    counted: bool,
}

impl AdaptivePermit {
    /// Reports that the request is being sent now. Time before that was not spent by the upstream.
    pub fn sending(&mut self, now: Instant) {
        self.began = now;
    }

    /// Reports that the upstream waits for the rest of the body, which a slow client may delay. This time
    /// counts neither as load nor as latency.
    pub fn suspend(&mut self) {
        if std::mem::take(&mut self.counted) {
            self.access.shared.counts.release();
        }
    }

    /// Reports that the whole request was sent. From now on the attempt counts again, even above the limit.
    pub fn resume(&mut self, now: Instant) {
        if !self.counted {
            let Adaptive { counts: load, admission, .. } = &*self.access.shared;
            self.counted = true;
            self.began = now;
            self.calm_period = admission.update_period(load.acquire());
        }
    }

    /// Reports that the head of the response arrived, or that the wait for it timed out.
    pub fn done(mut self, now: Instant) {
        if self.counted {
            self.suspend();
            self.access.record_latency(now.saturating_duration_since(self.began), self.calm_period, now);
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
