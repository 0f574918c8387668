//! A plan on its way to the workers, with all that can be found out once for all of them.

use std::collections::HashMap;
use std::io;
use std::ops::Deref;
use std::sync::{Arc, OnceLock};

use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tollgate_observe::{Registry, Slot};
use tollgate_plan::{Plan, UpstreamChange};
use tollgate_policy::Side;

use crate::policy::LivePolicy;

/// A plan as all workers get it. What is found out here no worker has to: taking over a plan costs a worker what it
/// changes, however many routes it has.
///
/// To drop one with 10,000 routes takes milliseconds. Whoever hands it out therefore keeps it until every worker has
/// let go of it ([`Arc::strong_count`]), so that none of them is the last.
#[derive(Debug)]
pub struct Rollout {
    plan: Plan,
    generation: u64,
    /// The routes' slots in the counters.
    slots: Vec<Slot>,
    change: UpstreamChange,
    /// What requests meet: see [`Plan::chains`].
    chains: Vec<Chain>,
    policies: Arc<tollgate_policy::Shared>,
    /// Upstreams by name, made when a policy asks for one first.
    by_name: OnceLock<HashMap<String, usize>>,
}

/// Policies in the order in which a request meets them.
pub(crate) type Chain = Vec<Arc<LivePolicy>>;

impl Rollout {
    /// The first plan of a process, number 1.
    #[must_use]
    pub fn first(plan: Plan, registry: &Registry) -> Arc<Self> {
        let change = UpstreamChange { added: plan.upstreams.clone(), ..UpstreamChange::default() };
        let policies = tollgate_policy::Shared::new(registry.policy_events());
        Self::new(plan, 1, change, registry, Arc::new(policies))
    }

    /// The thread on which others are asked and told.
    #[must_use]
    pub fn side(&self) -> &Side {
        self.policies.side()
    }

    /// The plan that follows this one.
    #[must_use]
    pub fn next(&self, mut plan: Plan, registry: &Registry) -> Arc<Self> {
        let change = plan.follow(&self.plan);
        Self::new(plan, self.generation + 1, change, registry, self.policies.clone())
    }

    fn new(
        plan: Plan,
        generation: u64,
        change: UpstreamChange,
        registry: &Registry,
        policies: Arc<tollgate_policy::Shared>,
    ) -> Arc<Self> {
        let slots = plan.routes.iter().map(|route| registry.route_slot(&route.name)).collect();
        let live: Vec<_> =
            plan.policies.iter().map(|attached| LivePolicy::new(attached, &policies)).collect();
        let chain = |chain: &Vec<u32>| chain.iter().map(|index| live[*index as usize].clone()).collect();
        let chains = plan.chains.iter().map(chain).collect();
        Arc::new(Self { plan, generation, slots, change, chains, policies, by_name: OnceLock::new() })
    }

    /// Which of the plan's upstreams has this name, of those that policies name.
    pub(crate) fn upstream_by_name(&self, name: &str) -> Option<usize> {
        let index = self.by_name.get_or_init(|| {
            let names = self.plan.upstreams.iter().enumerate();
            names.map(|(index, upstream)| (upstream.name.clone(), index)).collect()
        });
        index.get(name).copied()
    }

    /// The policies of a chain.
    pub(crate) fn chain(&self, index: u32) -> &[Arc<LivePolicy>] {
        &self.chains[index as usize]
    }

    /// Its number: 1 for the first plan of the process, then counted up.
    #[must_use]
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// What it changes of the upstreams of the plan before.
    #[must_use]
    pub fn change(&self) -> &UpstreamChange {
        &self.change
    }

    /// The slot of a route in the counters.
    pub(crate) fn slot(&self, route: u32) -> Slot {
        self.slots[route as usize]
    }
}

impl Deref for Rollout {
    type Target = Plan;

    fn deref(&self) -> &Plan {
        &self.plan
    }
}

/// Goes with a message to every worker. A worker drops it when it has done what it was told, or has ended.
#[derive(Clone, Debug)]
pub struct Receipt(UnboundedSender<io::Error>);

/// Tells when all receipts have come back.
#[derive(Debug)]
pub struct Receipts(UnboundedReceiver<io::Error>);

impl Receipt {
    /// A receipt to be cloned for every worker, and what waits for them all.
    #[must_use]
    pub fn new() -> (Self, Receipts) {
        let (sender, receiver) = unbounded_channel();
        (Self(sender), Receipts(receiver))
    }

    /// It could not be done.
    pub(crate) fn failed(self, error: io::Error) {
        // Nobody may be waiting any longer.
        let _ = self.0.send(error);
    }
}

impl Receipts {
    /// Waits until every worker has done it, or could not.
    ///
    /// # Errors
    /// Why the first of them could not.
    pub async fn all(mut self) -> io::Result<()> {
        let mut result = Ok(());
        // That the last of them is gone is the news.
        while let Some(error) = self.0.recv().await {
            result = result.and(Err(error));
        }
        result
    }

    /// As [`all`](Self::all), for a thread without a runtime.
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
        let config = tollgate_config::from_text("", &text, &|_| None).config.expect("a good config");
        tollgate_plan::compile(&config).expect("it compiles").plan
    }

    #[test]
    fn plans_are_counted_and_share_what_is_the_same() {
        let registry = Registry::new(true);
        let first = Rollout::first(plan("routes: [{name: a, match: /a, to: \"h:1\"}]"), &registry);
        let next = first.next(plan("routes: [{match: /b, to: \"h:2\"}, {name: a, to: \"h:1\"}]"), &registry);
        assert_eq!((first.generation(), next.generation()), (1, 2));
        assert_eq!(first.slot(0), next.slot(1), "a route keeps its slot");
        assert!(Arc::ptr_eq(&first.upstreams[0], &next.upstreams[1]));
        assert_eq!(next.change().added.len(), 1);
    }

    #[test]
    fn all_receipts_are_waited_for() {
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
