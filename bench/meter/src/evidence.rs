//! What was measured of one trial, as it goes into the record.
//!
//! Only plain types, so that the record's schema can hold it as it is. Every number is finite.

use serde::{Deserialize, Serialize};

/// The evidence of one trial: what a verdict on who was the bottleneck rests on.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Evidence {
    /// How long was measured, us; the shares below are of this.
    pub wall_us: u64,
    /// The system under test.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<TreeEvidence>,
    /// The server behind it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<TreeEvidence>,
    /// The load generator.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub generator: Option<TreeEvidence>,
    /// The cores and who else wanted them.
    pub machine: MachineEvidence,
    /// Throttling by a quota that somebody set on the laboratory itself or around it: it holds back all that the
    /// trial started, and nobody may know of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outer_quota: Option<QuotaEvidence>,
    /// Counters of the network namespace.
    pub net: NetEvidence,
    /// Connections to the origin.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin_connections: Option<ConnectionEvidence>,
}

/// What one process tree used.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct TreeEvidence {
    /// CPU time in user mode, us.
    pub user_us: u64,
    /// CPU time in the kernel, us.
    pub system_us: u64,
    /// Where the CPU time comes from, and so how fine it is: `schedstat` (ns), `ticks` (10 ms), `mixed`, `rusage` (us,
    /// of a tool's whole life) or `cgroup` (ns, processes that nobody waited for included).
    pub clock: String,
    /// CPU time of threads and processes that ended during the trial, us; part of the above and of no thread below.
    pub ended_us: u64,
    /// The threads that used most, the hottest first, at most [`TOP_THREADS`] of them.
    pub threads: Vec<ThreadEvidence>,
    /// How many threads were alive at the end.
    pub thread_count: u32,
    /// Share of the wall time that the hottest thread was on a CPU: near 1, one worker was the limit.
    pub hottest_share: f64,
    /// Times that threads alive at the end gave up their CPU to wait.
    pub voluntary_switches: u64,
    /// Times that they lost it to another thread.
    pub involuntary_switches: u64,
    /// Resident set at the end, KiB.
    pub rss_kib: u64,
    /// Proportional set at the end, KiB; missing where it may not be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pss_kib: Option<u64>,
    /// Sum over the processes of the largest resident set of each during the trial, KiB.
    pub peak_kib: u64,
    /// The quota that the trial set on it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub throttled: Option<QuotaEvidence>,
}

/// How many threads of a tree are recorded one by one.
pub const TOP_THREADS: usize = 8;

/// What one thread used.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ThreadEvidence {
    /// Its process's id.
    pub pid: u32,
    /// Its own id.
    pub tid: u32,
    /// Its name.
    pub name: String,
    /// CPU time in user mode, us.
    pub user_us: u64,
    /// CPU time in the kernel, us.
    pub system_us: u64,
    /// Share of the wall time on a CPU.
    pub share: f64,
}

/// What a CPU quota did.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct QuotaEvidence {
    /// CPU time granted, in cores.
    pub cores: f64,
    /// Periods (100 ms, unless somebody set another) in which CPU time was wanted.
    pub periods: u64,
    /// Of them those in which the quota was used up.
    pub throttled: u64,
    /// How long threads were held back, ms, summed over the cores.
    pub ms: f64,
}

/// How busy the machine was.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct MachineEvidence {
    /// Each core; one that had no tick is missing.
    pub cores: Vec<CoreEvidence>,
    /// Load average over one minute at the start: how busy others kept the machine.
    pub load_before: f64,
    /// The same at the end.
    pub load_after: f64,
}

/// How one core spent the trial.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct CoreEvidence {
    /// Its number.
    pub core: u32,
    /// Not idle, stolen time included, percent.
    pub busy_percent: f64,
    /// Serving soft interrupts (on loopback much of TCP), percent.
    pub softirq_percent: f64,
    /// Taken by the hypervisor, percent.
    pub steal_percent: f64,
}

