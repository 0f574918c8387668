//! What probes have told so far.

use std::time::{Duration, Instant};

use super::ProbeFailure;

/// What probes have told of one endpoint.
#[derive(Clone, Debug, Default)]
pub(crate) struct Record {
    /// Since when it is what it is; `None`: nothing has changed yet.
    pub(crate) since: Option<Instant>,
    /// The last probe.
    pub(crate) last: Option<LastProbe>,
}

/// A probe's result.
#[derive(Clone, Debug)]
pub(crate) struct LastProbe {
    /// When it ended.
    pub(crate) at: Instant,
    /// How long it took.
    pub(crate) took: Duration,
    pub(crate) result: Result<(), ProbeFailure>,
}

/// How many probes of an upstream's endpoints came to what.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) good: u64,
    /// Bad ones, by [`ProbeFailure::kind`].
    pub(crate) bad: [u64; ProbeFailure::KINDS],
    /// Those that were left out because a limit on connections was reached.
    pub(crate) skipped: u64,
}

impl Counts {
    pub(crate) fn count(&mut self, result: &Result<(), ProbeFailure>) {
        match result {
            Ok(()) => self.good += 1,
            Err(failure) => self.bad[failure.kind()] += 1,
        }
    }
}
