//! Load balancing: selects the endpoint of a request.
//!
//! | File | Decision |
//! |---|---|
//! | `levels.rs` | The share of each priority, and the share of the gateway's own zone within it |
//! | `group.rs` | The endpoint within one priority and zone |
//! | `round_robin.rs` | Smooth weighted round robin |
//! | `weighted.rs` | Weighted random choice |
//! | `maglev.rs`, `hash.rs` | Choice by the hash of a request |
//!
//! This module knows neither connections nor time: an endpoint is an index with an [`EndpointInput`]. When an input
//! changes, a new [`Balancer`] replaces the old one and continues its rotation.

mod group;
mod hash;
mod levels;
mod maglev;
mod round_robin;
mod weighted;

use std::cell::RefCell;

use fastrand::Rng;
use tollgate_plan::{Balance as BalanceSettings, Policy};

use group::Group;
use levels::{Level, Weight, spread};

pub use hash::hash;
pub(crate) use maglev::MaglevTables;
pub use round_robin::RoundRobin;
pub use weighted::Weighted;

/// The state of an endpoint that balancing depends on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct EndpointInput {
    /// The hash of its address, the same on every worker and gateway.
    pub key: u64,
    /// Weight of the endpoint; with 0 it takes no requests.
    pub weight: u32,
    /// Priority; 0 is used first.
    pub priority: u8,
    /// Whether the endpoint is in the gateway's own zone.
    pub own_zone: bool,
    /// Whether the endpoint is healthy and not ejected.
    pub available: bool,
    /// The part of its share that it takes, of 1,000. Below 1,000 during slow start, and never 0.
    pub readiness: u64,
}

/// The needs of a request. Endpoints are indices.
pub(crate) struct PickRequest<'a> {
    /// The hash of the value that the request is balanced by.
    pub hash: Option<u64>,
    /// Whether an endpoint has already failed the request; `None` if none has.
    pub avoid: Option<&'a dyn Fn(usize) -> bool>,
    /// How many requests an endpoint has.
    pub load: &'a dyn Fn(usize) -> u32,
}

/// The rule by which a group chooses its endpoint.
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

/// The choice among the endpoints of an upstream in their current state.
#[derive(Debug)]
pub(crate) struct Balancer {
    /// Ordered by preference; none is empty.
    groups: Vec<Group>,
    /// The index of the group that takes all requests, if there is one.
    only: Option<usize>,
    /// Round robin over the groups, for requests without a hash.
    turns: RoundRobin,
    /// The groups by share, for requests with a hash.
    spread: Weighted,
    /// Whether each endpoint takes requests.
    takes: Vec<bool>,
}

/// The round-robin credit of each endpoint and of each group. A group is identified by its priority and by
/// whether it is in the gateway's own zone.
#[derive(Clone, Debug, Default)]
pub(crate) struct Credit {
    pub endpoints: Vec<i64>,
    pub groups: Vec<((u8, bool), i64)>,
}

impl Balancer {
    /// Creates the balance of these endpoints. `credit` comes from the balance that this one replaces.
    pub fn new(
        settings: &BalanceSettings,
        endpoints: &[EndpointInput],
        credit: &Credit,
        tables: &MaglevTables,
    ) -> Self {
        let mut priorities: Vec<u8> = endpoints.iter().map(|endpoint| endpoint.priority).collect();
        priorities.sort_unstable();
        priorities.dedup();
        let levels: Vec<_> = priorities.iter().map(|priority| level(endpoints, *priority)).collect();
        let loads = spread(&levels, settings.panic_threshold, settings.zone_spill);
        let rule = Rule::from(&settings.policy);
        let (mut groups, mut shares, mut turns) = (Vec::new(), Vec::new(), Vec::new());
        for (priority, load) in priorities.iter().zip(&loads) {
            for (own_zone, share) in [(true, load.own_zone), (false, load.other_zones)] {
                let place = (*priority, own_zone);
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

    /// Advances to this worker's starting point of a round, so that not all workers start with the same
    /// endpoint.
    pub fn offset_start(&mut self, worker: usize, workers: usize) {
        self.turns.offset_start(worker, workers);
        self.groups.iter_mut().for_each(|group| group.offset_start(worker, workers));
    }

    /// Returns the round-robin credit, for the balance that replaces this one.
    pub fn credit(&self) -> Credit {
        let mut endpoints = vec![0; self.takes.len()];
        self.groups.iter().for_each(|group| group.save_credit(&mut endpoints));
        let groups = self.groups.iter().map(Group::priority_and_zone).zip(self.turns.credit()).collect();
        Credit { endpoints, groups }
    }

    /// Whether an endpoint takes requests.
    pub fn takes(&self, endpoint: usize) -> bool {
        self.takes[endpoint]
    }

    /// Returns the next endpoint in turn if nothing but turns matters: one group, and round robin. `None`
    /// means that [`pick`](Self::pick) must decide.
    #[inline]
    pub fn next_in_turn(&self) -> Option<usize> {
        self.only.and_then(|only| self.groups[only].next_in_turn())
    }

    /// Returns the endpoint for a request; `None` if no endpoint takes requests.
    pub fn pick(&self, request: &PickRequest<'_>, rng: &RefCell<Rng>) -> Option<usize> {
        let group = match self.only {
            Some(only) => only,
            None => self.group(request.hash)?,
        };
        self.groups[group].pick(request, rng).or_else(|| self.pick_other_group(group, request, rng))
    }

    /// Returns the group for a request.
    fn group(&self, hash: Option<u64>) -> Option<usize> {
        match hash {
            Some(hash) => self.spread.by_hash(hash),
            None => self.turns.pick(),
        }
    }

    /// Returns an endpoint of any group that has not failed the request. If all have failed it, returns one
    /// of this group.
    #[cold]
    fn pick_other_group(&self, group: usize, request: &PickRequest<'_>, rng: &RefCell<Rng>) -> Option<usize> {
        let other = self.groups.iter().find_map(|group| group.pick(request, rng));
        other.or_else(|| self.groups[group].pick(&PickRequest { avoid: None, ..*request }, rng))
    }
}

/// Adds up the weights of the endpoints of a priority.
fn level(endpoints: &[EndpointInput], priority: u8) -> Level {
    let mut level = Level::default();
    for endpoint in endpoints.iter().filter(|endpoint| endpoint.priority == priority) {
        let weight: &mut Weight =
            if endpoint.own_zone { &mut level.own_zone } else { &mut level.other_zones };
        weight.total += u64::from(endpoint.weight);
        weight.available += if endpoint.available { u64::from(endpoint.weight) } else { 0 };
    }
    level
}

#[cfg(test)]
mod tests;
