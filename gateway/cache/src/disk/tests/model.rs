//! Any interleaving of puts, look-ups, purges, evictions, failures, kills and restarts gives the newest bytes, or a miss.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::simulated::{Fault, Simulated};
use super::*;
use crate::{Purge, PurgeMode};

const KEYS: [&[u8]; 4] = [b"a/1", b"a/2", b"b/1", b"b/2"];
/// The tag of each key.
const TAGS: [&str; 4] = ["odd", "even", "odd", "even"];
const LENGTHS: [usize; 5] = [0, 100, 70_000, 200_000, 1_200_000];

#[derive(Clone, Debug)]
enum Step {
    Put {
        key: usize,
        length: usize,
    },
    Find {
        key: usize,
    },
    PurgeKey {
        key: usize,
    },
    PurgePrefix {
        is_b: bool,
    },
    PurgeTag {
        is_even: bool,
    },
    PurgeAll,
    /// The writer does this many operations.
    Write(usize),
    Forget,
    Fail {
        after: u64,
        fault: Fault,
    },
    Flip {
        position: usize,
        bit: u8,
    },
    Restart,
}

fn step() -> impl Strategy<Value = Step> {
    let key = 0..KEYS.len();
    let fault = prop_oneof![Just(Fault::Io), Just(Fault::Full), Just(Fault::Short), Just(Fault::Kill)];
    prop_oneof![
        6 => (key.clone(), 0..LENGTHS.len()).prop_map(|(key, length)| Step::Put { key, length }),
        6 => key.clone().prop_map(|key| Step::Find { key }),
        1 => key.prop_map(|key| Step::PurgeKey { key }),
        1 => any::<bool>().prop_map(|is_b| Step::PurgePrefix { is_b }),
        1 => any::<bool>().prop_map(|is_even| Step::PurgeTag { is_even }),
        1 => Just(Step::PurgeAll),
        6 => (1_usize..6).prop_map(Step::Write),
        3 => Just(Step::Forget),
        2 => (0_u64..12, fault).prop_map(|(after, fault)| Step::Fail { after, fault }),
        1 => (any::<usize>(), any::<u8>()).prop_map(|(position, bit)| Step::Flip { position, bit }),
        2 => Just(Step::Restart),
    ]
}

/// The versions that may be found under a key, the newest last; a miss is always allowed. There are several only after a restart
/// that lost what waited to be written.
#[derive(Debug, Default)]
struct Model {
    found: BTreeMap<usize, Vec<u32>>,
    /// The states that a restart may find: the states that are or will be in the log.
    logged: BTreeMap<usize, Vec<Option<u32>>>,
}

impl Model {
    fn change(&mut self, key: usize, version: Option<u32>) {
        self.found.insert(key, version.into_iter().collect());
        self.logged.entry(key).or_insert_with(|| vec![None]).push(version);
    }

    /// Everything that waited is in the log.
    fn is_written(&mut self) {
        for states in self.logged.values_mut() {
            states.drain(..states.len() - 1);
        }
    }

    fn restart(&mut self) {
        for (key, states) in &mut self.logged {
            self.found.insert(*key, states.iter().flatten().copied().collect());
        }
    }
}

fn content(version: u32, length: usize) -> Vec<u8> {
    version.to_le_bytes().into_iter().cycle().take(length).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn the_newest_bytes_or_a_miss(steps in proptest::collection::vec(step(), 1..60)) {
        let folder = Simulated::default();
        let mut tiers = Tiers::open(&folder);
        let mut model = Model::default();
        let mut versions: Vec<(usize, usize)> = Vec::new();
        for step in steps {
            match step {
                Step::Put { key, length } => {
                    let version = versions.len() as u32;
                    versions.push((key, LENGTHS[length]));
                    let fields = format!("Cache-Control: max-age=60\r\nCache-Tag: {}\r\n", TAGS[key]);
                    let stored = tiers.put(KEYS[key], &fields, &content(version, LENGTHS[length]));
                    prop_assert!(stored.is_some(), "memory has it, whatever the disk does");
                    model.change(key, Some(version));
                }
                Step::Find { key } => {
                    let Some(stored) = tiers.find(KEYS[key], "") else { continue };
                    // A body that cannot be read to its end is cut.
                    let Some(body) = body(&stored) else { continue };
                    let allowed = model.found.get(&key).map_or(&[][..], Vec::as_slice);
                    let is_allowed = |version: &u32| content(*version, versions[*version as usize].1) == body;
                    prop_assert!(
                        allowed.iter().any(is_allowed),
                        "{} bytes of {:?} are none of {allowed:?}", body.len(), KEYS[key]
                    );
                }
                Step::PurgeKey { key } => {
                    tiers.store.purge(Purge::Key(KEYS[key]), PurgeMode::Remove);
                    model.change(key, None);
                }
                Step::PurgePrefix { is_b } => {
                    let prefix: &[u8] = if is_b { b"b/" } else { b"a/" };
                    tiers.store.purge(Purge::Prefix(prefix), PurgeMode::Remove);
                    (0..KEYS.len()).filter(|key| KEYS[*key].starts_with(prefix)).for_each(|key| model.change(key, None));
                }
                Step::PurgeTag { is_even } => {
                    let tag = if is_even { "even" } else { "odd" };
                    tiers.store.purge(Purge::Tags(&[tag.as_bytes()]), PurgeMode::Remove);
                    (0..KEYS.len()).filter(|key| TAGS[*key] == tag).for_each(|key| model.change(key, None));
                }
                Step::PurgeAll => {
                    tiers.store.purge(Purge::All, PurgeMode::Remove);
                    (0..KEYS.len()).for_each(|key| model.change(key, None));
                }
                Step::Write(count) => {
                    let is_done = (0..count).any(|_| tiers.writer.step(false).is_break());
                    // A tier that gave up could not write everything.
                    if is_done && !folder.is_dead() && tiers.disk.state() == crate::DiskState::Ready {
                        model.is_written();
                    }
                }
                Step::Forget => tiers.forget(),
                Step::Fail { after, fault } => folder.fail_after(after, fault),
                Step::Flip { position, bit } => {
                    let bytes = folder.bytes();
                    if bytes > 0 {
                        folder.flip(position % bytes, bit);
                    }
                }
                Step::Restart => {
                    drop(tiers);
                    folder.revive();
                    tiers = Tiers::open(&folder);
                    model.restart();
                }
            }
        }
    }
}
