//! Assigns the cores of a machine to the roles of a run: the system under test, the origin and the load.
//!
//! Without a wish, the system gets half of the physical cores, and origin and load a quarter each. No two
//! roles share a physical core as long as there are enough, since two threads of one core slow each other. A
//! cut between roles moves to the next border of a NUMA node if one is near. Within a role the first threads
//! of all physical cores come first, so that a cell that asks for some of them gets whole physical cores. On
//! a machine with fewer physical cores than roles, origin and load share the last one, never the system.

use super::topology::{Core, Topology};
use crate::error::Error;
use std::collections::BTreeSet;

/// The cores of each role, in the order in which a role uses them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Roles {
    /// The cores of the system under test.
    pub target: Vec<usize>,
    /// The cores of the origin and of services that features call.
    pub origin: Vec<usize>,
    /// The cores of the load generator and of the laboratory itself.
    pub load: Vec<usize>,
}

/// The cores that the user asks for; `None` leaves the choice to the machine's proportions.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WantedRoles {
    /// For the system under test.
    pub target: Option<Vec<usize>>,
    /// For the origin.
    pub origin: Option<Vec<usize>>,
    /// For the load.
    pub load: Option<Vec<usize>>,
}

/// The names of the roles in messages, in the order of [`Roles::each`].
const NAMES: [&str; 3] = ["system under test", "origin", "load generator"];

/// The keys of the roles, as users write them.
const KEYS: [&str; 3] = ["target", "origin", "load"];

/// The weights of the roles: half of the machine, and a quarter each.
const WEIGHTS: [usize; 3] = [2, 1, 1];

impl Roles {
    /// Assigns the cores. A role that is asked for gets exactly those cores; the others divide the rest.
    ///
    /// # Errors
    /// If a core that is asked for may not be used, or no core remains for the system under test.
    pub fn choose(machine: &Topology, wanted: &WantedRoles) -> Result<Self, Error> {
        let wishes = [&wanted.target, &wanted.origin, &wanted.load];
        for (wish, key) in wishes.iter().zip(KEYS) {
            if let Some(core) =
                wish.iter().flat_map(|list| list.iter()).find(|core| machine.core(**core).is_none())
            {
                return Err(Error::Lacking(format!(
                    "`cores.{key}` names core {core}, but this run may use only {} (see `taskset -cp $$`)",
                    list(&machine.ids())
                )));
            }
        }
        let mut chosen = wishes.map(Clone::clone);
        let missing: Vec<usize> = (0..3).filter(|role| chosen[*role].is_none()).collect();
        let units = free_units(machine, &chosen, missing.len());
        for (role, cores) in missing.iter().zip(divide(&units, &missing)) {
            chosen[*role] = Some(in_order(&cores));
        }
        let [target, origin, load] = chosen.map(|cores| cores.filter(|cores| !cores.is_empty()));
        let Some(target) = target else { return Err(too_few(machine)) };
        // A role without a core of its own shares the other's, and never the system's unless all are wanted.
        match (origin, load) {
            (Some(origin), Some(load)) => Ok(Self { target, origin, load }),
            (Some(both), None) | (None, Some(both)) => Ok(Self { target, origin: both.clone(), load: both }),
            (None, None) => Err(too_few(machine)),
        }
    }

    /// Gives every role the same cores, on a host that has one role.
    ///
    /// # Errors
    /// As [`Roles::choose`].
    pub fn of_one(machine: &Topology, wanted: Option<&[usize]>) -> Result<Self, Error> {
        let all = wanted.map_or_else(
            || in_order(&machine.physical().into_iter().flatten().collect::<Vec<_>>()),
            <[usize]>::to_vec,
        );
        let wanted = Some(all);
        Self::choose(machine, &WantedRoles { target: wanted.clone(), origin: wanted.clone(), load: wanted })
    }

    fn each(&self) -> [&Vec<usize>; 3] {
        [&self.target, &self.origin, &self.load]
    }

    /// Returns how many distinct cores the roles have in total.
    pub fn distinct(&self) -> usize {
        self.each().into_iter().flatten().collect::<BTreeSet<_>>().len()
    }

    /// Returns whether origin and load have no core in common.
    pub fn apart(&self) -> bool {
        self.origin.iter().all(|core| !self.load.contains(core))
    }

    /// Describes the assignment for a report.
    pub fn describe(&self) -> String {
        let cores = |ids: &[usize]| format!("core{} {}", if ids.len() == 1 { "" } else { "s" }, list(ids));
        if self.origin == self.load {
            return format!(
                "system under test on {}, origin and generator on {}",
                cores(&self.target),
                cores(&self.load)
            );
        }
        format!(
            "system under test on {}, origin on {}, generator on {}",
            cores(&self.target),
            cores(&self.origin),
            cores(&self.load)
        )
    }

