//! Label slots: a small number for each name, so that a worker counts without comparing strings.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

/// Number of names with a slot of their own. It bounds the series of one scrape, and each worker's memory.
pub(super) const NAMED_SLOTS_MAX: usize = 256;

/// Number of slots in a table: none, other and the named ones.
pub(super) const SLOTS: usize = NAMED_SLOTS_MAX + 2;

/// The index under which the counts of one route or one upstream are kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Slot(u16);

impl Slot {
    /// No route matched, or no upstream was used; the label is `-`.
    pub const NONE: Slot = Slot(0);

    /// Shared by all names past the first 256; the label is `other`.
    pub const OTHER: Slot = Slot(1);

    #[inline]
    pub(super) fn index(self) -> usize {
        usize::from(self.0)
    }
}

/// Assigns slots to names. A name keeps its slot for the life of the process, across plans.
#[derive(Debug)]
pub(super) struct Slots(Mutex<SlotTable>);

#[derive(Debug)]
struct SlotTable {
    by_name: HashMap<Arc<str>, u16>,
    names: Vec<Arc<str>>,
}

impl Slots {
    pub(super) fn new() -> Slots {
        let names: Vec<Arc<str>> = vec!["-".into(), "other".into()];
        let by_name = [(names[0].clone(), 0), (names[1].clone(), 1)].into();
        Slots(Mutex::new(SlotTable { by_name, names }))
    }

    pub(super) fn get(&self, name: &str) -> Slot {
        if name.is_empty() {
            return Slot::NONE;
        }
        let mut table = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(&slot) = table.by_name.get(name) {
            return Slot(slot);
        }
        if table.names.len() == SLOTS {
            return Slot::OTHER;
        }
        let slot = table.names.len() as u16;
        let name: Arc<str> = name.into();
        table.names.push(name.clone());
        table.by_name.insert(name, slot);
        Slot(slot)
    }

    /// Returns the label of a name: the name itself, or `other` if it has no slot of its own.
    pub(super) fn label(&self, name: &str) -> Arc<str> {
        let slot = self.get(name);
        self.0.lock().unwrap_or_else(PoisonError::into_inner).names[slot.index()].clone()
    }

    /// Returns the names, in order of their slots.
    pub(super) fn names(&self) -> Vec<Arc<str>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).names.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_keeps_its_slot() {
        let slots = Slots::new();
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
        let slots = Slots::new();
        let all: Vec<Slot> =
            (0..NAMED_SLOTS_MAX + 10).map(|index| slots.get(&format!("route-{index}"))).collect();
        assert!(all[..NAMED_SLOTS_MAX].iter().all(|slot| *slot != Slot::OTHER));
        assert!(all[NAMED_SLOTS_MAX..].iter().all(|slot| *slot == Slot::OTHER));
        assert_eq!(slots.get("route-0"), all[0]);
        assert_eq!((&*slots.label("route-0"), &*slots.label("route-260")), ("route-0", "other"));
        assert_eq!(slots.names().len(), SLOTS);
    }
}
