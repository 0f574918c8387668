//! Byte counts that all connections of a worker share. Each connection holds a [`ConnectionShare`], so the
//! sum stays correct when a connection is dropped.

use std::cell::Cell;
use std::rc::Rc;

/// A number of bytes, shared by connections.
type SharedCount = Rc<Cell<usize>>;

/// Byte counts summed over all connections that hold a clone. They bound memory in total: a thousand
/// connections that are each within their own limit could still hold a thousand times that limit.
#[derive(Clone, Debug, Default)]
pub struct MemoryTotals {
    /// Bytes that wait to be written.
    pub(crate) unwritten: SharedCount,
    /// Bytes of heads that wait in the queues of received requests.
    pub(crate) queued_bytes: SharedCount,
}

/// One connection's share of a total. Dropping it subtracts the share.
#[derive(Debug)]
pub(crate) struct ConnectionShare {
    own: usize,
    all: SharedCount,
}

impl ConnectionShare {
    pub fn of(all: SharedCount) -> Self {
        Self { own: 0, all }
    }

    pub fn set(&mut self, own: usize) {
        self.all.set(self.all.get() - self.own + own);
        self.own = own;
    }

    pub fn add(&mut self, more: usize) {
        self.set(self.own + more);
    }

    pub fn subtract(&mut self, less: usize) {
        self.set(self.own - less);
    }

    pub fn own(&self) -> usize {
        self.own
    }

    pub fn all(&self) -> usize {
        self.all.get()
    }
}

impl Drop for ConnectionShare {
    fn drop(&mut self) {
        self.set(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_closed_connection_is_subtracted_from_the_totals() {
        let totals = MemoryTotals::default();
        let [mut one, mut other] = [(); 2].map(|()| ConnectionShare::of(totals.queued_bytes.clone()));
        one.set(5);
        other.set(7);
        one.set(3);
        assert_eq!((one.own(), other.all()), (3, 10));
        drop(other);
        assert_eq!(one.all(), 3);
    }
}
