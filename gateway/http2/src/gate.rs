//! How much may wait to be written.

use std::cell::Cell;
use std::rc::Rc;

/// Bytes that one connection may have waiting for its socket, all streams together.
const MOST: usize = 128 * 1024;
/// Bytes that all connections of a worker may have waiting before each may have no more than `FEW`: thousands whose peers
/// read nothing are thousands of times what one may have.
const CROWD: usize = 8 * 1024 * 1024;
const FEW: usize = 16 * 1024;

/// Counts what a connection was given to write and has not written. A client that opens its windows wide and reads nothing
/// could else have the gateway keep a window's worth for each of its streams.
#[derive(Debug)]
pub(crate) struct Gate {
    waits: usize,
    /// Of all connections that share it.
    all: Rc<Cell<usize>>,
}

impl Gate {
    pub fn new(all: Rc<Cell<usize>>) -> Self {
        Self { waits: 0, all }
    }

    /// So many bytes wait now.
    pub fn set(&mut self, waits: usize) {
        self.all.set(self.all.get() - self.waits + waits);
        self.waits = waits;
    }

    /// Bytes that may be given to it now.
    pub fn room(&self) -> usize {
        self.most().saturating_sub(self.waits)
    }

    /// Whether as much waits as may at most.
    pub fn is_full(&self) -> bool {
        self.waits >= MOST
    }

    /// Whether there is enough room for those that waited for it.
    pub fn is_open(&self) -> bool {
        self.room() > self.most() / 2
    }

    fn most(&self) -> usize {
        if self.all.get() < CROWD { MOST } else { FEW }
    }

    /// Whether the peer has left much of what was sent unread.
    pub fn is_behind(&self) -> bool {
        self.waits > FEW / 2
    }
}

impl Drop for Gate {
    fn drop(&mut self) {
        self.set(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn in_a_crowd_each_has_less() {
        let all = Rc::<Cell<usize>>::default();
        let mut gates: Vec<_> = (0..CROWD / MOST).map(|_| Gate::new(all.clone())).collect();
        gates.iter_mut().for_each(|gate| gate.set(MOST));
        let mut late = Gate::new(all.clone());
        assert_eq!((all.get(), late.room(), gates[0].room()), (CROWD, FEW, 0));
        late.set(FEW);
        assert!(late.room() == 0 && !late.is_open() && late.is_behind());
        gates.clear();
        assert_eq!((all.get(), late.room()), (FEW, MOST - FEW));
        drop(late);
        assert_eq!(all.get(), 0);
    }
}
