//! Which workers wait for a connection, and since when: what they know of each other's queues.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::peers::Peers;

/// No request waits.
const NOBODY: u64 = u64::MAX;

/// Since when the first request of each worker waits, for connections to one endpoint or to a whole upstream. Its
/// memory is taken when somebody waits for the first time.
///
/// All orderings are `SeqCst`: who begins to wait writes here and then looks for a free place; who gives one back does
/// that first and then looks here. One of them sees the other.
#[derive(Debug, Default)]
pub(crate) struct Waiting(OnceLock<Box<[Slot]>>);

/// A worker's, on a cache line of its own: it is written with every request that comes to the front of a queue.
#[derive(Debug)]
#[repr(align(128))]
struct Slot {
    /// In microseconds from the start; [`NOBODY`].
    since: AtomicU64,
    /// This worker knows that others wait and has nothing to give: what comes free goes to them.
    knows: AtomicBool,
}

impl Waiting {
    fn slot(&self, worker: usize) -> Option<&Slot> {
        self.0.get()?.get(worker)
    }

    /// Says since when the first request of a worker waits.
    pub fn publish(&self, peers: &Peers, worker: usize, since: Option<u64>) {
        let slots = self.0.get_or_init(|| {
            let slot = |_| Slot { since: NOBODY.into(), knows: false.into() };
            (0..peers.workers()).map(slot).collect()
        });
        if let Some(slot) = slots.get(worker) {
            slot.since.store(since.unwrap_or(NOBODY), Ordering::SeqCst);
        }
    }

    /// Whether a request of this worker waits.
    pub fn at(&self, worker: usize) -> bool {
        self.slot(worker).is_some_and(|slot| slot.since.load(Ordering::SeqCst) != NOBODY)
    }

    /// The workers where requests wait, all but one, and since when.
    fn all(&self, except: Option<usize>) -> impl Iterator<Item = (usize, u64)> {
        let all = self.0.get().into_iter().flatten().enumerate();
        let waiting = all.map(|(worker, slot)| (worker, slot.since.load(Ordering::SeqCst)));
        waiting.filter(move |(worker, since)| Some(*worker) != except && *since != NOBODY)
    }

    /// The worker whose first request waits the longest, of all but one, and since when.
    pub fn longest(&self, except: Option<usize>) -> Option<(usize, u64)> {
        self.all(except).min_by_key(|(_, since)| *since)
    }

    /// The workers where requests wait, all but one, the one whose first request waits the longest first.
    pub fn in_order(&self, except: usize) -> Vec<usize> {
        let mut all: Vec<_> = self.all(Some(except)).collect();
        all.sort_unstable_by_key(|(_, since)| *since);
        all.into_iter().map(|(worker, _)| worker).collect()
    }

    /// Whether a worker knows that others wait, and has nothing to give: it need not be asked.
    pub fn knows(&self, worker: usize) -> bool {
        self.slot(worker).is_none_or(|slot| slot.knows.load(Ordering::SeqCst))
    }

    /// Says of a worker whether it knows. One that forgets looks once more who waits after this.
    pub fn set_knows(&self, worker: usize, knows: bool) {
        if let Some(slot) = self.slot(worker) {
            slot.knows.store(knows, Ordering::SeqCst);
        }
    }
}
