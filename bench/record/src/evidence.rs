//! What the kernel saw while a trial ran: the ground on which a verdict stands.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A thread and how much of one core it used.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ThreadShare {
    /// The thread's name.
    pub name: String,
    /// CPU time over wall time: 1 is a whole core.
    pub share: f64,
}

/// What a process tree used.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Tree {
    /// CPU time in user mode.
    pub user_us: f64,
    /// CPU time in the kernel on its behalf.
    pub system_us: f64,
    /// The busiest threads, busiest first; at most eight.
    pub threads: Vec<ThreadShare>,
    /// Threads in all.
    pub thread_count: u32,
    /// Resident set at the end.
    pub rss_kib: u64,
    /// Proportional set at the end; 0 where it may not be read.
    pub pss_kib: u64,
    /// Largest resident set.
    pub peak_kib: u64,
    /// Times it gave up its core because it had to wait.
    pub voluntary_switches: u64,
    /// Times its core was taken from it.
    pub involuntary_switches: u64,
}

impl Tree {
    /// User and system CPU time, microseconds.
    pub fn cpu_us(&self) -> f64 {
        self.user_us + self.system_us
    }
}

/// The machine as a whole; each list has an element a core.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Machine {
    /// Share of the time that each core was not idle.
    pub busy: Vec<f64>,
    /// Share of the time in soft interrupts (the network stack, mostly).
    pub softirq: Vec<f64>,
    /// Share of the time that the hypervisor gave to others.
    pub steal: Vec<f64>,
}

/// What a CPU quota held back.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Throttled {
    /// The quota in cores.
    pub cores: f64,
    /// Enforcement periods.
    pub periods: u64,
    /// Periods in which the group ran out.
    pub throttled: u64,
    /// Time its threads were held back, summed over cores.
    pub held_us: f64,
}

/// What the network stack had to refuse or repeat, machine-wide.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Network {
    /// Connections that met a full accept queue.
    pub listen_overflows: u64,
    /// Connections that a listening socket dropped for any reason.
    pub listen_drops: u64,
    /// Segments sent again.
    pub retransmits: u64,
}

/// Connections between the system under test and the origin.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Connections {
    /// Opened during the trial, as the origin counted them; `None` where it does not count.
    pub opened: Option<u64>,
    /// The most that the origin had open at once, sampled.
    pub peak: u64,
    /// Requests that the origin answered; `None` where it does not count.
    pub requests: Option<u64>,
}

/// All that is known of one trial beside what the generator says.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Evidence {
    /// Wall time between the two readings.
    pub wall_us: f64,
    /// The system under test; all zero when the generator speaks to the origin directly.
    pub target: Tree,
    /// The origin.
    pub origin: Tree,
    /// The generator.
    pub generator: Tree,
    /// The machine.
    pub machine: Machine,
    /// The system's quota, when it has one.
    pub target_quota: Option<Throttled>,
    /// The origin's quota, when it has one.
    pub origin_quota: Option<Throttled>,
    /// The network.
    pub network: Network,
    /// Connections to the origin.
    pub upstream: Connections,
}
