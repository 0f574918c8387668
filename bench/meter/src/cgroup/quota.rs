//! A limit on CPU time, and optionally on memory, for the processes of a trial.
//!
//! [`Quota::create`] makes a control group of version 1 or 2. A launch puts its child into the group before
//! the child's first instruction. Every group is registered before it is created, and removed with its
//! processes on drop, on Ctrl-C, or by the next run if this process is killed.

use super::hierarchy::{Hierarchy, Place, Version};
use super::remove::{Placed, candidates, remove_group, remove_orphans_of};
use super::usage::{GroupCpu, Throttling};
use crate::child::{Kept, Registration};
use crate::error::Error;
use crate::owner;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// The period of a quota in microseconds: the kernel's default, which Docker and Kubernetes keep, so that a
/// trial sees the same pauses as a container.
const PERIOD_US: u64 = 100_000;

/// A group of processes that together get at most a number of cores.
///
/// When it is dropped, and on Ctrl-C, all processes in the group are killed and the group is removed.
#[derive(Debug)]
pub struct Quota {
    version: Version,
    cores: f64,
    cpu: PathBuf,
    cpuacct: PathBuf,
    memory: Option<PathBuf>,
    groups: Vec<Placed>,
    registrations: Vec<Registration>,
}

impl Quota {
    /// Creates a group that gets `cores` cores (0.25: 25 ms in each 100 ms, over all cores together) and, if
    /// given, at most `memory` bytes. `name` helps people who look at the group while it exists.
    ///
    /// In version 1, the group is created within this process's own. In version 2 a group with processes
    /// cannot have limited children, so it is created next to this process's group, or at the top.
    ///
    /// # Errors
    /// If the number of cores is below 0.01 or not a number; if there is no CPU controller (or no memory
    /// controller, if a limit was given); if this user may not create groups. The message says what to do.
    pub fn create(name: &str, cores: f64, memory: Option<u64>) -> Result<Self, Error> {
        let hierarchy = Hierarchy::find().ok_or_else(|| {
            Error::Lacking(
                "a CPU quota needs the cgroup CPU controller, and none is mounted: mount version 2 with \
                 `mount -t cgroup2 none /sys/fs/cgroup`, or leave the quota out"
                    .into(),
            )
        })?;
        remove_orphans_of(&hierarchy);
        Self::create_in(&hierarchy, name, cores, memory)
    }

    /// Creates a group without a limit, which only counts: its CPU time includes every process that was started in it,
    /// even a daemon that has left its process tree.
    ///
    /// No limit is set. In version 1 the group is in the `cpuacct` tree; where that is mounted together with
    /// `cpu`, the scheduler sees one more level, which is the same for all systems. In version 2, where every
    /// group counts CPU time, no controller is enabled for it.
    ///
    /// # Errors
    /// If no controller counts CPU time, or this user may not create groups.
    pub fn account(name: &str) -> Result<Self, Error> {
        let hierarchy = Hierarchy::find().ok_or_else(|| {
            Error::Lacking("CPU time by group needs control groups, and none are mounted".into())
        })?;
        remove_orphans_of(&hierarchy);
        let place = match hierarchy.version {
            Version::One => hierarchy.cpuacct.as_ref(),
            Version::Two => Some(&hierarchy.cpu),
        };
        let place = place.ok_or_else(|| {
            Error::Lacking(
                "CPU time by group needs the cgroup cpuacct controller, which is not mounted".into(),
            )
        })?;
        let (name, mut refused) = (owner::name(name), None);
        for parent in candidates(place) {
            let folder = parent.join(&name);
            let mut quota = Self {
                version: hierarchy.version,
                cores: f64::INFINITY,
                cpu: folder.clone(),
                cpuacct: folder,
                memory: None,
                groups: Vec::new(),
                registrations: Vec::new(),
            };
            match quota.make(&parent, &name) {
                Ok(()) => return Ok(quota),
                Err(error) => refused = Some(error),
            }
        }
        Err(refused.unwrap_or_else(|| Error::Lacking("no group to make another in".into())))
    }

