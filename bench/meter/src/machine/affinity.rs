//! Finds the cores that this process may use, and chooses two of them for a run.

use crate::error::Error;
use rustix::thread::{CpuSet, sched_getaffinity};
use std::fs;

/// Returns the cores on which this thread and its children may run (`sched_getaffinity(2)`).
///
/// # Errors
/// If the kernel refuses, as on machines with more cores than the fixed set holds (1024).
pub fn allowed_cores() -> Result<Vec<usize>, Error> {
    let allowed = sched_getaffinity(None)
        .map_err(|error| Error::System("CPU affinity of this process".into(), error.into()))?;
    Ok((0..CpuSet::MAX_CPU).filter(|core| allowed.is_set(*core)).collect())
}

/// Returns the logical cores on the same physical core, including `core`; empty if the kernel does not report
/// them.
pub fn siblings(core: usize) -> Vec<usize> {
    fs::read_to_string(format!("/sys/devices/system/cpu/cpu{core}/topology/thread_siblings_list"))
        .map(|list| parse_cpu_list(&list))
        .unwrap_or_default()
}

/// Two cores that disturb each other as little as this machine allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CorePair {
    /// The core of the system under test, alone.
    pub target: usize,
    /// The core of origin, load generator and the laboratory.
    pub load: usize,
}

impl CorePair {
    /// Chooses two of the cores that this process may use. They are siblings of one physical core only if
    /// there is no other pair.
    ///
    /// # Errors
    /// If this process may use fewer than two cores.
    pub fn choose() -> Result<Self, Error> {
        let cores = allowed_cores()?;
        pick(&cores, siblings).ok_or_else(|| {
            Error::Lacking(format!(
                "two CPU cores are needed, one for the system under test and one for origin and generator; this \
                 process may use {} (see `taskset -cp $$`)",
                cores.len()
            ))
        })
    }
}

fn pick(cores: &[usize], siblings: impl Fn(usize) -> Vec<usize>) -> Option<CorePair> {
    let (&target, rest) = cores.split_first()?;
    let shared = siblings(target);
    let load = rest.iter().find(|core| !shared.contains(core)).or(rest.first())?;
    Some(CorePair { target, load: *load })
}

/// Parses the kernel's list format, such as `0-2,8`; skips invalid parts.
fn parse_cpu_list(text: &str) -> Vec<usize> {
    let range = |part: &str| -> Option<std::ops::RangeInclusive<usize>> {
        let (low, high) = part.split_once('-').unwrap_or((part, part));
        let (low, high) = (low.parse().ok()?, high.parse::<usize>().ok()?);
        (high < CpuSet::MAX_CPU).then_some(low..=high)
    };
    text.trim().split(',').filter_map(range).flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn cpu_lists() {
        assert_eq!(parse_cpu_list("0-2,8\n"), [0, 1, 2, 8]);
        assert_eq!(parse_cpu_list("3"), [3]);
        assert_eq!(parse_cpu_list(""), [0usize; 0]);
        assert_eq!(parse_cpu_list("0-18446744073709551615,1"), [1]);
    }

    #[test]
    fn another_physical_core_is_preferred() {
        assert_eq!(pick(&[0, 1, 2, 3], |_| vec![0, 1]), Some(CorePair { target: 0, load: 2 }));
        assert_eq!(pick(&[4, 6], |_| vec![4]), Some(CorePair { target: 4, load: 6 }));
        assert_eq!(pick(&[0, 1], |_| vec![0, 1]), Some(CorePair { target: 0, load: 1 }));
        assert_eq!(pick(&[0], |_| vec![0]), None);
        assert_eq!(pick(&[], |_| vec![]), None);
    }

    #[test]
    fn this_process_may_use_a_core() {
        assert!(!allowed_cores().unwrap().is_empty());
    }

    proptest! {
        #[test]
        fn no_text_upsets_the_list(text in "[0-9,-]{0,30}") {
            prop_assert!(parse_cpu_list(&text).iter().all(|core| *core < CpuSet::MAX_CPU));
        }
    }
}
