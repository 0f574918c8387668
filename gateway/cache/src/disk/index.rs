//! Finds the records of a key.
//!
//! The index has hashes instead of keys; the key is in the record, and is compared after the read. The index also has
//! the objects that wait to be written, and a look-up finds them. So an object never disappears, or falls back to an
//! older version, between its removal from memory and its write to the log. Its size is bounded: see [`ENTRY_BYTES`].

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::format::Place;
use crate::{PurgeMode, Stored};

/// The most bytes of memory that a record takes, with its share of a table that is half full. A test counts them.
pub(super) const ENTRY_BYTES: u64 = 96;
/// The most records of one key, which differ in the fields that `Vary` names.
const VARIANTS_MAX: usize = 32;
const SHARDS: usize = 64;

/// The bits of a hash of the varying fields. With the flags they fill a word.
pub(super) const VARIANT_MASK: u32 = (1 << 24) - 1;
/// A soft purge marked the record.
const STALE: u32 = 1 << 31;
/// It was read since it was written.
const READ: u32 = 1 << 30;

/// A record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub place: Place,
    pub meta_bytes: u32,
    /// A hash of the varying fields, and the flags.
    bits: u32,
    pub body_bytes: u64,
}

impl Entry {
    /// `variant`: a hash of the varying fields.
    pub fn new(place: Place, meta_bytes: u32, body_bytes: u64, variant: u32) -> Self {
        Self { place, meta_bytes, bits: variant & VARIANT_MASK, body_bytes }
    }

    fn variant(&self) -> u32 {
        self.bits & VARIANT_MASK
    }

    pub fn is_stale(&self) -> bool {
        self.bits & STALE != 0
    }

    pub fn was_read(&self) -> bool {
        self.bits & READ != 0
    }
}

/// The records of one hash, the oldest first.
#[derive(Debug)]
enum Entries {
    One(Entry),
    Several(Vec<Entry>),
}

impl Entries {
    fn as_slice(&self) -> &[Entry] {
        match self {
            Self::One(entry) => std::slice::from_ref(entry),
            Self::Several(entries) => entries,
        }
    }

    fn as_mut_slice(&mut self) -> &mut [Entry] {
        match self {
            Self::One(entry) => std::slice::from_mut(entry),
            Self::Several(entries) => entries,
        }
    }
}

/// An object that waits to be written.
#[derive(Debug)]
pub(super) struct Waiting {
    pub stored: Arc<Stored>,
    pub hash: u64,
    pub variant: u32,
    /// The number of purges when its fetch started.
    pub purges: u64,
    flags: AtomicU8,
}

/// A purge, or a newer object, removed it.
const GONE: u8 = 1;
/// A soft purge marked it.
const MARKED: u8 = 2;
/// The log may have an older object of the same variant.
const REPLACES: u8 = 4;

impl Waiting {
    pub fn new(stored: Arc<Stored>, hash: u64, variant: u32, purges: u64) -> Self {
        Self { stored, hash, variant, purges, flags: AtomicU8::new(0) }
    }

    /// Bytes that it holds.
    pub fn cost(&self) -> u64 {
        self.stored.cost()
    }

    pub fn is_gone(&self) -> bool {
        self.flags.load(Ordering::Acquire) & GONE != 0
    }

    fn set(&self, flag: u8) {
        self.flags.fetch_or(flag, Ordering::AcqRel);
    }

    pub fn is_marked(&self) -> bool {
        self.flags.load(Ordering::Acquire) & MARKED != 0
    }
}

/// A hash is used as it is.
#[derive(Debug, Default)]
struct Same(u64);

impl Hasher for Same {
    fn finish(&self) -> u64 {
        // The table uses the top bits, which also chose the shard.
        self.0.rotate_left(20)
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.0 = self.0.rotate_left(8) ^ u64::from(*byte));
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }
}

type Table<T> = HashMap<u64, T, BuildHasherDefault<Same>>;

