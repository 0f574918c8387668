//! A counter that one thread writes and any thread reads.

use std::sync::atomic::{AtomicU64, Ordering};

/// Counts up; wraps after 2^64.
///
/// A relaxed load and a relaxed store, never a read-modify-write: a locked add costs about 20 cycles even on
/// a line that no other core holds, and nobody else writes. With two writers, counts would be lost.
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

    /// For what is a level rather than a count.
    #[inline]
    pub(super) fn set(&self, value: u64) {
        self.0.store(value, Ordering::Relaxed);
    }

    pub(super) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}
