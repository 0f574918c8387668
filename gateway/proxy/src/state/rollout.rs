//! A plan on its way to the workers, with everything that is the same for all of them.
//!
//! The control thread builds a [`Rollout`] for each new plan and sends it to the workers' mailboxes.
//! [`Receipt`] and [`Receipts`] report when every worker has taken it.

use std::collections::HashMap;
use std::io;
use std::ops::Deref;
use std::sync::{Arc, OnceLock};

use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tollgate_observe::{Registry, RouteSlots, Slot};
use tollgate_plan::{Plan, UpstreamChange};
use tollgate_policy::BackgroundIo;

use crate::state::active_policy::ActivePolicy;

/// A plan in the form that all workers share. Work that is done here is not repeated by each worker: taking
/// over a plan costs a worker only what the plan changes, however many routes it has.
///
/// Dropping a plan with 10,000 routes takes milliseconds. The sender therefore keeps it until every worker
/// has released it ([`Arc::strong_count`]), so that no worker performs the drop.
#[derive(Debug)]
pub struct Rollout {
    plan: Plan,
    generation: u64,
    /// The routes' slots in the statistics.
    slots: RouteSlots,
    /// The difference to the upstreams of the previous plan.
    change: UpstreamChange,
    /// The policies that requests meet; see [`Plan::chains`].
    chains: Vec<PolicyChain>,
    policies: Arc<tollgate_policy::PolicyStates>,
    /// Upstreams by name, built when a policy first asks for one.
    by_name: OnceLock<HashMap<String, usize>>,
}

/// Policies, in the order in which a request meets them.
pub(crate) type PolicyChain = Vec<Arc<ActivePolicy>>;

impl Rollout {
    /// Creates the first plan of a process, number 1.
    #[must_use]
    pub fn first(plan: Plan, registry: &Registry) -> Arc<Self> {
        let change = UpstreamChange { added: plan.upstreams.clone(), ..UpstreamChange::default() };
        let policies = tollgate_policy::PolicyStates::new(registry.policy_events());
        Self::new(plan, 1, change, registry, Arc::new(policies))
    }

    /// Returns the thread that does background I/O for policies.
    #[must_use]
    pub fn side(&self) -> &BackgroundIo {
        self.policies.background()
    }

    /// Creates the plan that follows this one.
    #[must_use]
    pub fn next(&self, mut plan: Plan, registry: &Registry) -> Arc<Self> {
        let change = plan.reuse_upstreams(&self.plan);
        Self::new(plan, self.generation + 1, change, registry, self.policies.clone())
    }

    fn new(
        plan: Plan,
        generation: u64,
        change: UpstreamChange,
        registry: &Registry,
        policies: Arc<tollgate_policy::PolicyStates>,
    ) -> Arc<Self> {
        policies.configure_cache(&plan.settings.cache, plan.settings.shares_purges);
        let slots = registry.route_slots(plan.routes.iter().map(|route| route.name.as_str()));
        let live: Vec<_> =
            plan.policies.iter().map(|attached| ActivePolicy::new(attached, &policies)).collect();
        let chain = |chain: &Vec<u32>| chain.iter().map(|index| live[*index as usize].clone()).collect();
        let chains = plan.chains.iter().map(chain).collect();
        Arc::new(Self { plan, generation, slots, change, chains, policies, by_name: OnceLock::new() })
    }

    /// Returns the index of the plan's upstream with this name. Policies that name upstreams use it.
    pub(crate) fn upstream_by_name(&self, name: &str) -> Option<usize> {
        let index = self.by_name.get_or_init(|| {
            let names = self.plan.upstreams.iter().enumerate();
            names.map(|(index, upstream)| (upstream.name.clone(), index)).collect()
        });
        index.get(name).copied()
    }

    /// Returns the state that the policies of all plans share.
    #[must_use]
    pub fn policies(&self) -> &Arc<tollgate_policy::PolicyStates> {
        &self.policies
    }

    /// Returns the policies of a chain.
    pub(crate) fn chain(&self, index: u32) -> &[Arc<ActivePolicy>] {
        &self.chains[index as usize]
    }

