//! Resident memory, and its bound.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::{Duration, Instant};

use super::ResourceUse;
use crate::control_group::Controller;
use crate::stats::resident_bytes;

/// How often the control group's limit is read again, because it can change while the process runs.
const LIMIT_READ_INTERVAL: Duration = Duration::from_secs(10);
/// The bound as a percentage of that limit. The group's other memory (socket buffers, page cache of the log
/// file) counts against the limit too.
const BOUND_PERCENT: u64 = 90;
/// Values from here on mean no limit: v1 reports the largest number of pages then.
const NO_LIMIT_FROM: f64 = (1_u64 << 60) as f64;

/// The memory controller. Its limit is in bytes.
const MEMORY: Controller = Controller {
    name: "memory",
    v1_mounts: &["sys/fs/cgroup/memory"],
    v1: |group| limit(group, "memory.limit_in_bytes"),
    v2: |group| limit(group, "memory.max"),
};

fn limit(group: &Path, file: &str) -> Option<f64> {
    let text = fs::read_to_string(group.join(file)).ok()?;
    text.trim().parse().ok().filter(|limit| (1.0..NO_LIMIT_FROM).contains(limit))
}

#[derive(Debug)]
pub(super) struct Memory {
    /// `/proc/self/status`, kept open so that it can be read when no descriptor is left.
    status: Option<File>,
    /// The control group's bound in bytes, and the time of the last look.
    group: Option<u64>,
    looked: Option<Instant>,
}

impl Memory {
    pub fn new() -> Self {
        Self { status: File::open("/proc/self/status").ok(), group: None, looked: None }
    }

    pub fn read(&mut self, now: Instant, bound: Option<u64>) -> Option<ResourceUse> {
        let bound = match bound {
            Some(bound) => bound,
            None => self.group_bound(now, Path::new("/"))?,
        };
        Some(ResourceUse { used: self.resident()?, bound })
    }

    fn group_bound(&mut self, now: Instant, root: &Path) -> Option<u64> {
        if self.looked.is_none_or(|looked| now.saturating_duration_since(looked) >= LIMIT_READ_INTERVAL) {
            self.looked = Some(now);
            // Without a free descriptor nothing can be read: the last known bound stays.
            if File::open(root.join("proc/self/cgroup")).is_ok() {
                self.group = MEMORY.least(root).map(|limit| limit as u64 / 100 * BOUND_PERCENT);
            }
        }
        self.group
    }

    fn resident(&self) -> Option<u64> {
        let mut text = [0; 4096];
        let count = self.status.as_ref()?.read_at(&mut text, 0).ok()?;
        resident_bytes(std::str::from_utf8(&text[..count]).ok()?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control_group::sample::machine;

    fn bound(files: &[(&str, &str)]) -> Option<u64> {
        Memory::new().group_bound(Instant::now(), machine(files).path())
    }

    #[test]
    fn this_process_uses_memory() {
        let guarded = Memory::new().read(Instant::now(), Some(1 << 40)).expect("it can be read");
        assert!(guarded.used > 1 << 20 && guarded.used < 1 << 40, "{guarded:?}");
    }

    #[test]
    fn the_bound_lies_below_the_groups_limit() {
        let group = ("proc/self/cgroup", "0::/app.slice\n");
        let limit = ("sys/fs/cgroup/app.slice/memory.max", "100000000\n");
        assert_eq!(bound(&[group, limit]), Some(90_000_000));
        assert_eq!(bound(&[group, ("sys/fs/cgroup/app.slice/memory.max", "max\n")]), None);
        assert_eq!(bound(&[]), None);
        let group = ("proc/self/cgroup", "4:memory:/docker/1\n");
        let none = ("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
        let limit = ("sys/fs/cgroup/memory/docker/1/memory.limit_in_bytes", "200000000\n");
        assert_eq!(bound(&[group, none]), None);
        assert_eq!(bound(&[group, none, limit]), Some(180_000_000));
    }

    #[test]
    fn a_limit_that_changes_is_seen() {
        let root = machine(&[("proc/self/cgroup", "0::/\n"), ("sys/fs/cgroup/memory.max", "100000000\n")]);
        let (mut memory, now) = (Memory::new(), Instant::now());
        assert_eq!(memory.group_bound(now, root.path()), Some(90_000_000));
        fs::write(root.path().join("sys/fs/cgroup/memory.max"), "200000000\n").unwrap();
        assert_eq!(memory.group_bound(now + LIMIT_READ_INTERVAL / 2, root.path()), Some(90_000_000));
        assert_eq!(memory.group_bound(now + LIMIT_READ_INTERVAL, root.path()), Some(180_000_000));
    }
}
