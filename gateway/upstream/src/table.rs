//! A worker's upstreams, kept over changes of plan.

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
use crate::budget::Requests;
use crate::members::Members;
use crate::message::{Kind, Message};
use crate::outlier::Detector;
use crate::pool_set::PoolSet;
use crate::sticky::cookie_name;
use crate::{Outcome, Pool, Shared, StickyValue, UpstreamState};

/// One upstream as a worker has it.
#[derive(Debug)]
pub struct Upstream {
    /// Its name.
    pub name: String,
    /// Its slot in the counters.
    pub slot: Slot,
    planned: Arc<Planned>,
    set: Rc<PoolSet>,
    /// The name of its sticky cookie.
    cookie: Option<String>,
    members: Members,
    shared: Arc<UpstreamState>,
    detector: Detector,
    /// Requests that this worker had for it: what retries are a share of.
    pub(crate) requests: Requests,
    pub(crate) breaker: Option<Rc<WorkerBreaker>>,
    pub(crate) adaptive: Option<Rc<WorkerAdaptive>>,
    pub(crate) stats: Arc<WorkerStats>,
    /// For the waits between attempts.
    pub(crate) rng: RefCell<Rng>,
}

impl Upstream {
    /// The pool of an endpoint for a request; `None` if none takes requests.
    #[inline]
    pub fn pick(&self, wanted: &Wanted<'_>) -> Option<Rc<Pool>> {
        self.members.pick(&self.planned, wanted)
    }

    /// How one of its endpoints is chosen.
    #[must_use]
    pub fn balance(&self) -> &Balance {
        &self.planned.rules.balance
    }

    /// How it copes when endpoints fail.
    #[must_use]
    pub fn rules(&self) -> &Rules {
        &self.planned.rules
    }

    /// The name of its sticky cookie, if it is sticky.
    #[must_use]
    pub fn cookie(&self) -> Option<&str> {
        self.cookie.as_deref()
    }

    /// Whether a sticky cookie names one of its endpoints, and that takes requests.
    #[must_use]
    pub fn holds(&self, cookie: &[u8]) -> bool {
        self.members.holds(&self.planned, cookie)
    }

    /// The value that a sticky cookie has for an endpoint, if the upstream is sticky.
    #[must_use]
    pub fn sticky_value(&self, pool: &Pool) -> Option<StickyValue> {
        self.members.sticky_value(pool)
    }

    /// Whether its endpoints are spoken to in HTTP/2.
    #[inline]
    #[must_use]
    pub fn is_http2(&self) -> bool {
        self.planned.http2.is_some()
    }

    /// What all workers know of it.
    #[must_use]
    pub fn state(&self) -> &Arc<UpstreamState> {
        &self.shared
    }

    /// What became of an attempt at one of its endpoints: for ejection.
    ///
    /// A success costs a few instructions, and writes nothing that another worker reads or writes while all is well.
    #[inline]
    pub fn report(&self, pool: &Pool, outcome: Outcome) {
        if let Some(cause) = self.detector.saw(outcome, pool.traffic(), pool.state()) {
            self.shared.eject(pool.state(), cause);
        }
    }
}

/// What a request wants of an endpoint.
#[derive(Clone, Copy, Debug, Default)]
pub struct Wanted<'a> {
    /// What it is hashed by, where the upstream balances by hash; `None`: it lacks that.
    pub hash: Option<u64>,
    /// The value of its sticky cookie.
    pub sticky: Option<&'a [u8]>,
    /// Endpoints that have failed it: others are preferred.
    pub avoid: &'a [Rc<Pool>],
}

/// A worker's upstreams, kept over changes of plan: what did not change keeps its connections and its turn.
///
/// One is made when the first request asks for it, so that a new plan costs a worker what it changes and not what it
/// holds.
#[derive(Debug)]
pub struct Upstreams {
    /// Which worker this is, of how many, so that not all begin with the same endpoint.
    worker: usize,
    workers: usize,
    timers: Timers,
    stats: Arc<WorkerStats>,
    registry: Arc<Registry>,
    shared: Arc<Shared>,
    rng: Rng,
    /// Counts the plans: which one the table is of.
    generation: u64,
    /// Idle connections by slot: upstreams past the counters' bound share one.
    idle: HashMap<Slot, Rc<Cell<usize>>>,
    /// In an order, as every table that is gone through: what a simulation replays must not depend on a hash's seed.
    upstreams: BTreeMap<String, Rc<Upstream>>,
    /// Those of former plans, as long as requests use them.
    former: Vec<Weak<PoolSet>>,
}

