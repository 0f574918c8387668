//! Outlier detection: ejects endpoints that fail the requests they get, for a while (passive health checks).
//!
//! | File | Contents |
//! |---|---|
//! | `streaks.rs` | failures in a row, exact over all workers |
//! | `traffic.rs` | attempts and failures, by worker |
//! | `success_rate.rs` | endpoints whose success rate is much lower than their neighbours' |
//! | `ejections.rs` | which endpoints are ejected, until when, and how many may be |
//!
//! A worker reports the outcome of each attempt to its `Detector`. While all is well this costs one count
//! of its own and one read of a word that no thread writes. The worker whose report reaches a limit ejects
//! the endpoint. The control thread ends the ejection ([`crate::health::HealthMonitor`]), so no worker checks
//! the time for it.

mod ejections;
mod streaks;
mod success_rate;
mod traffic;

use std::fmt;
use std::sync::Arc;

use tollgate_plan::Outlier;

pub(crate) use ejections::{Ejection, Ejections};
use streaks::{StreakLimits, Streaks};
pub(crate) use traffic::Traffic;
pub use traffic::TrafficTotals;
use traffic::WorkerCounters;

/// Why an endpoint was ejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum EjectionCause {
    /// Responses 5xx or failures in a row.
    Consecutive5xx = 0,
    /// Gateway errors in a row: no connection, a broken one, a timeout, or status 502, 503 or 504.
    ConsecutiveGatewayErrors = 1,
    /// The endpoint's success rate is much lower than its neighbours'.
    SuccessRate = 2,
}

impl EjectionCause {
    /// Every cause, in order of its number.
    pub const ALL: [Self; 3] = [Self::Consecutive5xx, Self::ConsecutiveGatewayErrors, Self::SuccessRate];

    /// Returns the name in metrics and on the admin listener. It is also the key under `outlier` that
    /// configures the cause.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Consecutive5xx => "consecutive_5xx",
            Self::ConsecutiveGatewayErrors => "consecutive_gateway_errors",
            Self::SuccessRate => "success_rate",
        }
    }
}

impl fmt::Display for EjectionCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Consecutive5xx => "responses 5xx or failures in a row",
            Self::ConsecutiveGatewayErrors => "failures in a row (no connection, no answer, 502, 503 or 504)",
            Self::SuccessRate => "it succeeds much less often than its neighbours",
        })
    }
}

/// The outcomes of one endpoint's requests that all workers share.
#[derive(Debug, Default)]
pub(crate) struct EndpointOutlier {
    streaks: Streaks,
    workers: WorkerCounters,
}

impl EndpointOutlier {
    /// Returns new counters for one worker.
    pub(crate) fn traffic(&self) -> Arc<Traffic> {
        self.workers.add()
    }

    /// Returns the sum of the counters of all workers.
    pub(crate) fn totals(&self) -> TrafficTotals {
        self.workers.totals()
    }

    /// Ends both streaks, so that earlier failures in a row do not count.
    pub(crate) fn reset_streaks(&self) {
        self.streaks.reset();
    }
}

/// The result of one attempt of a request at an endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The endpoint answered with this status.
    Answered(u16),
    /// No connection to the endpoint could be opened.
    NoConnection,
    /// The connection broke, or the endpoint did not answer in valid HTTP.
    Broken,
    /// The endpoint did not answer in time.
    TimedOut,
}

/// Evaluates outcomes by the limits of one upstream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Detector {
    limits: StreakLimits,
}

impl Detector {
    pub(crate) fn new(rules: &Outlier) -> Self {
        Self { limits: StreakLimits::new(rules) }
    }

    /// Counts an outcome. Returns the cause if the endpoint must be ejected.
    #[inline]
    pub(crate) fn record(
        &self,
        outcome: Outcome,
        own: &Traffic,
        endpoint: &EndpointOutlier,
    ) -> Option<EjectionCause> {
        own.attempt();
        match outcome {
            Outcome::Answered(..500) => {
                endpoint.streaks.reset();
                None
            }
            failure => self.failure(failure, own, endpoint),
        }
    }

    #[cold]
    fn failure(&self, outcome: Outcome, own: &Traffic, endpoint: &EndpointOutlier) -> Option<EjectionCause> {
        own.failure();
        let gateway = match outcome {
            Outcome::Answered(status) => matches!(status, 502..=504),
            Outcome::NoConnection | Outcome::Broken | Outcome::TimedOut => true,
        };
        endpoint.streaks.failure(gateway, self.limits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classification_of_results() {
        let endpoint = EndpointOutlier::default();
        let own = endpoint.traffic();
        let detector = Detector::new(&Outlier {
            consecutive_5xx: Some(3),
            consecutive_gateway_errors: Some(2),
            ..Outlier::default()
        });
        let saw = |outcome| detector.record(outcome, &own, &endpoint);
        for outcome in [100, 200, 302, 404, 499].map(Outcome::Answered) {
            assert_eq!(saw(Outcome::Answered(503)), None);
            assert_eq!(saw(outcome), None);
        }
        for status in [500, 501, 505, 599] {
            assert_eq!(saw(Outcome::Answered(status)), None, "one");
            assert_eq!(saw(Outcome::Answered(status)), None, "two");
            assert_eq!(saw(Outcome::Answered(status)), Some(EjectionCause::Consecutive5xx));
        }
        use Outcome::{Answered, Broken, NoConnection, TimedOut};
        for outcome in [Answered(502), Answered(503), Answered(504), NoConnection, Broken, TimedOut] {
            assert_eq!(saw(outcome), None);
            assert_eq!(saw(outcome), Some(EjectionCause::ConsecutiveGatewayErrors));
        }
        assert_eq!(endpoint.totals(), TrafficTotals { attempts: 34, failures: 29 });
    }
}
