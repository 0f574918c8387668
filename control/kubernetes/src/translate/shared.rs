//! Values that many routes share, such as the listener that they are attached to. Each is kept once.

use std::collections::HashSet;
use std::hash::Hash;
use std::sync::Arc;

/// The different values in use.
pub struct Shared<T>(HashSet<Arc<T>>);

impl<T> Default for Shared<T> {
    fn default() -> Self {
        Self(HashSet::new())
    }
}

impl<T: Eq + Hash> Shared<T> {
    /// Returns the value that is equal to this one, if one is in use, else this one.
    pub fn get(&mut self, value: T) -> Arc<T> {
        if let Some(known) = self.0.get(&value) {
            return known.clone();
        }
        // Before it grows, it forgets what is no longer in use.
        if self.0.len() == self.0.capacity() {
            self.0.retain(|value| Arc::strong_count(value) > 1);
        }
        let value = Arc::new(value);
        self.0.insert(value.clone());
        value
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_values_are_one_and_unused_ones_are_forgotten() {
        let mut shared = Shared::default();
        let kept = shared.get("a".to_owned());
        assert!(Arc::ptr_eq(&kept, &shared.get("a".to_owned())));
        for number in 0..1000 {
            drop(shared.get(number.to_string()));
        }
        assert!(shared.0.len() < 10, "{}", shared.0.len());
        assert!(Arc::ptr_eq(&kept, &shared.get("a".to_owned())));
    }
}
