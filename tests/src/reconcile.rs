//! The books: what origins saw, what clients got, and what the gateway's log says of both.

use std::fs;
use std::time::Instant;

use serde_json::Value;

use crate::gateway::Gateway;
use crate::origin::Origin;
use crate::{DEADLINE, eventually};

/// Reasons under which no answer reached the client.
const UNANSWERED: [&str; 2] = ["client_closed", "client_write_timeout"];

impl Gateway {
    /// The records in the access log so far.
    ///
    /// # Panics
    /// When a complete line is not JSON.
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
    /// When there are more, or fewer in the end.
    #[must_use]
    pub fn wait_records(&self, n: usize) -> Vec<Value> {
        eventually(&format!("{n} log records (there are {})", self.records().len()), || {
            self.records().len() >= n
        });
        let records = self.records();
        assert_eq!(records.len(), n, "log records: {records:#?}");
        records
    }

    /// What the gateway itself has counted: where the books disagree, that tells which side is wrong.
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

    /// Demands that *requests seen by the origins = attempts logged* and *answers that clients got = requests
    /// logged* (but for those that the log itself calls unanswered).
    ///
    /// # Panics
    /// When the books do not come to agree within [`DEADLINE`].
    pub fn reconcile(&self, origins: &[&Origin]) {
        self.reconcile_with(|| origins.iter().map(|origin| origin.count()).sum());
    }

    /// The same, where `seen` says how many requests origins of any kind saw.
    ///
    /// # Panics
    /// When the books do not come to agree within [`DEADLINE`].
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
