//! Which endpoint takes a request.
//!
//! | File | What it answers |
//! |---|---|
//! | `levels.rs` | How much does each priority take, and of it the own zone? |
//! | `group.rs` | Who among those of one priority and zone? |
//! | `round_robin.rs` | Whose turn is it? |
//! | `weighted.rs` | Who, by lot? |
//! | `maglev.rs`, `hash.rs` | Who, by what the request is hashed by? |
//!
//! Nothing here knows connections or time: endpoints are indices, each with its [`Standing`]. When one of these
//! changes, a new [`Balance`] takes over from the old one where it stood.

mod group;
mod hash;
mod levels;
mod maglev;
mod round_robin;
mod weighted;

use std::cell::RefCell;

use fastrand::Rng;
use tollgate_plan::{Balance as Settings, Policy};

use group::Group;
use levels::{Level, Weight, spread};

pub use hash::hash;
pub(crate) use maglev::Tables;
pub use round_robin::RoundRobin;
pub use weighted::Weighted;

/// Where an endpoint stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Standing {
    /// Its identity, the same everywhere.
    pub key: u64,
    /// Share of the requests; 0 takes none.
    pub weight: u32,
    /// 0 is used first.
    pub priority: u8,
    /// Whether it is in the gateway's own zone.
    pub near: bool,
    /// Whether it is well.
    pub available: bool,
    /// How much of its share it takes, of 1,000: less than all in its slow start, and never 0.
    pub readiness: u64,
}

/// What a request wants, by the indices of endpoints.
pub(crate) struct Wish<'a> {
    /// What it is hashed by.
    pub hash: Option<u64>,
    /// Whether an endpoint has failed it; `None`: none has.
    pub avoid: Option<&'a dyn Fn(usize) -> bool>,
    /// How many requests an endpoint has.
    pub load: &'a dyn Fn(usize) -> u32,
}

/// How one is chosen among those that stand side by side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rule {
    RoundRobin,
    LeastOfTwo,
    LeastOfAll,
    Random,
    Hash,
}

impl From<&Policy> for Rule {
    fn from(policy: &Policy) -> Self {
        match policy {
            Policy::RoundRobin => Self::RoundRobin,
            Policy::LeastRequests => Self::LeastOfTwo,
            Policy::LeastRequestsOfAll => Self::LeastOfAll,
            Policy::Random => Self::Random,
            Policy::Hash(_) => Self::Hash,
        }
    }
}

/// The choice among the endpoints of an upstream, as they stand now.
#[derive(Debug)]
pub(crate) struct Balance {
    /// In the order of preference; none is empty.
    groups: Vec<Group>,
    /// The group that takes all requests, if one does.
    only: Option<usize>,
    /// Whose turn it is among the groups, for requests without a hash.
    turns: RoundRobin,
    /// The groups by their shares, for requests with a hash.
    spread: Weighted,
    /// By endpoint: whether it takes requests.
    takes: Vec<bool>,
}

/// How far each endpoint is ahead of its turn, and each group of them, by priority and whether it is the own zone.
#[derive(Clone, Debug, Default)]
pub(crate) struct Credit {
    pub endpoints: Vec<i64>,
    pub groups: Vec<((u8, bool), i64)>,
}

impl Balance {
    /// For endpoints as they stand. `credit` is what an earlier one left.
    pub fn new(settings: &Settings, endpoints: &[Standing], credit: &Credit, tables: &Tables) -> Self {
        let mut priorities: Vec<u8> = endpoints.iter().map(|endpoint| endpoint.priority).collect();
        priorities.sort_unstable();
        priorities.dedup();
        let levels: Vec<_> = priorities.iter().map(|priority| level(endpoints, *priority)).collect();
        let loads = spread(&levels, settings.panic_threshold, settings.zone_spill);
        let rule = Rule::from(&settings.policy);
        let (mut groups, mut shares, mut turns) = (Vec::new(), Vec::new(), Vec::new());
        for (priority, load) in priorities.iter().zip(&loads) {
            for (near, share) in [(true, load.near), (false, load.far)] {
                let place = (*priority, near);
                let group = Group::new(rule, endpoints, place, load.panic, &credit.endpoints, tables);
                if !group.members().is_empty() {
                    groups.push(group);
                    shares.push(share);
                    turns
                        .push(credit.groups.iter().find(|(of, _)| *of == place).map_or(0, |(_, turn)| *turn));
                }
            }
        }
        let mut takes = vec![false; endpoints.len()];
        groups.iter().flat_map(Group::members).for_each(|at| takes[*at] = true);
        let mut taking = (0..shares.len()).filter(|at| shares[*at] > 0);
        let only = taking.next().filter(|_| taking.next().is_none());
        let (spread, turns) = (Weighted::new(&shares), RoundRobin::resume(shares, turns));
        Self { groups, only, turns, spread, takes }
    }

    /// Begins where a worker's share of a round begins, so that not all workers begin with the same endpoint.
    pub fn begin_apart(&mut self, worker: usize, workers: usize) {
        self.turns.begin_apart(worker, workers);
        self.groups.iter_mut().for_each(|group| group.begin_apart(worker, workers));
    }

    /// How far each endpoint is ahead of its turn, for the one that takes over.
    pub fn credit(&self) -> Credit {
        let mut endpoints = vec![0; self.takes.len()];
        self.groups.iter().for_each(|group| group.save_credit(&mut endpoints));
        let groups = self.groups.iter().map(Group::place).zip(self.turns.credit()).collect();
        Credit { endpoints, groups }
    }

    /// Whether an endpoint takes requests.
    pub fn takes(&self, endpoint: usize) -> bool {
        self.takes[endpoint]
    }

    /// The endpoint whose turn it is, where turns are all that counts: one group, and round robin. `None` says nothing.
    #[inline]
    pub fn next_in_turn(&self) -> Option<usize> {
        self.only.and_then(|only| self.groups[only].next_in_turn())
    }

    /// The endpoint for a request; `None` if none takes any.
    pub fn pick(&self, wish: &Wish<'_>, rng: &RefCell<Rng>) -> Option<usize> {
        let group = match self.only {
            Some(only) => only,
            None => self.group(wish.hash)?,
        };
        self.groups[group].pick(wish, rng).or_else(|| self.another(group, wish, rng))
    }

    /// The group for a request.
    fn group(&self, hash: Option<u64>) -> Option<usize> {
        match hash {
            Some(hash) => self.spread.tied(hash),
            None => self.turns.pick(),
        }
    }

    /// An endpoint of whatever group that has not failed the request; if all have, one of this group.
    #[cold]
    fn another(&self, group: usize, wish: &Wish<'_>, rng: &RefCell<Rng>) -> Option<usize> {
        let other = self.groups.iter().find_map(|group| group.pick(wish, rng));
        other.or_else(|| self.groups[group].pick(&Wish { avoid: None, ..*wish }, rng))
    }
}

/// What the endpoints of a priority weigh.
fn level(endpoints: &[Standing], priority: u8) -> Level {
    let mut level = Level::default();
    for endpoint in endpoints.iter().filter(|endpoint| endpoint.priority == priority) {
        let weight: &mut Weight = if endpoint.near { &mut level.near } else { &mut level.far };
        weight.total += u64::from(endpoint.weight);
        weight.available += if endpoint.available { u64::from(endpoint.weight) } else { 0 };
    }
    level
}

#[cfg(test)]
mod tests;