#[derive(Debug, Default)]
struct Shard {
    entries: Table<Entries>,
    waiting: Table<Vec<Arc<Waiting>>>,
}

impl Shard {
    /// Removes the records of a hash for which `is_removed` is true. Returns how many.
    fn remove(&mut self, hash: u64, is_removed: impl Fn(&Entry) -> bool) -> usize {
        let Some(entries) = self.entries.get_mut(&hash) else { return 0 };
        let before = entries.as_slice().len();
        let mut left: Vec<Entry> = entries.as_slice().iter().copied().filter(|it| !is_removed(it)).collect();
        let removed = before - left.len();
        match (removed, left.len()) {
            (0, _) => {}
            (_, 0) => drop(self.entries.remove(&hash)),
            (_, 1) => *entries = Entries::One(left.remove(0)),
            _ => *entries = Entries::Several(left),
        }
        removed
    }

    /// Adds a record as the newest of its hash. Returns how many others it replaced.
    fn insert(&mut self, hash: u64, entry: Entry) -> usize {
        let mut removed = self.remove(hash, |old| old.variant() == entry.variant());
        match self.entries.get_mut(&hash) {
            None => drop(self.entries.insert(hash, Entries::One(entry))),
            Some(Entries::Several(entries)) => {
                if entries.len() >= VARIANTS_MAX {
                    entries.remove(0);
                    removed += 1;
                }
                entries.push(entry);
            }
            Some(entries) => *entries = Entries::Several(vec![entries.as_slice()[0], entry]),
        }
        removed
    }
}

/// The records by the hashes of their keys.
#[derive(Debug)]
pub(super) struct Index {
    shards: Box<[Mutex<Shard>]>,
    count: AtomicUsize,
}

/// A record, or an object that waits to be written.
#[derive(Clone, Debug)]
pub(super) enum Candidate {
    Waiting(Arc<Waiting>),
    Record(Entry),
}

impl Index {
    pub fn new() -> Self {
        Self { shards: (0..SHARDS).map(|_| Mutex::default()).collect(), count: AtomicUsize::new(0) }
    }

    /// The number of records.
    pub fn count(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }

