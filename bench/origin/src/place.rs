//! The epoll key of one side of a pair of sockets.

/// One side of a pair, packed into the word that epoll stores.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place {
    /// The index of the pair.
    pub(crate) at: usize,
    /// The side: 0 or 1.
    pub(crate) side: usize,
    /// The number of the connection within its slot (31 bits). A late event of an earlier one is ignored.
    pub(crate) generation: u32,
}

impl Place {
    pub(crate) fn word(self) -> u64 {
        u64::from(self.generation) << 32 | (self.at as u64) << 1 | self.side as u64
    }

    pub(crate) fn of(word: u64) -> Self {
        Self { at: (word as u32 >> 1) as usize, side: (word & 1) as usize, generation: (word >> 32) as u32 }
    }

    /// Returns the other side of the same pair.
    pub(crate) fn opposite(self) -> Self {
        Self { side: 1 - self.side, ..self }
    }
}
