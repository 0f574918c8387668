//! The store in memory, which all workers share, and its use of the [disk tier](crate::disk).
//!
//! The [index] finds an object without a lock. [S3-FIFO](queues) chooses what is evicted; its queues are
//! touched only when an object is inserted or removed. A [`Fill`] brings a response in, and [`Follower`]s read it as
//! it arrives. Invariant: the objects in the index cost at most the capacity, as soon as the insertion that exceeded
//! it returns.

pub(crate) mod body;
pub(crate) mod counters;
mod disk_tier;
pub(crate) mod fill;
pub(crate) mod follower;
pub(crate) mod form_fill;
pub(crate) mod forms;
mod ghosts;
mod index;
mod lent;
mod purge;
mod queues;
pub(crate) mod stored;

#[cfg(test)]
mod tests;

use std::fmt;
use std::hash::BuildHasher;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arc_swap::ArcSwapOption;
use tollgate_http::Head;

use self::counters::{Counters, Counts};
use self::fill::{Fill, FillShared};
use self::follower::Follower;
use self::index::{Index, Stripe};
use self::lent::Lent;
use self::queues::Queues;
use self::stored::Stored;
use crate::disk::Disk;
use crate::{Moment, Purge, PurgeMode, StoredHead};

/// The cost of an object besides its key, its field lines and its body: itself, its place in a queue and among the
/// remembered evictions, and its share of the index. A test measures it.
pub(crate) const OVERHEAD_BYTES: u64 = 256;

/// How a store is bounded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoreSettings {
    /// The most bytes of all objects, with [`Stored::cost`] each.
    pub capacity_bytes: u64,
    /// The most bytes of one body.
    pub object_bytes_max: u64,
    /// The most requests that wait for one response. Further ones fetch for themselves.
    pub followers_max: usize,
    /// The most responses under one key, which differ in the fields that `Vary` names. The oldest gives way.
    pub variants_max: usize,
}

impl Default for StoreSettings {
    fn default() -> Self {
        let (capacity_bytes, object_bytes_max) = (64 << 20, 1 << 20);
        Self { capacity_bytes, object_bytes_max, followers_max: 4096, variants_max: 32 }
    }
}

/// The result of a look-up.
#[derive(Clone, Debug)]
pub enum Lookup {
    /// A response, fresh or not: see [`reuse`](crate::reuse).
    Hit(Arc<Stored>),
    /// A recent response could not be stored, so waiting for another request's fetch would not help: fetch by
    /// [`Store::begin_alone`].
    Uncacheable,
    /// Nothing.
    Miss,
}

/// How a request for something that is missing or stale continues.
#[derive(Debug)]
pub enum Begin {
    /// This request fetches.
    Lead(Fill),
    /// Another request is fetching it; read its response as it arrives.
    Follow(Follower),
    /// A response was stored since the look-up.
    Found(Arc<Stored>),
    /// Fetch without followers: too many wait already, or the stale response must be validated for each request.
    Alone(Fill),
}

/// The store. Shared by all workers in an [`Arc`].
pub struct Store {
    index: Index,
    hasher: foldhash::quality::RandomState,
    queues: Mutex<Queues>,
    settings: StoreSettings,
    /// May change while the store is used.
    capacity_bytes: AtomicU64,
    counters: Counters,
    /// Bytes of bodies that are being fetched and may be stored, and of those that slow clients have yet to take.
    filling: counters::Bytes,
    /// Objects that are not stored any more and are still being sent.
    lent: Lent,
    /// The disk tier, if there is one.
    disk: ArcSwapOption<Disk>,
}

impl Store {
    /// Creates an empty store.
    #[must_use]
    pub fn new(settings: StoreSettings) -> Arc<Self> {
        Arc::new(Self {
            index: Index::new(settings.capacity_bytes),
            hasher: foldhash::quality::RandomState::default(),
            queues: Mutex::new(Queues::default()),
            settings,
            capacity_bytes: AtomicU64::new(settings.capacity_bytes),
            counters: Counters::default(),
            filling: counters::Bytes::default(),
            lent: Lent::default(),
            disk: ArcSwapOption::empty(),
        })
    }

    /// How it is bounded; the capacity is the one at its creation.
    #[must_use]
    pub const fn settings(&self) -> &StoreSettings {
        &self.settings
    }

    /// Changes the capacity, and evicts what exceeds it. The index keeps its size, so a store that grows more than
    /// tenfold is better created again.
    pub fn set_capacity(&self, bytes: u64) {
        self.capacity_bytes.store(bytes, Ordering::Relaxed);
        self.evict();
    }

