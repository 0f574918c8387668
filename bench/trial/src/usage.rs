//! Turns differences of the kernel's counters into the evidence of a trial.
//!
//! `measure` converts the counters of this host, `elsewhere` those of an agent's host.

use tollgate_lab_meter::cgroup::{GroupCpu, Quota, Throttling};
use tollgate_lab_meter::machine::CoreShare;
use tollgate_lab_meter::process::{Memory, Snapshot, Used};
use tollgate_lab_record::{Machine, ThreadShare, Throttled, Tree};

/// If a group's CPU time exceeds the process trees' time by this factor, the trees lack processes.
const GROUP_EXCESS: f64 = 1.02;

/// Tolerated difference between the kernel's clocks, in microseconds: two ticks.
const CLOCK_TOLERANCE_US: f64 = 20_000.0;

/// Completes the use of process trees by the use of their group. The group also holds processes that left the
/// trees, or that started and ended in between.
pub(crate) fn with_group(mut used: Tree, from: Option<GroupCpu>, to: Option<GroupCpu>) -> Tree {
    if let Some((from, to)) = from.zip(to) {
        let group = to.since(&from);
        if group.total_ns as f64 / 1e3 > used.cpu_us() * GROUP_EXCESS + CLOCK_TOLERANCE_US {
            used.user_us = group.user_ns as f64 / 1e3;
            used.system_us = group.system_ns as f64 / 1e3;
        }
    }
    used
}

/// Returns the use of process trees between two readings; `ids` are their roots.
pub(crate) fn tree(ids: &[u32], before: &[Snapshot], after: &[Snapshot]) -> Tree {
    let used: Vec<Used> = after.iter().zip(before).map(|(after, before)| after.since(before)).collect();
    let mut threads: Vec<ThreadShare> = used
        .iter()
        .flat_map(|used| {
            let wall = used.wall_ns.max(1) as f64;
            used.threads
                .iter()
                .map(move |thread| ThreadShare { name: thread.name.clone(), share: thread.ns as f64 / wall })
        })
        .collect();
    threads.sort_by(|a, b| b.share.total_cmp(&a.share));
    let thread_count = u32::try_from(threads.len()).unwrap_or(u32::MAX);
    threads.retain(|thread| thread.share > 0.0);
    threads.truncate(Tree::LISTED);
    let memory: Vec<Memory> = ids.iter().map(|id| Memory::read(*id)).collect();
    // Whole numbers, because the sum of no floats is -0, which a report would show.
    let sum_us = |of: fn(&Used) -> u64| used.iter().map(of).sum::<u64>() as f64 / 1e3;
    Tree {
        user_us: sum_us(|used| used.user_ns),
        system_us: sum_us(|used| used.system_ns),
        threads,
        thread_count,
        rss_kib: memory.iter().map(|memory| memory.rss_kib).sum(),
        pss_kib: memory.iter().filter_map(|memory| memory.pss_kib).sum(),
        peak_kib: memory.iter().map(|memory| memory.peak_kib).sum(),
        voluntary_switches: used.iter().map(|used| used.voluntary_switches).sum(),
        involuntary_switches: used.iter().map(|used| used.involuntary_switches).sum(),
    }
}

/// Returns the use of every core of the host.
pub(crate) fn machine(shares: &[CoreShare]) -> Machine {
    let cores = shares.iter().map(|share| share.core + 1).max().unwrap_or(0);
    let mut machine = Machine { busy: vec![0.0; cores], softirq: vec![0.0; cores], steal: vec![0.0; cores] };
    for share in shares {
        machine.busy[share.core] = share.busy();
        machine.softirq[share.core] = share.softirq;
        machine.steal[share.core] = share.steal;
    }
    machine
}

/// Returns how long a quota held up its group between two readings.
pub(crate) fn quota(
    quota: Option<&Quota>,
    before: Option<Throttling>,
    after: Option<Throttling>,
) -> Option<Throttled> {
    let used = after?.since(&before?);
    Some(Throttled {
        cores: quota?.cores(),
        periods: used.periods,
        throttled: used.throttled,
        held_us: used.throttled_ns as f64 / 1e3,
    })
}
