//! A pool of objects that are reused, so that a request allocates nothing. The worker keeps its request
//! states and reusable futures in one each.

use std::cell::{Cell, RefCell};

/// The least and the most objects that are kept.
const CAPACITY_MIN: usize = 4;
const CAPACITY_MAX: usize = 256;

/// Objects that wait for reuse. The capacity follows the recent need: it doubles each time the pool is full,
/// and halves each time [`shrink`](Self::shrink) is called. Without that, the pool would keep the objects of
/// a burst for ever, and with them the memory pages that they share with freed objects.
#[derive(Debug)]
pub(crate) struct ObjectPool<T> {
    items: RefCell<Vec<T>>,
    capacity: Cell<usize>,
}

impl<T> Default for ObjectPool<T> {
    fn default() -> Self {
        Self { items: RefCell::default(), capacity: Cell::new(CAPACITY_MIN) }
    }
}

impl<T> ObjectPool<T> {
    /// Returns the object that was returned last.
    #[inline]
    pub fn take(&self) -> Option<T> {
        self.items.borrow_mut().pop()
    }

    /// Keeps an object, if there is capacity. Returns whether it has doubled the capacity, so that the caller
    /// must schedule a [`shrink`](Self::shrink).
    #[inline]
    #[must_use = "the caller must schedule a shrink"]
    pub fn put(&self, item: T) -> bool {
        let mut items = self.items.borrow_mut();
        if items.len() < self.capacity.get() {
            items.push(item);
            return false;
        }
        drop(items);
        self.grow_or_drop(item)
    }

    #[cold]
    fn grow_or_drop(&self, item: T) -> bool {
        let capacity = self.capacity.get();
        if capacity >= CAPACITY_MAX {
            return false;
        }
        self.capacity.set(capacity * 2);
        self.items.borrow_mut().push(item);
        true
    }

    /// Halves the capacity and drops the surplus. Returns whether another call would free more.
    pub fn shrink(&self) -> bool {
        let capacity = (self.capacity.get() / 2).max(CAPACITY_MIN);
        self.capacity.set(capacity);
        let mut items = self.items.borrow_mut();
        let kept = capacity.min(items.len());
        let surplus = items.split_off(kept);
        items.shrink_to(capacity);
        // Dropping objects may call back into this pool, so the borrow ends before.
        drop(items);
        drop(surplus);
        capacity > CAPACITY_MIN
    }

    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.items.borrow().len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_keeps_what_a_burst_needs_and_gives_it_back() {
        let object_pool = ObjectPool::default();
        // One at a time: there is nothing to tidy.
        for _ in 0..100 {
            let item = object_pool.take().unwrap_or_default();
            assert!(!object_pool.put(item));
        }
        assert_eq!(object_pool.len(), 1);
        let burst: Vec<u32> = (0..1000).map(|_| object_pool.take().unwrap_or_default()).collect();
        let grown = burst.into_iter().filter(|item| object_pool.put(*item)).count();
        assert_eq!((grown, object_pool.len()), (6, CAPACITY_MAX));
        let mut kept = Vec::new();
        while object_pool.shrink() {
            kept.push(object_pool.len());
        }
        assert_eq!((kept, object_pool.len()), (vec![128, 64, 32, 16, 8], CAPACITY_MIN));
        assert!(!object_pool.shrink());
        assert_eq!(object_pool.len(), CAPACITY_MIN);
    }
}