    /// Returns a sentence for everything in the assignment that disturbs a measurement.
    pub fn warnings(&self, machine: &Topology) -> Vec<String> {
        let mut warnings = Vec::new();
        let each = self.each();
        for (a, b) in [(0, 1), (0, 2), (1, 2)] {
            let shared: Vec<usize> = each[a].iter().filter(|core| each[b].contains(core)).copied().collect();
            if !shared.is_empty() {
                let noun = if shared.len() == 1 { "core" } else { "cores" };
                warnings.push(format!(
                    "{} and {} share {noun} {}: each takes time from the other",
                    NAMES[a],
                    NAMES[b],
                    list(&shared)
                ));
                continue;
            }
            let physical = |id: &usize| machine.core(*id).map(|core| core.physical);
            let twin = each[a]
                .iter()
                .flat_map(|one| each[b].iter().map(move |other| (one, other)))
                .find(|(one, other)| physical(one).is_some() && physical(one) == physical(other));
            if let Some((one, other)) = twin {
                warnings.push(format!(
                    "core {one} of the {} and core {other} of the {} are threads of one physical core: each slows \
                     the other",
                    NAMES[a], NAMES[b]
                ));
            }
        }
        let nodes: BTreeSet<usize> =
            self.target.iter().filter_map(|id| machine.core(*id)).map(|core| core.node).collect();
        if nodes.len() > 1 {
            let nodes: Vec<usize> = nodes.into_iter().collect();
            warnings.push(format!(
                "the cores of the {} lie on the NUMA nodes {}: part of its memory is remote",
                NAMES[0],
                list(&nodes)
            ));
        }
        warnings
    }
}

fn too_few(machine: &Topology) -> Error {
    Error::Lacking(format!(
        "at least one CPU core for the system under test and another for origin and generator are needed; this run may \
         use {} (see `taskset -cp $$`)",
        list(&machine.ids())
    ))
}

/// Returns the physical cores of which no thread is taken, or single free threads if there are fewer of the
/// former than roles.
fn free_units(machine: &Topology, taken: &[Option<Vec<usize>>; 3], roles: usize) -> Vec<Vec<Core>> {
    let is_free = |core: &Core| !taken.iter().flatten().any(|list| list.contains(&core.id));
    let whole: Vec<Vec<Core>> =
        machine.physical().into_iter().filter(|threads| threads.iter().all(is_free)).collect();
    let least = roles.min(2);
    if whole.len() >= least {
        return whole;
    }
    machine.cores.iter().filter(|core| is_free(core)).map(|core| vec![*core]).collect()
}

/// Divides the units among the roles by weight. A role may get none; the last units then serve those before.
fn divide(units: &[Vec<Core>], roles: &[usize]) -> Vec<Vec<Core>> {
    let mut rest = units;
    let mut parts = Vec::new();
    for (at, role) in roles.iter().enumerate() {
        let later = roles.len() - at - 1;
        let weight: usize = roles[at..].iter().map(|role| WEIGHTS[*role]).sum();
        let count = if later == 0 {
            rest.len()
        } else {
            let fair = (rest.len() * WEIGHTS[*role] / weight).max(1).min(rest.len());
            at_border(rest, fair, later)
        };
        let (own, others) = rest.split_at(count);
        parts.push(own.concat());
        rest = others;
    }
    // Two physical cores with two threads each: origin and load take one thread each of the second.
    if let [.., origin, load] = &mut parts[..]
        && load.is_empty()
        && origin.len() > 1
        && roles.len() == 3
    {
        *load = origin.split_off(origin.len().div_ceil(2));
    }
    parts
}

/// Moves a cut to the nearest border between two nodes, if that is at most half of the part away and leaves a
/// unit for each later role.
fn at_border(units: &[Vec<Core>], fair: usize, later: usize) -> usize {
    let node = |at: usize| units[at].first().map(|core| core.node);
    (1..units.len())
        .filter(|at| node(at - 1) != node(*at) && units.len() - at >= later)
        .filter(|at| at.abs_diff(fair) * 2 <= fair)
        .min_by_key(|at| at.abs_diff(fair))
        .unwrap_or(fair)
}

/// Orders the cores of a role: the first threads of its physical cores, then the second ones.
fn in_order(cores: &[Core]) -> Vec<usize> {
    let thread = |core: &Core| {
        cores.iter().filter(|other| other.physical == core.physical && other.id < core.id).count()
    };
    let mut order: Vec<&Core> = cores.iter().collect();
    order.sort_by_key(|core| (thread(core), core.node, core.physical));
    order.into_iter().map(|core| core.id).collect()
}

