//! Finds where the controllers are mounted, and which group this process is in. It reads
//! `/proc/self/mountinfo` and `/proc/self/cgroup`. Version 1 has a tree for each controller and version 2 has
//! one for all; the other modules of `cgroup` work on the [`Hierarchy`] and need not know the difference in
//! layout.

use std::fs;
use std::path::{Path, PathBuf};

/// The version of the kernel's interface (`cgroups(7)`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Version {
    /// One tree for each controller, or for several mounted together.
    One,
    /// One tree for all controllers.
    Two,
}

/// A tree of groups: its mount point, and the folder of this process's own group in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) mount: PathBuf,
    pub(crate) own: PathBuf,
}

/// The trees that limit and count CPU time and memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Hierarchy {
    pub(crate) version: Version,
    pub(crate) cpu: Place,
    /// The tree that counts CPU time; in version 2 the same as `cpu`.
    pub(crate) cpuacct: Option<Place>,
    pub(crate) memory: Option<Place>,
}

impl Hierarchy {
    /// Returns the hierarchy with the CPU controller; `None` if no such controller is mounted.
    pub(crate) fn find() -> Option<Self> {
        let read = |path| fs::read_to_string(path).unwrap_or_default();
        let mut found = Self::parse(&read("/proc/self/mountinfo"), &read("/proc/self/cgroup"))?;
        for place in
            [Some(&mut found.cpu), found.cpuacct.as_mut(), found.memory.as_mut()].into_iter().flatten()
        {
            // In a container, the path of its group may exist only outside the container.
            if !place.own.is_dir() {
                place.own.clone_from(&place.mount);
            }
        }
        Some(found)
    }

    /// A controller that is mounted as version 1 is not available in version 2, so version 1 is checked
    /// first.
    fn parse(mountinfo: &str, groups: &str) -> Option<Self> {
        let mounts: Vec<Mount<'_>> = mountinfo.lines().filter_map(Mount::parse).collect();
        let one = |controller: &str| {
            let mount = mounts.iter().find(|mount| mount.kind == "cgroup" && mount.has(controller))?;
            Some(mount.place(own_group(groups, |list| list.split(',').any(|name| name == controller))?))
        };
        if let Some(cpu) = one("cpu") {
            return Some(Self { version: Version::One, cpu, cpuacct: one("cpuacct"), memory: one("memory") });
        }
        let mount = mounts.iter().find(|mount| mount.kind == "cgroup2")?;
        let place = mount.place(own_group(groups, str::is_empty)?);
        Some(Self {
            version: Version::Two,
            cpu: place.clone(),
            cpuacct: Some(place.clone()),
            memory: Some(place),
        })
    }
}

/// A line of `/proc/self/mountinfo` that mounts a cgroup tree.
#[derive(Debug)]
struct Mount<'a> {
    /// The group that is mounted: `/`, or the container's own.
    root: &'a str,
    point: &'a str,
    kind: &'a str,
    options: &'a str,
}

impl<'a> Mount<'a> {
    fn parse(line: &'a str) -> Option<Self> {
        let (front, back) = line.split_once(" - ")?;
        let mut front = front.split(' ').skip(3);
        let (root, point) = (front.next()?, front.next()?);
        let mut back = back.split(' ');
        let (kind, _source, options) = (back.next()?, back.next()?, back.next()?);
        kind.starts_with("cgroup").then_some(Self { root, point, kind, options })
    }

    fn has(&self, controller: &str) -> bool {
        self.options.split(',').any(|option| option == controller)
    }

    fn place(&self, group: &str) -> Place {
        let mount = PathBuf::from(self.point);
        let below = Path::new(group).strip_prefix(self.root).ok();
        // The kernel shows a group outside the namespace as `/..`.
        let own = below
            .filter(|path| !path.starts_with(".."))
            .map_or_else(|| mount.clone(), |path| mount.join(path));
        Place { mount, own }
    }
}

/// Returns the path in the line of `/proc/self/cgroup` (`4:memory:/a/b`) whose controllers match.
fn own_group(groups: &str, matches: impl Fn(&str) -> bool) -> Option<&str> {
    groups.lines().find_map(|line| {
        let (_number, rest) = line.split_once(':')?;
        let (controllers, path) = rest.split_once(':')?;
        matches(controllers).then_some(path)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn place(mount: &str, own: &str) -> Place {
        Place { mount: mount.into(), own: own.into() }
    }

    #[test]
    fn version_one_with_controllers_mounted_together_and_alone() {
        let mounts = "31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw\n\
                      32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw,nosuid shared:9 - cgroup cgroup rw,cpu,cpuacct\n\
                      33 31 0:30 /docker/7 /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n\
                      34 31 0:31 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n";
        let groups = "4:memory:/docker/7/job\n2:cpu,cpuacct:/\n0::/\n";
        let cpu = place("/sys/fs/cgroup/cpu,cpuacct", "/sys/fs/cgroup/cpu,cpuacct/");
        let memory = place("/sys/fs/cgroup/memory", "/sys/fs/cgroup/memory/job");
        let expected =
            Hierarchy { version: Version::One, cpu: cpu.clone(), cpuacct: Some(cpu), memory: Some(memory) };
        assert_eq!(Hierarchy::parse(mounts, groups), Some(expected));
    }

    #[test]
    fn version_two() {
        let mounts = "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n";
        let found = Hierarchy::parse(mounts, "0::/user.slice/run-7.scope\n").unwrap();
        let expected = place("/sys/fs/cgroup", "/sys/fs/cgroup/user.slice/run-7.scope");
        assert_eq!(
            (found.version, &found.cpu, found.memory.as_ref()),
            (Version::Two, &expected, Some(&expected))
        );
        let outside = Hierarchy::parse(mounts, "0::/../other\n").unwrap();
        assert_eq!(outside.cpu.own, Path::new("/sys/fs/cgroup"));
    }

    #[test]
    fn no_controller_is_none() {
        assert_eq!(Hierarchy::parse("", ""), None);
        assert_eq!(Hierarchy::parse("33 31 0:30 / /m rw - cgroup cgroup rw,memory\n", "4:memory:/\n"), None);
    }

    proptest! {
        #[test]
        fn no_text_upsets_the_reader(mounts in "[a-z0-9/ :,-]{0,80}", groups in "[a-z0-9/:.,\n]{0,40}") {
            let _ = Hierarchy::parse(&mounts, &groups);
            let _ = Hierarchy::parse(&format!("1 2 3 / /x rw - cgroup2 {mounts}"), &groups);
        }
    }
}
