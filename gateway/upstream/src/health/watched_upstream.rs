//! One upstream, as the control thread maintains it.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

use tollgate_net::Address;
use tollgate_plan::{Endpoint, Upstream as Planned};

use super::probe::ProbeRules;
use super::record::ProbeRecord;
use super::target::{ProbeTarget, Prober};
use crate::{EndpointEvent, EndpointState, ProbeHealth, UpstreamState};

/// One upstream, as the control thread maintains it: its probes and its ejections.
#[derive(Debug)]
pub(super) struct WatchedUpstream {
    state: Arc<UpstreamState>,
    /// `None` until the first plan.
    planned: Option<Arc<Planned>>,
    probes: Option<Rc<ProbeRules>>,
    targets: BTreeMap<Address, Rc<ProbeTarget>>,
    discovered: Option<Arc<[Endpoint]>>,
    /// When the current interval of outlier detection began.
    interval: Instant,
}

impl WatchedUpstream {
    pub(super) fn new(state: Arc<UpstreamState>, now: Instant) -> Self {
        Self { state, planned: None, probes: None, targets: BTreeMap::new(), discovered: None, interval: now }
    }

    /// Adopts an upstream's plan.
    pub(super) fn apply_plan(&mut self, planned: &Arc<Planned>, prober: &Rc<Prober>, now: Instant) {
        let health = planned.rules.health.clone();
        let probes = health.map(|health| ProbeRules {
            health,
            tls: planned.tls.clone(),
            http2: planned.http2.is_some(),
            source: planned.pool.source,
            proxy_protocol: planned.proxy_protocol,
        });
        if self.probes.as_deref() != probes.as_ref() {
            self.probes = probes.map(Rc::new);
            if let Some(probes) = &self.probes {
                self.targets.values().for_each(|target| target.set_rules(probes.clone()));
            }
        }
        // Workers set the limits at their first request; probes come earlier.
        self.state.limits.set_limits(&planned.rules.caps);
        self.state.tls.set_expected(planned.tls.is_some());
        self.planned = Some(planned.clone());
        self.discovered = self.discovered();
        self.update_endpoints(prober, now);
    }

    /// Does what is due, and returns when something is next due.
    pub(super) fn run_due(&mut self, prober: &Rc<Prober>, now: Instant) -> Option<Instant> {
        let discovered = self.discovered();
        if !same(discovered.as_ref(), self.discovered.as_ref()) {
            self.discovered = discovered;
            self.update_endpoints(prober, now);
        }
        let state = self.state.clone();
        let mut ejections = state.ejections();
        let mut changed = self.notify_returned(&ejections.release(now));
        let due = ejections.interval_length().map(|every| (self.interval + every, every));
        let next_interval = match due {
            Some((due, every)) if due <= now => {
                self.interval = now;
                for (endpoint, ejected) in ejections.end_interval(now) {
                    state.notify(&endpoint, ejected.into());
                    changed = true;
                }
                Some(now + every)
            }
            due => due.map(|(due, _)| due),
        };
        if changed {
            state.mark_changed();
        }
        ejections.next().into_iter().chain(next_interval).min()
    }

    /// Ends the probes and ejections, because no plan has the upstream now.
    pub(super) fn stop(self, now: Instant) {
        self.targets.values().for_each(|target| target.stop());
        let rules = self.planned.map(|planned| planned.rules.outlier.clone()).unwrap_or_default();
        self.state.ejections().set_members(&rules, std::iter::empty(), now);
    }

    /// Updates the endpoints and the rules of probes and ejections.
    fn update_endpoints(&mut self, prober: &Rc<Prober>, now: Instant) {
        let Some(planned) = self.planned.clone() else { return };
        let members = self.members(&planned);
        self.state.set_members(members.iter().map(|(planned, _)| planned.clone()).collect());
        let taking = members.iter().filter(|(planned, _)| planned.weight > 0);
        let taking = taking.map(|(_, endpoint)| endpoint.clone());
        let back = self.state.ejections().set_members(&planned.rules.outlier, taking, now);
        let mut changed = self.notify_returned(&back);
        let mut before = std::mem::take(&mut self.targets);
        if let Some(rules) = &self.probes {
            for (_, endpoint) in members {
                let target = before.remove(&endpoint.address).unwrap_or_else(|| {
                    ProbeTarget::start(self.state.clone(), endpoint.clone(), rules.clone(), prober)
                });
                self.targets.insert(endpoint.address.clone(), target);
            }
        } else {
            for (_, endpoint) in members.iter().filter(|(_, member)| member.health() != ProbeHealth::Unknown)
            {
                endpoint.set_health(ProbeHealth::Unknown);
                *endpoint.probe_record() = ProbeRecord::default();
                changed = true;
            }
        }
        before.into_values().for_each(|gone| gone.stop());
        if changed {
            self.state.mark_changed();
        }
    }

    /// Returns the endpoints of the plan and of discovery, each once.
    fn members(&self, planned: &Planned) -> Vec<(Endpoint, Arc<EndpointState>)> {
        let mut seen = BTreeSet::new();
        let discovered = self.discovered.iter().flat_map(|endpoints| endpoints.iter());
        let all = planned.endpoints.iter().chain(discovered);
        let all = all.filter(|endpoint| seen.insert(&endpoint.address));
        all.map(|endpoint| (endpoint.clone(), self.state.endpoint(&endpoint.address))).collect()
    }

    fn discovered(&self) -> Option<Arc<[Endpoint]>> {
        let looks_up = self.planned.as_ref().is_some_and(|planned| planned.discover.is_some());
        self.state.discovered().filter(|_| looks_up)
    }

    /// Sends a notice for each endpoint whose ejection ended. Returns whether there was one.
    fn notify_returned(&self, endpoints: &[Arc<EndpointState>]) -> bool {
        endpoints.iter().for_each(|endpoint| self.state.notify(endpoint, EndpointEvent::Returned));
        !endpoints.is_empty()
    }
}

/// Whether both are the same allocation, or both are `None`.
fn same(a: Option<&Arc<[Endpoint]>>, b: Option<&Arc<[Endpoint]>>) -> bool {
    match (a, b) {
        (Some(a), Some(b)) => Arc::ptr_eq(a, b),
        (None, None) => true,
        _ => false,
    }
}
