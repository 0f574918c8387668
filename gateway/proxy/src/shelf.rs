//! Objects that were used and will be again.

use std::cell::{Cell, RefCell};

/// How many are kept at least, and at most.
const LEAST: usize = 4;
const MOST: usize = 256;

/// Objects that wait to be used again, so that a request allocates nothing. It has room for as many as were needed of
/// late: twice as many each time it is full, half as many each time somebody [tidies up](Self::tidy). What a burst of
/// connections left would else be kept for ever, and with it the pages that it shares with what has been freed.
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
    /// The one that was put there last.
    #[inline]
    pub fn take(&self) -> Option<T> {
        self.items.borrow_mut().pop()
    }

    /// Keeps one, if there is room. Says whether it has made room for that, so that it is to be tidied some time.
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

    /// Halves the room and drops what it does not hold. Says whether there is more to give back the next time.
    pub fn tidy(&self) -> bool {
        let room = (self.room.get() / 2).max(LEAST);
        self.room.set(room);
        let mut items = self.items.borrow_mut();
        let kept = room.min(items.len());
        let surplus = items.split_off(kept);
        items.shrink_to(room);
        // Whatever they do when they are dropped: nobody holds the shelf meanwhile.
        drop(items);
        drop(surplus);
        room > LEAST
    }

    /// How many it has.
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
        // One at a time: there is nothing to tidy up.
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
