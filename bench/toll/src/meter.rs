//! What a process tree has used: CPU time and memory, read from `/proc`.
//!
//! Two clocks tell CPU time. `/proc/PID/task/TID/schedstat` counts nanoseconds but forgets threads that ended;
//! `/proc/PID/stat` remembers them but counts in ticks (10 ms). A delta uses the first as long as the same threads
//! lived at both ends, else the second. The split into user and system always comes from the ticks.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// `/proc/PID/stat` counts in `USER_HZ`, which is 100 on every Linux architecture that Rust supports (`proc(5)`).
const NANOS_PER_TICK: u64 = 10_000_000;

/// CPU time used so far by a process tree.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CpuMark {
    user_ticks: u64,
    system_ticks: u64,
    /// Nanoseconds by thread id; empty where the kernel keeps no schedstat.
    threads: BTreeMap<u32, u64>,
}

/// Where a CPU figure comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Clock {
    /// `/proc/PID/task/TID/schedstat`, nanoseconds.
    Schedstat,
    /// `/proc/PID/stat`, ticks of 10 ms.
    Ticks,
}

impl Clock {
    /// What the reports call it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Schedstat => "schedstat (ns)",
            Self::Ticks => "stat (10 ms ticks)",
        }
    }
}

/// CPU time used between two marks, in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CpuUsed {
    /// User and system together.
    pub total: f64,
    /// In user mode.
    pub user: f64,
    /// In the kernel on behalf of the tree.
    pub system: f64,
    /// The clock behind `total`.
    pub clock: Clock,
}

impl CpuMark {
    /// What was used since `earlier`.
    pub fn since(&self, earlier: &Self) -> CpuUsed {
        let user = self.user_ticks.saturating_sub(earlier.user_ticks) as f64;
        let system = self.system_ticks.saturating_sub(earlier.system_ticks) as f64;
        let same_threads = !self.threads.is_empty() && self.threads.keys().eq(earlier.threads.keys());
        let (total, clock) = if same_threads {
            let nanos: u64 =
                self.threads.iter().map(|(thread, now)| now.saturating_sub(earlier.threads[thread])).sum();
            (nanos as f64, Clock::Schedstat)
        } else {
            ((user + system) * NANOS_PER_TICK as f64, Clock::Ticks)
        };
        let user_share = if user + system > 0.0 { user / (user + system) } else { 0.0 };
        CpuUsed { total, user: total * user_share, system: total * (1.0 - user_share), clock }
    }
}

/// Memory of a process tree in KiB.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Memory {
    /// Resident set, shared pages counted once a process (`VmRSS`).
    pub rss: u64,
    /// Proportional set, shared pages divided among their users; 0 where it may not be read.
    pub pss: u64,
    /// The largest resident set so far, summed over the processes (`VmHWM`).
    pub peak: u64,
}

impl Memory {
    /// The fairest single figure: PSS where known, else RSS.
    pub fn own(&self) -> u64 {
        if self.pss > 0 { self.pss } else { self.rss }
    }
}

/// The process and all its descendants, as of now.
pub fn tree(root: u32) -> Vec<u32> {
    let mut parents: Vec<(u32, u32)> = Vec::new();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok()) else {
            continue;
        };
        if let Some(stat) = read(&format!("/proc/{pid}/stat")).as_deref().and_then(parse_stat) {
            parents.push((pid, stat.parent));
        }
    }
    descendants(root, &parents)
}

fn descendants(root: u32, parents: &[(u32, u32)]) -> Vec<u32> {
    let mut found = vec![root];
    let mut next = 0;
    while let Some(&parent) = found.get(next) {
        next += 1;
        for &(pid, its_parent) in parents {
            if its_parent == parent && !found.contains(&pid) {
                found.push(pid);
            }
        }
    }
    found
}

/// CPU time used so far by `root` and its descendants, with that of children already reaped.
pub fn cpu(root: u32) -> CpuMark {
    let mut mark = CpuMark::default();
    for pid in tree(root) {
        if let Some(stat) = read(&format!("/proc/{pid}/stat")).as_deref().and_then(parse_stat) {
            mark.user_ticks += stat.user_ticks;
            mark.system_ticks += stat.system_ticks;
        }
        for task in fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten() {
            let thread = task.file_name().to_str().and_then(|name| name.parse::<u32>().ok());
            let nanos =
                fs::read_to_string(task.path().join("schedstat")).ok().as_deref().and_then(parse_schedstat);
            if let (Some(thread), Some(nanos)) = (thread, nanos) {
                mark.threads.insert(thread, nanos);
            }
        }
    }
    mark
}

/// Memory of `root` and its descendants.
pub fn memory(root: u32) -> Memory {
    let mut sum = Memory::default();
    for pid in tree(root) {
        if let Some(status) = read(&format!("/proc/{pid}/status")) {
            sum.rss += kib_after(&status, "VmRSS:").unwrap_or(0);
            sum.peak += kib_after(&status, "VmHWM:").unwrap_or(0);
        }
        if let Some(rollup) = read(&format!("/proc/{pid}/smaps_rollup")) {
            sum.pss += kib_after(&rollup, "Pss:").unwrap_or(0);
        }
    }
    sum
}