impl Upstreams {
    /// An empty table for a worker, by its number from 0, of so many.
    #[must_use]
    pub fn new(
        (worker, workers): (usize, usize),
        timers: Timers,
        stats: Arc<WorkerStats>,
        registry: Arc<Registry>,
        shared: Arc<Shared>,
    ) -> Self {
        // Without a secret a worker's number does: nobody's safety hangs on it.
        let seed = tollgate_net::secret().map_or(worker as u128, u128::from_le_bytes);
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

    /// From now on the table is that of a new plan, whose number is greater. What it does not name any longer is
    /// forgotten, and its idle connections closed; exchanges under way end on what they began with.
    pub fn change(&mut self, generation: u64, change: &UpstreamChange) {
        self.generation = generation;
        self.former.retain(|set| set.strong_count() > 0);
        for gone in &change.gone {
            if let Some(gone) = self.upstreams.remove(&gone.name) {
                gone.members.retire();
                self.former.push(Rc::downgrade(&gone.set));
            }
        }
        for planned in &change.changed {
            // One that nobody has asked for yet is made when somebody does.
            if let Some((name, old)) = self.upstreams.remove_entry(&planned.name) {
                let upstream = self.make(planned, Some(&old));
                self.upstreams.insert(name, Rc::new(upstream));
            }
        }
        // Connections that are kept ready do not wait for the first request.
        for planned in change.changed.iter().chain(&change.added).filter(|planned| planned.pool.warm > 0) {
            self.get(planned, generation);
        }
    }

    /// A message from another worker, about connections to an upstream that are short.
    pub fn receive(&self, message: Message) {
        let upstream = message.upstream();
        let current = self.upstreams.get(&upstream.name).map(|known| known.set.clone());
        let set = current.filter(|set| Arc::ptr_eq(&set.shared, upstream)).or_else(|| self.former(upstream));
        match (set, message.0) {
            (Some(set), kind) => set.receive(kind),
            // Nothing is left here of the upstream: neither connections nor requests that wait for one.
            (None, Kind::Ask(ask)) => ask.pass_on(),
            // Whoever sent it counts it no longer.
            (None, Kind::HandOver(handed)) => {
                self.stats.upstream_closed(self.registry.upstream_slot(&handed.permit.upstream().name));
            }
            (None, Kind::Room(_) | Kind::Place(_)) => {}
        }
    }

    fn former(&self, upstream: &Arc<UpstreamState>) -> Option<Rc<PoolSet>> {
        self.former.iter().filter_map(Weak::upgrade).find(|set| Arc::ptr_eq(&set.shared, upstream))
    }

    /// The pools of an upstream: those of the one that had its name, or of a former plan if requests still use them.
    fn set(&mut self, planned: &Planned, old: Option<&Upstream>) -> Rc<PoolSet> {
        let shared = self.shared.upstream(&planned.name);
        if let Some(known) = old.map(|old| old.set.clone()).or_else(|| self.former(&shared)) {
            known.change(planned);
            return known;
        }
        let slot = self.registry.upstream_slot(&planned.name);
        let idle = self.idle.entry(slot).or_default().clone();
        PoolSet::new(self.worker, planned, (slot, idle), self.timers.clone(), self.stats.clone(), shared)
    }

    /// An upstream of the plan with that number, made if need be.
    pub fn get(&mut self, planned: &Arc<Planned>, generation: u64) -> Rc<Upstream> {
        match self.upstreams.get(&planned.name) {
            // For a request that began before the plan changed too: the newer settings hold for all.
            Some(known) if Arc::ptr_eq(&known.planned, planned) || generation < self.generation => {
                known.clone()
            }
            old => {
                let old = old.cloned();
                let upstream = Rc::new(self.make(planned, old.as_deref()));
                if generation == self.generation {
                    self.upstreams.insert(planned.name.clone(), upstream.clone());
                } else {
                    // It left the plan after the request began: what it opens now is not kept.
                    upstream.members.retire();
                    self.former.push(Rc::downgrade(&upstream.set));
                }
                upstream
            }
        }
    }

    /// An upstream, with all that it can take over from the one that had its name.
    fn make(&mut self, planned: &Arc<Planned>, old: Option<&Upstream>) -> Upstream {
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
            requests: Requests::new(&shared.budget, self.worker),
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
