//! Computes the resources used between two snapshots.
//!
//! There are two clocks of CPU time. `/proc/PID/task/TID/schedstat` counts nanoseconds but forgets threads
//! that ended. `/proc/PID/stat` includes them but counts in ticks (10 ms). A process is measured by the first
//! if the same threads lived at both snapshots, otherwise by the second. The split into user and system
//! always comes from the ticks.
//!
//! The kernel adds a process that ended in between to its parent's count of reaped children, with its whole life. The
//! use up to the first snapshot is therefore subtracted. If a process's parent ignores its end or is outside the
//! subject, its time is lost: the kernel keeps its figures nowhere. A quota's own counter (see `cgroup`) includes even
//! those.

use super::procfs::NANOS_PER_TICK;
use super::snapshot::{Process, Snapshot, Thread, Ticks};
use crate::part_of;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The source, and so the resolution, of a CPU figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Clock {
    /// `/proc/PID/task/TID/schedstat`: nanoseconds. The value of a running thread lags by up to one timer
    /// interrupt.
    Schedstat,
    /// `/proc/PID/stat`: ticks of 10 ms.
    Ticks,
    /// The first for some processes of the tree, the second for others.
    Mixed,
}

/// The resources that a process tree used between two snapshots.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Used {
    /// Time between the snapshots, in nanoseconds.
    pub wall_ns: u64,
    /// CPU time in user mode, in nanoseconds.
    pub user_ns: u64,
    /// CPU time in the kernel on the tree's behalf, in nanoseconds.
    pub system_ns: u64,
    /// User and system together, in nanoseconds.
    pub total_ns: u64,
    /// The clock behind `total_ns`.
    pub clock: Clock,
    /// Threads alive at the second snapshot, the busiest first.
    pub threads: Vec<ThreadUsed>,
    /// CPU time of threads and processes that ended in between, in nanoseconds: `total_ns` less the sum of
    /// `threads`.
    pub ended_ns: u64,
    /// Processes that were alive at the first snapshot but not at the second.
    pub ended_processes: usize,
    /// How often a thread alive at the second snapshot gave up its CPU to wait.
    pub voluntary_switches: u64,
    /// How often a thread alive at the second snapshot was preempted.
    pub involuntary_switches: u64,
}

/// The resources that one thread used between two snapshots.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ThreadUsed {
    /// Its process id.
    pub pid: u32,
    /// Its thread id; the main thread's is the process id.
    pub tid: u32,
    /// Its name, at most 15 bytes; threads without a name of their own have the program's.
    pub name: String,
    /// CPU time in nanoseconds.
    pub ns: u64,
    /// The part in user mode, in nanoseconds.
    pub user_ns: u64,
    /// The part in the kernel, in nanoseconds.
    pub system_ns: u64,
    /// How often it gave up its CPU to wait.
    pub voluntary_switches: u64,
    /// How often it was preempted.
    pub involuntary_switches: u64,
}

impl Used {
    /// Returns the CPU time in cores: 1.0 is one core that is always busy.
    pub fn cores(&self) -> f64 {
        if self.wall_ns == 0 { 0.0 } else { self.total_ns as f64 / self.wall_ns as f64 }
    }

    /// Returns the busiest thread with its share of the elapsed time (1.0: never idle); `None` without
    /// threads.
    pub fn hottest(&self) -> Option<(&ThreadUsed, f64)> {
        let thread = self.threads.first()?;
        Some((thread, if self.wall_ns == 0 { 0.0 } else { thread.ns as f64 / self.wall_ns as f64 }))
    }
}

impl Ticks {
    fn total(self) -> u64 {
        self.user + self.system
    }

    fn since(self, earlier: Self) -> Self {
        Self {
            user: self.user.saturating_sub(earlier.user),
            system: self.system.saturating_sub(earlier.system),
        }
    }

    fn add(&mut self, other: Self) {
        self.user += other.user;
        self.system += other.system;
    }

    /// Splits `total` nanoseconds in the proportion of these ticks, or of `life` if these are zero.
    fn split(self, life: Self, total: u64) -> (u64, u64) {
        let by = if self.total() > 0 { self } else { life };
        let user = part_of(total, by.user, by.total());
        (user, total - user)
    }
}

