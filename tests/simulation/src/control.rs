//! The control thread's part: it gives plans to the workers, runs the probes, and knows which plans are in force.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::sync::mpsc::UnboundedReceiver;
use tollgate_net::Timers;
use tollgate_net::simulated::{self, ConnectionBound};
use tollgate_observe::Registry;
use tollgate_plan::{Caps, Plan};
use tollgate_proxy::{Control, Mailbox, Receipt, Rollout};
use tollgate_upstream::Shared;
use tollgate_upstream::health::Health;

use crate::directory::Directory;
use crate::scenario::{UPSTREAMS, ports};

/// From when the last worker runs a plan until nobody acts on a place that was had under the one before: longer than a
/// worker is ever paused.
const LATEST: Duration = Duration::from_millis(300);

/// What the control thread works with.
#[derive(Debug)]
pub struct Desk {
    /// The workers' mailboxes.
    pub mailboxes: Vec<Mailbox>,
    /// The counters.
    pub registry: Arc<Registry>,
    /// What the workers share of upstreams.
    pub shared: Arc<Shared>,
    /// What is looked up.
    pub directory: Rc<Directory>,
    /// Which plans are in force.
    pub in_force: Rc<InForce>,
}

/// Gives plans to the workers as they come, in the order in which the gateway's own control thread does it.
pub async fn run(first: Arc<Rollout>, mut plans: UnboundedReceiver<Plan>, desk: Desk) {
    let Ok(timers) = Timers::start() else { return };
    let seed = simulated::with_random(|rng| rng.u64(..));
    let health =
        Health::start(desk.shared.clone(), &timers, seed, |notice| simulated::note(&notice.to_string()));
    health.begin(&first.upstreams);
    let mut current = first;
    while let Some(plan) = plans.recv().await {
        let next = current.next(plan, &desk.registry);
        let gone = desk.directory.apply(&next);
        desk.in_force.began(&next);
        let (receipt, receipts) = Receipt::new();
        for mailbox in &desk.mailboxes {
            // One that has drained is gone.
            let _ = mailbox.send(Control::Plan(next.clone(), Some(receipt.clone())));
        }
        drop(receipt);
        health.change(next.change());
        let (directory, in_force, generation) =
            (desk.directory.clone(), desk.in_force.clone(), next.generation());
        tollgate_net::spawn(async move {
            // None of them can fail: no socket goes with it.
            let _ = receipts.all().await;
            // A place that was taken under the plan before may be used a moment later: its task has yet to have its turn.
            simulated::sleep(LATEST).await;
            in_force.settled(generation);
            directory.forget(gone);
        });
        current = next;
    }
}

/// Plans that a worker may still be running, the oldest first.
#[derive(Debug, Default)]
pub struct InForce {
    plans: RefCell<Vec<(u64, BTreeMap<String, Caps>)>>,
    /// The highest limit that an adaptive one of each upstream may ever have had.
    adaptive: RefCell<BTreeMap<String, u32>>,
    /// All that there ever were.
    all: RefCell<Vec<Weak<Rollout>>>,
}

impl InForce {
    /// A plan goes to the workers: its caps hold beside those of the plans before it, until all have taken it over.
    pub fn began(&self, rollout: &Arc<Rollout>) {
        let caps = rollout.upstreams.iter();
        let caps = caps.map(|upstream| (upstream.name.clone(), upstream.rules.caps.clone())).collect();
        for upstream in &rollout.upstreams {
            let most = upstream.rules.adaptive.as_ref().map_or(0, |adaptive| adaptive.max);
            let mut known = self.adaptive.borrow_mut();
            let known = known.entry(upstream.name.clone()).or_default();
            *known = most.max(*known);
        }
        self.plans.borrow_mut().push((rollout.generation(), caps));
        self.all.borrow_mut().push(Arc::downgrade(rollout));
        self.bound();
    }

    /// All workers have taken over this plan.
    pub fn settled(&self, generation: u64) {
        self.plans.borrow_mut().retain(|(older, _)| *older >= generation);
        self.bound();
    }

    /// Returns the caps of an upstream, if all workers run the same plan and it has them.
    #[must_use]
    pub fn caps(&self, upstream: &str) -> Option<Caps> {
        match self.plans.borrow().as_slice() {
            [(_, caps)] => caps.get(upstream).cloned(),
            _ => None,
        }
    }

    /// Returns the highest limit that an upstream's adaptive one may ever have had.
    #[must_use]
    pub fn adaptive_max(&self, upstream: &str) -> u32 {
        self.adaptive.borrow().get(upstream).copied().unwrap_or_default()
    }

    /// Returns the last plan, if somebody still has it.
    #[must_use]
    pub fn newest(&self) -> Option<Arc<Rollout>> {
        self.all.borrow().last().and_then(Weak::upgrade)
    }

    /// Plans that somebody still has.
    #[must_use]
    pub fn alive(&self) -> usize {
        self.all.borrow().iter().filter(|plan| plan.strong_count() > 0).count()
    }

    /// Has the network watch what may be open at most.
    fn bound(&self) {
        let plans = self.plans.borrow();
        for (index, name) in UPSTREAMS.iter().enumerate() {
            // One that no plan names gets no new connections, but keeps those that it has.
            let most = |cap: fn(&Caps) -> Option<u32>| {
                let caps = plans.iter().filter_map(|(_, caps)| caps.get(*name));
                caps.map(|caps| cap(caps).map_or(usize::MAX, |cap| cap as usize)).max()
            };
            let bound = ConnectionBound {
                all: most(|caps| caps.connections),
                each: most(|caps| caps.endpoint_connections),
            };
            simulated::bound(&ports(index), bound);
        }
    }
}
