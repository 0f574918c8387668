//! The time that each core spent by kind, from `/proc/stat`.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs;

/// Counters of each core up to one moment, in ticks of 10 ms.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CoreTimes {
    /// By core: user, nice, system, idle, iowait, irq, softirq, steal (`proc(5)`; guest time is part of
    /// user).
    cores: BTreeMap<usize, [u64; 8]>,
}

/// How one core spent an interval; the shares add up to 1.
///
/// The kernel attributes a whole tick to whatever runs at the tick, so shares are accurate to about 1 % over
/// a second.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct CoreShare {
    /// The core's number.
    pub core: usize,
    /// In user mode at normal priority.
    pub user: f64,
    /// In user mode at lowered priority.
    pub nice: f64,
    /// In the kernel on behalf of processes.
    pub system: f64,
    /// Serving interrupts.
    pub irq: f64,
    /// Serving soft interrupts; on loopback much of TCP runs here.
    pub softirq: f64,
    /// Taken by the hypervisor for other machines.
    pub steal: f64,
    /// Idle, including waits for a disk.
    pub idle: f64,
}

impl CoreShare {
    /// Returns all shares but `idle`. Stolen time is included, because this machine could not use it.
    pub fn busy(&self) -> f64 {
        self.user + self.nice + self.system + self.irq + self.softirq + self.steal
    }
}

impl CoreTimes {
    /// Reads the counters, in about 10 us.
    pub fn read() -> Self {
        Self::parse(&fs::read_to_string("/proc/stat").unwrap_or_default())
    }

    /// Returns one more than the highest number of a core; 0 if the counters could not be read.
    pub fn highest(&self) -> usize {
        self.cores.keys().next_back().map_or(0, |core| core + 1)
    }

    fn parse(text: &str) -> Self {
        Self { cores: text.lines().filter_map(core_line).collect() }
    }

    /// Returns the shares since `earlier`, by core. A core whose counters did not change (an interval under a
    /// tick, a core taken offline) is omitted.
    pub fn since(&self, earlier: &Self) -> Vec<CoreShare> {
        self.cores
            .iter()
            .filter_map(|(&core, now)| {
                let then = earlier.cores.get(&core)?;
                // The kernel sometimes corrects idle and iowait downwards.
                let ticks: Vec<u64> =
                    now.iter().zip(then).map(|(now, then)| now.saturating_sub(*then)).collect();
                let all: u64 = ticks.iter().sum();
                let share = |at: usize| ticks[at] as f64 / all as f64;
                (all > 0).then(|| CoreShare {
                    core,
                    user: share(0),
                    nice: share(1),
                    system: share(2),
                    idle: share(3) + share(4),
                    irq: share(5),
                    softirq: share(6),
                    steal: share(7),
                })
            })
            .collect()
    }
}

/// Parses `cpu3 1 2 3 ...`; `None` for the sum line and all others. Old kernels print fewer columns.
fn core_line(line: &str) -> Option<(usize, [u64; 8])> {
    let mut words = line.split_ascii_whitespace();
    let core = words.next()?.strip_prefix("cpu")?.parse().ok()?;
    let mut ticks = [0; 8];
    for slot in &mut ticks {
        *slot = words.next().unwrap_or("0").parse().ok()?;
    }
    Some((core, ticks))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn shares_are_of_each_core_and_add_up() {
        let before = CoreTimes::parse(
            "cpu  9 9 9 9\ncpu0 100 0 50 800 10 1 5 2 0 0\ncpu1 1 1 1 1 1 1 1 1 0 0\nintr 5\n",
        );
        let after =
            CoreTimes::parse("cpu  9 9 9 9\ncpu0 140 10 70 815 15 2 10 6 0 0\ncpu1 1 1 1 1 1 1 1 1 0 0\n");
        let shares = after.since(&before);
        let expected = CoreShare {
            core: 0,
            user: 0.4,
            nice: 0.1,
            system: 0.2,
            irq: 0.01,
            softirq: 0.05,
            steal: 0.04,
            idle: 0.2,
        };
        assert_eq!(shares, [expected]);
        assert!((shares[0].busy() - 0.8).abs() < 1e-12);
    }

    #[test]
    fn a_core_that_appeared_has_no_share_and_a_correction_is_no_overflow() {
        let before = CoreTimes::parse("cpu0 1 0 0 9 5 0 0 0\n");
        let shares = CoreTimes::parse("cpu0 5 0 0 9 1 0 0 0\ncpu7 1 1 1 1 1 1 1 1\n").since(&before);
        assert_eq!(shares.len(), 1);
        assert!((shares[0].user - 1.0).abs() < 1e-12);
    }

    #[test]
    fn this_machine_has_cores() {
        assert!(!CoreTimes::read().cores.is_empty());
    }

    proptest! {
        #[test]
        fn no_text_upsets_the_reader(text in "(cpu[0-9]{0,3} [0-9x ]{0,40}\n){0,3}") {
            let times = CoreTimes::parse(&text);
            let none = times.since(&times);
            prop_assert!(none.is_empty());
        }
    }
}
