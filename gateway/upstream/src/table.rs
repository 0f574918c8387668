//! A worker's upstreams, kept over changes of plan.

use std::cell::Cell;
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;

use tollgate_net::{Address, Timers};
use tollgate_observe::{Registry, Slot, WorkerStats};
use tollgate_plan::{Plan, Upstream as Planned};

use crate::{Balancer, Pool};

/// One upstream as a worker has it.
#[derive(Debug)]
pub struct Upstream {
    /// Its name.
    pub name: String,
    /// Its slot in the counters.
    pub slot: Slot,
    endpoints: Vec<Rc<Pool>>,
    balancer: Balancer,
}

impl Upstream {
    /// The pool of the endpoint whose turn it is; `None` if none takes requests.
    pub fn pick(&self) -> Option<&Rc<Pool>> {
        self.balancer.pick().map(|index| &self.endpoints[index])
    }
}

/// A worker's upstreams, kept over changes of plan: what did not change keeps its connections and its turn.
#[derive(Debug)]
pub struct Upstreams {
    /// Which worker this is, so that not all begin with the same endpoint.
    worker: usize,
    timers: Timers,
    stats: Arc<WorkerStats>,
    registry: Arc<Registry>,
    pools: HashMap<(String, Address), Rc<Pool>>,
    /// Idle connections by slot: upstreams past the counters' bound share one.
    idle: HashMap<Slot, Rc<Cell<usize>>>,
    upstreams: HashMap<String, (Planned, Rc<Upstream>)>,
}

impl Upstreams {
    /// An empty table for a worker.
    #[must_use]
    pub fn new(worker: usize, timers: Timers, stats: Arc<WorkerStats>, registry: Arc<Registry>) -> Self {
        Self {
            worker,
            timers,
            stats,
            registry,
            pools: HashMap::new(),
            idle: HashMap::new(),
            upstreams: HashMap::new(),
        }
    }

    /// The upstreams of a plan, by its indices. What it does not name any longer is forgotten, and its idle
    /// connections closed; exchanges under way end on what they began with.
    pub fn apply(&mut self, plan: &Plan) -> Vec<Rc<Upstream>> {
        let mut pools = HashMap::new();
        let mut upstreams = HashMap::new();
        let list = plan.upstreams.iter().map(|planned| {
            let slot = self.registry.upstream_slot(&planned.name);
            let idle = self.idle.entry(slot).or_default();
            let endpoints = planned.endpoints.iter().map(|endpoint| {
                let key = (planned.name.clone(), endpoint.address.clone());
                let pool = self.pools.get(&key).cloned().unwrap_or_else(|| {
                    let (timers, stats) = (&self.timers, self.stats.clone());
                    Pool::new(
                        endpoint.address.clone(),
                        planned.pool.clone(),
                        (slot, idle.clone()),
                        timers,
                        stats,
                    )
                });
                pool.change(&planned.pool);
                pools.insert(key, pool.clone());
                pool
            });
            let endpoints: Vec<_> = endpoints.collect();
            let kept = self.upstreams.get(&planned.name).filter(|(before, _)| before == planned);
            let upstream = kept.map(|(_, upstream)| upstream.clone()).unwrap_or_else(|| {
                let weights = planned.endpoints.iter().map(|endpoint| endpoint.weight).collect();
                let balancer = Balancer::new(weights, self.worker);
                Rc::new(Upstream { name: planned.name.clone(), slot, endpoints, balancer })
            });
            upstreams.insert(planned.name.clone(), (planned.clone(), upstream.clone()));
            upstream
        });
        let list = list.collect();
        self.pools = pools;
        self.upstreams = upstreams;
        list
    }
}
