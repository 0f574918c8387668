//! The plan that a worker runs, together with the worker's own state for it: statistics slots, upstreams and
//! splits.
//!
//! [`request`](crate::front::request) asks an [`ActivePlan`] for the route and the upstream of a request. An
//! exchange keeps the plan that it started with, even across a reload.

use std::cell::{OnceCell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

use tollgate_observe::Slot;
use tollgate_plan::{Policy, Route, Targets, UpstreamShare};
use tollgate_upstream::{Upstream, Upstreams};

use crate::state::rollout::Rollout;
use crate::state::split::{Split, Splits};

/// A plan with the worker's state that belongs to it. An exchange keeps the plan that it started with.
///
/// A new one only allocates empty cells. The state of a route is created with its first request, so a worker
/// never stalls on a new plan, however many routes it has.
#[derive(Debug)]
pub(crate) struct ActivePlan {
    pub plan: Arc<Rollout>,
    table: Rc<RefCell<Upstreams>>,
    upstreams: Box<[OnceCell<Rc<Upstream>>]>,
    /// For each route with several upstreams, how its requests are divided among them.
    splits: Box<[OnceCell<Rc<Split>>]>,
    known_splits: Rc<Splits>,
}

impl ActivePlan {
    /// Adopts a plan: the worker's tables of upstreams and splits are brought up to date.
    pub fn new(plan: Arc<Rollout>, table: Rc<RefCell<Upstreams>>, known_splits: Rc<Splits>) -> Self {
        table.borrow_mut().apply_plan(plan.generation(), plan.change());
        known_splits.change(plan.generation());
        let upstreams = plan.upstreams.iter().map(|_| OnceCell::new()).collect();
        let splits = plan.routes.iter().map(|_| OnceCell::new()).collect();
        Self { plan, table, upstreams, splits, known_splits }
    }

    pub fn route(&self, index: u32) -> &Route {
        &self.plan.routes[index as usize]
    }

    pub fn slot(&self, index: u32) -> Slot {
        self.plan.slot(index)
    }

    #[cold]
    pub fn claim_slot(&self, index: u32) -> Slot {
        self.plan.claim_slot(index)
    }

    /// Returns the worker's splits, for the next plan.
    pub fn splits(&self) -> Rc<Splits> {
        self.known_splits.clone()
    }

    /// Returns the upstream with this name, whether or not a route uses it.
    pub fn by_name(&self, name: &str) -> Option<&Rc<Upstream>> {
        let index = self.plan.upstream_by_name(name)?;
        Some(self.at(index))
    }

    /// Returns the upstream with this number in the plan.
    pub fn at(&self, index: usize) -> &Rc<Upstream> {
        self.upstreams[index].get_or_init(|| self.make(index))
    }

    /// Returns what has replaced this upstream, if a newer plan has it with other endpoints or settings.
    #[cold]
    pub fn newer(&self, upstream: &Rc<Upstream>) -> Option<Rc<Upstream>> {
        let table = self.table.borrow();
        let current = table.current(&upstream.name)?;
        // A request cannot change the upstream's version of HTTP once it is in progress.
        let replaces = !Rc::ptr_eq(current, upstream) && current.is_http2() == upstream.is_http2();
        replaces.then(|| current.clone())
    }

    /// Returns the upstream of a share.
    pub fn get(&self, share: &UpstreamShare) -> &Rc<Upstream> {
        self.at(share.upstream)
    }

    #[cold]
    fn make(&self, upstream: usize) -> Rc<Upstream> {
        self.table.borrow_mut().get(&self.plan.upstreams[upstream], self.plan.generation())
    }

    /// Returns how the requests of a route are divided among its upstreams.
    pub fn split(&self, route: u32, targets: &Targets) -> &Rc<Split> {
        self.splits[route as usize].get_or_init(|| self.make_split(route, targets))
    }

    #[cold]
    fn make_split(&self, route: u32, targets: &Targets) -> Rc<Split> {
        let upstream = |share: &UpstreamShare| &self.plan.upstreams[share.upstream];
        let ties = targets.shares.iter().any(|share| {
            let balance = &upstream(share).rules.balance;
            balance.sticky.is_some() || matches!(balance.policy, Policy::Hash(_))
        });
        let shares = targets.shares.iter().map(|share| (upstream(share).name.clone(), share.weight));
        // No upstream has a name with a blank.
        let answers = targets
            .answers
            .iter()
            .map(|answer| (format!("respond {}", answer.respond.status), answer.weight));
        let among = shares.chain(answers).collect();
        self.known_splits.get(&self.route(route).name, among, ties)
    }
}
