//! The metrics by which systems are compared, and their values in a trial.

use crate::measured::Trial;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A metric by which systems are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Metric {
    /// CPU time for each verified response.
    Cpu,
    /// Verified responses per second.
    Rps,
    /// Mean latency.
    Mean,
    /// Median latency.
    P50,
    /// 99th percentile of latency.
    P99,
    /// Maximum latency.
    Max,
}

impl Metric {
    /// All metrics, in the order of columns.
    pub const ALL: [Self; 6] = [Self::Cpu, Self::Rps, Self::Mean, Self::P50, Self::P99, Self::Max];

    /// Returns the name in the keys of [`crate::Verdict::ratios`].
    pub fn key(self) -> &'static str {
        match self {
            Self::Cpu => "cpu",
            Self::Rps => "rps",
            Self::Mean => "mean",
            Self::P50 => "p50",
            Self::P99 => "p99",
            Self::Max => "max",
        }
    }

    /// Returns the head of its column.
    pub fn title(self) -> &'static str {
        match self {
            Self::Cpu => "CPU",
            Self::Rps => "req/s",
            Self::Mean => "mean",
            Self::P50 => "p50",
            Self::P99 => "p99",
            Self::Max => "max",
        }
    }

    /// Returns whether less is better.
    pub fn lower_is_better(self) -> bool {
        self != Self::Rps
    }
}

impl Trial {
    /// Returns the value of a metric: CPU time for each request and latencies in microseconds, throughput in
    /// requests per second. `None` without a result, or if the tool did not report it.
    pub fn figure(&self, metric: Metric) -> Option<f64> {
        let load = self.load.as_ref()?;
        let latency = load.latency();
        match metric {
            Metric::Cpu => self.cost.map(|cost| cost.total_us()),
            Metric::Rps => Some(load.rps()),
            Metric::Mean => latency.map(|times| times.mean_us),
            Metric::P50 => latency.and_then(|times| times.percentile(50.0)),
            Metric::P99 => latency.and_then(|times| times.percentile(99.0)),
            Metric::Max => latency.and_then(|times| times.max_us),
        }
    }
}
