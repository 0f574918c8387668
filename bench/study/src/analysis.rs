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

/// The most that idle connections may take; what is left out is not judged.
#[derive(Debug, Clone, Copy, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct IdleBars {
    /// KiB a connection.
    pub each_kib: Option<f64>,
    /// MiB of the whole system with all of them.
    pub whole_mib: Option<f64>,
    /// Memory after the burst over that before.
    pub after: Option<f64>,
    /// KiB a connection over the least of the other systems'.
    pub beside: Option<f64>,
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
    /// What a system costs beside the better of its peers, held against the bars of the points.
    Bars {
        /// The system that is held to them.
        system: String,
        /// Those that it is held against.
        peers: Vec<String>,
        /// Titles of the sections whose cells it judges; none: all that no other analysis of bars names.
        #[serde(default)]
        sections: Vec<String>,
    },
    /// Memory of idle client connections, and after a burst has come and gone.
    IdleMemory {
        /// Systems to try.
        systems: Vec<String>,
        /// Connections; fewer where the limit of open files asks for it.
        connections: u32,
        /// Whether they come over TLS 1.3.
        #[serde(default)]
        tls: bool,
        /// The most that it may take.
        #[serde(default)]
        bars: IdleBars,
    },
    /// One large body up and one down: byte-exact or not, and the memory that it took.
    LargeBody {
        /// Systems to try.
        systems: Vec<String>,
        /// Bytes in each direction.
        bytes: u64,
        /// The most memory that it may take, MiB.
        #[serde(default)]
        peak_mib: Option<f64>,
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
    /// The title of the table that an experiment of its own gives, one beside the sections; it can be asked for as one.
    pub fn experiment(&self) -> Option<&'static str> {
        match self {
            Self::RuntimeRoute { .. } => Some("A route added at run time"),
            Self::IdleMemory { tls: false, .. } => Some("Memory of idle connections"),
            Self::IdleMemory { tls: true, .. } => Some("Memory of idle TLS connections"),
            Self::LargeBody { .. } => Some("A large body up and down"),
            _ => None,
        }
    }

    /// Seconds that such an experiment takes with one system, about.
    pub(crate) fn seconds(&self) -> f64 {
        match self {
            // Of a system with two ways; the others take half.
            Self::RuntimeRoute { routes, times, .. } => 16.0 * f64::from(*times) * routes.len() as f64,
            // A handshake takes a millisecond of both ends.
            Self::IdleMemory { connections, tls, .. } => {
                12.0 + f64::from(*connections) / if *tls { 250.0 } else { 1_000.0 }
            }
            Self::LargeBody { bytes, .. } => 2.0 + 2.0 * *bytes as f64 / 250e6,
            _ => 0.0,
        }
    }

    /// Systems that such an experiment is for.
    pub(crate) fn tried(&self) -> &[String] {
        match self {
            Self::RuntimeRoute { systems, .. }
            | Self::IdleMemory { systems, .. }
            | Self::LargeBody { systems, .. } => systems,
            _ => &[],
        }
    }

    /// The section whose points it holds against the first one.
    pub(crate) fn prices(&self) -> Option<&str> {
        match self {
            Self::FeaturePrices { section, .. } => Some(section),
            _ => None,
        }
    }

    /// The section it belongs to, where it belongs to one of the study's.
    pub fn section(&self) -> Option<&str> {
        match self {
            Self::GeneratorSearch { section, .. }
            | Self::Capacity { section, .. }
            | Self::Scaling { section }
            | Self::QuotaAdvice { section, .. }
            | Self::FeaturePrices { section, .. }
            | Self::ConfigLines { section } => Some(section),
            Self::Bars { .. }
            | Self::IdleMemory { .. }
            | Self::LargeBody { .. }
            | Self::RuntimeRoute { .. } => None,
        }
    }
}
