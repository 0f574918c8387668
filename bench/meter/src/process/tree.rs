//! Finds the processes that belong to a subject of measurement.

use super::procfs::{Stat, parse_stat};
use std::collections::BTreeMap;
use std::fs;

/// The processes to measure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Subject {
    /// The process with this id, all its descendants, and all members of the process group that it leads,
    /// with their descendants. The group includes processes that a server's double fork reparented to init.
    Tree(u32),
    /// Only the process with this id, without children: for a generator within the laboratory's own process,
    /// whose tree includes everything else.
    Process(u32),
}

impl From<u32> for Subject {
    /// Makes a process id mean its tree.
    fn from(root: u32) -> Self {
        Self::Tree(root)
    }
}

/// Returns the ids of the subject's current processes, zombies included; empty if there are none.
pub fn process_ids(subject: impl Into<Subject>) -> Vec<u32> {
    stats(subject.into()).into_keys().collect()
}

/// Returns the `stat` line of each of the subject's processes.
pub(crate) fn stats(subject: Subject) -> BTreeMap<u32, Stat> {
    match subject {
        Subject::Process(pid) => read_stat(pid).map(|stat| (pid, stat)).into_iter().collect(),
        Subject::Tree(root) => {
            let mut all: BTreeMap<u32, Stat> = fs::read_dir("/proc")
                .into_iter()
                .flatten()
                .flatten()
                .filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok())
                .filter_map(|pid| Some((pid, read_stat(pid)?)))
                .collect();
            let members = members(root, &all);
            all.retain(|pid, _| members.contains(pid));
            all
        }
    }
}

/// Returns when a process started, in ticks after boot; `None` if no process has this id.
pub(crate) fn start_time(pid: u32) -> Option<u64> {
    read_stat(pid).map(|stat| stat.start)
}

fn read_stat(pid: u32) -> Option<Stat> {
    // Names are bytes of the program's choice.
    let bytes = fs::read(format!("/proc/{pid}/stat")).ok()?;
    parse_stat(&String::from_utf8_lossy(&bytes))
}

fn members(root: u32, all: &BTreeMap<u32, Stat>) -> Vec<u32> {
    let mut found: Vec<u32> =
        all.iter().filter(|(pid, stat)| **pid == root || stat.group == root).map(|(pid, _)| *pid).collect();
    let mut next = 0;
    while let Some(&parent) = found.get(next) {
        next += 1;
        for (pid, stat) in all {
            if stat.parent == parent && !found.contains(pid) {
                found.push(*pid);
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process(parent: u32, group: u32) -> Stat {
        Stat {
            name: String::new(),
            parent,
            group,
            user: 0,
            system: 0,
            reaped_user: 0,
            reaped_system: 0,
            start: 0,
        }
    }

    #[test]
    fn a_tree_holds_grandchildren_and_the_group_it_leads_and_no_strangers() {
        let all = BTreeMap::from([
            (1, process(0, 1)),
            (10, process(1, 10)),
            (11, process(10, 10)),
            (12, process(11, 12)),
            (13, process(1, 10)),
            (14, process(13, 14)),
            (20, process(1, 20)),
        ]);
        let mut found = members(10, &all);
        found.sort_unstable();
        assert_eq!(found, [10, 11, 12, 13, 14]);
        assert!(members(99, &all).is_empty());
    }

    #[test]
    fn this_process_is_in_its_own_tree_and_in_that_of_its_parent() {
        let me = std::process::id();
        assert!(process_ids(me).contains(&me));
        assert!(process_ids(std::os::unix::process::parent_id()).contains(&me));
        assert_eq!(process_ids(Subject::Process(me)), [me]);
        // Process ids end at 2^22 (`proc(5)`, pid_max), so no process has this one.
        assert!(process_ids(99_999_999).is_empty());
    }
}
