//! Buckets by key for `rate_limit`: bounded in number, and exact across all workers.
//!
//! Each shard of the table has its own lock. Keys beyond the bound share one bucket per shard, so a flood of
//! keys cannot displace known ones.

use std::collections::HashMap;
use std::hash::BuildHasherDefault;
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};

use super::gcra::Gcra;
use crate::identity_hasher::IdentityHasher;

/// The number of shards, each with its own lock. With 64, four workers that decide at once for 100 ns each
/// rarely collide.
const SHARDS: usize = 64;
/// The number of keys below which a shard is not swept.
const SWEEP_MIN: usize = 32;
/// The number of spins before a worker blocks on a shard's lock, which is held for less than a microsecond.
const SPINS_MAX: u32 = 200;

/// Buckets by the hash of their key. Full buckets are dropped, because an unknown key has a full bucket.
#[derive(Debug)]
pub(crate) struct Buckets {
    shards: Box<[Mutex<BucketShard>]>,
    /// The maximum number of keys in a shard.
    max_keys: usize,
}

#[derive(Debug, Default)]
struct BucketShard {
    /// The time at which each bucket is full.
    full: HashMap<u64, u64, BuildHasherDefault<IdentityHasher>>,
    /// The number of keys from which the next insertion sweeps first.
    sweep_at: usize,
    /// The shared bucket of all keys beyond the maximum number.
    overflow: u64,
    /// The time before which another sweep cannot free a bucket.
    next_sweep: u64,
}

impl Buckets {
    /// Creates a table for this many keys.
    pub fn new(keys: usize) -> Self {
        let shards = (0..SHARDS).map(|_| Mutex::default()).collect();
        Self { shards, max_keys: keys.div_ceil(SHARDS).max(1) }
    }

    /// Decides on a request of this cost. Also returns the time at which the bucket was full before.
    pub fn decide(&self, key: u64, gcra: &Gcra, now: u64, cost: u64) -> (u64, Result<u64, u64>) {
        let mut shard = self.shard(key);
        if let Some(full) = shard.full.get_mut(&key) {
            let before = *full;
            let decided = gcra.decide(before, now, cost);
            if let Ok(next) = decided {
                *full = next;
            }
            return (before, decided);
        }
        if shard.has_room(self.max_keys, now, gcra.interval) {
            let decided = gcra.decide(0, now, cost);
            if let Ok(next) = decided {
                shard.full.insert(key, next);
            }
            return (0, decided);
        }
        let before = shard.overflow;
        let decided = gcra.decide(before, now, cost);
        if let Ok(next) = decided {
            shard.overflow = next;
        }
        (before, decided)
    }

    /// Reverts a decision on this cost.
    pub fn undo(&self, key: u64, gcra: &Gcra, cost: u64) {
        let mut shard = self.shard(key);
        let shard = &mut *shard;
        let full = shard.full.get_mut(&key).unwrap_or(&mut shard.overflow);
        *full = full.saturating_sub(gcra.replenish_time(cost));
    }

    /// Charges this cost to a key's bucket even if it has less.
    pub fn debit(&self, key: u64, gcra: &Gcra, now: u64, cost: u64, debt: u64) {
        let mut shard = self.shard(key);
        let shard = &mut *shard;
        if let Some(full) = shard.full.get_mut(&key) {
            *full = gcra.full_after_debit(*full, now, cost, debt);
        } else if shard.has_room(self.max_keys, now, gcra.interval) {
            shard.full.insert(key, gcra.full_after_debit(0, now, cost, debt));
        } else {
            shard.overflow = gcra.full_after_debit(shard.overflow, now, cost, debt);
        }
    }

    fn shard(&self, key: u64) -> MutexGuard<'_, BucketShard> {
        // The hash table inside uses the low and the high bits.
        let shard = &self.shards[(key >> 40) as usize % SHARDS];
        for _ in 0..SPINS_MAX {
            match shard.try_lock() {
                Ok(shard) => return shard,
                Err(TryLockError::Poisoned(shard)) => return shard.into_inner(),
                Err(TryLockError::WouldBlock) => std::hint::spin_loop(),
            }
        }
        shard.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[cfg(test)]
    fn len(&self) -> usize {
        self.shards.iter().map(|shard| shard.lock().expect("not poisoned").full.len()).sum()
    }
}

impl BucketShard {
    /// Whether another key fits. Sweeps occasionally, so that many insertions share its cost.
    fn has_room(&mut self, most: usize, now: u64, interval: u64) -> bool {
        let len = self.full.len();
        if len < self.sweep_at.max(SWEEP_MIN).min(most) {
            return true;
        }
        if len >= most && now < self.next_sweep {
            return false;
        }
        self.full.retain(|_, full| *full > now);
        let left = self.full.len();
        self.sweep_at = 2 * left;
        if left < most {
            return true;
        }
        // No bucket can be full before one request's interval has passed.
        self.next_sweep = now + interval.min(SWEEP_PAUSE_UNITS);
        false
    }
}

/// A hundredth of a second, in sixteenths of a nanosecond.
const SWEEP_PAUSE_UNITS: u64 = 160_000_000;

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
    fn full_buckets_are_dropped() {
        let (buckets, gcra) = (Buckets::new(100_000), Gcra::new(1, Duration::from_secs(1), 2));
        for n in 0..100_000_u64 {
            // A thousand new keys per second, each active for a second.
            assert!(buckets.decide(key(n), &gcra, SECOND + n * SECOND / 1000, 1).1.is_ok());
        }
        assert!(buckets.len() < 3 * 1000 + SHARDS * SWEEP_MIN, "{}", buckets.len());
    }

    #[test]
    fn past_the_cap_keys_share_and_none_that_is_known_gains() {
        let (buckets, gcra) = (Buckets::new(SHARDS * 10), Gcra::new(1, Duration::from_secs(1), 2));
        let passes = |n: u64, now: u64| usize::from(buckets.decide(key(n), &gcra, now, 1).1.is_ok());
        (0..2).for_each(|_| assert_eq!(passes(1, SECOND), 1));
        let passed: usize = (2..100_000).map(|n| passes(n, SECOND)).sum();
        assert!(buckets.len() <= SHARDS * 10);
        assert!(
            passed <= SHARDS * (10 + 2),
            "one for each that there is room for, and one bucket a part: {passed}"
        );
        assert_eq!(passes(1, SECOND), 0, "it is remembered");
        assert_eq!(passes(1_000_000, 3 * SECOND), 1, "there is room again");
    }
}
