//! The control thread of the simulation: it gives plans to the workers, runs the probes, and knows which
//! plans are in force.

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
use tollgate_proxy::{Mailbox, Receipt, Rollout, WorkerCommand};
use tollgate_upstream::UpstreamStates;
use tollgate_upstream::health::HealthMonitor;

use crate::directory::Directory;
use crate::scenario::{UPSTREAMS, ports};

/// The time after the last worker runs a plan in which a permit of the previous plan may still be used:
/// longer than the longest pause of a worker.
const LATEST: Duration = Duration::from_millis(300);

/// The handles that the control thread works with.
#[derive(Debug)]
pub struct Desk {
    /// The workers' mailboxes.
    pub mailboxes: Vec<Mailbox>,
    /// The counters.
    pub registry: Arc<Registry>,
    /// The state of upstreams that the workers share.
    pub shared: Arc<UpstreamStates>,
    /// The endpoints that look-ups find.
    pub directory: Rc<Directory>,
    /// The plans in force.
    pub in_force: Rc<InForce>,
}

/// Gives plans to the workers as they arrive, with the same steps as the gateway's own control thread.
pub async fn run(first: Arc<Rollout>, mut plans: UnboundedReceiver<Plan>, desk: Desk) {
    let Ok(timers) = Timers::start() else { return };
    let seed = simulated::with_random(|rng| rng.u64(..));
    let health = HealthMonitor::start(desk.shared.clone(), &timers, seed, |notice| {
        simulated::note(&notice.to_string());
    });
    health.add_upstreams(&first.upstreams);
    let mut current = first;
    while let Some(plan) = plans.recv().await {
        let next = current.next(plan, &desk.registry);
        let gone = desk.directory.apply(&next);
        desk.in_force.began(&next);
        let (receipt, receipts) = Receipt::new();
        for mailbox in &desk.mailboxes {
            // A drained worker no longer receives.
            let _ = mailbox.send(WorkerCommand::Plan(next.clone(), Some(receipt.clone())));
        }
        drop(receipt);
        health.apply_plan(next.change());
        let (directory, in_force, generation) =
            (desk.directory.clone(), desk.in_force.clone(), next.generation());
        tollgate_net::spawn(async move {
            // No receipt can fail, because no socket is sent with the plan.
            let _ = receipts.all().await;
            // A permit from the previous plan may be used a moment later, when its task is polled.
            simulated::sleep(LATEST).await;
            in_force.settled(generation);
            directory.forget(gone);
        });
        current = next;
    }
}

/// The plans that a worker may still be running, the oldest first.
#[derive(Debug, Default)]
pub struct InForce {
    plans: RefCell<Vec<(u64, BTreeMap<String, Caps>)>>,
    /// The highest adaptive limit that each upstream may ever have had.
    adaptive: RefCell<BTreeMap<String, u32>>,
    /// All plans that ever existed.
    all: RefCell<Vec<Weak<Rollout>>>,
}

impl InForce {
    /// Records that a plan goes to the workers. Its limits apply together with those of earlier plans, until
    /// all workers have taken it over.
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

    /// Records that all workers have taken over this plan.
    pub fn settled(&self, generation: u64) {
        self.plans.borrow_mut().retain(|(older, _)| *older >= generation);
        self.bound();
    }

    /// Returns the limits of an upstream, if all workers run the same plan and it names the upstream.
    #[must_use]
    pub fn caps(&self, upstream: &str) -> Option<Caps> {
        match self.plans.borrow().as_slice() {
            [(_, caps)] => caps.get(upstream).cloned(),
            _ => None,
        }
    }

    /// Returns the highest adaptive limit that an upstream may ever have had.
    #[must_use]
    pub fn adaptive_max(&self, upstream: &str) -> u32 {
        self.adaptive.borrow().get(upstream).copied().unwrap_or_default()
    }

    /// Returns the latest plan, if a handle to it still exists.
    #[must_use]
    pub fn newest(&self) -> Option<Arc<Rollout>> {
        self.all.borrow().last().and_then(Weak::upgrade)
    }

    /// Returns how many plans still have a handle.
    #[must_use]
    pub fn alive(&self) -> usize {
        self.all.borrow().iter().filter(|plan| plan.strong_count() > 0).count()
    }

    /// Tells the simulated network how many connections may be open.
    fn bound(&self) {
        let plans = self.plans.borrow();
        for (index, name) in UPSTREAMS.iter().enumerate() {
            // An upstream that no plan names gets no new connections, but keeps its existing ones.
            let most = |cap: fn(&Caps) -> Option<u32>| {
                let caps = plans.iter().filter_map(|(_, caps)| caps.get(*name));
                caps.map(|caps| cap(caps).map_or(usize::MAX, |cap| cap as usize)).max()
            };
            let bound = ConnectionBound {
                all: most(|caps| caps.connections),
                each: most(|caps| caps.endpoint_connections),
            };
            simulated::limit_connections(&ports(index), bound);
        }
    }
}
