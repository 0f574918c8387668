//! What is known of an upstream's look-ups, for the metrics and the admin listener.

use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use tollgate_observe::LookupStatus;

/// The look-ups of one upstream. Written by the look-up alone, read by whoever shows it.
#[derive(Debug, Default)]
pub struct Lookups(Mutex<Option<LookupReport>>);

/// What is known of an upstream's look-ups.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LookupReport {
    /// What is looked up, as the short form in the config: `dns://orders.internal:8080`.
    pub source: String,
    /// Answers and failures so far.
    pub lookups: u64,
    /// Failures so far.
    pub failures: u64,
    /// When the last good answer came; `None`: none yet.
    pub last_good: Option<Instant>,
    /// Why the last look-up failed; `None`: it did not.
    pub problem: Option<String>,
}

impl LookupReport {
    /// As the admin listener and the metrics have it.
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
    /// What is known now; `None` for an upstream that looks nothing up.
    #[must_use]
    pub fn report(&self) -> Option<LookupReport> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// From now on this is looked up. The counts go on: a counter never falls.
    pub(super) fn begin(&self, source: String) {
        let mut report = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (lookups, failures) = report.as_ref().map_or((0, 0), |known| (known.lookups, known.failures));
        *report = Some(LookupReport { source, lookups, failures, last_good: None, problem: None });
    }

    /// A look-up has ended, with an answer or with a problem. Gives the problem of the one before.
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

    /// Nothing is looked up any longer.
    pub(super) fn end(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}