    /// Returns its number: 1 for the first plan of the process, then counted up.
    #[must_use]
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// Returns how its upstreams differ from the previous plan's.
    #[must_use]
    pub fn change(&self) -> &UpstreamChange {
        &self.change
    }

    /// Returns the slot of a route in the statistics. A route that had no request yet may have none.
    #[inline]
    pub(crate) fn slot(&self, route: u32) -> Slot {
        self.slots.get(route)
    }

    /// Returns the slot of a route for a request, and takes one if it has none.
    #[cold]
    pub(crate) fn claim_slot(&self, route: u32) -> Slot {
        self.slots.claim(route)
    }
}

impl Deref for Rollout {
    type Target = Plan;

    fn deref(&self) -> &Plan {
        &self.plan
    }
}

/// Accompanies a message to every worker. A worker drops it when it has carried out the message, or when it
/// ends.
#[derive(Clone, Debug)]
pub struct Receipt(UnboundedSender<io::Error>);

/// Reports when all receipts were dropped.
#[derive(Debug)]
pub struct Receipts(UnboundedReceiver<io::Error>);

impl Receipt {
    /// Creates a receipt, to be cloned for every worker, and the receiver that waits for all clones.
    #[must_use]
    pub fn new() -> (Self, Receipts) {
        let (sender, receiver) = unbounded_channel();
        (Self(sender), Receipts(receiver))
    }

    /// Reports that the message could not be carried out.
    pub(crate) fn failed(self, error: io::Error) {
        // The receiver may be gone.
        let _ = self.0.send(error);
    }
}

impl Receipts {
    /// Waits until every worker has carried out the message or has failed.
    ///
    /// # Errors
    /// The first failure of a worker.
    pub async fn all(mut self) -> io::Result<()> {
        let mut result = Ok(());
        // The channel closes when the last receipt is dropped.
        while let Some(error) = self.0.recv().await {
            result = result.and(Err(error));
        }
        result
    }

    /// Like [`all`](Self::all), for a thread without a runtime.
    ///
    /// # Errors
    /// As [`all`](Self::all).
    pub fn wait(mut self) -> io::Result<()> {
        let mut result = Ok(());
        while let Some(error) = self.0.blocking_recv() {
            result = result.and(Err(error));
        }
        result
    }
}

#[cfg(test)]
mod tests {
    use std::future::Future;
    use std::pin::pin;
    use std::task::{Context, Waker};

    use super::*;

    fn plan(text: &str) -> Plan {
        let text = format!("listen: 127.0.0.1:0\n{text}");
        tollgate_policy::register();
        let config = tollgate_config::from_text("", &text, &|_| None).config.expect("a good config");
        tollgate_plan::compile(&config).expect("it compiles").plan
    }

    #[test]
    fn plans_are_counted_and_share_what_is_the_same() {
        let registry = Registry::new(true);
        let first = Rollout::first(plan("routes: [{name: a, match: /a, to: \"h:1\"}]"), &registry);
        let next = first.next(plan("routes: [{match: /b, to: \"h:2\"}, {name: a, to: \"h:1\"}]"), &registry);
        assert_eq!((first.generation(), next.generation()), (1, 2));
        let slot = first.claim_slot(0);
        assert_eq!(next.claim_slot(1), slot, "a route keeps its slot");
        let later = next.next(plan("routes: [{name: a, to: \"h:1\"}]"), &registry);
        assert_eq!(later.slot(0), slot);
        assert!(Arc::ptr_eq(&first.upstreams[0], &next.upstreams[1]));
        assert_eq!(next.change().added.len(), 1);
    }

    #[test]
    fn a_rollout_awaits_all_receipts() {
        let (receipt, receipts) = Receipt::new();
        let other = receipt.clone();
        let mut all = pin!(receipts.all());
        let mut cx = Context::from_waker(Waker::noop());
        assert!(all.as_mut().poll(&mut cx).is_pending());
        drop(receipt);
        assert!(all.as_mut().poll(&mut cx).is_pending());
        drop(other);
        assert!(all.as_mut().poll(&mut cx).is_ready());
    }
}
