//! The counters of an origin.

use serde::{Deserialize, Serialize};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Counts since the start. Requests to the control port are not included.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counters {
    /// Connections accepted.
    pub connections: u64,
    /// Requests that were read completely, including the ones to the ready path.
    pub requests: u64,
    /// How many of the requests were HTTP/1.0.
    pub http10: u64,
    /// How many requests close their connection, because a field says so or their version does by default.
    pub closed_by_request: u64,
    /// Requests that were refused because they are not HTTP/1; they are not included in `requests`.
    pub malformed: u64,
}

/// The counters of one thread, on cache lines of their own; other threads only read them.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct Tally {
    pub(crate) connections: Count,
    pub(crate) requests: Count,
    pub(crate) http10: Count,
    pub(crate) closed_by_request: Count,
    pub(crate) malformed: Count,
}

/// A counter with a single writer, which therefore needs no locked instruction.
#[derive(Debug, Default)]
pub(crate) struct Count(AtomicU64);

impl Count {
    /// Adds one. Only the thread that owns the tally may call it.
    pub(crate) fn add(&self) {
        self.0.store(self.0.load(Relaxed) + 1, Relaxed);
    }

    fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

impl Counters {
    /// Returns the sum over all threads.
    pub(crate) fn sum(tallies: &[Tally]) -> Self {
        tallies.iter().fold(Self::default(), |sum, tally| Self {
            connections: sum.connections + tally.connections.get(),
            requests: sum.requests + tally.requests.get(),
            http10: sum.http10 + tally.http10.get(),
            closed_by_request: sum.closed_by_request + tally.closed_by_request.get(),
            malformed: sum.malformed + tally.malformed.get(),
        })
    }
}
