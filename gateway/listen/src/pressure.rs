//! Limits that apply while the process is short of memory or file descriptors. The control thread measures
//! the shortage; workers only load two atomics.

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

/// The limits beyond which the gateway rejects work. The control thread sets them a few times a second, and
/// workers read them.
///
/// The limit of client connections is a number, not a flag, so that it also stops a burst between two
/// updates.
#[derive(Debug)]
#[repr(align(128))]
pub struct Pressure {
    sheds: AtomicU8,
    connections: AtomicU64,
}

impl Default for Pressure {
    fn default() -> Self {
        Self { sheds: AtomicU8::new(0), connections: AtomicU64::new(u64::MAX) }
    }
}

impl Pressure {
    /// Rejects requests below the priority `sheds` (0 rejects none), and client connections beyond
    /// `connections`.
    pub fn set(&self, sheds: u8, connections: u64) {
        self.sheds.store(sheds, Ordering::Relaxed);
        self.connections.store(connections, Ordering::Relaxed);
    }

    /// Whether a request of this priority is rejected; 0 is the lowest priority.
    #[inline]
    #[must_use]
    pub fn rejects(&self, priority: u8) -> bool {
        priority < self.sheds.load(Ordering::Relaxed)
    }

    /// Most client connections allowed.
    pub(crate) fn connections(&self) -> u64 {
        self.connections.load(Ordering::Relaxed)
    }
}
