//! Reads which logical cores share a physical core and a NUMA node, from `/sys/devices/system`.
//!
//! [`Topology::read`] covers the cores that this process may use. [`Topology::read_from`] reads a copy of
//! another machine's tree, for tests and for plans. A kernel without `topology` or `node` folders (some
//! containers) yields physical cores of one thread each, all on node 0.

use crate::error::Error;
use rustix::thread::{CpuSet, sched_getaffinity};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// The kernel's folder of processors and nodes.
const SYSTEM: &str = "/sys/devices/system";

/// A logical core and its place in the machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Core {
    /// The NUMA node.
    pub node: usize,
    /// The physical core, named by its lowest logical core.
    pub physical: usize,
    /// The number of the logical core.
    pub id: usize,
}

/// The logical cores that a run may use, sorted by node, physical core and number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Topology {
    pub(crate) cores: Vec<Core>,
}

/// Returns the cores on which this thread and its children may run (`sched_getaffinity(2)`).
///
/// # Errors
/// If the kernel refuses, as on machines with more cores than the fixed set holds (1024).
pub fn allowed_cores() -> Result<Vec<usize>, Error> {
    let allowed = sched_getaffinity(None)
        .map_err(|error| Error::System("CPU affinity of this process".into(), error.into()))?;
    Ok((0..CpuSet::MAX_CPU).filter(|core| allowed.is_set(*core)).collect())
}

impl Topology {
    /// Reads this machine, restricted to the cores that this process may use.
    ///
    /// # Errors
    /// As [`allowed_cores`].
    pub fn read() -> Result<Self, Error> {
        Ok(Self::of(Path::new(SYSTEM), &allowed_cores()?))
    }

    /// Reads a copy of `/sys/devices/system`, with all its online cores.
    ///
    /// # Errors
    /// If `cpu/online` cannot be read.
    pub fn read_from(system: &Path) -> Result<Self, Error> {
        let file = system.join("cpu/online");
        let online = fs::read_to_string(&file).map_err(|error| Error::file(&file, error))?;
        Ok(Self::of(system, &parse_list(&online)))
    }

    fn of(system: &Path, allowed: &[usize]) -> Self {
        let nodes = nodes(system);
        let physical = |id: usize| {
            let file = system.join(format!("cpu/cpu{id}/topology/thread_siblings_list"));
            let list = fs::read_to_string(file).map(|list| parse_list(&list)).unwrap_or_default();
            list.into_iter().min().unwrap_or(id)
        };
        let mut cores: Vec<Core> = allowed
            .iter()
            .map(|id| Core { node: nodes.get(id).copied().unwrap_or(0), physical: physical(*id), id: *id })
            .collect();
        cores.sort_unstable();
        Self { cores }
    }

    /// Returns the numbers of all logical cores, ascending.
    pub fn ids(&self) -> Vec<usize> {
        let mut ids: Vec<usize> = self.cores.iter().map(|core| core.id).collect();
        ids.sort_unstable();
        ids
    }

    pub(crate) fn core(&self, id: usize) -> Option<&Core> {
        self.cores.iter().find(|core| core.id == id)
    }

    /// Returns the logical cores of each physical core, in the order of the nodes.
    pub(crate) fn physical(&self) -> Vec<Vec<Core>> {
        let same = |a: &Core, b: &Core| (a.node, a.physical) == (b.node, b.physical);
        self.cores.chunk_by(same).map(<[Core]>::to_vec).collect()
    }

    /// Describes the machine: "16 cores on 8 physical cores, 2 NUMA nodes".
    pub fn describe(&self) -> String {
        let nodes: std::collections::BTreeSet<usize> = self.cores.iter().map(|core| core.node).collect();
        let noun = |count: usize, noun: &str| format!("{count} {noun}{}", if count == 1 { "" } else { "s" });
        format!(
            "{} on {}, {}",
            noun(self.cores.len(), "core"),
            noun(self.physical().len(), "physical core"),
            noun(nodes.len(), "NUMA node")
        )
    }
}

/// Returns the node of each core; empty if the kernel reports no nodes.
fn nodes(system: &Path) -> BTreeMap<usize, usize> {
    let mut nodes = BTreeMap::new();
    for entry in fs::read_dir(system.join("node")).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let number = name.to_str().and_then(|name| name.strip_prefix("node")?.parse().ok());
        let Some(number) = number else { continue };
        let list = fs::read_to_string(entry.path().join("cpulist")).unwrap_or_default();
        nodes.extend(parse_list(&list).into_iter().map(|core| (core, number)));
    }
    nodes
}

/// Parses the kernel's list format, such as `0-2,8`; skips invalid parts.
fn parse_list(text: &str) -> Vec<usize> {
    let range = |part: &str| -> Option<std::ops::RangeInclusive<usize>> {
        let (low, high) = part.split_once('-').unwrap_or((part, part));
        let (low, high) = (low.parse().ok()?, high.parse::<usize>().ok()?);
        (high < CpuSet::MAX_CPU).then_some(low..=high)
    };
    text.trim().split(',').filter_map(range).flatten().collect()
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Writes a copy of `/sys/devices/system` with these nodes, each a list of physical cores with their
    /// threads, and reads it.
    pub(crate) fn machine(nodes: &[&[&[usize]]]) -> Topology {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: String, text: String| {
            let file = folder.path().join(name);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, text).unwrap();
        };
        let list = |cores: &[usize]| cores.iter().map(usize::to_string).collect::<Vec<_>>().join(",") + "\n";
        let mut all = Vec::new();
        for (number, physical) in nodes.iter().enumerate() {
            let on_node: Vec<usize> = physical.iter().flat_map(|threads| threads.iter().copied()).collect();
            write(format!("node/node{number}/cpulist"), list(&on_node));
            for threads in *physical {
                for id in *threads {
                    write(format!("cpu/cpu{id}/topology/thread_siblings_list"), list(threads));
                }
            }
            all.extend(on_node);
        }
        write("cpu/online".into(), list(&all));
        Topology::read_from(folder.path()).unwrap()
    }

    #[test]
    fn lists() {
        assert_eq!(parse_list("0-2,8\n"), [0, 1, 2, 8]);
        assert_eq!(parse_list("3"), [3]);
        assert_eq!(parse_list(""), [0usize; 0]);
        assert_eq!(parse_list("0-18446744073709551615,1"), [1]);
    }

    #[test]
    fn threads_and_nodes_are_read() {
        let machine = machine(&[&[&[0, 4], &[1, 5]], &[&[2, 6], &[3, 7]]]);
        assert_eq!(machine.describe(), "8 cores on 4 physical cores, 2 NUMA nodes");
        assert_eq!(machine.core(6), Some(&Core { node: 1, physical: 2, id: 6 }));
        assert_eq!(machine.ids(), [0, 1, 2, 3, 4, 5, 6, 7]);
    }

    #[test]
    fn a_kernel_without_topology_has_whole_cores_on_one_node() {
        let folder = tempfile::tempdir().unwrap();
        assert!(Topology::read_from(folder.path()).is_err());
        let machine = Topology::of(folder.path(), &[0, 3]);
        assert_eq!(machine.describe(), "2 cores on 2 physical cores, 1 NUMA node");
    }

    #[test]
    fn this_process_may_use_a_core() {
        assert!(!Topology::read().unwrap().ids().is_empty());
    }

    proptest! {
        #[test]
        fn no_text_upsets_the_list(text in "[0-9,-]{0,30}") {
            prop_assert!(parse_list(&text).iter().all(|core| *core < CpuSet::MAX_CPU));
        }
    }
}
