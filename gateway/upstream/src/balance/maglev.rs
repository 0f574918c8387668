//! Consistent hashing with the lookup table of Maglev.

use std::sync::{Arc, Mutex, PoisonError, Weak};

use super::hash::mix;

/// The largest number of members for each table size, which is prime. With a hundred places per member,
/// shares differ by at most 1 % ("Maglev: A Fast and Reliable Software Network Load Balancer", NSDI 2016,
/// section 3.4). The sizes are far apart because nearly every key moves when the size changes.
const TABLE_SIZES: [(usize, usize); 3] = [(40, 4_093), (655, 65_537), (usize::MAX, 655_373)];

/// How many random places are tried for a key before all places in order. Nearly always one of the first two
/// fits.
const RANDOM_TRIES: usize = 64;

/// The lookup table of Maglev hashing: places that the members take in turn, each in its own order. When a
/// member leaves or joins, nearly all places keep their member.
///
/// The table holds all members with a weight, healthy or not. If a key's member takes no requests, the key
/// uses another place and returns when the member does. So the health of one member moves no other member's
/// keys and needs no new table.
#[derive(Debug)]
pub(super) struct Maglev {
    /// The members by key, with their weights.
    members: Vec<(u64, u64)>,
    /// The index of the member that owns each place.
    places: Vec<u32>,
}

impl Maglev {
    /// Creates the table of these members, by key and weight; no weight is 0. The order of the members
    /// matters: they are sorted, so that every worker and every gateway computes the same table.
    fn new(members: Vec<(u64, u64)>) -> Self {
        debug_assert!(members.is_sorted());
        let size = TABLE_SIZES.iter().find(|(most, _)| members.len() <= *most).map_or(0, |(_, size)| *size);
        Self::with_size(members, size)
    }

    fn with_size(members: Vec<(u64, u64)>, size: usize) -> Self {
        const FREE: u32 = u32::MAX;
        let mut places = vec![FREE; size];
        // The permutation of each member: its next place, and the step from one place to the next.
        let modulus = size as u64;
        let start = |key: u64| ((key % modulus) as usize, (mix(key) % (modulus - 1) + 1) as usize);
        let mut orders: Vec<_> = members.iter().map(|(key, _)| start(*key)).collect();
        let heaviest = members.iter().map(|(_, weight)| *weight).max().unwrap_or(0);
        // In each round, the heaviest members take one place; a lighter member takes one only in some rounds,
        // by its weight.
        let mut saved = vec![0; members.len()];
        let mut left = if heaviest == 0 { 0 } else { size };
        while left > 0 {
            for (index, (at, step)) in orders.iter_mut().enumerate() {
                saved[index] += members[index].1;
                if saved[index] < heaviest {
                    continue;
                }
                saved[index] -= heaviest;
                while places[*at] != FREE {
                    *at = next(*at, *step, size);
                }
                places[*at] = index as u32;
                left -= 1;
                if left == 0 {
                    break;
                }
            }
        }
        Self { members, places }
    }

    /// Returns the members in the order of a hash's preference. A member may occur repeatedly, and each one
    /// occurs.
    pub(super) fn preferred(&self, hash: u64) -> impl Iterator<Item = usize> {
        // Neighbouring places are unsuitable as the second choice: which member owns the next place is not
        // evenly distributed, so one member would inherit most of another's keys.
        let tries = std::iter::successors(Some(hash), |hash| Some(mix(*hash))).take(RANDOM_TRIES);
        let tried = tries.map(|hash| self.places[self.place(hash)]);
        let (before, behind) = self.places.split_at(self.place(hash));
        let all = tried.chain(behind.iter().chain(before).copied()).map(|member| member as usize);
        all.take(if self.members.is_empty() { 0 } else { usize::MAX })
    }

    fn place(&self, hash: u64) -> usize {
        ((u128::from(hash) * self.places.len() as u128) >> 64) as usize
    }
}

fn next(at: usize, step: usize, size: usize) -> usize {
    let next = at + step;
    if next < size { next } else { next - size }
}

/// The tables in use, which the workers share: equal members have one table, not one for each worker.
#[derive(Debug, Default)]
pub(crate) struct MaglevTables(Mutex<Vec<Weak<Maglev>>>);

impl MaglevTables {
    /// The number of tables in the list.
    #[cfg(test)]
    pub(crate) fn count(&self) -> usize {
        self.0.lock().expect("no panic").len()
    }

