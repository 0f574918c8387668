//! Reads the limits that were set on this process, or on a group around it, from outside.

use super::hierarchy::{Hierarchy, Place, Version};
use super::usage::Throttling;
use serde::{Deserialize, Serialize};
use std::fs;
use std::path::{Path, PathBuf};

/// The limits in force on this process, as far as it can see the groups around it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct OwnLimits {
    /// The tightest CPU quota.
    pub cpu_quota: Option<OwnQuota>,
    /// The tightest memory limit in bytes.
    pub memory_bytes: Option<u64>,
}

/// A CPU quota on this process.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OwnQuota {
    /// The CPU time that it grants, in cores.
    pub cores: f64,
    /// The folder of the group that has the quota.
    pub group: PathBuf,
    /// How often the quota has throttled the group so far. The difference over a trial shows whether it
    /// affected the trial.
    pub throttling: Throttling,
}

impl OwnLimits {
    /// Reads the limits; all are `None` without control groups.
    pub fn read() -> Self {
        Hierarchy::find().map(|hierarchy| Self::of(&hierarchy)).unwrap_or_default()
    }

    fn of(hierarchy: &Hierarchy) -> Self {
        let version = hierarchy.version;
        let cpu_quota = around(&hierarchy.cpu)
            .filter_map(|group| Some((cpu_cores(version, group)?, group)))
            .min_by(|a, b| a.0.total_cmp(&b.0))
            .map(|(cores, group)| OwnQuota {
                cores,
                group: group.to_owned(),
                throttling: Throttling::read(version, group).unwrap_or_default(),
            });
        let memory =
            hierarchy.memory.iter().flat_map(around).filter_map(|group| memory_bytes(version, group));
        Self { cpu_quota, memory_bytes: memory.min() }
    }
}

/// Returns the group's folder and its ancestors, up to the mount point.
fn around(place: &Place) -> impl Iterator<Item = &Path> {
    place.own.ancestors().take_while(|path| path.starts_with(&place.mount))
}

fn cpu_cores(version: Version, group: &Path) -> Option<f64> {
    let read = |name: &str| fs::read_to_string(group.join(name)).ok();
    let (quota, period) = match version {
        // -1 means no quota.
        Version::One => (read("cpu.cfs_quota_us")?, read("cpu.cfs_period_us")?),
        // `max 100000` or `50000 100000`.
        Version::Two => {
            let text = read("cpu.max")?;
            let (quota, period) = text.trim().split_once(' ')?;
            (quota.to_owned(), period.to_owned())
        }
    };
    let (quota, period) = (quota.trim().parse::<u64>().ok()?, period.trim().parse::<u64>().ok()?);
    (period > 0).then(|| quota as f64 / period as f64)
}

fn memory_bytes(version: Version, group: &Path) -> Option<u64> {
    let name = match version {
        Version::One => "memory.limit_in_bytes",
        Version::Two => "memory.max",
    };
    let bytes: u64 = fs::read_to_string(group.join(name)).ok()?.trim().parse().ok()?;
    // In version 1, "no limit" is the largest multiple of a page in a signed 64-bit number.
    (bytes < 1 << 62).then_some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(version: Version, files: &[(&str, &str)]) -> (tempfile::TempDir, Hierarchy) {
        let mount = tempfile::tempdir().unwrap();
        let own = mount.path().join("outer/inner");
        fs::create_dir_all(&own).unwrap();
        for (name, text) in files {
            fs::write(mount.path().join(name), text).unwrap();
        }
        let place = Place { mount: mount.path().to_owned(), own };
        let hierarchy =
            Hierarchy { version, cpu: place.clone(), cpuacct: Some(place.clone()), memory: Some(place) };
        (mount, hierarchy)
    }

    #[test]
    fn the_tightest_quota_around_us_is_found_in_version_two() {
        let files = [
            ("outer/inner/cpu.max", "max 100000\n"),
            ("outer/cpu.max", "50000 100000\n"),
            ("outer/cpu.stat", "nr_periods 4\nnr_throttled 3\nthrottled_usec 2\n"),
            ("cpu.max", "150000 100000\n"),
            ("outer/memory.max", "max\n"),
            ("memory.max", "1048576\n"),
        ];
        let (mount, hierarchy) = tree(Version::Two, &files);
        let limits = OwnLimits::of(&hierarchy);
        let quota = limits.cpu_quota.unwrap();
        assert_eq!((quota.cores, quota.group), (0.5, mount.path().join("outer")));
        assert_eq!(quota.throttling, Throttling { periods: 4, throttled: 3, throttled_ns: 2_000 });
        assert_eq!(limits.memory_bytes, Some(1_048_576));
    }

    #[test]
    fn no_limit_is_none_in_version_one() {
        let files = [
            ("outer/cpu.cfs_quota_us", "-1\n"),
            ("outer/cpu.cfs_period_us", "100000\n"),
            ("memory.limit_in_bytes", "9223372036854771712\n"),
        ];
        let (_mount, mut hierarchy) = tree(Version::One, &files);
        assert_eq!(OwnLimits::of(&hierarchy), OwnLimits::default());
        fs::write(hierarchy.cpu.mount.join("outer/cpu.cfs_quota_us"), "25000\n").unwrap();
        assert_eq!(OwnLimits::of(&hierarchy).cpu_quota.unwrap().cores, 0.25);
        hierarchy.memory = None;
        assert_eq!(OwnLimits::of(&hierarchy).memory_bytes, None);
    }
}
