//! Compares the counts on all sides: requests seen by origins, answers received by clients, and the records
//! in the gateway's log.

use std::fs;
use std::time::Instant;

use serde_json::Value;

use crate::gateway::Gateway;
use crate::origin::Origin;
use crate::{DEADLINE, eventually};

/// Reasons of requests whose client received no answer.
const UNANSWERED: [&str; 2] = ["client_closed", "client_write_timeout"];

impl Gateway {
    /// Returns the records in the access log so far.
    ///
    /// # Panics
    /// Panics if a complete line is not JSON.
    #[must_use]
    pub fn records(&self) -> Vec<Value> {
        let text = fs::read_to_string(self.log_file()).unwrap_or_default();
        let whole = text.rfind('\n').map_or("", |end| &text[..=end]);
        let parse = |line: &str| {
            serde_json::from_str(line).unwrap_or_else(|e| panic!("a log line is not JSON ({e}): {line:?}"))
        };
        whole.lines().map(parse).collect()
    }

    /// Waits until there are `n` records, and returns them.
    ///
    /// # Panics
    /// Panics if there are more records, or fewer after [`DEADLINE`].
    #[must_use]
    pub fn wait_records(&self, n: usize) -> Vec<Value> {
        eventually(&format!("{n} log records (there are {})", self.records().len()), || {
            self.records().len() >= n
        });
        let records = self.records();
        assert_eq!(records.len(), n, "log records: {records:#?}");
        records
    }

    /// Returns the gateway's own counters. If the counts disagree, they show which side is wrong.
    fn counted(&self) -> String {
        let metrics = self.metrics();
        let count = |name: &str| metrics.sum(name, "").map_or("?".to_owned(), |count| count.to_string());
        format!(
            "counted: {} requests, {} in flight, {} log lines, {} dropped",
            count("tollgate_requests_total"),
            count("tollgate_requests_in_flight"),
            count("tollgate_access_log_lines_total"),
            count("tollgate_access_log_dropped_total"),
        )
    }

    /// Asserts that *requests seen by the origins = attempts logged* and *answers received by clients =
    /// requests logged* (without the requests that the log itself marks as unanswered).
    ///
    /// # Panics
    /// Panics if the counts do not agree within a quarter of [`DEADLINE`].
    pub fn reconcile(&self, origins: &[&Origin]) {
        self.reconcile_with(|| origins.iter().map(|origin| origin.count()).sum());
    }

    /// Asserts the same as [`Gateway::reconcile`]. `seen` returns how many requests the origins saw, of any
    /// kind.
    ///
    /// # Panics
    /// Panics if the counts do not agree within a quarter of [`DEADLINE`].
    pub fn reconcile_with(&self, seen: impl Fn() -> usize) {
        let start = Instant::now();
        loop {
            let records = self.records();
            let seen = seen();
            let attempts: u64 = records.iter().map(|record| record["attempts"].as_u64().unwrap_or(0)).sum();
            let unanswered = |record: &&Value| {
                record["reason"].as_str().is_some_and(|reason| UNANSWERED.contains(&reason))
            };
            let answered = records.len() - records.iter().filter(unanswered).count();
            if seen as u64 == attempts && self.answers() == answered as u64 {
                return;
            }
            assert!(
                start.elapsed() < DEADLINE / 4,
                "the books disagree: origins saw {seen}, the log has {attempts} attempts; clients got {} answers, \
                 the log has {answered} answered records; {}: {records:#?}",
                self.answers(),
                self.counted()
            );
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
    }
}
