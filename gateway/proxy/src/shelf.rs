//! A pool of objects that are reused, so that a request allocates nothing. The worker keeps its scratches and
//! reusable futures in one each.

use std::cell::{Cell, RefCell};

/// The least and the most objects that are kept.
const LEAST: usize = 4;
const MOST: usize = 256;

/// Objects that wait for reuse. The capacity follows the recent need: it doubles each time the pool is full,
/// and halves each time [`tidy`](Self::tidy) is called. Without that, the pool would keep the objects of a
/// burst for ever, and with them the memory pages that they share with freed objects.
#[derive(Debug)]
pub(crate) struct Shelf<T> {
    items: RefCell<Vec<T>>,
    room: Cell<usize>,
}

impl<T> Default for Shelf<T> {
    fn default() -> Self {
        Self { items: RefCell::default(), room: Cell::new(LEAST) }
    }
}

impl<T> Shelf<T> {
    /// Returns the object that was returned last.
    #[inline]
    pub fn take(&self) -> Option<T> {
        self.items.borrow_mut().pop()
    }

    /// Keeps an object, if there is capacity. Returns whether it has doubled the capacity, so that the caller
    /// must schedule a [`tidy`](Self::tidy).
    #[inline]
    #[must_use = "somebody is to tidy up"]
    pub fn put(&self, item: T) -> bool {
        let mut items = self.items.borrow_mut();
        if items.len() < self.room.get() {
            items.push(item);
            return false;
        }
        drop(items);
        self.make_room(item)
    }

    #[cold]
    fn make_room(&self, item: T) -> bool {
        let room = self.room.get();
        if room >= MOST {
            return false;
        }
        self.room.set(room * 2);
        self.items.borrow_mut().push(item);
        true
    }

    /// Halves the capacity and drops the surplus. Returns whether another call would free more.
    pub fn tidy(&self) -> bool {
        let room = (self.room.get() / 2).max(LEAST);
        self.room.set(room);
        let mut items = self.items.borrow_mut();
        let kept = room.min(items.len());
        let surplus = items.split_off(kept);
        items.shrink_to(room);
        // Dropping objects may call back into this pool, so the borrow ends before.
        drop(items);
        drop(surplus);
        room > LEAST
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
        let shelf = Shelf::default();
        // One at a time: there is nothing to tidy.
        for _ in 0..100 {
            let item = shelf.take().unwrap_or_default();
            assert!(!shelf.put(item));
        }
        assert_eq!(shelf.len(), 1);
        let burst: Vec<u32> = (0..1000).map(|_| shelf.take().unwrap_or_default()).collect();
        let grown = burst.into_iter().filter(|item| shelf.put(*item)).count();
        assert_eq!((grown, shelf.len()), (6, MOST));
        let mut kept = Vec::new();
        while shelf.tidy() {
            kept.push(shelf.len());
        }
        assert_eq!((kept, shelf.len()), (vec![128, 64, 32, 16, 8], LEAST));
        assert!(!shelf.tidy());
        assert_eq!(shelf.len(), LEAST);
    }
}
