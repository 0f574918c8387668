//! Counts the uses of keys, for `min_uses`.
//!
//! Keys share [`SLOTS`] counters by their hash, so a collision can only store a response too early. The counters are
//! halved after [`SLOTS`] uses: a key that was used often, long ago, starts over.

use std::hash::BuildHasher;
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};

use foldhash::quality::RandomState;

const SLOTS: usize = 1 << 16;

/// The counts of a policy.
#[derive(Debug)]
pub(super) struct Uses {
    counts: Box<[AtomicU8]>,
    uses: AtomicUsize,
    hasher: RandomState,
}

impl Uses {
    pub fn new() -> Self {
        let counts = (0..SLOTS).map(|_| AtomicU8::new(0)).collect();
        Self { counts, uses: AtomicUsize::new(0), hasher: RandomState::default() }
    }

    /// Counts a use of a key, and returns how many there were, this one included.
    pub fn count(&self, key: &[u8]) -> u8 {
        let slot = &self.counts[self.hasher.hash_one(key) as usize % SLOTS];
        let count = slot.load(Ordering::Relaxed).saturating_add(1);
        slot.store(count, Ordering::Relaxed);
        if self.uses.fetch_add(1, Ordering::Relaxed) % SLOTS == SLOTS - 1 {
            self.counts
                .iter()
                .for_each(|count| count.store(count.load(Ordering::Relaxed) / 2, Ordering::Relaxed));
        }
        count
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uses_are_counted_by_key_and_fade() {
        let uses = Uses::new();
        assert_eq!([uses.count(b"a"), uses.count(b"a"), uses.count(b"a")], [1, 2, 3]);
        (0..2 * SLOTS).for_each(|number| {
            uses.count(&number.to_be_bytes());
        });
        let total: usize = uses.counts.iter().map(|count| usize::from(count.load(Ordering::Relaxed))).sum();
        assert!(total < 2 * SLOTS, "{total}");
    }
}
