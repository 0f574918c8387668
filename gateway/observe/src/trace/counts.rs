//! Counters of traces, for the metrics.

use std::sync::atomic::{AtomicU64, Ordering};

/// Counters of traces, over all workers and followers.
#[derive(Debug, Default)]
pub struct TraceCounts {
    followers: AtomicU64,
    gathered: AtomicU64,
    lost: AtomicU64,
}

/// The values of [`TraceCounts`] at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TraceCountsSnapshot {
    /// Clients that follow requests now.
    pub followers: u64,
    /// Requests whose trace was gathered.
    pub gathered: u64,
    /// Traces that a follower did not get because it read too slowly.
    pub lost: u64,
}

impl TraceCounts {
    /// Sets how many clients follow requests.
    pub fn set_followers(&self, count: usize) {
        self.followers.store(count as u64, Ordering::Relaxed);
    }

    /// Counts a gathered trace.
    pub fn count_gathered(&self) {
        self.gathered.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a trace that a follower does not get.
    pub fn count_lost(&self) {
        self.lost.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn snapshot(&self) -> TraceCountsSnapshot {
        TraceCountsSnapshot {
            followers: self.followers.load(Ordering::Relaxed),
            gathered: self.gathered.load(Ordering::Relaxed),
            lost: self.lost.load(Ordering::Relaxed),
        }
    }
}
