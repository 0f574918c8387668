//! What all connections keep together that share it.

use std::cell::Cell;
use std::rc::Rc;

/// A number of bytes that connections share.
type Total = Rc<Cell<usize>>;

/// What all connections keep together that have a clone of it: a thousand that each keep as much as one may are a thousand
/// times that.
#[derive(Clone, Debug, Default)]
pub struct Totals {
    /// Bytes that wait to be written.
    pub(crate) unwritten: Total,
    /// Bytes of heads that wait to be taken up.
    pub(crate) held: Total,
}

/// The part of a total that is one connection's. It is taken off when that goes.
#[derive(Debug)]
pub(crate) struct Part {
    own: usize,
    all: Total,
}

impl Part {
    pub fn of(all: Total) -> Self {
        Self { own: 0, all }
    }

    pub fn set(&mut self, own: usize) {
        self.all.set(self.all.get() - self.own + own);
        self.own = own;
    }

    pub fn add(&mut self, more: usize) {
        self.set(self.own + more);
    }

    pub fn take_off(&mut self, less: usize) {
        self.set(self.own - less);
    }

    pub fn own(&self) -> usize {
        self.own
    }

    pub fn all(&self) -> usize {
        self.all.get()
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        self.set(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_part_of_one_that_goes_is_taken_off() {
        let totals = Totals::default();
        let [mut one, mut other] = [(); 2].map(|()| Part::of(totals.held.clone()));
        one.set(5);
        other.set(7);
        one.set(3);
        assert_eq!((one.own(), other.all()), (3, 10));
        drop(other);
        assert_eq!(one.all(), 3);
    }
}
