//! What is computed from a section once it is measured.

use serde::Deserialize;
use std::collections::BTreeMap;

/// What the original of a capacity plan started from, as printed.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PublishedCapacity {
    /// Value of the section's axis in the cell that it took.
    pub at: f64,
    /// Requests a second of every gateway there, the upstream being full.
    pub rps: f64,
    /// Cores that each gateway used at that rate, by our system's name.
    pub cores_used: BTreeMap<String, f64>,
}

/// An analysis that a study asks for; its table or note stands in the report.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Analysis {
    /// Before the section: the generator's own best threads and connections, straight to the origin.
    GeneratorSearch {
        /// Title of the section it comes before.
        section: String,
        /// Threads tried.
        threads: Vec<u32>,
        /// Connections tried a thread.
        connections: Vec<u32>,
        /// Seconds a try.
        seconds: f64,
    },
    /// Seed 0's capacity plan: ceilings, cores of a cluster, published and exact.
    Capacity {
        /// Section of the cell that it starts from.
        section: String,
        /// Upstream cores of the cluster.
        upstream_cores: f64,
        /// Requests a second that an upstream core carries.
        rps_per_core: f64,
        /// Share of their full capacity at which upstreams run.
        utilisation: f64,
        /// Cores of the gateway's machine, on which its ceiling is told.
        gateway_cores: f64,
        /// What the original started from, when there is one.
        #[serde(default)]
        published: Option<PublishedCapacity>,
    },
    /// Requests a second through workers: a line with its residuals and the efficiency of each number of workers.
    Scaling {
        /// The section whose axis is `workers`.
        section: String,
    },
    /// From a sweep of quotas and workers: CPU limit and workers for target rates.
    QuotaAdvice {
        /// The section of the sweep.
        section: String,
        /// Rates to advise for, requests a second.
        rates: Vec<f64>,
    },
    /// What each feature adds, as CPU and p99, to the point without any.
    FeaturePrices {
        /// The section whose first point has no feature.
        section: String,
        /// Systems whose instructions are counted too; those that valgrind can run.
        #[serde(default)]
        instructions: Vec<String>,
    },
    /// How long a route added at run time takes until it answers, and what fails meanwhile.
    RuntimeRoute {
        /// Systems to try.
        systems: Vec<String>,
        /// Numbers of routes that are there already.
        routes: Vec<u32>,
        /// Requests a second meanwhile.
        rate: f64,
        /// Times each.
        times: u32,
    },
    /// Lines of configuration that each system needs for the section's setting, counted without blank lines and comments.
    ConfigLines {
        /// Title for the table.
        section: String,
    },
}

impl Analysis {
    /// The section it belongs to, where it belongs to one of the study's.
    pub fn section(&self) -> Option<&str> {
        match self {
            Self::GeneratorSearch { section, .. }
            | Self::Capacity { section, .. }
            | Self::Scaling { section }
            | Self::QuotaAdvice { section, .. }
            | Self::FeaturePrices { section, .. }
            | Self::ConfigLines { section } => Some(section),
            Self::RuntimeRoute { .. } => None,
        }
    }
}
