//! Buckets by key for `rate_limit`: bounded in number, and exact across all workers.
//!
//! Each shard of the table has its own lock. Keys beyond the bound share one bucket per shard, so a flood of
//! keys cannot displace known ones.

use std::collections::HashMap;
use std::hash::BuildHasherDefault;
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};

use super::gcra::Gcra;
use crate::hashed::Hashed;

/// The number of shards, each with its own lock. With 64, four workers that decide at once for 100 ns each
/// rarely collide.
const PARTS: usize = 64;
/// The number of keys below which a shard is not swept.
const SMALL: usize = 32;
/// The number of spins before a worker blocks on a shard's lock, which is held for less than a microsecond.
const TRIES: u32 = 200;

/// Buckets by the hash of their key. Full buckets are dropped, because an unknown key has a full bucket.
#[derive(Debug)]
pub(crate) struct Buckets {
    parts: Box<[Mutex<Part>]>,
    /// The maximum number of keys in a shard.
    most: usize,
}

#[derive(Debug, Default)]
struct Part {
    /// The time at which each bucket is full.
    full: HashMap<u64, u64, BuildHasherDefault<Hashed>>,
    /// The number of keys from which the next insertion sweeps first.
    sweep_at: usize,
    /// The shared bucket of all keys beyond the maximum number.
    crowd: u64,
    /// The time before which another sweep cannot free a bucket.
    crowded_until: u64,
}

impl Buckets {
    /// Creates a table for this many keys.
    pub fn new(keys: usize) -> Self {
        let parts = (0..PARTS).map(|_| Mutex::default()).collect();
        Self { parts, most: keys.div_ceil(PARTS).max(1) }
    }

    /// Decides on a request of this cost. Also returns the time at which the bucket was full before.
    pub fn decide(&self, key: u64, gcra: &Gcra, now: u64, cost: u64) -> (u64, Result<u64, u64>) {
        let mut part = self.part(key);
        if let Some(full) = part.full.get_mut(&key) {
            let before = *full;
            let decided = gcra.decide(before, now, cost);
            if let Ok(next) = decided {
                *full = next;
            }
            return (before, decided);
        }
        if part.has_room(self.most, now, gcra.interval) {
            let decided = gcra.decide(0, now, cost);
            if let Ok(next) = decided {
                part.full.insert(key, next);
            }
            return (0, decided);
        }
        let before = part.crowd;
        let decided = gcra.decide(before, now, cost);
        if let Ok(next) = decided {
            part.crowd = next;
        }
        (before, decided)
    }

    /// Reverts a decision on this cost.
    pub fn undo(&self, key: u64, gcra: &Gcra, cost: u64) {
        let mut part = self.part(key);
        let part = &mut *part;
        let full = part.full.get_mut(&key).unwrap_or(&mut part.crowd);
        *full = full.saturating_sub(gcra.time(cost));
    }

    /// Charges this cost to a key's bucket even if it has less.
    pub fn debit(&self, key: u64, gcra: &Gcra, now: u64, cost: u64, debt: u64) {
        let mut part = self.part(key);
        let part = &mut *part;
        if let Some(full) = part.full.get_mut(&key) {
            *full = gcra.debited(*full, now, cost, debt);
        } else if part.has_room(self.most, now, gcra.interval) {
            part.full.insert(key, gcra.debited(0, now, cost, debt));
        } else {
            part.crowd = gcra.debited(part.crowd, now, cost, debt);
        }
    }

    fn part(&self, key: u64) -> MutexGuard<'_, Part> {
        // The hash table inside uses the low and the high bits.
        let part = &self.parts[(key >> 40) as usize % PARTS];
        for _ in 0..TRIES {
            match part.try_lock() {
                Ok(part) => return part,
                Err(TryLockError::Poisoned(part)) => return part.into_inner(),
                Err(TryLockError::WouldBlock) => std::hint::spin_loop(),
            }
        }
        part.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[cfg(test)]
    fn len(&self) -> usize {
        self.parts.iter().map(|part| part.lock().expect("not poisoned").full.len()).sum()
    }
}

impl Part {
    /// Whether another key fits. Sweeps occasionally, so that many insertions share its cost.
    fn has_room(&mut self, most: usize, now: u64, interval: u64) -> bool {
        let len = self.full.len();
        if len < self.sweep_at.max(SMALL).min(most) {
            return true;
        }
        if len >= most && now < self.crowded_until {
            return false;
        }
        self.full.retain(|_, full| *full > now);
        let left = self.full.len();
        self.sweep_at = 2 * left;
        if left < most {
            return true;
        }
        // No bucket can be full before one request's interval has passed.
        self.crowded_until = now + interval.min(CROWDED);
        false
    }
}

/// A hundredth of a second, in sixteenths of a nanosecond.
const CROWDED: u64 = 160_000_000;

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const SECOND: u64 = 16_000_000_000;

    /// Spreads numbers over all shards.
    fn key(n: u64) -> u64 {
        n.wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }

    #[test]
    fn each_key_has_its_own() {
        let (buckets, gcra) = (Buckets::new(1000), Gcra::new(1, Duration::from_secs(1), 2));
        for n in 0..100 {
            let decided: Vec<_> =
                (0..3).map(|_| buckets.decide(key(n), &gcra, SECOND, 1).1.is_ok()).collect();
            assert_eq!(decided, [true, true, false], "{n}");
            buckets.undo(key(n), &gcra, 1);
            assert!(buckets.decide(key(n), &gcra, SECOND, 1).1.is_ok());
        }
    }

    #[test]
    fn what_is_full_goes() {
        let (buckets, gcra) = (Buckets::new(100_000), Gcra::new(1, Duration::from_secs(1), 2));
        for n in 0..100_000_u64 {
            // A thousand new keys per second, each active for a second.
            assert!(buckets.decide(key(n), &gcra, SECOND + n * SECOND / 1000, 1).1.is_ok());
        }
        assert!(buckets.len() < 3 * 1000 + PARTS * SMALL, "{}", buckets.len());
    }

    #[test]
    fn past_the_cap_keys_share_and_none_that_is_known_gains() {
        let (buckets, gcra) = (Buckets::new(PARTS * 10), Gcra::new(1, Duration::from_secs(1), 2));
        let passes = |n: u64, now: u64| usize::from(buckets.decide(key(n), &gcra, now, 1).1.is_ok());
        (0..2).for_each(|_| assert_eq!(passes(1, SECOND), 1));
        let passed: usize = (2..100_000).map(|n| passes(n, SECOND)).sum();
        assert!(buckets.len() <= PARTS * 10);
        assert!(
            passed <= PARTS * (10 + 2),
            "one for each that there is room for, and one bucket a part: {passed}"
        );
        assert_eq!(passes(1, SECOND), 0, "it is remembered");
        assert_eq!(passes(1_000_000, 3 * SECOND), 1, "there is room again");
    }
}
