//! The figures of all routes and upstreams, for lists that are sorted and paged.
//!
//! [`Registry::figures`] is what `GET /api/v1/live/routes` and `.../upstreams` select from. It is not bounded
//! as the live document is: the caller takes one page of it.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::{Instant, SystemTime};

use super::assemble::{route, upstream};
use super::{RouteLive, UpstreamLive};
use crate::status::seconds;
use crate::{Registry, UpstreamSnapshot};

/// The figures of all routes and upstreams at one moment.
#[derive(Debug)]
pub struct Figures {
    /// Seconds since 1970.
    pub time: f64,
    /// Seconds that the rates cover; 0: this is the first request for a while, and there are no rates.
    pub window: f64,
    /// Routes with requests, by name; `-` is no route, `other` all routes without a series of their own.
    pub routes: HashMap<Arc<str>, RouteLive>,
    /// Every upstream of the plan.
    pub upstreams: Vec<UpstreamLive>,
}

impl Registry {
    /// Returns the figures of all routes and upstreams, with rates since an earlier call.
    #[must_use]
    pub fn figures(&self) -> Figures {
        let snapshot = self.snapshot();
        let statuses = self.upstreams();
        let mut rates = self.with_rates(|samples| samples.rates(Instant::now(), &snapshot, &statuses));
        let routes = snapshot.routes.iter().map(|counts| {
            let recent = rates.routes.get(&counts.name).copied();
            (counts.name.clone(), RouteLive { recent, ..route(counts) })
        });
        let counts: HashMap<&str, &UpstreamSnapshot> =
            snapshot.upstreams.iter().map(|counts| (&*counts.name, counts)).collect();
        let routes = routes.collect();
        let upstreams = statuses.iter().map(|status| {
            let mut endpoints = rates.endpoints.remove(&status.name).unwrap_or_default();
            let mut live = upstream(status, counts.get(&*status.name).copied(), status.endpoints.len());
            live.recent = rates.upstreams.get(&status.name).copied();
            for endpoint in &mut live.endpoints {
                endpoint.recent = endpoints.remove(&endpoint.address);
            }
            live
        });
        let upstreams = upstreams.collect();
        let window = (rates.window.as_secs_f64() * 1e3).round() / 1e3;
        Figures { time: seconds(SystemTime::now()), window, routes, upstreams }
    }
}

/// The number of an upstream's endpoints in each state. States without endpoints are left out.
#[must_use]
pub fn endpoint_states(upstream: &UpstreamLive) -> BTreeMap<&str, usize> {
    let mut states = BTreeMap::new();
    for endpoint in &upstream.endpoints {
        *states.entry(endpoint.state.as_str()).or_default() += 1;
    }
    states
}

impl UpstreamLive {
    /// Returns the state of the whole upstream.
    #[must_use]
    pub fn state(&self) -> UpstreamState {
        let count = |state: &str| self.endpoints.iter().filter(|endpoint| endpoint.state == state).count();
        let failing = count("unhealthy") + count("ejected");
        let usable = count("available") + count("unknown");
        if self.breaker_open || usable == 0 {
            UpstreamState::Unavailable
        } else if failing > 0 || self.lookup_problem.is_some() {
            UpstreamState::Degraded
        } else if count("available") == 0 {
            UpstreamState::Unknown
        } else {
            UpstreamState::Available
        }
    }
}

/// The state of an upstream, the worst first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum UpstreamState {
    /// No endpoint takes requests, or the circuit breaker is open.
    Unavailable,
    /// Some endpoints take no requests, or the last look-up of endpoints failed.
    Degraded,
    /// No endpoint was contacted yet.
    Unknown,
    /// Every endpoint takes requests, except draining ones.
    Available,
}

impl UpstreamState {
    /// Returns the spelling in the API.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            UpstreamState::Unavailable => "unavailable",
            UpstreamState::Degraded => "degraded",
            UpstreamState::Unknown => "unknown",
            UpstreamState::Available => "available",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::upstreams::sample::{Fixed, shop};
    use crate::{EndpointStatus, UpstreamStatus};

    fn only(endpoint: EndpointStatus) -> UpstreamStatus {
        UpstreamStatus { name: "one".to_owned(), endpoints: vec![endpoint], ..UpstreamStatus::default() }
    }

    #[test]
    fn an_upstream_is_as_well_as_its_endpoints() {
        let registry = Registry::new(true);
        let untouched = EndpointStatus { weight: 1, ..EndpointStatus::default() };
        let asked = EndpointStatus { weight: 1, requests: 3, ..EndpointStatus::default() };
        let drained = EndpointStatus { weight: 0, ..EndpointStatus::default() };
        registry.watch_upstreams(Arc::new(Fixed(vec![shop(), only(untouched), only(asked), only(drained)])));
        let figures = registry.figures();
        let states: Vec<UpstreamState> = figures.upstreams.iter().map(UpstreamLive::state).collect();
        use UpstreamState::{Available, Degraded, Unavailable, Unknown};
        assert_eq!(states, [Degraded, Unknown, Available, Unavailable]);
        assert_eq!(endpoint_states(&figures.upstreams[1]), BTreeMap::from([("unknown", 1)]));
    }
}