/// What TCP counted during the trial, for everybody in the network namespace.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NetEvidence {
    /// Connections refused because an accept queue was full.
    pub listen_overflows: u64,
    /// Connections dropped at a listening socket for any reason.
    pub listen_drops: u64,
    /// Segments sent again.
    pub retransmits: u64,
    /// Connections accepted, by all servers together: an upper bound for each.
    pub accepted: u64,
}

/// Connections to one server.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConnectionEvidence {
    /// Different connections seen that were opened during the trial: a lower bound, since a client port used again
    /// counts once. The built-in origins count exactly; prefer their figure.
    pub opened_at_least: u64,
    /// The most that were established at one sample.
    pub peak: u64,
    /// The most that were in TIME_WAIT on the server's side at one sample.
    pub time_wait_peak: u64,
    /// How many samples were taken.
    pub samples: u64,
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Three decimals, as every fraction of the evidence has.
    fn fraction() -> impl Strategy<Value = f64> {
        (0u32..10_000_000).prop_map(|thousandths| f64::from(thousandths) / 1_000.0)
    }

    prop_compose! {
        fn quota()(cores in fraction(), periods in any::<u64>(), throttled in any::<u64>(), ms in fraction())
            -> QuotaEvidence {
            QuotaEvidence { cores, periods, throttled, ms }
        }
    }

    prop_compose! {
        fn thread()(pid in any::<u32>(), tid in any::<u32>(), name in "\\PC{0,15}", user_us in any::<u64>(),
                    system_us in any::<u64>(), share in fraction()) -> ThreadEvidence {
            ThreadEvidence { pid, tid, name, user_us, system_us, share }
        }
    }

    prop_compose! {
        fn tree()(numbers in any::<[u64; 8]>(), clock in "[a-z]{0,9}", hottest_share in fraction(),
                  threads in proptest::collection::vec(thread(), 0..3), pss_kib in proptest::option::of(any::<u64>()),
                  throttled in proptest::option::of(quota())) -> TreeEvidence {
            let [user_us, system_us, ended_us, voluntary_switches, involuntary_switches, rss_kib, peak_kib, _] = numbers;
            TreeEvidence {
                user_us, system_us, clock, ended_us, thread_count: threads.len() as u32, threads, hottest_share,
                voluntary_switches, involuntary_switches, rss_kib, pss_kib, peak_kib, throttled,
            }
        }
    }

    prop_compose! {
        fn evidence()(target in proptest::option::of(tree()), origin in proptest::option::of(tree()),
                      generator in proptest::option::of(tree()), outer_quota in proptest::option::of(quota()),
                      share in fraction(), n in any::<[u64; 8]>(), connections in any::<bool>()) -> Evidence {
            let core =
                CoreEvidence { core: 3, busy_percent: share, softirq_percent: share / 4.0, steal_percent: 0.0 };
            Evidence {
                wall_us: n[0], target, origin, generator, outer_quota,
                machine: MachineEvidence { cores: vec![core], load_before: share, load_after: 0.0 },
                net: NetEvidence { listen_overflows: n[1], listen_drops: n[2], retransmits: n[3], accepted: n[4] },
                origin_connections: connections.then_some(ConnectionEvidence {
                    opened_at_least: n[5], peak: n[6], time_wait_peak: n[7], samples: 9,
                }),
            }
        }
    }

    proptest! {
        #[test]
        fn evidence_comes_back_from_json_as_it_was(evidence in evidence()) {
            let text = serde_json::to_string(&evidence).unwrap();
            let back: Evidence = serde_json::from_str(&text).unwrap();
            prop_assert_eq!(back, evidence);
        }
    }

    #[test]
    fn what_was_not_measured_is_missing_and_not_null() {
        let text = serde_json::to_string(&Evidence::default()).unwrap();
        assert!(!text.contains("null") && !text.contains("target"), "{text}");
        assert!(serde_json::from_str::<Evidence>("{}").is_err());
    }
}
