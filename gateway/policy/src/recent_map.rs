//! A bounded map that forgets the values which were not used for longest: the [`RecentMap`].
//!
//! The caches of `jwt` and of `forward_auth` have one in each shard. A map has two generations. New and reused values go into
//! the young one. When that is full, it replaces the old one, whose remaining values are forgotten. The bound and the
//! order of use thus cost only one more look-up. Invariant: each generation takes at most half of the bounds, or
//! has a single value.

use std::borrow::Borrow;
use std::collections::HashMap;
use std::hash::Hash;

use foldhash::fast::RandomState;

/// The size that a map may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RecentBounds {
    /// The maximum number of values.
    pub entries: usize,
    /// The maximum number of bytes.
    pub bytes: usize,
}

/// A bounded map that forgets the values which were not used for longest.
pub(crate) struct RecentMap<K, V> {
    young: Generation<K, V>,
    old: Generation<K, V>,
    /// The bounds of a generation, half of the bounds of the map.
    bounds: RecentBounds,
    /// Returns the bytes of a value.
    bytes_of: fn(&V) -> usize,
}

struct Generation<K, V> {
    values: HashMap<K, V, RandomState>,
    bytes: usize,
}

impl<K, V> Default for Generation<K, V> {
    fn default() -> Self {
        Self { values: HashMap::default(), bytes: 0 }
    }
}

impl<K: Eq + Hash, V: Clone> RecentMap<K, V> {
    /// Creates an empty map. `bytes_of` returns the bytes of a value, which never change.
    pub fn new(bounds: RecentBounds, bytes_of: fn(&V) -> usize) -> Self {
        let bounds = RecentBounds { entries: bounds.entries.div_ceil(2), bytes: bounds.bytes.div_ceil(2) };
        Self { young: Generation::default(), old: Generation::default(), bounds, bytes_of }
    }

    /// Returns the value of a key, if `holds` returns `true` for it. Such a value counts as used.
    pub fn get<Q>(&mut self, key: &Q, holds: impl Fn(&V) -> bool) -> Option<V>
    where
        K: Borrow<Q>,
        Q: Eq + Hash + ?Sized,
    {
        if let Some(known) = self.young.values.get(key) {
            return holds(known).then(|| known.clone());
        }
        let (key, known) = self.old.remove(key, self.bytes_of)?;
        if !holds(&known) {
            return None;
        }
        self.put(key, known.clone());
        Some(known)
    }

    /// Inserts a value, in place of an earlier one of its key.
    pub fn put(&mut self, key: K, value: V) {
        let bytes = (self.bytes_of)(&value);
        let young = &self.young;
        if young.values.len() >= self.bounds.entries || young.bytes + bytes > self.bounds.bytes {
            self.old = std::mem::take(&mut self.young);
        }
        self.old.remove(&key, self.bytes_of);
        if let Some(before) = self.young.values.insert(key, value) {
            self.young.bytes -= (self.bytes_of)(&before);
        }
        self.young.bytes += bytes;
    }

    /// Returns the number of values and their bytes, for each generation.
    #[cfg(test)]
    pub fn usage(&self) -> [(usize, usize); 2] {
        [&self.young, &self.old].map(|generation| {
            assert_eq!(generation.bytes, generation.values.values().map(self.bytes_of).sum::<usize>());
            (generation.values.len(), generation.bytes)
        })
    }
}

impl<K: Eq + Hash, V> Generation<K, V> {
    fn remove<Q>(&mut self, key: &Q, bytes_of: fn(&V) -> usize) -> Option<(K, V)>
    where
        K: Borrow<Q>,
        Q: Eq + Hash + ?Sized,
    {
        let removed = self.values.remove_entry(key)?;
        self.bytes -= bytes_of(&removed.1);
        Some(removed)
    }
}
