//! Counts of attempts and failures at an endpoint. Each worker counts for itself; a reader adds the counts
//! up.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// One worker's counts of one endpoint. Only that worker writes them; any thread reads them.
///
/// They are aligned to a pair of cache lines, so that no two workers write to the same one.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct Traffic {
    attempts: AtomicU64,
    failures: AtomicU64,
}

impl Traffic {
    #[inline]
    pub(super) fn attempt(&self) {
        increment(&self.attempts);
    }

    pub(super) fn failure(&self) {
        increment(&self.failures);
    }
}

/// A load and a store instead of a read-modify-write, because no other thread writes.
#[inline]
fn increment(counter: &AtomicU64) {
    counter.store(counter.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
}

/// Sums over all workers, since the state of the endpoint was created.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TrafficTotals {
    /// Attempts that ended, successfully or not.
    pub attempts: u64,
    /// Attempts that failed or were answered with 5xx.
    pub failures: u64,
}

impl TrafficTotals {
    fn add(&mut self, part: &Traffic) {
        // In this order: a failure without its attempt would make a rate above 1.
        self.failures += part.failures.load(Ordering::Relaxed);
        self.attempts += part.attempts.load(Ordering::Relaxed);
    }

    /// Returns the counts since an earlier reading.
    pub(super) fn since(self, before: Self) -> Self {
        Self {
            attempts: self.attempts.saturating_sub(before.attempts),
            failures: self.failures.saturating_sub(before.failures),
        }
    }
}

/// The workers' counts of one endpoint.
#[derive(Debug, Default)]
pub(super) struct WorkerCounters(Mutex<(Vec<Arc<Traffic>>, TrafficTotals)>);

impl WorkerCounters {
    /// Adds counters for one worker.
    pub(super) fn add(&self) -> Arc<Traffic> {
        let part = Arc::new(Traffic::default());
        let mut guard = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (parts, gone) = &mut *guard;
        // Keeps the counts of pools that are gone.
        parts.retain(|part| {
            let alive = Arc::strong_count(part) > 1;
            if !alive {
                gone.add(part);
            }
            alive
        });
        parts.push(part.clone());
        part
    }

    pub(super) fn totals(&self) -> TrafficTotals {
        let guard = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (parts, gone) = &*guard;
        let mut sum = *gone;
        parts.iter().for_each(|part| sum.add(part));
        sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn removed_endpoints_still_count_without_memory() {
        let parts = WorkerCounters::default();
        let kept = parts.add();
        for _ in 0..100 {
            let part = parts.add();
            part.attempt();
            part.failure();
            kept.attempt();
        }
        let _last = parts.add();
        assert_eq!(parts.totals(), TrafficTotals { attempts: 200, failures: 100 });
        assert!(parts.0.lock().unwrap().0.len() <= 2);
    }
}
