//! The choice among endpoints of one priority and zone.

use std::cell::RefCell;
use std::sync::Arc;

use fastrand::Rng;

use super::hash::mix;
use super::maglev::{Maglev, MaglevTables};
use super::round_robin::RoundRobin;
use super::weighted::Weighted;
use super::{EndpointInput, PickRequest, Rule};

/// A member's full share, in the unit of [`EndpointInput::readiness`].
pub(super) const FULL_SHARE: u64 = 1_000;

/// Endpoints of one priority that are all in the gateway's own zone, or all outside it. Members are indices
/// of the upstream's endpoints.
#[derive(Debug)]
pub(super) struct Group {
    /// Their priority, and whether they are in the gateway's own zone.
    priority_and_zone: (u8, bool),
    /// The endpoints that take requests now.
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
    Hash(HashMembers),
}

/// The members for hashing: every one with a weight, healthy or not.
#[derive(Debug)]
struct HashMembers {
    table: Arc<Maglev>,
    /// In the table's order.
    members: Vec<HashMember>,
}

#[derive(Debug)]
struct HashMember {
    index: usize,
    key: u64,
    /// The part of its share that it takes, of [`FULL_SHARE`].
    takes: u64,
}

impl Group {
    /// Creates the group of the endpoints that have this place. Its members are the healthy endpoints, or all
    /// in a panic. `credit` is each endpoint's credit in the round robin.
    pub(super) fn new(
        rule: Rule,
        endpoints: &[EndpointInput],
        place: (u8, bool),
        panic: bool,
        credit: &[i64],
        tables: &MaglevTables,
    ) -> Self {
        let belongs = |at: &usize| {
            let endpoint = &endpoints[*at];
            endpoint.weight > 0 && (endpoint.priority, endpoint.own_zone) == place
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
            Rule::Hash => Choice::Hash(HashMembers::new(endpoints, all, takes, tables)),
        };
        let credit = members.iter().map(|at| credit.get(*at).copied().unwrap_or(0)).collect();
        Self { priority_and_zone: place, turns: RoundRobin::resume(weights, credit), members, choice }
    }

    /// Advances the round robin to this worker's starting point.
    pub(super) fn offset_start(&mut self, worker: usize, workers: usize) {
        self.turns.offset_start(worker, workers);
    }

    pub(super) fn priority_and_zone(&self) -> (u8, bool) {
        self.priority_and_zone
    }

    /// Returns the endpoints that take requests now.
    pub(super) fn members(&self) -> &[usize] {
        &self.members
    }

    /// Writes the round-robin credit of each member to its index in `credit`.
    pub(super) fn save_credit(&self, credit: &mut [i64]) {
        for (at, member) in self.members.iter().zip(self.turns.credit()) {
            credit[*at] = member;
        }
    }

    /// Returns the next endpoint in turn, if the policy is round robin.
    #[inline]
    pub(super) fn next_in_turn(&self) -> Option<usize> {
        match self.choice {
            Choice::Turns => self.turns.pick().map(|at| self.members[at]),
            _ => None,
        }
    }

    /// Returns the endpoint for a request. `None` if no member takes requests, or if the request avoids all
    /// of them.
    pub(super) fn pick(&self, request: &PickRequest<'_>, rng: &RefCell<Rng>) -> Option<usize> {
        let fits = |at: usize| request.avoid.is_none_or(|avoid| !avoid(self.members[at]));
        // Load is relative to weight; the products avoid a division.
        let busier = |one: usize, other: usize| {
            let busy = |at: usize| u128::from((request.load)(self.members[at]));
            let weight = |at: usize| u128::from(self.turns.weights()[at]);
            busy(one) * weight(other) > busy(other) * weight(one)
        };
        let chosen = match &self.choice {
            Choice::Turns => None,
            Choice::Random(weighted) => weighted.random(&mut rng.borrow_mut()).filter(|at| fits(*at)),
            // A random pair by weight, so that idle members get their shares, and not only the heaviest.
            Choice::LeastOfTwo(weighted) => {
                let drawn = weighted.random_pair(&mut rng.borrow_mut()).map(|(first, second)| {
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
                // Members that are equally loaded take turns.
                least.and_then(|least| self.turns.pick_of(|at| fits(at) && !busier(at, least)))
            }
            Choice::Hash(members_by_hash) => {
                let avoids = |index| request.avoid.is_some_and(|avoid| avoid(index));
                if let Some(index) = request.hash.and_then(|hash| members_by_hash.pick(hash, avoids)) {
                    return Some(index);
                }
                None
            }
        };
        chosen.or_else(|| self.turns.pick_of(fits)).map(|at| self.members[at])
    }
}

impl HashMembers {
    fn new(
        endpoints: &[EndpointInput],
        mut all: Vec<usize>,
        takes: impl Fn(usize) -> u64,
        tables: &MaglevTables,
    ) -> Self {
        all.sort_by_key(|at| (endpoints[*at].key, endpoints[*at].weight));
        let table = all.iter().map(|at| (endpoints[*at].key, u64::from(endpoints[*at].weight))).collect();
        // If all members are in slow start, no key must be rejected by all of them for good.
        let most = all.iter().map(|at| takes(*at)).max().unwrap_or(0).max(1);
        let member = |index: &usize| HashMember {
            index: *index,
            key: endpoints[*index].key,
            takes: takes(*index) * FULL_SHARE / most,
        };
        Self { table: tables.get(table), members: all.iter().map(member).collect() }
    }

    /// Returns the first member, in the order of the hash's preference, that takes the hash.
    fn pick(&self, hash: u64, avoids: impl Fn(usize) -> bool) -> Option<usize> {
        let fits = |member: &HashMember| {
            // In slow start a member takes some of its keys. As readiness grows, it keeps those and takes
            // more.
            let started = member.takes == FULL_SHARE || mix(hash ^ member.key) % FULL_SHARE < member.takes;
            started && member.takes > 0 && !avoids(member.index)
        };
        // Without this check, the search would visit every place of the table.
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
