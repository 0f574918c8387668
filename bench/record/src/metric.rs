//! The metrics by which systems are compared, and their values in a trial.

use crate::kind::VerdictKind;
use crate::measured::{Cost, Trial};
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

    /// Returns whether this is a latency.
    pub fn is_latency(self) -> bool {
        matches!(self, Self::Mean | Self::P50 | Self::P99 | Self::Max)
    }

    /// Returns whether less is better.
    pub fn lower_is_better(self) -> bool {
        self != Self::Rps
    }
}

impl Trial {
    /// Returns the value of a metric: CPU time for each request and latencies in microseconds, throughput in
    /// requests per second. `None` without a result, if the tool did not report it, or if it is not the
    /// system's: a cost at a rate that was not kept, a latency that another component caused.
    pub fn figure(&self, metric: Metric) -> Option<f64> {
        let load = self.load.as_ref()?;
        let latency = load.latency().filter(|_| self.has_latency());
        match metric {
            Metric::Cpu => self.own_cost().map(Cost::total_us),
            Metric::Rps => Some(load.rps()),
            Metric::Mean => latency.map(|times| times.mean_us),
            Metric::P50 => latency.and_then(|times| times.percentile(50.0)),
            Metric::P99 => latency.and_then(|times| times.percentile(99.0)),
            Metric::Max => latency.and_then(|times| times.max_us),
        }
    }

    /// Returns the CPU time of a request; `None` at an offered rate that was not kept. Part of the requests
    /// of such a trial are answered after the readings, or never.
    pub fn own_cost(&self) -> Option<Cost> {
        let load = self.load.as_ref()?;
        self.cost.filter(|_| load.model.rps().is_none() || load.keeps_its_rate())
    }

    /// Returns whether the latency is the system's and not caused by the generator's side.
    pub fn has_latency(&self) -> bool {
        let offered = self.load.as_ref().is_some_and(|load| load.model.rps().is_some());
        !offered || self.evidence.kind.is_none_or(VerdictKind::has_latency)
    }
}
