//! A worker's upstreams, kept across changes of plan.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, HashMap};
use std::rc::{Rc, Weak};
use std::sync::Arc;

use fastrand::Rng;
use tollgate_net::Timers;
use tollgate_observe::{Registry, Slot, WorkerStats};
use tollgate_plan::{Balance, Rules, Upstream as Planned, UpstreamChange};

use crate::adaptive::WorkerAdaptive;
use crate::breaker::WorkerBreaker;
use crate::budget::RequestCounter;
use crate::members::Members;
use crate::message::{Message, MessageKind};
use crate::outlier::Detector;
use crate::pool_set::PoolSet;
use crate::sticky::cookie_name;
use crate::{Outcome, Pool, StickyValue, UpstreamState, UpstreamStates};

/// One upstream on one worker.
#[derive(Debug)]
pub struct Upstream {
    /// The name of the upstream in the configuration.
    pub name: String,
    /// Its slot in the metrics.
    pub slot: Slot,
    planned: Arc<Planned>,
    set: Rc<PoolSet>,
    /// The name of its sticky cookie.
    cookie: Option<String>,
    members: Members,
    shared: Arc<UpstreamState>,
    detector: Detector,
    /// Counts this worker's requests for the upstream, of which retries are a share.
    pub(crate) requests: RequestCounter,
    pub(crate) breaker: Option<Rc<WorkerBreaker>>,
    pub(crate) adaptive: Option<Rc<WorkerAdaptive>>,
    pub(crate) stats: Arc<WorkerStats>,
    /// For the delays between attempts.
    pub(crate) rng: RefCell<Rng>,
}

impl Upstream {
    /// Returns the pool of an endpoint for a request; `None` if no endpoint takes requests.
    #[inline]
    pub fn pick(&self, hints: &PickHints<'_>) -> Option<Rc<Pool>> {
        self.members.pick(&self.planned, hints)
    }

    /// The rules by which an endpoint is chosen.
    #[must_use]
    pub fn balance(&self) -> &Balance {
        &self.planned.rules.balance
    }

    /// The rules for failures: retries, limits, outlier detection and others.
    #[must_use]
    pub fn rules(&self) -> &Rules {
        &self.planned.rules
    }

    /// The name of its sticky cookie, if the upstream is sticky.
    #[must_use]
    pub fn cookie(&self) -> Option<&str> {
        self.cookie.as_deref()
    }

    /// Whether a sticky cookie names an endpoint that takes requests.
    #[must_use]
    pub fn accepts_cookie(&self, cookie: &[u8]) -> bool {
        self.members.accepts_cookie(&self.planned, cookie)
    }

    /// Returns the value of the sticky cookie for an endpoint, if the upstream is sticky.
    #[must_use]
    pub fn sticky_value(&self, pool: &Pool) -> Option<StickyValue> {
        self.members.sticky_value(pool)
    }

    /// Whether its endpoints speak HTTP/2.
    #[inline]
    #[must_use]
    pub fn is_http2(&self) -> bool {
        self.planned.http2.is_some()
    }

    /// State of the upstream that all workers share.
    #[must_use]
    pub fn state(&self) -> &Arc<UpstreamState> {
        &self.shared
    }

    /// Reports the outcome of an attempt at one of its endpoints, for outlier detection.
    ///
    /// A success costs a few instructions. While all endpoints are well, it writes nothing that another
    /// worker reads or writes.
    #[inline]
    pub fn report(&self, pool: &Pool, outcome: Outcome) {
        if let Some(cause) = self.detector.record(outcome, pool.traffic(), pool.state()) {
            self.shared.eject(pool.state(), cause);
        }
    }
}

/// The properties of a request that decide which endpoint it gets.
#[derive(Clone, Copy, Debug, Default)]
pub struct PickHints<'a> {
    /// The hash of the value that the upstream balances by. `None` if the upstream does not balance by hash,
    /// or if the request has no such value.
    pub hash: Option<u64>,
    /// The value of its sticky cookie.
    pub sticky: Option<&'a [u8]>,
    /// Endpoints that have failed it; others are preferred.
    pub avoid: &'a [Rc<Pool>],
}

/// A worker's upstreams, kept across changes of plan. An upstream that did not change keeps its connections
/// and its turn.
///
/// An upstream is created when the first request needs it. So a new plan costs a worker what the plan
/// changes, not what it contains.
#[derive(Debug)]
pub struct Upstreams {
    /// The number of this worker and the number of all workers, so that not all start with the same endpoint.
    worker: usize,
    workers: usize,
    timers: Timers,
    stats: Arc<WorkerStats>,
    registry: Arc<Registry>,
    shared: Arc<UpstreamStates>,
    rng: Rng,
    /// The number of the plan that the table belongs to.
    generation: u64,
    /// Idle connections by slot; upstreams past the metrics' bound share one.
    idle: HashMap<Slot, Rc<Cell<usize>>>,
    /// A map with an order, like every table that is iterated: a replayed simulation must not depend on a
    /// hash's seed.
    upstreams: BTreeMap<String, Rc<Upstream>>,
    /// Upstreams of former plans that requests still use.
    former: Vec<Weak<PoolSet>>,
}

