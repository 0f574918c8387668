//! A policy of the plan in force, with its run-time state and its counters.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use tollgate_plan::AttachedPolicy;
use tollgate_policy::{Policy, PolicyStates};

/// A policy attached at one place of the configuration.
#[derive(Debug)]
pub struct ActivePolicy {
    /// The policy, with state that outlives a reload.
    pub policy: Arc<dyn Policy>,
    kind: &'static str,
    place: String,
    shared: Arc<PolicyStates>,
    /// Requests that it refused. The counter is made when it is first needed: of many policies on many
    /// routes, few ever count anything.
    refused: OnceLock<Arc<AtomicU64>>,
    /// Requests that it answered.
    answered: OnceLock<Arc<AtomicU64>>,
}

impl ActivePolicy {
    /// Creates a policy, and takes over its state from the previous plan.
    #[must_use]
    pub fn new(attached: &AttachedPolicy, shared: &Arc<PolicyStates>) -> Arc<Self> {
        let (kind, place) = attached.name();
        Arc::new(Self {
            policy: attached.policy.clone().activate(&attached.key, shared),
            kind,
            place: place.to_owned(),
            shared: shared.clone(),
            refused: OnceLock::new(),
            answered: OnceLock::new(),
        })
    }

    /// Returns its kind, and the place where it is attached.
    pub(crate) fn name(&self) -> (&'static str, &str) {
        (self.kind, &self.place)
    }

    /// Counts a request that this policy refused.
    pub(crate) fn count_refused(&self) {
        self.count(&self.refused, "refused");
    }

    /// Counts a request that this policy answered.
    pub(crate) fn count_answered(&self) {
        self.count(&self.answered, "answered");
    }

    fn count(&self, counter: &OnceLock<Arc<AtomicU64>>, event: &'static str) {
        let counter = counter.get_or_init(|| self.shared.events().counter(self.kind, &self.place, event));
        counter.fetch_add(1, Ordering::Relaxed);
    }
}
