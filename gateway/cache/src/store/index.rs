//! Finds objects by their key, without a lock.
//!
//! The index is a table of buckets. Each bucket is a chain of objects that have the same part of a hash: the variants
//! of one key, the newest first, and objects that share it by chance. A reader follows atomic pointers ([`arc_swap`])
//! and compares keys. Writers of a bucket hold the lock of its [`Stripe`]. Fetches start and end under the same lock,
//! so that no second fetch starts between the end of one and the insertion of its response. An object is freed as soon
//! as its last user drops it; a map with deferred reclamation would keep evicted bodies for a while
//! ([decision](../../../../docs/decisions/0032-proxy-cache.md)).

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arc_swap::ArcSwapOption;
use tollgate_http::Head;

use super::fill::FillShared;
use super::stored::Stored;

/// Bytes of capacity for each bucket: 0.4 % of the capacity are pointers, and chains are short if objects are not
/// much smaller on average.
const CAPACITY_PER_BUCKET: u64 = 2048;
/// The fewest and the most buckets.
const BUCKETS: std::ops::RangeInclusive<u64> = 1024..=1 << 28;
const STRIPES: usize = 256;

/// The state that the lock of some buckets protects.
#[derive(Debug, Default)]
pub(super) struct Stripe {
    /// The fetches that run for their keys.
    pub fills: Vec<Arc<FillShared>>,
}

impl Stripe {
    /// Removes a fetch that ended.
    pub fn unregister(&mut self, fill: &Arc<FillShared>) {
        self.fills.retain(|other| !Arc::ptr_eq(other, fill));
    }
}

/// The objects by their keys.
pub(super) struct Index {
    buckets: Box<[ArcSwapOption<Stored>]>,
    stripes: Box<[Mutex<Stripe>]>,
}

impl Index {
    /// Creates an index for a store of this capacity.
    pub fn new(capacity_bytes: u64) -> Self {
        let wanted = (capacity_bytes / CAPACITY_PER_BUCKET).clamp(*BUCKETS.start(), *BUCKETS.end());
        let buckets = (0..wanted.next_power_of_two()).map(|_| ArcSwapOption::const_empty()).collect();
        let stripes = (0..STRIPES).map(|_| Mutex::default()).collect();
        Self { buckets, stripes }
    }

    fn bucket(&self, hash: u64) -> &ArcSwapOption<Stored> {
        // The number of buckets is a power of two.
        &self.buckets[hash as usize & (self.buckets.len() - 1)]
    }

