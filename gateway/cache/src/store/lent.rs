//! Objects that are not stored any more and are still being sent.
//!
//! An object that is evicted, replaced or purged is freed when its last reader drops it, which a client that reads slowly
//! can delay. The store counts these objects, and stores no further long bodies while they and the running fetches exceed
//! a bound, so slow clients cannot make it hold more and more. Invariant: the sum is at least the cost of the objects that
//! are lent and alive; [`Lent::recount`] leaves out those that were freed.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use super::counters::Bytes;
use super::stored::Stored;

/// Objects that cost less are not counted: the buffers of a connection cost no less.
pub(super) const SHORT_BYTES: u64 = 64 * 1024;

/// The objects, each with its cost.
#[derive(Debug, Default)]
pub(super) struct Lent {
    objects: Mutex<Vec<(Weak<Stored>, u64)>>,
    bytes: Bytes,
}

impl Lent {
    /// Counts an object that the caller has removed, if anything besides the caller still refers to it.
    pub fn add(&self, object: &Arc<Stored>) {
        let cost = object.cost();
        if cost <= SHORT_BYTES || Arc::strong_count(object) < 2 {
            return;
        }
        let mut objects = self.lock();
        objects.push((Arc::downgrade(object), cost));
        self.bytes.add(cost);
        // Rarely enough to cost nothing, and often enough to bound the list by twice what is alive.
        if objects.len().is_power_of_two() {
            self.leave_out_freed(&mut objects);
        }
    }

    /// The sum, which may include objects that were freed.
    pub fn bytes(&self) -> u64 {
        self.bytes.get()
    }

    /// Counts again.
    pub fn recount(&self) -> u64 {
        self.leave_out_freed(&mut self.lock());
        self.bytes.get()
    }

    fn leave_out_freed(&self, objects: &mut Vec<(Weak<Stored>, u64)>) {
        objects.retain(|(object, cost)| {
            let is_alive = object.strong_count() > 0;
            if !is_alive {
                self.bytes.subtract(*cost);
            }
            is_alive
        });
    }

    fn lock(&self) -> MutexGuard<'_, Vec<(Weak<Stored>, u64)>> {
        self.objects.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
