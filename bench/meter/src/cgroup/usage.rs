//! The CPU time of a group, and how often it was throttled.

use super::hierarchy::Version;
use crate::error::Error;
use crate::part_of;
use serde::{Deserialize, Serialize};
use std::fs;
use std::path::Path;

/// How often a CPU quota throttled a group, since the group was created.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Throttling {
    /// Periods (100 ms each, unless set otherwise) in which the group wanted CPU time.
    pub periods: u64,
    /// How many of these periods it was stopped because it had used up its quota.
    pub throttled: u64,
    /// How long its run queues were stopped, in nanoseconds, summed over the cores; can exceed the elapsed
    /// time.
    pub throttled_ns: u64,
}

/// CPU time of a group since it was created: of every thread that ever ran in it, including ended and
/// reparented ones.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupCpu {
    /// User and system together, in nanoseconds; exact.
    pub total_ns: u64,
    /// In user mode, in nanoseconds. In version 1 this and `system_ns` are estimates by timer interrupts,
    /// whose sum differs from the total; [`GroupCpu::since`] splits the total in their proportion.
    pub user_ns: u64,
    /// In the kernel, in nanoseconds.
    pub system_ns: u64,
}

impl Throttling {
    /// Returns the increase since `earlier`.
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            periods: self.periods.saturating_sub(earlier.periods),
            throttled: self.throttled.saturating_sub(earlier.throttled),
            throttled_ns: self.throttled_ns.saturating_sub(earlier.throttled_ns),
        }
    }

    /// Reads the group's `cpu.stat`.
    pub(crate) fn read(version: Version, folder: &Path) -> Result<Self, Error> {
        let path = folder.join("cpu.stat");
        let text = fs::read_to_string(&path).map_err(|error| Error::file(&path, error))?;
        Ok(Self::parse(version, &text))
    }

    /// A missing counter is 0: version 2 omits the counters if no quota can be set.
    fn parse(version: Version, text: &str) -> Self {
        let value = |key| keyed(text, key).unwrap_or(0);
        Self {
            periods: value("nr_periods"),
            throttled: value("nr_throttled"),
            throttled_ns: match version {
                Version::One => value("throttled_time"),
                Version::Two => value("throttled_usec").saturating_mul(1_000),
            },
        }
    }
}

impl GroupCpu {
    /// Returns the increase since `earlier`; user and system add up to the total.
    pub fn since(&self, earlier: &Self) -> Self {
        let total_ns = self.total_ns.saturating_sub(earlier.total_ns);
        let user = self.user_ns.saturating_sub(earlier.user_ns);
        let system = self.system_ns.saturating_sub(earlier.system_ns);
        let user_ns = part_of(total_ns, user, user + system);
        Self { total_ns, user_ns, system_ns: total_ns - user_ns }
    }

    /// Reads the counters in the group's folder (of the `cpuacct` tree in version 1).
    pub(crate) fn read(version: Version, folder: &Path) -> Result<Self, Error> {
        let read = |name: &str| {
            let path = folder.join(name);
            fs::read_to_string(&path).map_err(|error| Error::file(&path, error))
        };
        if version == Version::Two {
            let text = read("cpu.stat")?;
            let value = |key| keyed(&text, key).unwrap_or(0).saturating_mul(1_000);
            return Ok(Self {
                total_ns: value("usage_usec"),
                user_ns: value("user_usec"),
                system_ns: value("system_usec"),
            });
        }
        let number = |name: &str| Ok::<u64, Error>(read(name)?.trim().parse().unwrap_or(0));
        Ok(Self {
            total_ns: number("cpuacct.usage")?,
            user_ns: number("cpuacct.usage_user")?,
            system_ns: number("cpuacct.usage_sys")?,
        })
    }
}

/// Returns the value on the line `key value`.
pub(crate) fn keyed(text: &str, key: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(' ')?.trim().parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn throttling_of_both_versions_in_the_same_unit() {
        let one = Throttling::parse(
            Version::One,
            "nr_periods 9\nnr_throttled 7\nthrottled_time 5000\nnr_bursts 0\n",
        );
        let two =
            Throttling::parse(Version::Two, "usage_usec 1\nnr_periods 9\nnr_throttled 7\nthrottled_usec 5\n");
        assert_eq!(one, Throttling { periods: 9, throttled: 7, throttled_ns: 5_000 });
        assert_eq!(one, two);
        assert_eq!(Throttling::parse(Version::Two, "usage_usec 1\n"), Throttling::default());
        let delta = one.since(&Throttling { periods: 4, throttled: 7, throttled_ns: 1_000 });
        assert_eq!(delta, Throttling { periods: 5, throttled: 0, throttled_ns: 4_000 });
    }

    #[test]
    fn cpu_time_of_both_versions_in_the_same_unit() {
        let folder = tempfile::tempdir().unwrap();
        assert!(GroupCpu::read(Version::One, folder.path()).is_err());
        for (name, text) in
            [("cpuacct.usage", "9000\n"), ("cpuacct.usage_user", "6000\n"), ("cpuacct.usage_sys", "3000\n")]
        {
            fs::write(folder.path().join(name), text).unwrap();
        }
        fs::write(folder.path().join("cpu.stat"), "usage_usec 9\nuser_usec 6\nsystem_usec 3\n").unwrap();
        let expected = GroupCpu { total_ns: 9_000, user_ns: 6_000, system_ns: 3_000 };
        assert_eq!(GroupCpu::read(Version::One, folder.path()).unwrap(), expected);
        assert_eq!(GroupCpu::read(Version::Two, folder.path()).unwrap(), expected);
        assert_eq!(expected.since(&expected), GroupCpu::default());
        let estimated = GroupCpu { total_ns: 900, user_ns: 660, system_ns: 330 };
        assert_eq!(
            estimated.since(&GroupCpu::default()),
            GroupCpu { total_ns: 900, user_ns: 600, system_ns: 300 }
        );
    }

    #[test]
    fn a_key_is_matched_whole() {
        assert_eq!(keyed("nr_periods_x 5\nnr_periods 6\n", "nr_periods"), Some(6));
        assert_eq!(keyed("nr_periods x\n", "nr_periods"), None);
    }
}
