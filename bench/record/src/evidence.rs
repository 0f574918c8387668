//! The kernel's counters of a trial, on which its verdict is based.

use crate::kind::VerdictKind;
use crate::load::Failures;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A thread and the share of one core that it used.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ThreadShare {
    /// The thread's name.
    pub name: String,
    /// CPU time divided by elapsed time: 1 is a whole core.
    pub share: f64,
}

/// The resources that a process tree used.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Tree {
    /// CPU time in user mode.
    pub user_us: f64,
    /// CPU time in the kernel on behalf of the tree.
    pub system_us: f64,
    /// The busiest threads, busiest first; at most [`Tree::LISTED`], and none without CPU time.
    pub threads: Vec<ThreadShare>,
    /// The number of all threads.
    pub thread_count: u32,
    /// Resident set at the end.
    pub rss_kib: u64,
    /// Proportional set at the end; 0 if it may not be read.
    pub pss_kib: u64,
    /// Peak resident set.
    pub peak_kib: u64,
    /// How often a thread gave up its core to wait.
    pub voluntary_switches: u64,
    /// How often a thread was preempted.
    pub involuntary_switches: u64,
}

impl Tree {
    /// How many threads are listed: as many as the workers of a large machine.
    pub const LISTED: usize = 32;

    /// Returns user and system CPU time together, in microseconds.
    pub fn cpu_us(&self) -> f64 {
        self.user_us + self.system_us
    }
}

/// The machine as a whole; each list has one element for each core.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Machine {
    /// The share of the time that each core was not idle.
    pub busy: Vec<f64>,
    /// The share of the time in soft interrupts (mostly the network stack).
    pub softirq: Vec<f64>,
    /// The share of the time that the hypervisor gave to other machines.
    pub steal: Vec<f64>,
}

/// The effect of a CPU quota.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Throttled {
    /// The quota in cores.
    pub cores: f64,
    /// Enforcement periods.
    pub periods: u64,
    /// Periods in which the group used up its quota.
    pub throttled: u64,
    /// Time during which its threads were stopped, summed over cores.
    pub held_us: f64,
}

/// Refusals and retransmissions of the network stack, on the whole machine.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Network {
    /// Connections that found a full accept queue.
    pub listen_overflows: u64,
    /// Connections that a listening socket dropped for any reason.
    pub listen_drops: u64,
    /// Segments that were retransmitted.
    pub retransmits: u64,
}

/// Connections between the system under test and the origin.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Connections {
    /// Connections opened during the trial, as the origin counted them; `None` if it does not count.
    pub opened: Option<u64>,
    /// The most connections that the origin had open at once, sampled.
    pub peak: u64,
    /// Requests that the origin received from the start of the measurement until the generator had its last
    /// answer; `None` if it does not count.
    pub requests: Option<u64>,
    /// Time from the start of the measurement to the reading of the origin's counter, in microseconds. The
    /// requests of this time are not in `requests`.
    #[serde(default)]
    pub unseen_us: f64,
}

/// What the system's own workers counted during a trial.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Workers {
    /// Open client connections of each worker, at the end of the interval with more of them.
    pub connections: Vec<u64>,
    /// Client connections that each worker accepted; empty if the system does not count them.
    pub accepted: Vec<u64>,
    /// Requests of each worker; empty if the system does not count them.
    pub requests: Vec<u64>,
    /// How often something passed between workers, by its name in the system's description.
    pub between: BTreeMap<String, u64>,
}

/// Verified requests of the cell's own kind that the laboratory sends before and after a trial of a load tool
/// that does not verify bodies.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Checks {
    /// Responses that were as expected.
    pub ok: u64,
    /// The other requests, by kind of failure.
    pub failures: Failures,
}

/// All measurements of one trial except the generator's result.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Evidence {
    /// Elapsed time between the two readings: the measured interval, without the start and the read-out of a
    /// load tool.
    pub wall_us: f64,
    /// The system under test; all zero for a direct run.
    pub target: Tree,
    /// The origin.
    pub origin: Tree,
    /// The generator.
    pub generator: Tree,
    /// The machine.
    pub machine: Machine,
    /// The system's quota, if it has one.
    pub target_quota: Option<Throttled>,
    /// The origin's quota, if it has one.
    pub origin_quota: Option<Throttled>,
    /// The network stack.
    pub network: Network,
    /// Connections to the origin.
    pub upstream: Connections,
    /// The verified requests beside a load tool's trial; `None` if the generator verifies its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checks: Option<Checks>,
    /// The counters of the system's workers; `None` if it has one worker, no such counters, or they are off.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workers: Option<Workers>,
    /// The component that limited the trial, as these counters attribute it; `None` before the attribution.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<VerdictKind>,
}
