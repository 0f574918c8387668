//! Records of probe results.

use std::time::{Duration, Instant};

use super::ProbeFailure;

/// The record of one endpoint's probes.
#[derive(Clone, Debug, Default)]
pub(crate) struct ProbeRecord {
    /// Since when the endpoint has its state; `None` if the state never changed.
    pub(crate) since: Option<Instant>,
    /// The last probe.
    pub(crate) last: Option<LastProbe>,
}

/// The result of a probe.
#[derive(Clone, Debug)]
pub(crate) struct LastProbe {
    /// When it ended.
    pub(crate) at: Instant,
    /// How long it took.
    pub(crate) took: Duration,
    pub(crate) result: Result<(), ProbeFailure>,
}

/// Counts of the probes of an upstream's endpoints, by result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ProbeCounts {
    pub(crate) good: u64,
    /// Failed probes, by [`ProbeFailure::kind`].
    pub(crate) bad: [u64; ProbeFailure::KINDS],
    /// Probes that were skipped because a limit of connections was reached, or the process had no resources
    /// for one.
    pub(crate) skipped: u64,
}

impl ProbeCounts {
    pub(crate) fn count(&mut self, result: &Result<(), ProbeFailure>) {
        match result {
            Ok(()) => self.good += 1,
            Err(failure) => self.bad[failure.kind()] += 1,
        }
    }
}
