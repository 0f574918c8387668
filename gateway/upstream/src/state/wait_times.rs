//! Publishes which workers have requests that wait for a connection, and since when.
//!
//! A worker publishes the start of its longest wait here. Other workers read it before they keep a connection
//! or a permit that became free.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// The value of `since` if no request waits.
const NOT_WAITING: u64 = u64::MAX;

/// Since when the first request of each worker waits, for connections to one endpoint or to a whole upstream.
/// The memory is allocated when the first request waits.
///
/// All orderings are `SeqCst`. A worker whose request starts to wait writes here and then looks for a free
/// permit. A worker that returns a permit does that first and then looks here. At least one of them sees the
/// other.
#[derive(Debug, Default)]
pub(crate) struct WaitTimes(OnceLock<Box<[WaitSlot]>>);

/// The slot of one worker, on its own cache line: the worker writes it whenever another request becomes the
/// first of a queue.
#[derive(Debug)]
#[repr(align(128))]
struct WaitSlot {
    /// In microseconds since the start, or [`NOT_WAITING`].
    since: AtomicU64,
    /// The worker knows that others wait and had nothing to give. It gives them what becomes free.
    is_exhausted: AtomicBool,
}

impl WaitTimes {
    fn slot(&self, worker: usize) -> Option<&WaitSlot> {
        self.0.get()?.get(worker)
    }

    /// Stores since when the first request of a worker, one of `workers`, waits; `None` if none waits.
    pub fn publish(&self, workers: usize, worker: usize, since: Option<u64>) {
        let slots = self.0.get_or_init(|| {
            let slot = |_| WaitSlot { since: NOT_WAITING.into(), is_exhausted: false.into() };
            (0..workers).map(slot).collect()
        });
        if let Some(slot) = slots.get(worker) {
            slot.since.store(since.unwrap_or(NOT_WAITING), Ordering::SeqCst);
        }
    }

    /// Whether a request of this worker waits.
    pub fn has_waiter(&self, worker: usize) -> bool {
        self.slot(worker).is_some_and(|slot| slot.since.load(Ordering::SeqCst) != NOT_WAITING)
    }

    /// Returns the workers with waiting requests, except one, and since when these wait.
    fn all(&self, except: Option<usize>) -> impl Iterator<Item = (usize, u64)> {
        let all = self.0.get().into_iter().flatten().enumerate();
        let waiting = all.map(|(worker, slot)| (worker, slot.since.load(Ordering::SeqCst)));
        waiting.filter(move |(worker, since)| Some(*worker) != except && *since != NOT_WAITING)
    }

    /// Returns the worker whose first request has waited longest, except one, and since when.
    pub fn longest(&self, except: Option<usize>) -> Option<(usize, u64)> {
        self.all(except).min_by_key(|(_, since)| *since)
    }

    /// Returns the workers with waiting requests, except one, sorted by how long they have waited, longest
    /// first.
    pub fn longest_first(&self, except: usize) -> Vec<usize> {
        let mut all: Vec<_> = self.all(Some(except)).collect();
        all.sort_unstable_by_key(|(_, since)| *since);
        all.into_iter().map(|(worker, _)| worker).collect()
    }

    /// Whether a worker already knows that others wait and has nothing to give, so that asking it is useless.
    pub fn is_exhausted(&self, worker: usize) -> bool {
        self.slot(worker).is_none_or(|slot| slot.is_exhausted.load(Ordering::SeqCst))
    }

    /// Sets whether a worker knows that others wait. A worker that clears its flag must look for waiters once
    /// more afterwards.
    pub fn set_exhausted(&self, worker: usize, is_exhausted: bool) {
        if let Some(slot) = self.slot(worker) {
            slot.is_exhausted.store(is_exhausted, Ordering::SeqCst);
        }
    }
}