    fn create_in(hierarchy: &Hierarchy, name: &str, cores: f64, memory: Option<u64>) -> Result<Self, Error> {
        // The kernel grants at least 1 ms a period (`kernel/sched/core.c`, min_cfs_quota_period).
        if !(0.01..=100_000.0).contains(&cores) {
            return Err(Error::Lacking(format!("a CPU quota must be 0.01 to 100000 cores; {cores} is none")));
        }
        let wanted_memory = match (memory, &hierarchy.memory) {
            (Some(_), None) => {
                return Err(Error::Lacking(
                    "a memory limit needs the cgroup memory controller, which is not mounted; leave the limit out".into(),
                ));
            }
            (Some(bytes), Some(place)) => Some((bytes, place)),
            (None, _) => None,
        };
        let folder_name = owner::name(name);
        match hierarchy.version {
            Version::One => Self::version_one(hierarchy, &folder_name, cores, wanted_memory),
            Version::Two => Self::version_two(&hierarchy.cpu, &folder_name, cores, memory),
        }
    }

    fn version_one(
        hierarchy: &Hierarchy,
        name: &str,
        cores: f64,
        memory: Option<(u64, &Place)>,
    ) -> Result<Self, Error> {
        let cpuacct_place = hierarchy.cpuacct.as_ref().ok_or_else(|| {
            Error::Lacking("a CPU quota needs the cgroup cpuacct controller, which is not mounted".into())
        })?;
        let mut quota = Self {
            version: Version::One,
            cores,
            cpu: hierarchy.cpu.own.join(name),
            cpuacct: cpuacct_place.own.join(name),
            memory: None,
            groups: Vec::new(),
            registrations: Vec::new(),
        };
        quota.make(&hierarchy.cpu.own, name)?;
        quota.make(&cpuacct_place.own, name)?;
        set(&quota.cpu.join("cpu.cfs_period_us"), PERIOD_US)?;
        set(&quota.cpu.join("cpu.cfs_quota_us"), quota_us(cores))?;
        if let Some((bytes, place)) = memory {
            quota.make(&place.own, name)?;
            let folder = place.own.join(name);
            set(&folder.join("memory.limit_in_bytes"), bytes)?;
            quota.memory = Some(folder);
        }
        Ok(quota)
    }

    fn version_two(place: &Place, name: &str, cores: f64, memory: Option<u64>) -> Result<Self, Error> {
        let controllers: &[&str] = if memory.is_some() { &["cpu", "memory"] } else { &["cpu"] };
        let mut refused = None;
        let mut parent = None;
        for candidate in candidates(place) {
            match controllers.iter().try_for_each(|controller| enable(&candidate, controller)) {
                Ok(()) => {
                    parent = Some(candidate);
                    break;
                }
                Err(error) => refused = Some(error),
            }
        }
        let Some(parent) = parent else {
            return Err(refused.unwrap_or_else(|| Error::Lacking("no group to make a quota in".into())));
        };
        let folder = parent.join(name);
        let mut quota = Self {
            version: Version::Two,
            cores,
            cpu: folder.clone(),
            cpuacct: folder.clone(),
            memory: memory.map(|_| folder.clone()),
            groups: Vec::new(),
            registrations: Vec::new(),
        };
        quota.make(&parent, name)?;
        set(&folder.join("cpu.max"), format!("{} {PERIOD_US}", quota_us(cores)))?;
        if let Some(bytes) = memory {
            set(&folder.join("memory.max"), bytes)?;
        }
        Ok(quota)
    }

    /// Creates the group in one tree and registers it for removal. Trees that are mounted together share a
    /// folder.
    fn make(&mut self, parent: &Path, name: &str) -> Result<(), Error> {
        let placed = Placed { folder: parent.join(name), parent: parent.to_owned() };
        if self.groups.contains(&placed) {
            return Ok(());
        }
        self.registrations.push(Registration::of(Kept::Quota(placed.clone()))?);
        fs::create_dir(&placed.folder).map_err(|error| denied(&placed.folder, error))?;
        self.groups.push(placed);
        Ok(())
    }