/// Formats cores as the kernel does: `0-3,8`.
fn list(ids: &[usize]) -> String {
    let mut ids = ids.to_vec();
    ids.sort_unstable();
    ids.dedup();
    ids.chunk_by(|a, b| a + 1 == *b)
        .map(|run| match run {
            [one] => one.to_string(),
            [first, .., last] => format!("{first}-{last}"),
            [] => String::new(),
        })
        .collect::<Vec<_>>()
        .join(",")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::topology::tests::machine;
    use proptest::prelude::*;

    fn roles(machine: &Topology) -> [Vec<usize>; 3] {
        let Roles { target, origin, load } = Roles::choose(machine, &WantedRoles::default()).unwrap();
        [target, origin, load]
    }

    #[test]
    fn cores_are_divided_by_proportion() {
        let single = |count: usize| {
            let cores: Vec<[usize; 1]> = (0..count).map(|id| [id]).collect();
            let cores: Vec<&[usize]> = cores.iter().map(|core| &core[..]).collect();
            machine(&[&cores])
        };
        let counts = |count| roles(&single(count)).map(|cores| cores.len());
        assert_eq!(roles(&single(2)), [vec![0], vec![1], vec![1]]);
        assert_eq!(counts(3), [1, 1, 1]);
        assert_eq!(counts(4), [2, 1, 1]);
        assert_eq!(counts(6), [3, 1, 2]);
        assert_eq!(roles(&single(16)), [(0..8).collect::<Vec<_>>(), (8..12).collect(), (12..16).collect()]);
        assert_eq!(counts(20), [10, 5, 5]);
        assert_eq!(counts(24), [12, 6, 6]);
        assert_eq!(counts(32), [16, 8, 8]);
        assert!(Roles::choose(&single(1), &WantedRoles::default()).is_err());
    }

    #[test]
    fn no_physical_core_has_two_roles_and_whole_ones_come_first() {
        let four = machine(&[&[&[0, 4], &[1, 5], &[2, 6], &[3, 7]]]);
        assert_eq!(roles(&four), [vec![0, 1, 4, 5], vec![2, 6], vec![3, 7]]);
        assert!(Roles::choose(&four, &WantedRoles::default()).unwrap().warnings(&four).is_empty());
        let two = machine(&[&[&[0, 2], &[1, 3]]]);
        assert_eq!(roles(&two), [vec![0, 2], vec![1], vec![3]]);
        let warnings = Roles::choose(&two, &WantedRoles::default()).unwrap().warnings(&two);
        assert!(
            warnings[0].contains("core 1 of the origin and core 3 of the load generator"),
            "{warnings:?}"
        );
        let one = machine(&[&[&[0, 1]]]);
        assert_eq!(roles(&one), [vec![0], vec![1], vec![1]]);
    }

    #[test]
    fn roles_end_at_the_borders_of_nodes() {
        let node = |from: usize| -> Vec<[usize; 1]> { (from..from + 4).map(|id| [id]).collect() };
        let nodes = [node(0), node(4), node(8)];
        let nodes: Vec<Vec<&[usize]>> =
            nodes.iter().map(|node| node.iter().map(|core| &core[..]).collect()).collect();
        let three = machine(&[&nodes[0], &nodes[1], &nodes[2]]);
        assert_eq!(roles(&three), [vec![0, 1, 2, 3], vec![4, 5, 6, 7], vec![8, 9, 10, 11]]);
        let two = machine(&[&nodes[0], &nodes[1]]);
        assert_eq!(roles(&two), [vec![0, 1, 2, 3], vec![4, 5], vec![6, 7]]);
        let all = WantedRoles { target: Some((0..6).collect()), ..WantedRoles::default() };
        let across = Roles::choose(&two, &all).unwrap();
        assert_eq!((across.origin.as_slice(), across.load.as_slice()), (&[6][..], &[7][..]));
        assert!(across.warnings(&two)[0].contains("NUMA nodes 0-1"), "{:?}", across.warnings(&two));
    }

    #[test]
    fn a_wish_is_kept_and_a_shared_core_is_reported() {
        let two = machine(&[&[&[0], &[1]]]);
        let wish = WantedRoles { target: Some(vec![1]), ..WantedRoles::default() };
        let chosen = Roles::choose(&two, &wish).unwrap();
        assert_eq!(chosen, Roles { target: vec![1], origin: vec![0], load: vec![0] });
        assert_eq!(chosen.describe(), "system under test on core 1, origin and generator on core 0");
        let warnings = chosen.warnings(&two);
        assert_eq!(warnings, ["origin and load generator share core 0: each takes time from the other"]);
        let wish = WantedRoles { load: Some(vec![0, 9]), ..WantedRoles::default() };
        let error = Roles::choose(&two, &wish).unwrap_err().to_string();
        assert!(error.contains("`cores.load` names core 9") && error.contains("0-1"), "{error}");
        let everything = WantedRoles { target: Some(vec![0, 1]), ..WantedRoles::default() };
        assert!(Roles::choose(&two, &everything).is_err(), "nothing remains for the load");
    }

    proptest! {
        #[test]
        fn each_machine_is_divided_without_overlap(
            nodes in 1..5usize, cores in 1..20usize, threads in 1..3usize
        ) {
            prop_assume!(nodes * cores >= 3);
            let mut cores_of = Vec::new();
            for node in 0..nodes {
                for physical in 0..cores {
                    let physical = node * cores + physical;
                    cores_of.extend((0..threads).map(|thread| Core {
                        node, physical, id: physical + thread * nodes * cores,
                    }));
                }
            }
            cores_of.sort_unstable();
            let machine = Topology { cores: cores_of };
            let [target, origin, load] = roles(&machine);
            let all: BTreeSet<usize> = target.iter().chain(&origin).chain(&load).copied().collect();
            prop_assert_eq!(all.len(), target.len() + origin.len() + load.len());
            prop_assert_eq!(all.len(), nodes * cores * threads, "no core is idle");
        }
    }
}