impl Upstreams {
    /// Creates an empty table for worker number `worker`, counted from 0, of `workers`.
    #[must_use]
    pub fn new(
        (worker, workers): (usize, usize),
        timers: Timers,
        stats: Arc<WorkerStats>,
        registry: Arc<Registry>,
        shared: Arc<UpstreamStates>,
    ) -> Self {
        // Without a random seed the worker's number is used: security does not depend on it.
        let seed = tollgate_net::random_key().map_or(worker as u128, u128::from_le_bytes);
        Self {
            rng: Rng::with_seed(seed as u64),
            worker,
            workers,
            timers,
            stats,
            registry,
            shared,
            generation: 0,
            idle: HashMap::new(),
            upstreams: BTreeMap::new(),
            former: Vec::new(),
        }
    }

    /// Adopts a new plan, whose number is greater. Upstreams that the plan does not name are removed, and
    /// their idle connections closed. Exchanges in flight finish with the upstream that they began with.
    pub fn apply_plan(&mut self, generation: u64, change: &UpstreamChange) {
        self.generation = generation;
        self.former.retain(|set| set.strong_count() > 0);
        for gone in &change.removed {
            if let Some(gone) = self.upstreams.remove(&gone.name) {
                gone.members.retire();
                self.former.push(Rc::downgrade(&gone.set));
            }
        }
        for planned in &change.changed {
            // An upstream that no request has used yet is created at its first request.
            if let Some((name, old)) = self.upstreams.remove_entry(&planned.name) {
                let upstream = self.build(planned, Some(&old));
                self.upstreams.insert(name, Rc::new(upstream));
            }
        }
        // Warm connections must not wait for the first request.
        for planned in change.changed.iter().chain(&change.added).filter(|planned| planned.pool.warm > 0) {
            self.get(planned, generation);
        }
    }

    /// Processes a message from another worker about the connections of an upstream.
    pub fn receive(&self, message: Message) {
        let upstream = message.upstream();
        let current = self.upstreams.get(&upstream.name).map(|known| known.set.clone());
        let set = current.filter(|set| Arc::ptr_eq(&set.shared, upstream)).or_else(|| self.former(upstream));
        match (set, message.0) {
            (Some(set), kind) => set.receive(kind),
            // This worker has nothing left of the upstream: neither connections nor waiting requests.
            (None, MessageKind::ConnectionRequest(ask)) => ask.forward(),
            // The sender has ceased to count the connection.
            (None, MessageKind::HandOver(handed)) => {
                self.stats.upstream_closed(self.registry.upstream_slot(&handed.permit.upstream().name));
            }
            (None, MessageKind::PermitFreed(_) | MessageKind::PermitTransfer(_)) => {}
        }
    }

    fn former(&self, upstream: &Arc<UpstreamState>) -> Option<Rc<PoolSet>> {
        self.former.iter().filter_map(Weak::upgrade).find(|set| Arc::ptr_eq(&set.shared, upstream))
    }

    /// Returns the pools of an upstream: from the previous upstream with its name, or from a former plan if
    /// requests still use them.
    fn set(&mut self, planned: &Planned, old: Option<&Upstream>) -> Rc<PoolSet> {
        let shared = self.shared.upstream(&planned.name);
        if let Some(known) = old.map(|old| old.set.clone()).or_else(|| self.former(&shared)) {
            known.apply_plan(planned);
            return known;
        }
        let slot = self.registry.upstream_slot(&planned.name);
        let idle = self.idle.entry(slot).or_default().clone();
        PoolSet::new(self.worker, planned, (slot, idle), self.timers.clone(), self.stats.clone(), shared)
    }

    /// Returns an upstream of the plan with that number, and creates it if necessary.
    pub fn get(&mut self, planned: &Arc<Planned>, generation: u64) -> Rc<Upstream> {
        match self.upstreams.get(&planned.name) {
            // Also for a request that began before the plan changed: the newer settings apply to all
            // requests.
            Some(known) if Arc::ptr_eq(&known.planned, planned) || generation < self.generation => {
                known.clone()
            }
            old => {
                let old = old.cloned();
                let upstream = Rc::new(self.build(planned, old.as_deref()));
                if generation == self.generation {
                    self.upstreams.insert(planned.name.clone(), upstream.clone());
                } else {
                    // The upstream left the plan after the request began, so its new connections are not
                    // kept.
                    upstream.members.retire();
                    self.former.push(Rc::downgrade(&upstream.set));
                }
                upstream
            }
        }
    }

    /// Creates an upstream, which takes over as much as possible from the old one of its name.
    fn build(&mut self, planned: &Arc<Planned>, old: Option<&Upstream>) -> Upstream {
        let set = self.set(planned, old);
        let (slot, shared) = (set.slot, set.shared.clone());
        let members = Members::new(&set, self.workers, self.rng.fork(), planned, old.map(|old| &old.members));
        let name = planned.name.clone();
        let cookie = planned.rules.balance.sticky.as_ref().map(|sticky| cookie_name(sticky, &name));
        let detector = Detector::new(&planned.rules.outlier);
        let breaker = planned.rules.breaker.as_ref();
        Upstream {
            name,
            slot,
            planned: planned.clone(),
            set,
            cookie,
            members,
            detector,
            requests: RequestCounter::new(&shared.budget, self.worker),
            breaker: WorkerBreaker::new(breaker, self.worker, &shared, &self.stats, slot),
            adaptive: WorkerAdaptive::new(planned.rules.adaptive.as_ref(), &shared, &self.stats, slot),
            shared,
            stats: self.stats.clone(),
            rng: RefCell::new(self.rng.fork()),
        }
    }
}

#[cfg(test)]
mod tests;
