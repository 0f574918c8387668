//! How short the process is of memory and file descriptors.

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

/// What is turned away because the process is short of something. The control thread says so a few times a second;
/// workers read it.
///
/// Client connections have a number and not a yes or no: so a burst between two looks is stopped where it must be.
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
    /// Requests below this priority are turned away (0: none is), and client connections past this number.
    pub fn set(&self, sheds: u8, connections: u64) {
        self.sheds.store(sheds, Ordering::Relaxed);
        self.connections.store(connections, Ordering::Relaxed);
    }

    /// Whether a request of this priority is turned away; 0 is the lowest.
    #[inline]
    #[must_use]
    pub fn sheds(&self, priority: u8) -> bool {
        priority < self.sheds.load(Ordering::Relaxed)
    }

    /// Client connections that there may be.
    pub(crate) fn connections(&self) -> u64 {
        self.connections.load(Ordering::Relaxed)
    }
}
