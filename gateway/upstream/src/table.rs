//! A worker's table of upstreams, kept across changes of plan.
//!
//! The proxy gets an [`Upstream`] from here when it adopts a plan or handles a request. The table also
//! delivers the [messages](Message) of other workers to the pools that they concern.

use std::cell::Cell;
use std::collections::{BTreeMap, HashMap};
use std::rc::{Rc, Weak};
use std::sync::Arc;

use fastrand::Rng;
use tollgate_net::{BulkQueue, Timers};
use tollgate_observe::{Registry, Slot, WorkerStats};
use tollgate_plan::{Upstream as Planned, UpstreamChange};

use crate::pool::PoolSet;
use crate::state::message::{Message, MessageKind};
use crate::{Upstream, UpstreamState, UpstreamStates};

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
    bulk_queue: BulkQueue,
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
        (timers, bulk_queue): (Timers, BulkQueue),
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
            bulk_queue,
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
                gone.retire();
                self.former.push(Rc::downgrade(gone.pool_set()));
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
        let current = self.upstreams.get(&upstream.name).map(|known| known.pool_set().clone());
        let set = current
            .filter(|set| Arc::ptr_eq(&set.context().shared, upstream))
            .or_else(|| self.former(upstream));
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
        self.former.iter().filter_map(Weak::upgrade).find(|set| Arc::ptr_eq(&set.context().shared, upstream))
    }

    /// Returns the pools of an upstream: from the previous upstream with its name, or from a former plan if
    /// requests still use them.
    fn set(&mut self, planned: &Planned, old: Option<&Upstream>) -> Rc<PoolSet> {
        let shared = self.shared.upstream(&planned.name);
        if let Some(known) = old.map(|old| old.pool_set().clone()).or_else(|| self.former(&shared)) {
            known.apply_plan(planned);
            return known;
        }
        let slot = self.registry.upstream_slot(&planned.name);
        let idle = self.idle.entry(slot).or_default().clone();
        PoolSet::new(
            self.worker,
            planned,
            (slot, idle),
            (self.timers.clone(), self.bulk_queue.clone()),
            self.stats.clone(),
            shared,
        )
    }

    /// Returns an upstream of the plan with that number, and creates it if necessary.
    pub fn get(&mut self, planned: &Arc<Planned>, generation: u64) -> Rc<Upstream> {
        match self.upstreams.get(&planned.name) {
            // Also for a request that began before the plan changed: the newer settings apply to all
            // requests.
            Some(known) if known.is_of(planned) || generation < self.generation => known.clone(),
            old => {
                let old = old.cloned();
                let upstream = Rc::new(self.build(planned, old.as_deref()));
                if generation == self.generation {
                    self.upstreams.insert(planned.name.clone(), upstream.clone());
                } else {
                    // The upstream left the plan after the request began, so its new connections are not
                    // kept.
                    upstream.retire();
                    self.former.push(Rc::downgrade(upstream.pool_set()));
                }
                upstream
            }
        }
    }

    /// Returns the upstream with this name in the current plan, if a request has used it.
    #[must_use]
    pub fn current(&self, name: &str) -> Option<&Rc<Upstream>> {
        self.upstreams.get(name)
    }

    /// Creates an upstream, which takes over as much as possible from the old one of its name.
    fn build(&mut self, planned: &Arc<Planned>, old: Option<&Upstream>) -> Upstream {
        let set = self.set(planned, old);
        Upstream::new(set, self.workers, &mut self.rng, planned, old)
    }
}

#[cfg(test)]
mod tests;
