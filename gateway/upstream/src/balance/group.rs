//! The choice among endpoints that stand side by side: of one priority, and in the own zone or not.

use std::cell::RefCell;
use std::sync::Arc;

use fastrand::Rng;

use super::hash::mix;
use super::maglev::{Maglev, Tables};
use super::round_robin::RoundRobin;
use super::weighted::Weighted;
use super::{Rule, Standing, Wish};

/// A member's full share, in the unit of [`Standing::readiness`].
pub(super) const FULL: u64 = 1_000;

/// Endpoints that stand side by side. Members are indices of the upstream's endpoints.
#[derive(Debug)]
pub(super) struct Group {
    /// Their priority, and whether they are in the own zone.
    place: (u8, bool),
    /// Those that take requests now.
    members: Vec<usize>,
    turns: RoundRobin,
    choice: Choice,
}

#[derive(Debug)]
enum Choice {
    Turns,
    Random(Weighted),
    LeastOfTwo(Weighted),
    LeastOfAll,
    Hash(Ring),
}

/// What hashing looks at: all members with a weight, well or not.
#[derive(Debug)]
struct Ring {
    table: Arc<Maglev>,
    /// By the table's order.
    members: Vec<RingMember>,
}

#[derive(Debug)]
struct RingMember {
    index: usize,
    key: u64,
    /// How much of its share it takes, of [`FULL`].
    takes: u64,
}

impl Group {
    /// Of the endpoints that have this place: those that are well, or in a panic all. `credit` is how far each endpoint
    /// is ahead of its turn.
    pub(super) fn new(
        rule: Rule,
        endpoints: &[Standing],
        place: (u8, bool),
        panic: bool,
        credit: &[i64],
        tables: &Tables,
    ) -> Self {
        let belongs = |at: &usize| {
            let endpoint = &endpoints[*at];
            endpoint.weight > 0 && (endpoint.priority, endpoint.near) == place
        };
        let all: Vec<usize> = (0..endpoints.len()).filter(belongs).collect();
        let takes = |at: usize| if panic || endpoints[at].available { endpoints[at].readiness } else { 0 };
        let members: Vec<usize> = all.iter().copied().filter(|at| takes(*at) > 0).collect();
        let weights: Vec<u64> =
            members.iter().map(|at| u64::from(endpoints[*at].weight) * takes(*at)).collect();
        let choice = match rule {
            Rule::RoundRobin => Choice::Turns,
            Rule::Random => Choice::Random(Weighted::new(&weights)),
            Rule::LeastOfTwo => Choice::LeastOfTwo(Weighted::new(&weights)),
            Rule::LeastOfAll => Choice::LeastOfAll,
            Rule::Hash => Choice::Hash(Ring::new(endpoints, all, takes, tables)),
        };
        let credit = members.iter().map(|at| credit.get(*at).copied().unwrap_or(0)).collect();
        Self { place, turns: RoundRobin::resume(weights, credit), members, choice }
    }

    /// Begins where a worker's share of a round begins.
    pub(super) fn begin_apart(&mut self, worker: usize, workers: usize) {
        self.turns.begin_apart(worker, workers);
    }

    pub(super) fn place(&self) -> (u8, bool) {
        self.place
    }

    /// Those that take requests now.
    pub(super) fn members(&self) -> &[usize] {
        &self.members
    }

    /// Writes down how far each member is ahead of its turn.
    pub(super) fn save_credit(&self, credit: &mut [i64]) {
        for (at, member) in self.members.iter().zip(self.turns.credit()) {
            credit[*at] = member;
        }
    }

    /// The next endpoint in turn, where nothing else is asked for.
    #[inline]
    pub(super) fn next_in_turn(&self) -> Option<usize> {
        match self.choice {
            Choice::Turns => self.turns.pick().map(|at| self.members[at]),
            _ => None,
        }
    }

    /// The next endpoint; `None` if none takes requests, or the request avoids them all.
    pub(super) fn pick(&self, wish: &Wish<'_>, rng: &RefCell<Rng>) -> Option<usize> {
        let fits = |at: usize| wish.avoid.is_none_or(|avoid| !avoid(self.members[at]));
        // How busy a member is; compared crosswise, since it is relative to its weight.
        let busier = |one: usize, other: usize| {
            let busy = |at: usize| u128::from((wish.load)(self.members[at]));
            let weight = |at: usize| u128::from(self.turns.weights()[at]);
            busy(one) * weight(other) > busy(other) * weight(one)
        };
        let chosen = match &self.choice {
            Choice::Turns => None,
            Choice::Random(weighted) => weighted.any(&mut rng.borrow_mut()).filter(|at| fits(*at)),
            // Drawn by weight, so that with nothing to do each gets its share and not only the heaviest.
            Choice::LeastOfTwo(weighted) => {
                let drawn = weighted.two(&mut rng.borrow_mut()).map(|(first, second)| {
                    match second.filter(|at| fits(*at)) {
                        Some(second) if !fits(first) || busier(first, second) => second,
                        _ => first,
                    }
                });
                drawn.filter(|at| fits(*at))
            }
            Choice::LeastOfAll => {
                let least = (0..self.members.len()).filter(|at| fits(*at)).reduce(|least, at| {
                    match busier(least, at) {
                        true => at,
                        false => least,
                    }
                });
                // Those that are equally busy take turns.
                least.and_then(|least| self.turns.pick_of(|at| fits(at) && !busier(at, least)))
            }
            Choice::Hash(ring) => {
                let avoids = |index| wish.avoid.is_some_and(|avoid| avoid(index));
                if let Some(index) = wish.hash.and_then(|hash| ring.pick(hash, avoids)) {
                    return Some(index);
                }
                None
            }
        };
        chosen.or_else(|| self.turns.pick_of(fits)).map(|at| self.members[at])
    }
}

impl Ring {
    fn new(
        endpoints: &[Standing],
        mut all: Vec<usize>,
        takes: impl Fn(usize) -> u64,
        tables: &Tables,
    ) -> Self {
        all.sort_by_key(|at| (endpoints[*at].key, endpoints[*at].weight));
        let table = all.iter().map(|at| (endpoints[*at].key, u64::from(endpoints[*at].weight))).collect();
        // Of several that all begin slowly, none is to be passed over for ever.
        let most = all.iter().map(|at| takes(*at)).max().unwrap_or(0).max(1);
        let member = |index: &usize| RingMember {
            index: *index,
            key: endpoints[*index].key,
            takes: takes(*index) * FULL / most,
        };
        Self { table: tables.get(table), members: all.iter().map(member).collect() }
    }

    /// The first member in the order of the hash's preference that takes it.
    fn pick(&self, hash: u64, avoids: impl Fn(usize) -> bool) -> Option<usize> {
        let fits = |member: &RingMember| {
            // Slow start: it takes some of its keys, and as it gets ready those and more of them.
            let begun = member.takes == FULL || mix(hash ^ member.key) % FULL < member.takes;
            begun && member.takes > 0 && !avoids(member.index)
        };
        // A look at all the places would be a long one.
        if !self.members.iter().any(fits) {
            return None;
        }
        self.table
            .preferred(hash)
            .map(|at| &self.members[at])
            .find(|member| fits(member))
            .map(|member| member.index)
    }
}