    /// Moves a process with all its threads into the group. Its existing children stay in their group;
    /// children that it starts later are in this one.
    ///
    /// # Errors
    /// If the process is gone or belongs to another user.
    pub fn add(&self, pid: u32) -> Result<(), Error> {
        self.entrances().try_for_each(|path| set(&path, pid))
    }

    /// Returns the files to which a process id is written to enter the group.
    pub(crate) fn entrances(&self) -> impl Iterator<Item = PathBuf> {
        self.groups.iter().map(|group| group.folder.join("cgroup.procs"))
    }

    /// Returns the ids of the processes that are in the group now.
    pub fn process_ids(&self) -> Vec<u32> {
        let text = fs::read_to_string(self.cpu.join("cgroup.procs")).unwrap_or_default();
        text.lines().filter_map(|line| line.trim().parse().ok()).collect()
    }

    /// Returns the quota in cores; infinite for a group that only counts.
    pub fn cores(&self) -> f64 {
        self.cores
    }

    /// Returns how often the quota has throttled the group so far.
    ///
    /// # Errors
    /// If another program removed the group.
    pub fn throttling(&self) -> Result<Throttling, Error> {
        Throttling::read(self.version, &self.cpu)
    }

    /// Returns the CPU time that the group has used so far.
    ///
    /// # Errors
    /// If another program removed the group.
    pub fn cpu(&self) -> Result<GroupCpu, Error> {
        GroupCpu::read(self.version, &self.cpuacct)
    }

    /// Returns the peak memory of the group in bytes, file cache included; `None` without a memory limit, or
    /// in version 2 before Linux 5.19.
    pub fn memory_peak(&self) -> Option<u64> {
        let name = match self.version {
            Version::One => "memory.max_usage_in_bytes",
            Version::Two => "memory.peak",
        };
        fs::read_to_string(self.memory.as_ref()?.join(name)).ok()?.trim().parse().ok()
    }
}

impl Drop for Quota {
    fn drop(&mut self) {
        for group in &self.groups {
            remove_group(group);
        }
        self.registrations.clear();
    }
}

fn quota_us(cores: f64) -> u64 {
    (cores * PERIOD_US as f64).round() as u64
}

/// Enables a controller for the children of a version 2 group.
fn enable(parent: &Path, controller: &str) -> Result<(), Error> {
    let control = parent.join("cgroup.subtree_control");
    let has = |path: &Path| {
        fs::read_to_string(path)
            .is_ok_and(|list| list.split_ascii_whitespace().any(|name| name == controller))
    };
    if has(&control) {
        return Ok(());
    }
    if !has(&parent.join("cgroup.controllers")) {
        return Err(Error::Lacking(format!(
            "{} has no {controller} controller to give; ask for it with `systemd-run --scope -p Delegate=yes`, or run \
             as root",
            parent.display()
        )));
    }
    set(&control, format!("+{controller}"))
}

fn set(path: &Path, value: impl ToString) -> Result<(), Error> {
    fs::write(path, value.to_string()).map_err(|error| denied(path, error))
}

/// Adds to a permission error what to do about it.
fn denied(path: &Path, error: io::Error) -> Error {
    match error.kind() {
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => Error::Lacking(format!(
            "a CPU quota needs the right to write {} ({error}): run as root, with cgroup version 2 also under \
             `systemd-run --user --scope -p Delegate=yes`; in a container mount /sys/fs/cgroup writable",
            path.display()
        )),
        io::ErrorKind::InvalidInput => Error::Lacking(format!(
            "{}: the kernel refuses the value ({error}); with cgroup version 1 a quota must not exceed that of the \
             group around it",
            path.display()
        )),
        _ => Error::file(path, error),
    }
}

#[cfg(test)]
mod tests;