/// Sets the peak resident set of the tree back to the present one (`proc(5)`, `clear_refs`, value 5).
///
/// Returns whether the kernel allowed it for every process.
pub fn reset_peak(root: u32) -> bool {
    tree(root).iter().all(|pid| fs::write(Path::new(&format!("/proc/{pid}/clear_refs")), "5").is_ok())
}

/// What of `/proc/PID/stat` matters here.
#[derive(Debug, PartialEq, Eq)]
struct Stat {
    parent: u32,
    user_ticks: u64,
    system_ticks: u64,
}

/// Reads `/proc/PID/stat`: the name may hold spaces and brackets, so the fields start after the last `)`.
fn parse_stat(text: &str) -> Option<Stat> {
    let fields: Vec<&str> = text.get(text.rfind(')')? + 1..)?.split_ascii_whitespace().collect();
    let number = |at: usize| fields.get(at)?.parse::<u64>().ok();
    // proc(5) numbers fields from 1 with the pid; the state, field 3, is index 0 here.
    Some(Stat {
        parent: fields.get(1)?.parse().ok()?,
        user_ticks: number(11)? + number(13)?,
        system_ticks: number(12)? + number(14)?,
    })
}

/// The first number of a schedstat line: nanoseconds on a CPU.
fn parse_schedstat(text: &str) -> Option<u64> {
    text.split_ascii_whitespace().next()?.parse().ok()
}

/// The number of KiB on the line that starts with `label`.
fn kib_after(text: &str, label: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix(label))?.split_ascii_whitespace().next()?.parse().ok()
}

fn read(path: &str) -> Option<String> {
    fs::read_to_string(path).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const STAT: &str = "5776 (ng (x) worker) S 5775 5776 5776 0 -1 4194560 731 12 0 0 40 16 3 2 20 0 1 0 77358 \
                        9977856 1423 18446744073709551615 1 1 0 0 0 0 0 0 0 0 0 0 17 0 0 0 0 0 0";

    fn mark(user: u64, system: u64, threads: &[(u32, u64)]) -> CpuMark {
        CpuMark { user_ticks: user, system_ticks: system, threads: threads.iter().copied().collect() }
    }

    #[test]
    fn stat_is_read_past_an_odd_name_and_counts_reaped_children() {
        assert_eq!(parse_stat(STAT), Some(Stat { parent: 5775, user_ticks: 43, system_ticks: 18 }));
        assert_eq!(parse_stat("5776 (short) S 1"), None);
        assert_eq!(parse_stat(""), None);
    }

    #[test]
    fn schedstat_and_status_lines() {
        assert_eq!(parse_schedstat("566465116 56440 7\n"), Some(566_465_116));
        assert_eq!(parse_schedstat(""), None);
        let status = "Name:\tx\nVmHWM:\t    9000 kB\nVmRSS:\t    8512 kB\n";
        assert_eq!(kib_after(status, "VmRSS:"), Some(8_512));
        assert_eq!(kib_after(status, "VmSwap:"), None);
        assert_eq!(
            kib_after("0-1 ---p [rollup]\nRss:  10 kB\nPss:   7 kB\nPss_Anon: 3 kB\n", "Pss:"),
            Some(7)
        );
    }

    #[test]
    fn nanoseconds_are_used_while_the_threads_stay_the_same() {
        let used = mark(130, 70, &[(1, 900), (2, 5_100)]).since(&mark(100, 60, &[(1, 400), (2, 1_600)]));
        assert_eq!(used, CpuUsed { total: 4_000.0, user: 3_000.0, system: 1_000.0, clock: Clock::Schedstat });
    }

    #[test]
    fn ticks_are_used_when_a_thread_came_or_went() {
        let used = mark(130, 70, &[(1, 900), (3, 50)]).since(&mark(100, 60, &[(1, 400), (2, 1_600)]));
        assert_eq!(used.clock, Clock::Ticks);
        assert!((used.total - 400_000_000.0).abs() < 1.0);
        assert!((used.user - 300_000_000.0).abs() < 1.0);
    }

    #[test]
    fn a_tree_holds_grandchildren_and_no_strangers() {
        assert_eq!(descendants(10, &[(12, 11), (11, 10), (20, 1), (10, 1)]), [10, 11, 12]);
    }

    #[test]
    fn this_process_has_memory_and_cpu_time() {
        let me = std::process::id();
        assert!(tree(me).contains(&me));
        assert!(memory(me).rss > 0);
        let before = cpu(me);
        let mut x = 1u64;
        for i in 0..3_000_000u64 {
            x = std::hint::black_box(x.wrapping_mul(i | 1));
        }
        assert!(cpu(me).since(&before).total >= 0.0);
    }

    proptest! {
        #[test]
        fn no_text_upsets_the_parsers(text in "\\PC{0,80}") {
            let _ = parse_stat(&text);
            let _ = parse_schedstat(&text);
            let _ = kib_after(&text, "Pss:");
        }
    }
}