    /// Returns the table of these members, which must be sorted.
    pub(super) fn get(&self, members: Vec<(u64, u64)>) -> Arc<Maglev> {
        // The lock is held during the computation. Another worker that wants the same table would only
        // compute it again.
        let mut tables = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        tables.retain(|table| table.strong_count() > 0);
        let known = tables.iter().filter_map(Weak::upgrade).find(|table| table.members == members);
        known.unwrap_or_else(|| {
            let table = Arc::new(Maglev::new(members));
            tables.push(Arc::downgrade(&table));
            table
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::balance::hash::hash;

    fn members(count: usize) -> Vec<(u64, u64)> {
        let mut members: Vec<_> =
            (0..count).map(|n| (hash(format!("10.0.0.{n}:80").as_bytes()), 1)).collect();
        members.sort_unstable();
        members
    }

    fn places(table: &Maglev) -> Vec<usize> {
        let mut places = vec![0; table.members.len()];
        table.places.iter().for_each(|member| places[*member as usize] += 1);
        places
    }

    /// Returns the share of the places that changed from one remaining member to another, and the share that
    /// had to move.
    fn moved(before: &Maglev, after: &Maglev) -> (f64, f64) {
        let key = |table: &Maglev, place: usize| table.members[table.places[place] as usize].0;
        let stays = |key| after.members.iter().any(|(other, _)| *other == key);
        let size = before.places.len();
        let changed = (0..size).filter(|place| key(before, *place) != key(after, *place));
        let (unneeded, needed): (Vec<_>, Vec<_>) = changed.partition(|place| stays(key(before, *place)));
        (unneeded.len() as f64 / size as f64, needed.len() as f64 / size as f64)
    }

    #[test]
    fn shares_are_even() {
        for count in [1, 2, 3, 7, 40, 41, 655] {
            let table = Maglev::new(members(count));
            let places = places(&table);
            let (least, most) = (places.iter().min().copied(), places.iter().max().copied());
            // The members take turns, so none has more than one place more than another.
            assert!(most.zip(least).is_some_and(|(most, least)| most - least <= 1), "{count}");
            assert!(table.places.len() >= 100 * count, "at most 1 % apart");
        }
    }

    #[test]
    fn shares_go_by_weight() {
        let mut members = members(3);
        (members[0].1, members[1].1, members[2].1) = (1, 2, 7);
        let places = places(&Maglev::with_size(members, 65_537));
        for (place, share) in places.iter().zip([0.1, 0.2, 0.7]) {
            assert!((*place as f64 - 65_537.0 * share).abs() < 3.0, "{places:?}");
        }
    }

    #[test]
    fn few_keys_move_when_a_member_leaves() {
        // The paper's setting: a table of 65,537 places, and some of 1,000 members leave at once (section
        // 5.3, figure 12). The share of those members must move; what else moves is the price of even shares.
        for (count, leave, bound) in [(10, 1, 0.01), (100, 1, 0.01), (1_000, 1, 0.01), (1_000, 50, 0.05)] {
            let before = Maglev::with_size(members(count), 65_537);
            let mut rest = members(count);
            rest.drain(..leave);
            let (unneeded, needed) = moved(&before, &Maglev::with_size(rest, 65_537));
            let share = leave as f64 / count as f64;
            assert!((needed - share).abs() < 0.002, "{count}: {needed}");
            assert!(unneeded < bound, "{count}, {leave} leave: {unneeded} moved without need");
        }
    }

    #[test]
    fn a_larger_table_moves_less() {
        let moved = |size| {
            let mut rest = members(1_000);
            rest.remove(500);
            moved(&Maglev::with_size(members(1_000), size), &Maglev::with_size(rest, size)).0
        };
        let (small, large) = (moved(65_537), moved(655_373));
        assert!(large < small, "{large} of 655,373 against {small} of 65,537");
    }

    #[test]
    fn workers_share_a_table() {
        let tables = MaglevTables::default();
        let table = tables.get(members(3));
        assert!(Arc::ptr_eq(&table, &tables.get(members(3))));
        assert!(!Arc::ptr_eq(&table, &tables.get(members(4))));
        drop(table);
        drop(tables.get(members(5)));
        assert_eq!(tables.count(), 1, "those not in use are forgotten");
    }

    #[test]
    fn an_empty_table_picks_nothing() {
        assert_eq!(Maglev::new(Vec::new()).preferred(7).count(), 0);
    }

    proptest! {
        #[test]
        fn every_place_is_taken_and_every_member_has_some(
            keys in prop::collection::btree_set(any::<u64>(), 1..40),
            weights in prop::collection::vec(1_u64..100, 40),
            key in any::<u64>(),
        ) {
            let members: Vec<_> = keys.into_iter().zip(weights).collect();
            let table = Maglev::new(members.clone());
            prop_assert!(places(&table).iter().all(|places| *places > 0));
            let sum: u64 = members.iter().map(|(_, weight)| weight).sum();
            for (places, (_, weight)) in places(&table).iter().zip(&members) {
                let share = *weight as f64 / sum as f64;
                prop_assert!((*places as f64 / 4_093.0 - share).abs() < 0.001);
            }
            let mut seen = vec![false; members.len()];
            table.preferred(key).for_each(|member| seen[member] = true);
            prop_assert!(seen.iter().all(|seen| *seen));
        }
    }
}
