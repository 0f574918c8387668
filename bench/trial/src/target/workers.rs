//! Reads a system's own counters of its workers, for the trial's evidence of how evenly they share the load.

use std::time::Duration;

use tollgate_lab_system::WorkerReading;

use super::Target;
use crate::agent::Ask;
use crate::http::get;

/// The longest wait for the counters. A worker at its limit may serve them, too.
const WORKERS_LIMIT: Duration = Duration::from_secs(2);

/// The longest page of metrics, in bytes.
const LONGEST_METRICS: u64 = 16 << 20;

impl Target {
    /// Reads the counters of its workers; `None` if it has none, or does not answer in time.
    pub(crate) fn read_workers(&self) -> Option<WorkerReading> {
        if let Some(read) = self.at_agent(Ask::Workers) {
            return read.ok()?;
        }
        let workers = self.workers.as_ref()?;
        let url = workers.url(self.setting.as_ref()?);
        let answer = get(&url, &[], WORKERS_LIMIT, LONGEST_METRICS).ok()?;
        workers.parse(&String::from_utf8_lossy(&answer.body))
    }
}
