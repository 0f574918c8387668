//! The number of cores that this process may use.

use std::fs;
use std::path::Path;

use crate::control_group::Controller;

/// The CPUs that this process may use.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cores {
    /// CPUs in the process's affinity mask.
    pub affinity: usize,
    /// CPU time per second that the process's control group and its ancestors allow, in cores; `None`: no
    /// limit.
    pub quota: Option<f64>,
    /// The smaller of the two.
    pub usable: f64,
}

impl Cores {
    fn new(affinity: usize, quota: Option<f64>) -> Cores {
        let affinity = affinity.max(1);
        let usable = quota.map_or(affinity as f64, |quota| quota.min(affinity as f64));
        Cores { affinity, quota, usable }
    }

    /// Returns the number of workers for `workers: auto`: the usable cores, rounded up, so that no part of a
    /// quota is unused. A quota of 1.5 gives 2, because one worker could use no more than 1. The number of
    /// threads that can run at once stays close to the quota, so the kernel does not throttle them early in a
    /// period.
    #[must_use]
    pub fn workers(&self) -> usize {
        (self.usable.ceil() as usize).max(1)
    }
}

/// Reads the affinity mask and the quota of the control groups (v1 and v2).
#[must_use]
pub fn available_cores() -> Cores {
    Cores::new(affinity(), CPU.least(Path::new("/")))
}

fn affinity() -> usize {
    match rustix::thread::sched_getaffinity(None) {
        Ok(cpus) => cpus.count() as usize,
        // The system has more CPUs than the mask holds.
        Err(_) => std::thread::available_parallelism().map_or(1, usize::from),
    }
}

/// The CPU controller. Its limit is CPU time per second, in cores.
const CPU: Controller = Controller {
    name: "cpu",
    v1_mounts: &["sys/fs/cgroup/cpu,cpuacct", "sys/fs/cgroup/cpu", "sys/fs/cgroup/cpuacct,cpu"],
    v1: quota_v1,
    v2: quota_v2,
};

/// Reads `cpu.max`: quota and period in microseconds, or `max` for no limit (Linux, admin-guide/cgroup-v2).
fn quota_v2(group: &Path) -> Option<f64> {
    let text = fs::read_to_string(group.join("cpu.max")).ok()?;
    let mut parts = text.split_whitespace();
    let quota = parts.next()?.parse().ok()?;
    let period = parts.next().map_or(Some(100_000.0), |period| period.parse().ok())?;
    ratio(quota, period)
}

/// Reads `cpu.cfs_quota_us`, -1 for no limit, and `cpu.cfs_period_us` (Linux, scheduler/sched-bwc).
fn quota_v1(group: &Path) -> Option<f64> {
    let number = |name: &str| fs::read_to_string(group.join(name)).ok()?.trim().parse().ok();
    ratio(number("cpu.cfs_quota_us")?, number("cpu.cfs_period_us")?)
}

fn ratio(quota: f64, period: f64) -> Option<f64> {
    (quota > 0.0 && period > 0.0).then(|| quota / period)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control_group::sample::machine;

    fn quota_with(files: &[(&str, &str)]) -> Option<f64> {
        CPU.least(machine(files).path())
    }

    #[test]
    fn no_control_groups() {
        assert_eq!(quota_with(&[]), None);
        assert_eq!(quota_with(&[("proc/self/cgroup", "0::/\n")]), None);
        assert_eq!(quota_with(&[("proc/self/cgroup", "nonsense\n::\n")]), None);
    }

    #[test]
    fn v2_takes_the_least_of_all_ancestors() {
        let files = [
            ("proc/self/cgroup", "0::/kubepods.slice/pod1.slice/app.scope\n"),
            ("sys/fs/cgroup/kubepods.slice/cpu.max", "max 100000\n"),
            ("sys/fs/cgroup/kubepods.slice/pod1.slice/cpu.max", "150000 100000\n"),
            ("sys/fs/cgroup/kubepods.slice/pod1.slice/app.scope/cpu.max", "400000 100000\n"),
        ];
        assert_eq!(quota_with(&files), Some(1.5));
    }

    #[test]
    fn v2_in_a_container_reads_the_mounted_root() {
        let files = [
            ("proc/self/cgroup", "0::/../../system.slice/docker-1.scope\n"),
            ("sys/fs/cgroup/cpu.max", "50000 100000\n"),
        ];
        assert_eq!(quota_with(&files), Some(0.5));
    }

    #[test]
    fn v2_without_limit_or_with_nonsense() {
        for text in ["max 100000\n", "max\n", "", "0 100000\n", "100000 0\n", "a b\n"] {
            assert_eq!(
                quota_with(&[("proc/self/cgroup", "0::/\n"), ("sys/fs/cgroup/cpu.max", text)]),
                None,
                "{text:?}"
            );
        }
        let short = [("proc/self/cgroup", "0::/\n"), ("sys/fs/cgroup/cpu.max", "200000\n")];
        assert_eq!(quota_with(&short), Some(2.0));
    }

    #[test]
    fn v1() {
        let groups = "12:memory:/docker/1\n4:cpu,cpuacct:/docker/1\n0::/docker/1\n";
        let files = [
            ("proc/self/cgroup", groups),
            ("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "-1\n"),
            ("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n"),
            ("sys/fs/cgroup/cpu,cpuacct/docker/1/cpu.cfs_quota_us", "250000\n"),
            ("sys/fs/cgroup/cpu,cpuacct/docker/1/cpu.cfs_period_us", "100000\n"),
        ];
        assert_eq!(quota_with(&files), Some(2.5));
        let in_container = [
            ("proc/self/cgroup", groups),
            ("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "100000\n"),
            ("sys/fs/cgroup/cpu/cpu.cfs_period_us", "50000\n"),
        ];
        assert_eq!(quota_with(&in_container), Some(2.0));
    }

    #[test]
    fn workers_are_the_usable_cores_rounded_up() {
        let cases = [
            (8, None, 8.0, 8),
            (8, Some(1.5), 1.5, 2),
            (8, Some(0.1), 0.1, 1),
            (2, Some(16.0), 2.0, 2),
            (0, None, 1.0, 1),
        ];
        for (affinity, quota, usable, workers) in cases {
            let cores = Cores::new(affinity, quota);
            assert_eq!((cores.usable, cores.workers()), (usable, workers));
        }
    }

    #[test]
    fn this_machine_has_a_core() {
        let cores = available_cores();
        assert!(cores.affinity >= 1 && cores.usable > 0.0 && cores.workers() >= 1);
    }
}