    /// Counts a hit that [`look_again`](Self::look_again) has found.
    pub fn count_hit(&self, stored: &Stored) {
        stored.note_read();
        self.counters.count_hit();
    }

    /// Looks a request up. `key` identifies the cached resource; `request` is read for the fields that `Vary` names.
    /// Takes no lock and allocates nothing.
    #[must_use]
    pub fn lookup(&self, key: &[u8], request: &Head, now: Moment) -> Lookup {
        let found =
            self.index.find(self.hash(key), key, request).filter(|stored| !stored.is_expired_mark(now));
        match found {
            Some(mark) if mark.is_uncacheable() => Lookup::Uncacheable,
            Some(stored) => {
                self.count_hit(&stored);
                Lookup::Hit(stored)
            }
            None => {
                self.counters.count_miss();
                Lookup::Miss
            }
        }
    }

    /// All responses under a key, the newest first. For a validation of several at once, and for the admin API.
    #[must_use]
    pub fn variants(&self, key: &[u8]) -> Vec<Arc<Stored>> {
        self.index.variants(self.hash(key), key)
    }

    /// Starts or joins a fetch after a look-up that found nothing, or the `stale` response. Requests for the same key
    /// share one fetch if their varying fields agree, as far as a stored response tells which fields vary.
    #[must_use]
    pub fn begin(self: &Arc<Self>, key: &[u8], request: &Head, stale: Option<&Arc<Stored>>) -> Begin {
        if stale.is_some_and(|stale| !stale.head().freshness().can_be_shared()) {
            return Begin::Alone(self.begin_alone(key));
        }
        let hash = self.hash(key);
        let stripe = self.index.lock(hash);
        if let Some(found) = self.index.find(hash, key, request)
            && !found.is_uncacheable()
            && found.head().freshness().can_be_shared()
            && stale.is_none_or(|stale| !Arc::ptr_eq(stale, &found))
        {
            return Begin::Found(found);
        }
        let variant = self.variant_hash(&stripe, hash, key, request);
        if let Some(running) = stripe.fills.iter().find(|fill| fill.is_joined_by(variant, key, request)) {
            return match running.follow(self) {
                Some(follower) => Begin::Follow(follower),
                None => Begin::Alone(self.register(stripe, FillShared::alone(hash, key))),
            };
        }
        Begin::Lead(self.register(stripe, FillShared::shared(hash, variant, key)))
    }

    /// Starts a refresh of a stale response while it is served (RFC 5861, 3). `None`: another request refreshes it, or
    /// it is no longer stored. A body on disk is refreshed in any case, because the response is not in memory.
    #[must_use]
    pub fn begin_refresh(self: &Arc<Self>, stale: &Arc<Stored>, request: &Head) -> Option<Fill> {
        let (hash, key) = (stale.hash(), stale.key());
        let stripe = self.index.lock(hash);
        let variant = self.variant_hash(&stripe, hash, key, request);
        let is_running = stripe.fills.iter().any(|fill| fill.is_joined_by(variant, key, request));
        ((stale.is_stored() || stale.disk_body().is_some()) && !is_running)
            .then(|| self.register(stripe, FillShared::shared(hash, variant, key)))
    }

    /// Starts a fetch without followers. Its response is stored if it may be.
    #[must_use]
    pub fn begin_alone(self: &Arc<Self>, key: &[u8]) -> Fill {
        let hash = self.hash(key);
        self.register(self.index.lock(hash), FillShared::alone(hash, key))
    }

    fn register(self: &Arc<Self>, mut stripe: MutexGuard<'_, Stripe>, fill: FillShared) -> Fill {
        let fill = Arc::new(fill);
        stripe.fills.push(fill.clone());
        Fill::new(self.clone(), fill)
    }

    /// Remembers for a while that responses to a key are not stored, so that requests for it do not wait for each
    /// other. `outdated` is the stored response in whose place this one came, which is removed. Does nothing else if
    /// another response is stored: a client may have forced this fetch, and what is stale can still be validated, or
    /// served while it is. A response that is stored later replaces the mark.
    pub fn mark_uncacheable(&self, key: &[u8], now: Moment, seconds: u32, outdated: Option<&Arc<Stored>>) {
        let is_other = |stored: &Arc<Stored>| outdated.is_none_or(|outdated| !Arc::ptr_eq(outdated, stored));
        if self.variants(key).iter().any(is_other) {
            if let Some(outdated) = outdated {
                self.discard(outdated);
            }
            return;
        }
        if outdated.is_some() {
            // From disk too.
            self.purge(Purge::Key(key), PurgeMode::Remove);
        }
        let head = StoredHead::mark(now, seconds);
        self.insert(Arc::new(Stored::uncacheable(self.hash(key), key, head)));
    }

