//! Counts the requests that share a rate, by their key.
//!
//! A request holds a [`Share`] as long as its bodies may move. The proxy divides the rate by the number of shares of the
//! key, so the requests of a key have equal rates, and together never more than the rate. All workers share the counts,
//! which survive a change of plan. A key without requests is removed.

use std::collections::HashMap;
use std::hash::BuildHasherDefault;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::identity_hasher::IdentityHasher;

/// The number of shards of the table, each with its own lock.
const SHARDS: usize = 64;

/// The number of requests of each key.
#[derive(Debug)]
pub(super) struct Shares(Box<[Mutex<Shard>]>);

type Shard = HashMap<u64, Arc<AtomicU64>, BuildHasherDefault<IdentityHasher>>;

impl Default for Shares {
    fn default() -> Self {
        Self((0..SHARDS).map(|_| Mutex::default()).collect())
    }
}

impl Shares {
    /// Counts a request with this hash of its key until its share is dropped.
    pub fn enter(self: &Arc<Self>, key: u64) -> Arc<Share> {
        let requests = {
            let mut shard = self.shard(key);
            let requests = shard.entry(key).or_default();
            requests.fetch_add(1, Ordering::Relaxed);
            requests.clone()
        };
        Arc::new(Share { shares: self.clone(), key, requests })
    }

    fn shard(&self, key: u64) -> MutexGuard<'_, Shard> {
        self.0[(key >> 40) as usize % SHARDS].lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The share of a request in the rate of its key.
#[derive(Debug)]
pub struct Share {
    shares: Arc<Shares>,
    key: u64,
    requests: Arc<AtomicU64>,
}

impl Share {
    /// Returns the number of requests that share the rate, this one included.
    #[must_use]
    pub fn requests(&self) -> u64 {
        self.requests.load(Ordering::Relaxed).max(1)
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        let mut shard = self.shares.shard(self.key);
        // Counted under the lock, so that no request enters a count that is removed.
        if self.requests.fetch_sub(1, Ordering::Relaxed) == 1 {
            shard.remove(&self.key);
            // After a flood of keys, the table's memory is returned too.
            if shard.capacity() > 1024 && shard.len() < shard.capacity() / 8 {
                shard.shrink_to_fit();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_without_requests_are_forgotten() {
        let shares = Arc::new(Shares::default());
        let keys = || shares.0.iter().map(|shard| shard.lock().expect("not poisoned").len()).sum::<usize>();
        let key = |number: u64| number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let held: Vec<_> = (0..4000).map(|number| shares.enter(key(number / 2))).collect();
        assert_eq!((keys(), held[0].requests()), (2000, 2));
        drop(held);
        assert_eq!(keys(), 0);
    }
}
