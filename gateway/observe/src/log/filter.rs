//! Filters that choose which exchanges get a line in a log.

use std::time::Duration;

use crate::{Reason, Record};

/// gRPC statuses that report a failure of the server: UNKNOWN, DEADLINE_EXCEEDED, UNIMPLEMENTED, INTERNAL,
/// UNAVAILABLE and DATA_LOSS.
const FAILED_CALLS: [u8; 6] = [2, 4, 12, 13, 14, 15];

/// Sampling shares are in trillionths.
const WHOLE: u64 = 1_000_000_000_000;

/// Conditions that must all hold for an exchange to get a line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogFilter {
    /// Ranges of statuses, first and last inclusive; empty: any status.
    pub statuses: Vec<(u16, u16)>,
    /// Minimum duration of the exchange.
    pub min_duration: Option<Duration>,
    /// The share of exchanges without an error that get a line, in trillionths. Errors always get one.
    pub sample: Option<u64>,
}

impl LogFilter {
    /// Returns whether the exchange gets a line; `draw` returns a random number.
    pub(super) fn keeps(&self, record: &Record<'_>, draw: impl FnOnce() -> u64) -> bool {
        let has = |range: &(u16, u16)| (range.0..=range.1).contains(&record.status);
        (self.statuses.is_empty() || self.statuses.iter().any(has))
            && self.min_duration.is_none_or(|least| record.total >= least)
            && self.sample.is_none_or(|share| is_error(record) || draw() % WHOLE < share)
    }
}

/// Returns whether an exchange failed: no answer, a 5xx status, an answer that was cut off, or a failed gRPC
/// call.
fn is_error(record: &Record<'_>) -> bool {
    let is_cut = record.reason != Reason::None && record.status < 400;
    record.status == 0
        || record.status >= 500
        || is_cut
        || record.grpc_status.is_some_and(|status| FAILED_CALLS.contains(&status))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::sample::record;

    #[test]
    fn conditions_all_hold() {
        let filter = LogFilter {
            statuses: vec![(404, 404), (500, 599)],
            min_duration: Some(Duration::from_millis(2)),
            sample: None,
        };
        let keeps = |status: u16, millis: u64| {
            let total = Duration::from_millis(millis);
            filter.keeps(&Record { status, total, ..record() }, || 0)
        };
        assert!(keeps(404, 2) && keeps(500, 3) && keeps(599, 3));
        assert!(!keeps(404, 1) && !keeps(403, 9) && !keeps(600, 9) && !keeps(200, 9));
    }

    #[test]
    fn errors_are_always_kept() {
        let filter = LogFilter { sample: Some(10_000_000_000), ..LogFilter::default() };
        let keeps = |record: Record<'_>, drawn: u64| filter.keeps(&record, || drawn);
        assert!(keeps(record(), 9_999_999_999) && !keeps(record(), 10_000_000_000));
        assert!(!keeps(Record { status: 429, reason: Reason::RateLimited, ..record() }, WHOLE - 1));
        for error in [
            Record { status: 503, ..record() },
            Record { status: 0, ..record() },
            Record { reason: Reason::HttpResponseIncomplete, ..record() },
            Record { grpc_status: Some(14), ..record() },
        ] {
            assert!(keeps(error, WHOLE - 1));
        }
        let none = LogFilter { sample: Some(0), ..LogFilter::default() };
        let all = LogFilter { sample: Some(WHOLE), ..LogFilter::default() };
        assert!(!none.keeps(&record(), || 0) && all.keeps(&record(), || u64::MAX));
    }
}