    /// The counters since the store was created.
    #[must_use]
    pub fn counts(&self) -> Counts {
        let queues = self.queues();
        let sizes = Counts {
            bytes: queues.bytes(),
            objects: queues.objects() as u64,
            filling_bytes: self.filling.get(),
            form_bytes: queues.form_bytes(),
            ..Counts::default()
        };
        drop(queues);
        self.counters.read(sizes)
    }

    /// Calls `each` for every stored response, in no order. For the admin API: it visits the whole index.
    pub fn for_each(&self, mut each: impl FnMut(&Arc<Stored>)) {
        self.index.for_each(|stored| {
            if !stored.is_uncacheable() {
                each(stored);
            }
        });
    }

    /// Inserts an object, which replaces the one for the same requests, and evicts until the objects fit.
    fn insert(&self, object: Arc<Stored>) {
        if !self.fits(&object) {
            return;
        }
        let removed = {
            let mut stripe = self.index.lock(object.hash());
            self.index.insert(&mut stripe, object.clone(), self.settings.variants_max)
        };
        self.queue(&object, &removed);
    }

    /// Removes an object from memory alone.
    fn discard(&self, object: &Arc<Stored>) {
        self.index.remove(&mut self.index.lock(object.hash()), object);
        self.queues().forget(object);
        self.lent.add(object);
    }

    /// Queues an object that was inserted in the index. `removed` are the objects that it replaced there.
    fn queue(&self, object: &Arc<Stored>, removed: &[Arc<Stored>]) {
        {
            let mut queues = self.queues();
            removed.iter().for_each(|old| queues.forget(old));
            queues.push(object);
        }
        removed
            .iter()
            .filter(|old| !old.body().is_shared_with(object.body()))
            .for_each(|old| self.lent.add(old));
        self.evict();
    }

    /// Evicts until the objects fit.
    fn evict(&self) {
        let capacity = self.capacity_bytes.load(Ordering::Relaxed);
        let victims = self.queues().evict(capacity);
        self.counters.count_evictions(victims.len() as u64);
        for victim in victims {
            self.index.remove(&mut self.index.lock(victim.hash()), &victim);
            self.lent.add(&victim);
        }
    }

    /// Whether a fetch that holds `own` bytes may go on to be stored. `filling` is the number of bytes that all fetches
    /// hold. They may hold a quarter of the capacity; one fetch alone may hold more. Lent bytes count too, except for a
    /// short body, so that slow clients of long bodies do not prevent all storing.
    fn may_fill(&self, filling: u64, own: u64) -> bool {
        let most = self.capacity_bytes.load(Ordering::Relaxed) / 4;
        let fits = |lent: u64| lent == 0 || filling.saturating_add(lent) <= most;
        (filling <= most || filling == own)
            && (own <= lent::SHORT_BYTES || fits(self.lent.bytes()) || fits(self.lent.recount()))
    }

    /// Whether an object would fit into an empty store.
    fn fits(&self, object: &Stored) -> bool {
        self.fits_with(object, 0)
    }

    /// Whether an object would fit into an empty store with some more bytes.
    fn fits_with(&self, object: &Stored, bytes: usize) -> bool {
        object.cost().saturating_add(bytes as u64) <= self.capacity_bytes.load(Ordering::Relaxed)
    }

    fn hash(&self, key: &[u8]) -> u64 {
        self.hasher.hash_one(key)
    }

    /// The hash of a key with the values of the fields on which its newest response depends, or else the one that is
    /// being fetched.
    fn variant_hash(&self, stripe: &Stripe, hash: u64, key: &[u8], request: &Head) -> u64 {
        let of = |head: &StoredHead| Some(self.hasher.hash_one((hash, head.vary()?.values_of(request))));
        let newest = self.index.newest(hash, key);
        let known = newest.as_ref().and_then(|stored| of(stored.head()));
        let arriving = || {
            let mut heads = stripe.fills.iter().filter_map(|fill| fill.head_for(key));
            heads.find_map(|head| of(&head))
        };
        known.or_else(arriving).unwrap_or(hash)
    }

    fn queues(&self) -> MutexGuard<'_, Queues> {
        self.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Store {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Store").field("settings", &self.settings).finish_non_exhaustive()
    }
}
