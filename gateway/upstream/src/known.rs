//! A table that finds what others keep alive.

use std::borrow::Borrow;
use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

/// Finds values by key for as long as somebody has them. It keeps none alive itself, so that it cannot grow over
/// thousands of reloads: what nobody has is swept out when the table has doubled since the last sweep.
#[derive(Debug)]
pub(crate) struct Known<K, V> {
    entries: BTreeMap<K, Weak<V>>,
    /// Entries from which on the next one made sweeps first.
    sweep_at: usize,
}

/// Below this many entries none is swept.
const SMALL: usize = 8;

impl<K, V> Default for Known<K, V> {
    fn default() -> Self {
        Self { entries: BTreeMap::new(), sweep_at: SMALL }
    }
}

impl<K: Ord, V> Known<K, V> {
    /// The value of a key, made if nobody has it.
    pub fn get_or_make<Q>(&mut self, key: &Q, make: impl FnOnce() -> V) -> Arc<V>
    where
        K: Borrow<Q>,
        Q: Ord + ToOwned<Owned = K> + ?Sized,
    {
        if let Some(value) = self.entries.get(key).and_then(Weak::upgrade) {
            return value;
        }
        if self.entries.len() >= self.sweep_at {
            self.entries.retain(|_, value| value.strong_count() > 0);
            self.sweep_at = (2 * self.entries.len()).max(SMALL);
        }
        let value = Arc::new(make());
        self.entries.insert(key.to_owned(), Arc::downgrade(&value));
        value
    }

    /// Entries, those of values that nobody has among them.
    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Every value that somebody has, in the order of the keys.
    pub fn all(&self) -> Vec<Arc<V>> {
        self.entries.values().filter_map(Weak::upgrade).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_what_somebody_has() {
        let mut known = Known::<String, u32>::default();
        let one = known.get_or_make("one", || 1);
        assert_eq!(*known.get_or_make("one", || 2), 1, "it is there");
        drop(one);
        assert_eq!(*known.get_or_make("one", || 3), 3, "nobody had it any longer");
    }

    #[test]
    fn does_not_grow() {
        let mut known = Known::<String, u32>::default();
        let kept: Vec<_> = (0..100).map(|n| known.get_or_make(&format!("kept {n}"), || n)).collect();
        for n in 0..10_000 {
            known.get_or_make(&format!("passing {n}"), || n);
        }
        assert!(known.entries.len() <= 2 * kept.len() + SMALL, "{}", known.entries.len());
        assert_eq!(known.all().len(), kept.len());
    }
}
