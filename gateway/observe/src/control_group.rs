//! Limits that control groups (v1 and v2) set for this process. The CPU quota and the memory bound are read
//! by this module.

use std::fs;
use std::path::{Component, Path, PathBuf};

/// A controller, and functions that read its limit from the directory of a group.
pub(crate) struct Controller {
    /// Its name in `/proc/self/cgroup`.
    pub name: &'static str,
    /// Usual mount points of its hierarchy under cgroup v1.
    pub v1_mounts: &'static [&'static str],
    /// Reads the limit of a v1 group; `None`: no limit.
    pub v1: fn(&Path) -> Option<f64>,
    /// Reads the limit of a v2 group; `None`: no limit.
    pub v2: fn(&Path) -> Option<f64>,
}

impl Controller {
    /// Returns the lowest limit from the process's group up to the root of each hierarchy.
    ///
    /// `root` is `/`, or a test directory. In a container, the path in `/proc/self/cgroup` may be the host's,
    /// while only the container's part is mounted. Directories that do not exist are skipped; the root of the
    /// mount is then the container's group.
    pub fn least(&self, root: &Path) -> Option<f64> {
        let groups = fs::read_to_string(root.join("proc/self/cgroup")).ok()?;
        groups.lines().filter_map(|line| self.in_hierarchy(root, line)).min_by(f64::total_cmp)
    }

    /// Returns the lowest limit of the hierarchy in `line`. A line is `hierarchy:controllers:path`
    /// (cgroups(7)); v2 is hierarchy 0 without controllers.
    fn in_hierarchy(&self, root: &Path, line: &str) -> Option<f64> {
        let mut parts = line.splitn(3, ':');
        let (hierarchy, controllers, path) = (parts.next()?, parts.next()?, parts.next()?);
        if hierarchy == "0" && controllers.is_empty() {
            return above(&root.join("sys/fs/cgroup"), path, self.v2);
        }
        if !controllers.split(',').any(|controller| controller == self.name) {
            return None;
        }
        let mounts = self.v1_mounts.iter().map(|mount| root.join(mount));
        mounts.filter_map(|mount| above(&mount, path, self.v1)).min_by(f64::total_cmp)
    }
}

/// Returns the lowest limit that `read` finds in `mount/path` and each directory above it, up to `mount`.
fn above(mount: &Path, path: &str, read: fn(&Path) -> Option<f64>) -> Option<f64> {
    let mut group = PathBuf::from(mount);
    let mut least = read(&group);
    for part in Path::new(path).components() {
        // The root, and the `..` of a process outside its cgroup namespace, name no mounted directory.
        let Component::Normal(name) = part else { continue };
        group.push(name);
        least = match (least, read(&group)) {
            (Some(above), Some(here)) => Some(above.min(here)),
            (above, here) => above.or(here),
        };
    }
    least
}

/// Root directories for tests, in place of a real machine's.
#[cfg(test)]
pub(crate) mod sample {
    use std::fs;

    /// Creates a root directory with these files.
    pub(crate) fn machine(files: &[(&str, &str)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        root
    }
}
