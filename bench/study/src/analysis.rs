//! The analyses that a study asks for.

use serde::Deserialize;
use std::collections::BTreeMap;

/// The published input of the original's capacity plan.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PublishedCapacity {
    /// The axis value of the cell that the original used.
    pub at: f64,
    /// Requests per second of every gateway in that cell, with the upstream saturated.
    pub rps: f64,
    /// The cores that each gateway used at that rate, by our system's name.
    pub cores_used: BTreeMap<String, f64>,
}

/// The bars of idle connections' memory; `None` is not judged.
#[derive(Debug, Clone, Copy, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct IdleBars {
    /// KiB for each connection.
    pub each_kib: Option<f64>,
    /// MiB of the whole system with all connections.
    pub whole_mib: Option<f64>,
    /// The ratio of the memory after the burst to the memory before.
    pub after: Option<f64>,
    /// The ratio of the KiB for each connection to the least among the other systems.
    pub beside: Option<f64>,
}

/// An analysis or experiment that a study asks for; the report shows its table or note.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Analysis {
    /// Searches the threads and connections with which the generator sends the most directly to the origin.
    GeneratorSearch {
        /// The title of the section before which it runs.
        section: String,
        /// The numbers of threads to try.
        threads: Vec<u32>,
        /// The numbers of connections for each thread to try.
        connections: Vec<u32>,
        /// Seconds of each try.
        seconds: f64,
    },
    /// The original's capacity plan: ceilings, and cores of a cluster, as published and computed exactly.
    Capacity {
        /// The section of the cell that it uses.
        section: String,
        /// Upstream cores of the cluster.
        upstream_cores: f64,
        /// Requests per second that an upstream core carries.
        rps_per_core: f64,
        /// The share of their capacity at which upstreams run.
        utilisation: f64,
        /// The cores of the gateway's machine, for which the ceiling is given.
        gateway_cores: f64,
        /// The input of the original's plan, if there is an original.
        #[serde(default)]
        published: Option<PublishedCapacity>,
    },
    /// Requests per second against workers: a line with its residuals, and the efficiency of each number of
    /// workers.
    Scaling {
        /// The section whose axis is `workers`.
        section: String,
    },
    /// The CPU limit and the workers for target rates, from a sweep of quotas and workers.
    QuotaAdvice {
        /// The section of the sweep.
        section: String,
        /// The target rates in requests per second.
        rates: Vec<f64>,
    },
    /// The CPU and p99 that each feature adds, compared with the point without any feature.
    FeaturePrices {
        /// The section whose first point has no feature.
        section: String,
        /// The systems whose instructions are counted too; valgrind must be able to run them.
        #[serde(default)]
        instructions: Vec<String>,
    },
    /// Compares a system's cost with the better of its peers, against the bars of the points.
    Bars {
        /// The system to judge.
        system: String,
        /// The peers.
        peers: Vec<String>,
        /// The titles of the sections to judge. If empty, all sections that no other analysis of bars names.
        #[serde(default)]
        sections: Vec<String>,
    },
    /// Memory of idle client connections, and after a burst of connections has closed.
    IdleMemory {
        /// The systems to measure.
        systems: Vec<String>,
        /// Connections; fewer if the limit of open files requires it.
        connections: u32,
        /// Whether the connections use TLS 1.3.
        #[serde(default)]
        tls: bool,
        /// Whether the system relays the connections as bytes (the feature `tcp`).
        #[serde(default)]
        tcp: bool,
        /// The bars of the memory.
        #[serde(default)]
        bars: IdleBars,
    },
    /// One large body in each direction: whether it arrives exactly, and the memory that it takes.
    LargeBody {
        /// The systems to measure.
        systems: Vec<String>,
        /// Bytes in each direction.
        bytes: u64,
        /// The bar of the peak memory in MiB.
        #[serde(default)]
        peak_mib: Option<f64>,
    },
    /// Datagrams at a constant rate to an echo and back, in rounds; the first system is compared with the best
    /// of the others.
    Datagrams {
        /// The systems to measure.
        systems: Vec<String>,
        /// Datagrams a second.
        rate: u32,
        /// Bytes of a datagram.
        bytes: u32,
        /// Sockets that send, each a session for the system.
        sockets: u32,
        /// Rounds.
        rounds: u32,
        /// Seconds of a round.
        seconds: f64,
        /// The bar of the ratio to the lower of the other systems.
        #[serde(default)]
        beside: Option<f64>,
    },
    /// How long a route added at run time takes until it answers, and which requests fail during the change.
    RuntimeRoute {
        /// The systems to measure.
        systems: Vec<String>,
        /// The numbers of routes that exist before.
        routes: Vec<u32>,
        /// Requests per second during the change.
        rate: f64,
        /// How many times each addition is repeated.
        times: u32,
    },
    /// Lines of configuration that each system needs for the section's settings, without blank lines and
    /// comments.
    ConfigLines {
        /// The title of the section.
        section: String,
    },
}

impl Analysis {
    /// Returns the title of the table of an experiment, which is next to the sections and can be selected
    /// like one; `None` for an analysis of a section.
    pub fn experiment(&self) -> Option<&'static str> {
        match self {
            Self::RuntimeRoute { .. } => Some("A route added at run time"),
            Self::IdleMemory { tcp: true, .. } => Some("Memory of idle streams"),
            Self::IdleMemory { tls: false, .. } => Some("Memory of idle connections"),
            Self::IdleMemory { tls: true, .. } => Some("Memory of idle TLS connections"),
            Self::Datagrams { .. } => Some("Datagrams"),
            Self::LargeBody { .. } => Some("A large body up and down"),
            _ => None,
        }
    }

    /// Returns about how many seconds the experiment takes with one system.
    pub(crate) fn seconds(&self) -> f64 {
        match self {
            // For a system with two ways of adding a route; others take half.
            Self::RuntimeRoute { routes, times, .. } => 16.0 * f64::from(*times) * routes.len() as f64,
            // A handshake takes a millisecond of both ends.
            Self::IdleMemory { connections, tls, .. } => {
                12.0 + f64::from(*connections) / if *tls { 250.0 } else { 1_000.0 }
            }
            Self::Datagrams { rounds, seconds, .. } => f64::from(*rounds) * (seconds + 0.6),
            Self::LargeBody { bytes, .. } => 2.0 + 2.0 * *bytes as f64 / 250e6,
            _ => 0.0,
        }
    }

    /// Returns the systems of the experiment.
    pub(crate) fn tried(&self) -> &[String] {
        match self {
            Self::RuntimeRoute { systems, .. }
            | Self::IdleMemory { systems, .. }
            | Self::Datagrams { systems, .. }
            | Self::LargeBody { systems, .. } => systems,
            _ => &[],
        }
    }

    /// Returns the section whose points it compares with the first one.
    pub(crate) fn prices(&self) -> Option<&str> {
        match self {
            Self::FeaturePrices { section, .. } => Some(section),
            _ => None,
        }
    }

    /// Returns the section that it belongs to, if any.
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
            | Self::Datagrams { .. }
            | Self::LargeBody { .. }
            | Self::RuntimeRoute { .. } => None,
        }
    }
}
