//! How much may wait to be written.

use crate::totals::{Part, Totals};

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
    waits: Part,
}

impl Gate {
    pub fn new(totals: &Totals) -> Self {
        Self { waits: Part::of(totals.unwritten.clone()) }
    }

    /// So many bytes wait now.
    pub fn set(&mut self, waits: usize) {
        self.waits.set(waits);
    }

    /// Bytes that may be given to it now.
    pub fn room(&self) -> usize {
        self.most().saturating_sub(self.waits.own())
    }

    /// Whether as much waits as may at most.
    pub fn is_full(&self) -> bool {
        self.waits.own() >= MOST
    }

    /// Whether there is enough room for those that waited for it.
    pub fn is_open(&self) -> bool {
        self.room() > self.most() / 2
    }

    fn most(&self) -> usize {
        if self.waits.all() < CROWD { MOST } else { FEW }
    }

    /// Whether the peer has left much of what was sent unread.
    pub fn is_behind(&self) -> bool {
        self.waits.own() > FEW / 2
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn in_a_crowd_each_has_less() {
        let totals = Totals::default();
        let all = &totals.unwritten;
        let mut gates: Vec<_> = (0..CROWD / MOST).map(|_| Gate::new(&totals)).collect();
        gates.iter_mut().for_each(|gate| gate.set(MOST));
        let mut late = Gate::new(&totals);
        assert_eq!((all.get(), late.room(), gates[0].room()), (CROWD, FEW, 0));
        late.set(FEW);
        assert!(late.room() == 0 && !late.is_open() && late.is_behind());
        gates.clear();
        assert_eq!((all.get(), late.room()), (FEW, MOST - FEW));
        drop(late);
        assert_eq!(all.get(), 0);
    }
}
