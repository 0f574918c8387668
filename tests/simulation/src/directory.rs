//! The simulated DNS: the endpoints of upstreams that are looked up, and the upstreams that follow them.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;

use tollgate_plan::{Endpoint, Plan};
use tollgate_upstream::{UpstreamState, UpstreamStates};

/// Endpoints by upstream, and the upstreams whose plan looks them up.
#[derive(Debug)]
pub struct Directory {
    shared: Arc<UpstreamStates>,
    known: RefCell<BTreeMap<String, Arc<[Endpoint]>>>,
    followed: RefCell<BTreeMap<String, Arc<UpstreamState>>>,
}

impl Directory {
    /// Creates a directory without entries.
    #[must_use]
    pub fn new(shared: &Arc<UpstreamStates>) -> Self {
        Self { shared: shared.clone(), known: RefCell::default(), followed: RefCell::default() }
    }

    /// Sets the endpoints of an upstream. If its plan looks them up, the upstream gets them at once.
    pub fn say(&self, upstream: &str, endpoints: Vec<Endpoint>) {
        let endpoints: Arc<[Endpoint]> = endpoints.into();
        if let Some(state) = self.followed.borrow().get(upstream) {
            state.set_discovered(endpoints.clone());
        }
        self.known.borrow_mut().insert(upstream.to_owned(), endpoints);
    }

    /// Follows the upstreams that a plan looks up, before any worker gets the plan. Returns the upstreams
    /// that are no longer looked up.
    pub fn apply(&self, plan: &Plan) -> Vec<Arc<UpstreamState>> {
        let wanted = |name: &str| {
            plan.upstreams.iter().any(|upstream| upstream.name == name && upstream.discover.is_some())
        };
        let mut followed = self.followed.borrow_mut();
        let gone: Vec<String> = followed.keys().filter(|name| !wanted(name)).cloned().collect();
        let gone = gone.iter().filter_map(|name| followed.remove(name)).collect();
        for upstream in plan.upstreams.iter().filter(|upstream| wanted(&upstream.name)) {
            followed.entry(upstream.name.clone()).or_insert_with(|| {
                let state = self.shared.upstream(&upstream.name);
                if let Some(endpoints) = self.known.borrow().get(&upstream.name) {
                    state.set_discovered(endpoints.clone());
                }
                state
            });
        }
        gone
    }

    /// Clears the discovered endpoints of these upstreams, unless a later plan looks them up. No worker runs
    /// a plan that does.
    pub fn forget(&self, gone: Vec<Arc<UpstreamState>>) {
        let followed = self.followed.borrow();
        let gone = gone.into_iter().filter(|state| !followed.contains_key(&state.name));
        gone.for_each(|state| state.forget_discovered());
    }
}
