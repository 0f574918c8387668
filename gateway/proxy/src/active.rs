//! The plan as one worker runs it: with its own counters' slots, turns and pools.

use std::rc::Rc;
use std::sync::Arc;

use tollgate_observe::{Registry, Slot};
use tollgate_plan::{Action, Plan, Route};
use tollgate_upstream::{Balancer, Upstream, Upstreams};

/// A plan with the worker's state that belongs to it. An exchange holds on to the one that it began with.
#[derive(Debug)]
pub(crate) struct ActivePlan {
    pub plan: Arc<Plan>,
    upstreams: Vec<Rc<Upstream>>,
    routes: Vec<ActiveRoute>,
}

#[derive(Debug)]
struct ActiveRoute {
    slot: Slot,
    /// Whose turn it is among the upstreams of a route that names several.
    turns: Option<Balancer>,
}

impl ActivePlan {
    pub fn new(plan: Arc<Plan>, upstreams: &mut Upstreams, registry: &Registry, worker: usize) -> Self {
        let routes = plan.routes.iter().map(|route| ActiveRoute {
            slot: registry.route_slot(&route.name),
            turns: match &route.action {
                Action::Forward(shares) if shares.len() > 1 => {
                    Some(Balancer::new(shares.iter().map(|share| share.weight).collect(), worker))
                }
                _ => None,
            },
        });
        Self { routes: routes.collect(), upstreams: upstreams.apply(&plan), plan }
    }

    pub fn route(&self, index: u32) -> &Route {
        &self.plan.routes[index as usize]
    }

    pub fn slot(&self, index: u32) -> Slot {
        self.routes[index as usize].slot
    }

    /// The upstream for the next request of a route; `None` if none takes requests.
    pub fn upstream(&self, route: u32) -> Option<&Rc<Upstream>> {
        let Action::Forward(shares) = &self.route(route).action else { return None };
        let share = match &self.routes[route as usize].turns {
            None => shares.first().filter(|share| share.weight > 0)?,
            Some(turns) => &shares[turns.pick()?],
        };
        Some(&self.upstreams[share.upstream])
    }
}
