//! Slots: a small number for each route and upstream, so that a worker counts without comparing names.
//!
//! [`routes`](super::routes) assigns those of routes, and [`Slots`] those of upstreams. An upstream takes a slot
//! when a worker first uses it, and keeps it while it is in use, because its gauges are counted there.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The named slots of routes, and of upstreams, unless the configuration says otherwise.
pub const NAMED_SLOTS_DEFAULT: usize = 1000;

/// The most named slots that a registry can have.
pub const NAMED_SLOTS_MAX: usize = 50_000;

/// The first slot with a name.
pub(super) const FIRST_NAMED: u16 = 3;

/// The index under which the counts of one route or one upstream are kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Slot(pub(super) u16);

impl Slot {
    /// No route matched, or no upstream was used; the label is `-`.
    pub const NONE: Slot = Slot(0);

    /// Shared by all names without a slot of their own; the label is `other`.
    pub const OTHER: Slot = Slot(1);

    /// The route had no request yet, or requests only while no slot was free. Nothing is counted here.
    pub(super) const UNCLAIMED: Slot = Slot(2);

    #[inline]
    pub(super) fn index(self) -> usize {
        usize::from(self.0)
    }

    /// Returns the index among the named slots.
    pub(super) fn owner(self) -> Option<usize> {
        self.index().checked_sub(usize::from(FIRST_NAMED))
    }
}

/// Returns the length of a table that has this many named slots.
pub(super) fn table_length(named: usize) -> usize {
    named + usize::from(FIRST_NAMED)
}

/// Assigns slots to upstreams. A name keeps its slot for the life of the process, across plans.
#[derive(Debug)]
pub(super) struct Slots {
    slots_max: usize,
    table: Mutex<SlotTable>,
}

#[derive(Debug, Default)]
struct SlotTable {
    by_name: HashMap<Arc<str>, u16>,
    names: Vec<Arc<str>>,
    /// Names that asked for a slot when none was free.
    other: HashMap<Arc<str>, ()>,
}

impl Slots {
    pub(super) fn new(slots_max: usize) -> Slots {
        Slots { slots_max, table: Mutex::default() }
    }

    /// Returns the slot of an upstream that is used from now on.
    pub(super) fn get(&self, name: &str) -> Slot {
        match name {
            "" | "-" => return Slot::NONE,
            "other" => return Slot::OTHER,
            _ => {}
        }
        let mut table = self.lock();
        if let Some(&slot) = table.by_name.get(name) {
            return Slot(slot);
        }
        if table.names.len() == self.slots_max {
            // The number of names is for a metric; it is as exact as the bound allows.
            if table.other.len() < self.slots_max {
                table.other.insert(name.into(), ());
            }
            return Slot::OTHER;
        }
        let slot = FIRST_NAMED + table.names.len() as u16;
        let name: Arc<str> = name.into();
        table.names.push(name.clone());
        table.by_name.insert(name, slot);
        Slot(slot)
    }

    /// Returns the label of each of these upstreams: its name, or `other`. Upstreams that no worker has used yet
    /// have names while there is room.
    pub(super) fn labels<'a>(&self, all: impl Iterator<Item = &'a str>) -> Vec<Arc<str>> {
        let table = self.lock();
        let mut room = self.slots_max - table.names.len();
        let label = |name: &str| {
            if let Some((name, _)) = table.by_name.get_key_value(name) {
                return name.clone();
            }
            if room == 0 || table.other.contains_key(name) {
                return "other".into();
            }
            room -= 1;
            name.into()
        };
        all.map(label).collect()
    }

    /// Returns the names, in order of their slots.
    pub(super) fn names(&self) -> Vec<Arc<str>> {
        self.lock().names.clone()
    }

    /// Returns how many upstreams were used and have no slot of their own.
    pub(super) fn in_other(&self) -> u64 {
        self.lock().other.len() as u64
    }

    fn lock(&self) -> MutexGuard<'_, SlotTable> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_keeps_its_slot() {
        let slots = Slots::new(10);
        let (a, b) = (slots.get("a"), slots.get("b"));
        assert_ne!(a, b);
        assert_eq!((slots.get("a"), slots.get("b")), (a, b));
        assert_eq!(
            (slots.get(""), slots.get("-"), slots.get("other")),
            (Slot::NONE, Slot::NONE, Slot::OTHER)
        );
    }

    #[test]
    fn past_the_bound_all_share_one() {
        let slots = Slots::new(20);
        let all: Vec<Slot> = (0..30).map(|index| slots.get(&format!("upstream-{index}"))).collect();
        assert!(all[..20].iter().all(|slot| *slot != Slot::OTHER));
        assert!(all[20..].iter().all(|slot| *slot == Slot::OTHER));
        assert_eq!(slots.get("upstream-0"), all[0]);
        assert_eq!((slots.names().len(), slots.in_other()), (20, 10));
        assert_eq!(
            slots.labels(["upstream-0", "upstream-26"].into_iter()),
            ["upstream-0".into(), "other".into()]
        );
    }

    #[test]
    fn an_upstream_without_traffic_takes_no_slot() {
        let slots = Slots::new(2);
        let all = ["a", "b", "c"];
        let labels = || slots.labels(all.into_iter()).iter().map(ToString::to_string).collect::<Vec<_>>();
        assert_eq!(labels(), ["a", "b", "other"]);
        slots.get("c");
        assert_eq!(labels(), ["a", "other", "c"]);
        slots.get("b");
        assert_eq!(labels(), ["other", "b", "c"]);
    }
}