impl Snapshot {
    /// Returns what was used since `earlier`, a snapshot of the same subject.
    pub fn since(&self, earlier: &Self) -> Used {
        between(earlier, self)
    }
}

fn between(earlier: &Snapshot, later: &Snapshot) -> Used {
    let (mut total_ns, mut user_ns, mut system_ns) = (0, 0, 0);
    let (mut fine, mut coarse) = (false, false);
    let (mut reaped, mut gone) = (Ticks::default(), Ticks::default());
    let mut threads = Vec::new();
    for (&pid, now) in &later.processes {
        let before = same_process(earlier, pid, now);
        let then = before.cloned().unwrap_or_default();
        let ticks = now.own.since(then.own);
        let total = match before.and_then(|before| nanos(before, now)) {
            Some(nanos) => {
                fine = true;
                nanos
            }
            None => {
                coarse = true;
                ticks.total() * NANOS_PER_TICK
            }
        };
        let (user, system) = ticks.split(now.own, total);
        total_ns += total;
        user_ns += user;
        system_ns += system;
        reaped.add(now.reaped.since(then.reaped));
        threads.extend(now.threads.iter().map(|(&tid, thread)| thread_used(pid, tid, thread, &then.threads)));
    }
    let mut ended_processes = 0;
    for (&pid, then) in &earlier.processes {
        if later.processes.get(&pid).is_none_or(|now| now.start != then.start) {
            ended_processes += 1;
            gone.add(then.own);
            gone.add(then.reaped);
        }
    }
    let ended = reaped.since(gone);
    coarse |= ended.total() > 0;
    total_ns += ended.total() * NANOS_PER_TICK;
    user_ns += ended.user * NANOS_PER_TICK;
    system_ns += ended.system * NANOS_PER_TICK;
    threads.sort_by(|a: &ThreadUsed, b| b.ns.cmp(&a.ns).then(a.tid.cmp(&b.tid)));
    let living: u64 = threads.iter().map(|thread| thread.ns).sum();
    Used {
        wall_ns: u64::try_from(later.at.saturating_duration_since(earlier.at).as_nanos()).unwrap_or(u64::MAX),
        user_ns,
        system_ns,
        total_ns,
        clock: match (fine, coarse) {
            (true, false) => Clock::Schedstat,
            (true, true) => Clock::Mixed,
            (false, _) => Clock::Ticks,
        },
        ended_ns: total_ns.saturating_sub(living),
        ended_processes,
        voluntary_switches: threads.iter().map(|thread| thread.voluntary_switches).sum(),
        involuntary_switches: threads.iter().map(|thread| thread.involuntary_switches).sum(),
        threads,
    }
}

fn same_process<'a>(earlier: &'a Snapshot, pid: u32, now: &Process) -> Option<&'a Process> {
    earlier.processes.get(&pid).filter(|then| then.start == now.start)
}

/// Returns the nanoseconds between two states of a process, if the same threads lived at both and the kernel
/// keeps schedstat.
fn nanos(then: &Process, now: &Process) -> Option<u64> {
    if now.threads.is_empty() || !now.threads.keys().eq(then.threads.keys()) {
        return None;
    }
    now.threads.iter().try_fold(0, |sum, (tid, thread)| {
        let earlier = then.threads.get(tid).filter(|earlier| earlier.start == thread.start)?;
        Some(sum + thread.nanos?.saturating_sub(earlier.nanos?))
    })
}

fn thread_used(pid: u32, tid: u32, now: &Thread, earlier: &BTreeMap<u32, Thread>) -> ThreadUsed {
    let then = earlier.get(&tid).filter(|then| then.start == now.start).cloned().unwrap_or_default();
    let ticks = now.ticks.since(then.ticks);
    let ns = match now.nanos {
        Some(nanos) => nanos.saturating_sub(then.nanos.unwrap_or(0)),
        None => ticks.total() * NANOS_PER_TICK,
    };
    let (user_ns, system_ns) = ticks.split(now.ticks, ns);
    ThreadUsed {
        pid,
        tid,
        name: now.name.clone(),
        ns,
        user_ns,
        system_ns,
        voluntary_switches: now.voluntary.saturating_sub(then.voluntary),
        involuntary_switches: now.involuntary.saturating_sub(then.involuntary),
    }
}

#[cfg(test)]
mod tests;