    fn shard(&self, hash: u64) -> MutexGuard<'_, Shard> {
        lock(&self.shards[(hash >> 58) as usize % SHARDS])
    }

    fn less(&self, removed: usize) -> usize {
        self.count.fetch_sub(removed, Ordering::Relaxed);
        removed
    }

    /// Returns whether there may be a record or an object for a hash.
    pub fn has(&self, hash: u64) -> bool {
        let shard = self.shard(hash);
        shard.entries.contains_key(&hash) || shard.waiting.contains_key(&hash)
    }

    /// Returns the candidates for a hash, the newest first, and counts the records as read.
    pub fn candidates(&self, hash: u64) -> Vec<Candidate> {
        let mut shard = self.shard(hash);
        let waiting = shard.waiting.get(&hash).into_iter().flatten().rev();
        let mut found: Vec<_> = waiting.filter(|it| !it.is_gone()).cloned().map(Candidate::Waiting).collect();
        if let Some(entries) = shard.entries.get_mut(&hash) {
            for entry in entries.as_mut_slice().iter_mut().rev() {
                entry.bits |= READ;
                found.push(Candidate::Record(*entry));
            }
        }
        found
    }

    /// Whether a record that was read is still the newest of its variant.
    pub fn is_current(&self, hash: u64, variant: u32, place: Place) -> bool {
        let shard = self.shard(hash);
        let mut waiting = shard.waiting.get(&hash).into_iter().flatten();
        let is_replaced = waiting.any(|it| it.variant == variant && !it.is_gone());
        !is_replaced
            && shard.entries.get(&hash).is_some_and(|all| all.as_slice().iter().any(|it| it.place == place))
    }

    /// Drops the objects of a hash that wait to be written.
    pub fn drop_waiting(&self, hash: u64) {
        self.shard(hash).waiting.get(&hash).into_iter().flatten().for_each(|object| object.set(GONE));
    }

    /// Adds an object that waits to be written, and removes what it replaces.
    pub fn wait(&self, object: &Arc<Waiting>) {
        let mut shard = self.shard(object.hash);
        if self.displace_in(&mut shard, object.hash, object.variant) {
            object.set(REPLACES);
        }
        shard.waiting.entry(object.hash).or_default().push(object.clone());
    }

    /// Removes what a newer object replaces, although that object will not be written. Returns whether the log may have
    /// an older version.
    pub fn displace(&self, hash: u64, variant: u32) -> bool {
        let mut shard = self.shard(hash);
        self.displace_in(&mut shard, hash, variant)
    }

    fn displace_in(&self, shard: &mut Shard, hash: u64, variant: u32) -> bool {
        let mut has_older = false;
        let waiting = shard.waiting.get(&hash).into_iter().flatten();
        for older in waiting.filter(|older| older.variant == variant) {
            older.set(GONE);
            has_older = true;
        }
        has_older | (self.less(shard.remove(hash, |old| old.variant() == variant)) > 0)
    }

    /// Ends the wait of an object: with its record, or without one, if it was not written. Returns whether the log may
    /// have an older version, which is no longer found.
    pub fn settle(&self, object: &Arc<Waiting>, entry: Option<Entry>) -> bool {
        let mut shard = self.shard(object.hash);
        if let Some(waiting) = shard.waiting.get_mut(&object.hash) {
            waiting.retain(|other| !Arc::ptr_eq(other, object));
            if waiting.is_empty() {
                shard.waiting.remove(&object.hash);
            }
        }
        let older = shard.remove(object.hash, |old| old.variant() == object.variant);
        self.less(older);
        if let Some(mut entry) = entry.filter(|_| !object.is_gone()) {
            entry.bits |= if object.is_marked() || object.stored.is_marked_stale() { STALE } else { 0 };
            self.less(shard.insert(object.hash, entry));
            self.count.fetch_add(1, Ordering::Relaxed);
        }
        older > 0 || object.flags.load(Ordering::Acquire) & REPLACES != 0
    }

    /// Adds a record of an earlier process.
    pub fn restore(&self, hash: u64, entry: Entry) {
        let replaced = self.shard(hash).insert(hash, entry);
        self.count.fetch_add(1, Ordering::Relaxed);
        self.less(replaced);
    }

    /// Removes a record that was found to be damaged, or purged.
    pub fn drop_record(&self, hash: u64, place: Place) {
        self.less(self.shard(hash).remove(hash, |entry| entry.place == place));
    }

    /// Replaces a record by its copy. False: the record was removed or replaced since.
    pub fn replace(&self, hash: u64, old: Place, mut new: Entry) -> bool {
        let mut shard = self.shard(hash);
        let Some(entries) = shard.entries.get_mut(&hash) else { return false };
        let Some(entry) = entries.as_mut_slice().iter_mut().find(|entry| entry.place == old) else {
            return false;
        };
        new.bits = entry.bits & !READ;
        *entry = new;
        true
    }

    /// Purges everything with the hash of a key. `is_written`: the purge is in the log already, so it does not match
    /// objects that still wait.
    pub fn purge(&self, hash: u64, mode: PurgeMode, is_written: bool) -> usize {
        let mut shard = self.shard(hash);
        let waiting = shard.waiting.get(&hash).into_iter().flatten().filter(|_| !is_written);
        waiting.for_each(|object| object.set(if mode == PurgeMode::Remove { GONE } else { MARKED }));
        match mode {
            PurgeMode::Remove => self.less(shard.remove(hash, |_| true)),
            PurgeMode::MarkStale => {
                let entries = shard.entries.get_mut(&hash).map(Entries::as_mut_slice).unwrap_or_default();
                entries.iter_mut().for_each(|entry| entry.bits |= STALE);
                entries.len()
            }
        }
    }

    /// Removes all records.
    pub fn clear(&self) {
        for shard in &self.shards {
            let entries = std::mem::take(&mut lock(shard).entries);
            self.less(entries.values().map(|entries| entries.as_slice().len()).sum());
        }
    }

    /// Removes the records of a segment, except the ones that were read since they were written, which it returns.
    pub fn evict(&self, segment: u32) -> Vec<(u64, Entry)> {
        let mut read = Vec::new();
        for shard in &self.shards {
            let shard = &mut *lock(shard);
            let is_there = |entry: &Entry| entry.place.segment == segment;
            let hashes: Vec<u64> = shard
                .entries
                .iter()
                .filter(|(_, entries)| entries.as_slice().iter().any(is_there))
                .map(|(hash, _)| *hash)
                .collect();
            for hash in hashes {
                let entries = shard.entries.get(&hash).map_or(&[][..], Entries::as_slice).iter();
                read.extend(entries.filter(|it| is_there(it) && it.was_read()).map(|it| (hash, *it)));
                self.less(shard.remove(hash, |entry| is_there(entry) && !entry.was_read()));
            }
        }
        read
    }

    /// Marks all records as stale.
    pub fn mark_all(&self) {
        for shard in &self.shards {
            for entries in lock(shard).entries.values_mut() {
                entries.as_mut_slice().iter_mut().for_each(|entry| entry.bits |= STALE);
            }
        }
    }
}