    /// Locks what writers of the bucket of a hash need. The number of stripes divides the number of buckets, so all
    /// writers of a bucket lock the same one.
    pub fn lock(&self, hash: u64) -> MutexGuard<'_, Stripe> {
        self.stripe(hash as usize % STRIPES)
    }

    fn stripe(&self, at: usize) -> MutexGuard<'_, Stripe> {
        self.stripes[at].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Finds the newest object for a request.
    pub fn find(&self, hash: u64, key: &[u8], request: &Head) -> Option<Arc<Stored>> {
        self.first(hash, |stored| stored.answers(hash, key, request))
    }

    /// Finds the newest object with a key.
    pub fn newest(&self, hash: u64, key: &[u8]) -> Option<Arc<Stored>> {
        self.first(hash, |stored| stored.has_key(hash, key))
    }

    fn first(&self, hash: u64, wanted: impl Fn(&Stored) -> bool) -> Option<Arc<Stored>> {
        let mut at = self.bucket(hash).load();
        loop {
            let next = match &*at {
                None => return None,
                Some(stored) if wanted(stored) => return Some(Arc::clone(stored)),
                Some(stored) => stored.next.load(),
            };
            at = next;
        }
    }

    /// All responses with a key, the newest first.
    pub fn variants(&self, hash: u64, key: &[u8]) -> Vec<Arc<Stored>> {
        let mut found = Vec::new();
        let _lock = self.lock(hash);
        each(self.bucket(hash), |stored| {
            if stored.has_key(hash, key) && !stored.is_uncacheable() {
                found.push(stored.clone());
            }
        });
        found
    }

    /// Puts an object at the beginning of its bucket. Removes the objects that it replaces, and the oldest of its key
    /// if there are more than `variants_max`. Returns the removed ones.
    ///
    /// The object goes behind the fresh ones that [take precedence](Stored::counts_after), so that the first one that a
    /// request selects is the one to use.
    pub fn insert(&self, _: &mut Stripe, object: Arc<Stored>, variants_max: usize) -> Vec<Arc<Stored>> {
        let bucket = self.bucket(object.hash());
        let (mut removed, mut variants, mut behind) = (Vec::new(), 1, None);
        each(bucket, |old| {
            if object.counts_after(old) {
                behind = Some(old.clone());
            }
            if object.replaces(old) {
                object.inherit(old);
                removed.push(old.clone());
            } else if old.has_key(object.hash(), object.key()) {
                variants += 1;
                if variants > variants_max {
                    removed.push(old.clone());
                }
            }
        });
        let place = behind.as_ref().map_or(bucket, |before| &before.next);
        // A new object has no next one. A needless store would cost 500 instructions: it visits every thread's readers.
        if let Some(next) = place.load_full() {
            object.next.store(Some(next));
        }
        // Insert the new one first, so that a reader finds the old or the new one at any time.
        place.store(Some(object));
        removed.iter().for_each(|old| unlink(bucket, old));
        removed
    }

    /// Removes an object. Returns whether it was there.
    pub fn remove(&self, _: &mut Stripe, object: &Arc<Stored>) -> bool {
        let is_there = object.is_stored();
        if is_there {
            unlink(self.bucket(object.hash()), object);
        }
        is_there
    }

    /// Removes the objects for which `is_removed` returns true, stripe by stripe. Calls `lock` for each stripe
    /// before.
    pub fn remove_where(&self, lock: impl Fn(&Stripe), is_removed: &mut impl FnMut(&Arc<Stored>) -> bool) {
        for at in 0..STRIPES {
            let stripe = self.stripe(at);
            lock(&stripe);
            for bucket in self.buckets.iter().skip(at).step_by(STRIPES) {
                remove_from(bucket, is_removed);
            }
        }
    }

    /// Does so for the bucket of a hash alone.
    pub fn remove_in_bucket(
        &self,
        hash: u64,
        lock: impl Fn(&Stripe),
        is_removed: &mut impl FnMut(&Arc<Stored>) -> bool,
    ) {
        let stripe = self.lock(hash);
        lock(&stripe);
        remove_from(self.bucket(hash), is_removed);
    }

    /// Calls `visit` for every object, stripe by stripe.
    pub fn for_each(&self, mut visit: impl FnMut(&Arc<Stored>)) {
        for at in 0..STRIPES {
            let _lock = self.stripe(at);
            self.buckets.iter().skip(at).step_by(STRIPES).for_each(|bucket| each(bucket, &mut visit));
        }
    }
}

/// Calls `visit` for each object of a bucket, whose stripe is locked.
fn each(bucket: &ArcSwapOption<Stored>, mut visit: impl FnMut(&Arc<Stored>)) {
    let mut at = bucket.load_full();
    while let Some(stored) = at {
        visit(&stored);
        at = stored.next.load_full();
    }
}

/// Removes objects of a bucket, whose stripe is locked.
fn remove_from(bucket: &ArcSwapOption<Stored>, is_removed: &mut impl FnMut(&Arc<Stored>) -> bool) {
    let mut removed = Vec::new();
    each(bucket, |stored| {
        if is_removed(stored) {
            removed.push(stored.clone());
        }
    });
    removed.iter().for_each(|old| unlink(bucket, old));
}

/// Takes an object out of its bucket, whose stripe is locked.
fn unlink(bucket: &ArcSwapOption<Stored>, object: &Arc<Stored>) {
    object.mark_gone();
    let is_it = |at: &Option<Arc<Stored>>| at.as_ref().is_some_and(|stored| Arc::ptr_eq(stored, object));
    let next = object.next.load_full();
    let first = bucket.load_full();
    if is_it(&first) {
        bucket.store(next);
    } else {
        let mut at = first;
        while let Some(stored) = at {
            let following = stored.next.load_full();
            if is_it(&following) {
                stored.next.store(next);
                break;
            }
            at = following;
        }
    }
    // A worker that still sends it must not keep the rest of the chain. A reader that stands on it finds the end of
    // the chain, which is a miss at worst.
    object.next.store(None);
}
