//! What an origin counts.

use serde::{Deserialize, Serialize};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Counts since the start. What the control port was asked is not among them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counters {
    /// Connections accepted.
    pub connections: u64,
    /// Requests read to their end, those for the ready path too.
    pub requests: u64,
    /// Those of them that were HTTP/1.0.
    pub http10: u64,
    /// Those of them after which the connection is closed, since the request says so or its version means so.
    pub closed_by_request: u64,
    /// Requests that were refused because they are not HTTP/1; none of them is in `requests`.
    pub malformed: u64,
}

/// One thread's counts, on cache lines of their own: others only read.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct Tally {
    pub(crate) connections: Count,
    pub(crate) requests: Count,
    pub(crate) http10: Count,
    pub(crate) closed_by_request: Count,
    pub(crate) malformed: Count,
}

/// A count with one writer, who needs no locked instruction.
#[derive(Debug, Default)]
pub(crate) struct Count(AtomicU64);

impl Count {
    /// Adds one; only the thread that owns the tally may.
    pub(crate) fn add(&self) {
        self.0.store(self.0.load(Relaxed) + 1, Relaxed);
    }

    fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

impl Counters {
    /// The sum over all threads.
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
