//! The figures that systems are compared by, and where a trial has them.

use crate::measured::Trial;
use serde::Serialize;

/// A figure that systems are compared by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Metric {
    /// CPU a verified response.
    Cpu,
    /// Verified responses a second.
    Rps,
    /// Mean latency.
    Mean,
    /// Median latency.
    P50,
    /// 99th percentile of latency.
    P99,
    /// Largest latency.
    Max,
}

impl Metric {
    /// All, in the order of columns.
    pub const ALL: [Self; 6] = [Self::Cpu, Self::Rps, Self::Mean, Self::P50, Self::P99, Self::Max];

    /// As in the keys of [`crate::Verdict::ratios`].
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

    /// As column heads write it.
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

    /// Whether less of it is better.
    pub fn lower_is_better(self) -> bool {
        self != Self::Rps
    }
}

impl Trial {
    /// A figure of it: CPU a request and latencies in microseconds, throughput in requests a second. `None` without a
    /// result, and for what was not told.
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
