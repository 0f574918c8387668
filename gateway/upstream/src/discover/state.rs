//! The state of an upstream's lookups, for the metrics and the admin listener.

use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use tollgate_observe::LookupStatus;

/// The state of one upstream's lookups. Only the lookup task writes it.
#[derive(Debug, Default)]
pub struct Lookups(Mutex<Option<LookupReport>>);

/// A copy of the state of an upstream's lookups.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LookupReport {
    /// The source, in the short form of the configuration: `dns://orders.internal:8080`.
    pub source: String,
    /// Number of lookups so far, successful or not.
    pub lookups: u64,
    /// Number of failed lookups so far.
    pub failures: u64,
    /// When the last lookup succeeded; `None` if none has.
    pub last_good: Option<Instant>,
    /// Why the last lookup failed; `None` if it succeeded.
    pub problem: Option<String>,
}

impl LookupReport {
    /// Converts the report to the form of the admin listener and the metrics.
    #[must_use]
    pub fn status(self, now: Instant) -> LookupStatus {
        LookupStatus {
            source: self.source,
            count: self.lookups,
            failures: self.failures,
            good_ago: self.last_good.map(|at| now.saturating_duration_since(at)),
            problem: self.problem,
        }
    }
}

impl Lookups {
    /// Returns the current state; `None` if the upstream has no discovery.
    #[must_use]
    pub fn report(&self) -> Option<LookupReport> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Starts to record lookups of this source. The counts continue, because a counter must not fall.
    pub(super) fn begin(&self, source: String) {
        let mut report = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (lookups, failures) = report.as_ref().map_or((0, 0), |known| (known.lookups, known.failures));
        *report = Some(LookupReport { source, lookups, failures, last_good: None, problem: None });
    }

    /// Records the end of a lookup, with its problem if it failed. Returns the problem of the previous
    /// lookup.
    pub(super) fn ended(&self, now: Instant, problem: Option<String>) -> Option<String> {
        let mut report = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let report = report.as_mut()?;
        report.lookups += 1;
        match &problem {
            None => report.last_good = Some(now),
            Some(_) => report.failures += 1,
        }
        std::mem::replace(&mut report.problem, problem)
    }

    /// Ends the record, because the upstream has no discovery now.
    pub(super) fn end(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}
