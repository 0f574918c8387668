//! A counter that one thread writes and any thread reads.

use std::sync::atomic::{AtomicU64, Ordering};

/// A counter; wraps at 2^64.
///
/// It uses a relaxed load and a relaxed store, never a read-modify-write. A locked add costs about 20 cycles
/// even on a cache line that no other core holds, and there is no other writer. With two writers, counts
/// would be lost.
#[derive(Debug, Default)]
pub(super) struct Counter(AtomicU64);

impl Counter {
    #[inline]
    pub(super) fn add(&self, count: u64) {
        self.0.store(self.0.load(Ordering::Relaxed).wrapping_add(count), Ordering::Relaxed);
    }

    #[inline]
    pub(super) fn increment(&self) {
        self.add(1);
    }

    /// Sets the value, for a level rather than a count.
    #[inline]
    pub(super) fn set(&self, value: u64) {
        self.0.store(value, Ordering::Relaxed);
    }

    pub(super) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}
