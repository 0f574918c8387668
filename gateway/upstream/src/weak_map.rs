//! A table of weak references.

use std::borrow::Borrow;
use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

/// Finds values by key as long as another part of the program holds them. The table itself holds only weak
/// references, so it does not grow over thousands of reloads. Dead entries are removed when the table has
/// doubled since it was last swept.
#[derive(Debug)]
pub(crate) struct WeakMap<K, V> {
    entries: BTreeMap<K, Weak<V>>,
    /// The number of entries at which the next insertion sweeps first.
    sweep_at: usize,
}

/// Smallest number of entries at which the table is swept.
const SWEEP_MIN: usize = 8;

impl<K, V> Default for WeakMap<K, V> {
    fn default() -> Self {
        Self { entries: BTreeMap::new(), sweep_at: SWEEP_MIN }
    }
}

impl<K: Ord, V> WeakMap<K, V> {
    /// Returns the value of a key, and creates it if nothing holds it.
    pub fn get_or_insert_with<Q>(&mut self, key: &Q, make: impl FnOnce() -> V) -> Arc<V>
    where
        K: Borrow<Q>,
        Q: Ord + ToOwned<Owned = K> + ?Sized,
    {
        if let Some(value) = self.entries.get(key).and_then(Weak::upgrade) {
            return value;
        }
        if self.entries.len() >= self.sweep_at {
            self.entries.retain(|_, value| value.strong_count() > 0);
            self.sweep_at = (2 * self.entries.len()).max(SWEEP_MIN);
        }
        let value = Arc::new(make());
        self.entries.insert(key.to_owned(), Arc::downgrade(&value));
        value
    }

    /// The number of entries, dead ones included.
    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Returns every live value, in order of the keys.
    pub fn all(&self) -> Vec<Arc<V>> {
        self.entries.values().filter_map(Weak::upgrade).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_values_that_are_still_held() {
        let mut known = WeakMap::<String, u32>::default();
        let one = known.get_or_insert_with("one", || 1);
        assert_eq!(*known.get_or_insert_with("one", || 2), 1, "it is there");
        drop(one);
        assert_eq!(*known.get_or_insert_with("one", || 3), 3, "nobody had it any longer");
    }

    #[test]
    fn does_not_grow() {
        let mut known = WeakMap::<String, u32>::default();
        let kept: Vec<_> = (0..100).map(|n| known.get_or_insert_with(&format!("kept {n}"), || n)).collect();
        for n in 0..10_000 {
            known.get_or_insert_with(&format!("passing {n}"), || n);
        }
        assert!(known.entries.len() <= 2 * kept.len() + SWEEP_MIN, "{}", known.entries.len());
        assert_eq!(known.all().len(), kept.len());
    }
}