fn lock(shard: &Mutex<Shard>) -> MutexGuard<'_, Shard> {
    shard.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(segment: u32, offset: u32, variant: u32) -> Entry {
        Entry::new(Place { segment, offset }, 10, 20, variant)
    }

    fn places(index: &Index, hash: u64) -> Vec<(u32, u32)> {
        let found = index.candidates(hash).into_iter().filter_map(|found| match found {
            Candidate::Record(entry) => Some((entry.place.segment, entry.place.offset)),
            Candidate::Waiting(_) => None,
        });
        found.collect()
    }

    #[test]
    fn the_newest_of_a_variant_is_kept() {
        let index = Index::new();
        for new in [entry(1, 0, 7), entry(1, 50, 8), entry(2, 0, 7)] {
            index.restore(42, new);
        }
        assert_eq!((places(&index, 42), index.count()), (vec![(2, 0), (1, 50)], 2));
        (0..100).for_each(|variant| index.restore(42, entry(3, variant, 100 + variant)));
        assert_eq!((places(&index, 42).len(), index.count()), (VARIANTS_MAX, VARIANTS_MAX));
        assert_eq!(index.purge(42, PurgeMode::MarkStale, false), VARIANTS_MAX);
        assert_eq!(index.purge(42, PurgeMode::Remove, false), VARIANTS_MAX);
        assert_eq!((index.count(), index.has(42)), (0, false));
    }

    #[test]
    fn an_eviction_returns_what_was_read() {
        let index = Index::new();
        (0..10).for_each(|hash| index.restore(hash, entry(hash as u32 % 2, hash as u32, 0)));
        assert_eq!(places(&index, 4), [(0, 4)]);
        let read = index.evict(0);
        assert_eq!(read.iter().map(|(hash, _)| *hash).collect::<Vec<_>>(), [4]);
        assert_eq!(index.count(), 6, "the one that was read stays until it is copied or not");
        assert!(index.replace(4, read[0].1.place, entry(2, 0, 0)));
        assert!(!index.replace(4, read[0].1.place, entry(2, 0, 0)), "it moved");
        assert_eq!(places(&index, 4), [(2, 0)]);
    }

    #[test]
    fn an_entry_is_small() {
        assert_eq!(size_of::<Entry>(), 24);
        // A table grows at seven eighths, so it is at least seven sixteenths full. Each slot has a byte of its own.
        let slot = size_of::<(u64, Entries)>() as u64 + 1;
        assert!(slot * 16 / 7 <= ENTRY_BYTES, "{slot}");
    }
}
