//! A side of a pair of sockets, as epoll names it.

/// A side of a pair, in a word that epoll keeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place {
    /// Which pair.
    pub(crate) at: usize,
    /// Which of its sockets: 0 or 1.
    pub(crate) side: usize,
    /// Which of the connections that the place has had, so that what was meant for one does not reach the next. 31 bits.
    pub(crate) generation: u32,
}

impl Place {
    pub(crate) fn word(self) -> u64 {
        u64::from(self.generation) << 32 | (self.at as u64) << 1 | self.side as u64
    }

    pub(crate) fn of(word: u64) -> Self {
        Self { at: (word as u32 >> 1) as usize, side: (word & 1) as usize, generation: (word >> 32) as u32 }
    }

    /// The other side of the same pair.
    pub(crate) fn opposite(self) -> Self {
        Self { side: 1 - self.side, ..self }
    }
}
