//! Limits how many bytes may wait in the output buffer of a connection. The limit drops from `MOST` to `FEW`
//! when all connections of the worker together hold `CROWD` bytes.

use crate::totals::{Part, Totals};

/// Bytes that may wait for the socket of one connection, all streams together.
const MOST: usize = 128 * 1024;
/// Bytes that may wait on all connections of a worker before the limit of each drops to `FEW`. Otherwise
/// thousands of clients that read nothing would each hold `MOST`.
const CROWD: usize = 8 * 1024 * 1024;
const FEW: usize = 16 * 1024;

/// Tracks the unwritten bytes of a connection. Without this bound, a client that opens large windows and
/// reads nothing could make the gateway buffer a full window for each stream.
#[derive(Debug)]
pub(crate) struct Gate {
    waits: Part,
}

impl Gate {
    pub fn new(totals: &Totals) -> Self {
        Self { waits: Part::of(totals.unwritten.clone()) }
    }

    /// Records how many bytes wait now.
    pub fn set(&mut self, waits: usize) {
        self.waits.set(waits);
    }

    /// Bytes that may be added now.
    pub fn room(&self) -> usize {
        self.most().saturating_sub(self.waits.own())
    }

    /// Whether the output buffer has reached `MOST`.
    pub fn is_full(&self) -> bool {
        self.waits.own() >= MOST
    }

    /// Whether there is enough room to wake the streams that wait for it: more than half of the limit.
    pub fn is_open(&self) -> bool {
        self.room() > self.most() / 2
    }

    fn most(&self) -> usize {
        if self.waits.all() < CROWD { MOST } else { FEW }
    }

    /// Whether the client reads slowly: more than half of `FEW` waits.
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
