//! The figures of a system in a cell over all rounds, without the rounds.
//!
//! A report computes [`Figures`] from the trials of a result file. A condensed file holds them as lines ([`Condensed`])
//! in place of the trials: it is small enough for a repository, and the same report can be made from it again. Figures
//! that need the rounds, such as a ratio between two systems, are lost unless a [`crate::Verdict`] has them.

use crate::kind::VerdictKind;
use crate::load::Window;
use crate::measured::Summary;
use crate::metric::Metric;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The share of an offered rate that counts as kept.
const KEPT: f64 = 0.99;

/// The figures of one system in one cell, over all rounds that count.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Figures {
    /// The number of rounds that count.
    pub rounds: u32,
    /// The number of rounds that were dropped for all systems of the cell.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub dropped: u32,
    /// The offered rate in requests per second; `None` for a closed loop.
    pub offered: Option<f64>,
    /// Verified responses per second: median of the rounds with its interval.
    pub rps: Summary,
    /// CPU time for each response in microseconds: median of the rounds with its interval. `None` for a
    /// direct run, and at an offered rate that was not kept.
    pub cpu_us: Option<Summary>,
    /// The part in user mode: median, scaled so that both parts add up to `cpu_us`. `None` if the rounds have
    /// too few clock ticks to divide the sum.
    pub user_us: Option<f64>,
    /// The part in the kernel.
    pub system_us: Option<f64>,
    /// Mean latency in microseconds.
    pub mean_us: Option<f64>,
    /// Median latency in microseconds.
    pub p50_us: Option<f64>,
    /// 99th percentile of the latency in microseconds.
    pub p99_us: Option<f64>,
    /// The typical 99th percentile of a single round, with its interval, which shows how reliable `p99_us`
    /// is.
    pub p99_rounds_us: Option<Summary>,
    /// Maximum latency in microseconds.
    pub max_us: Option<f64>,
    /// Whether latency counts from the intended send time (free of coordinated omission).
    pub corrected: bool,
    /// 99th percentile from the real send time, if there is a corrected one as well.
    pub p99_uncorrected_us: Option<f64>,
    /// Resident memory of the process tree at the end, in KiB: median. `None` for a direct run.
    pub memory_kib: Option<f64>,
    /// CPU use of the system in cores: median. `None` for a direct run.
    pub cores: Option<f64>,
    /// CPU use of the origin in cores: median.
    pub origin_cores: f64,
    /// Most simultaneous connections to the origin, over all rounds.
    pub upstream_peak: u64,
    /// Connections that clients opened for each request; `None` if their tool does not report it.
    pub client_connections: Option<f64>,
    /// Connections that the origin accepted for each request; `None` if the origin does not count them.
    pub upstream_connections: Option<f64>,
    /// Failed requests, over all rounds.
    pub failed: u64,
    /// Time during which a CPU quota throttled the system, as a share of the elapsed time; `None` without a
    /// quota.
    pub throttled: Option<f64>,
}

fn is_zero(count: &u32) -> bool {
    *count == 0
}

impl Figures {
    /// Returns whether a rate was offered and kept: at least 99 % of it was answered.
    pub fn keeps_its_rate(&self) -> bool {
        self.offered.is_some_and(|offered| self.rps.estimate >= KEPT * offered)
    }

    /// Returns these figures without what is not the system's: its cost at a rate that was not kept, and
    /// its latency if the verdict attributes that to another component.
    #[must_use]
    pub fn own(mut self, kind: Option<VerdictKind>) -> Self {
        if self.offered.is_none() {
            return self;
        }
        if !self.keeps_its_rate() {
            (self.cpu_us, self.user_us, self.system_us) = (None, None, None);
        }
        if kind.is_some_and(|kind| !kind.has_latency()) {
            (self.mean_us, self.p50_us, self.p99_us, self.max_us) = (None, None, None, None);
            (self.p99_rounds_us, self.p99_uncorrected_us) = (None, None);
        }
        self
    }

    /// Returns the figure of a metric.
    pub fn of(&self, metric: Metric) -> Option<f64> {
        match metric {
            Metric::Cpu => self.cpu_us.map(|cpu| cpu.estimate),
            Metric::Rps => Some(self.rps.estimate),
            Metric::Mean => self.mean_us,
            Metric::P50 => self.p50_us,
            Metric::P99 => self.p99_rounds_us.map(|p99| p99.estimate).or(self.p99_us),
            Metric::Max => self.max_us,
        }
    }
}

/// The result of one system in one cell of a condensed file. A later line for the same cell and system
/// replaces an earlier one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Condensed {
    /// [`crate::Cell::id`].
    pub cell: String,
    /// [`crate::SystemUsed::name`].
    pub system: String,
    /// The load tool.
    pub tool: String,
    /// The tool's version.
    pub tool_version: String,
    /// The figures over all rounds.
    pub figures: Figures,
    /// The percentile curve from the intended send time: percentile (0-100) and microseconds.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub corrected: Vec<(f64, f64)>,
    /// The percentile curve from the real send time.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub uncorrected: Vec<(f64, f64)>,
    /// The windows of the warm-up, about one second each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub windows: Vec<Window>,
}
