//! Removes groups, with all processes in them.

use super::hierarchy::{Hierarchy, Place};
use crate::owner;
use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// How long the processes of a group may take to end after SIGKILL.
const PATIENCE: Duration = Duration::from_secs(2);

/// A group that this program created, and its parent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Placed {
    pub(crate) folder: PathBuf,
    pub(crate) parent: PathBuf,
}

/// Kills the processes of a group and removes it. If this process itself is in the group, it moves to the
/// parent.
///
/// Returns whether the group no longer exists.
pub(crate) fn remove_group(group: &Placed) -> bool {
    let deadline = Instant::now() + PATIENCE;
    loop {
        empty(group);
        match fs::remove_dir(&group.folder) {
            Ok(()) => return true,
            Err(error) if error.kind() == ErrorKind::NotFound => return true,
            // Processes leave a group only when they are dead, a moment after the signal.
            Err(error) if error.kind() == ErrorKind::ResourceBusy && Instant::now() < deadline => {
                sleep(Duration::from_millis(5));
            }
            Err(_) => return false,
        }
    }
}

fn empty(group: &Placed) {
    let inside = fs::read_to_string(group.folder.join("cgroup.procs")).unwrap_or_default();
    for pid in inside.lines().filter_map(|line| line.trim().parse::<i32>().ok()).filter_map(Pid::from_raw) {
        if pid == rustix::process::getpid() {
            let _ = fs::write(group.parent.join("cgroup.procs"), "0");
        } else {
            let _ = kill_process(pid, Signal::KILL);
        }
    }
}

/// Removes the groups of earlier laboratory processes that were killed before they could do so, and kills the
/// processes in them. Returns how many groups were removed. Creating a quota does this too.
pub fn remove_orphans() -> usize {
    Hierarchy::find().map_or(0, |hierarchy| remove_orphans_of(&hierarchy))
}

pub(super) fn remove_orphans_of(hierarchy: &Hierarchy) -> usize {
    let places = [Some(&hierarchy.cpu), hierarchy.cpuacct.as_ref(), hierarchy.memory.as_ref()];
    let mut parents: Vec<PathBuf> = places.into_iter().flatten().flat_map(candidates).collect();
    parents.sort();
    parents.dedup();
    parents.iter().map(|parent| remove_orphans_in(parent)).sum()
}

pub(super) fn remove_orphans_in(parent: &Path) -> usize {
    let entries = fs::read_dir(parent).into_iter().flatten().flatten();
    entries
        .filter(|entry| entry.file_name().to_str().is_some_and(owner::is_orphan))
        .filter(|entry| remove_group(&Placed { folder: entry.path(), parent: parent.to_owned() }))
        .count()
}

/// Returns the folders in which this program's groups may be: next to this process's own group, in it, and at
/// the top.
pub(super) fn candidates(place: &Place) -> Vec<PathBuf> {
    let beside = place.own.parent().filter(|parent| parent.starts_with(&place.mount));
    let mut folders: Vec<PathBuf> = Vec::new();
    for folder in [Some(place.own.as_path()), beside, Some(place.mount.as_path())].into_iter().flatten() {
        if !folders.iter().any(|known| known == folder) {
            folders.push(folder.to_owned());
        }
    }
    folders
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_orphans_are_removed() {
        let parent = tempfile::tempdir().unwrap();
        let mine = owner::name("x");
        let dead = mine.replace(&format!(".{}.", std::process::id()), ".99999999.");
        for name in [mine.as_str(), &dead, "someone-else"] {
            fs::create_dir(parent.path().join(name)).unwrap();
        }
        assert_eq!(remove_orphans_in(parent.path()), 1);
        assert!(parent.path().join(&mine).exists() && parent.path().join("someone-else").exists());
        assert!(!parent.path().join(&dead).exists());
    }

    #[test]
    fn a_group_that_is_gone_is_gone_and_one_that_cannot_go_is_told() {
        let parent = tempfile::tempdir().unwrap();
        let placed =
            |name: &str| Placed { folder: parent.path().join(name), parent: parent.path().to_owned() };
        assert!(remove_group(&placed("never-was")));
        // A plain folder with a file in it is no group and cannot be removed.
        fs::create_dir(parent.path().join("plain")).unwrap();
        fs::write(parent.path().join("plain/file"), "").unwrap();
        assert!(!remove_group(&placed("plain")));
    }

    #[test]
    fn groups_are_looked_for_no_higher_than_the_mount() {
        let place = |own: &str| Place { mount: "/c".into(), own: own.into() };
        assert_eq!(candidates(&place("/c")), [PathBuf::from("/c")]);
        assert_eq!(candidates(&place("/c/a")), [PathBuf::from("/c/a"), "/c".into()]);
        assert_eq!(candidates(&place("/c/a/b")), [PathBuf::from("/c/a/b"), "/c/a".into(), "/c".into()]);
    }
}
