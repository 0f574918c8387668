//! A policy of a plan in force, and how often it has ended requests.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use tollgate_plan::Attached;
use tollgate_policy::{Policy, Shared};

use super::End;

/// A policy that requests meet, at one place of the configuration.
#[derive(Debug)]
pub struct LivePolicy {
    /// The policy.
    pub policy: Arc<dyn Policy>,
    kind: &'static str,
    place: String,
    shared: Arc<Shared>,
    /// Requests that it refused. Of the many policies of many routes few ever count something.
    refused: OnceLock<Arc<AtomicU64>>,
    /// Those that it answered.
    answered: OnceLock<Arc<AtomicU64>>,
}

impl LivePolicy {
    /// With its state: what it was before in the plan that this one follows.
    #[must_use]
    pub fn new(attached: &Attached, shared: &Arc<Shared>) -> Arc<Self> {
        let (kind, place) = attached.name();
        Arc::new(Self {
            policy: attached.policy.clone().live(&attached.key, shared),
            kind,
            place: place.to_owned(),
            shared: shared.clone(),
            refused: OnceLock::new(),
            answered: OnceLock::new(),
        })
    }

    /// It has ended a request.
    pub(super) fn ended(&self, end: &End) {
        let (count, event) = match end {
            End::Refused(..) => (&self.refused, "refused"),
            End::Answered(_) => (&self.answered, "answered"),
            End::Gone => return,
        };
        let count = count.get_or_init(|| self.shared.events().counter(self.kind, &self.place, event));
        count.fetch_add(1, Ordering::Relaxed);
    }
}
