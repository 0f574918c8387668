//! Assembles the live document from the registry's data.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::time::{Duration, SystemTime};

use super::{
    AdaptiveLive, ClientsLive, CostLive, ENDPOINTS_MAX, EndpointLive, LastChange, Latency, LiveDocument,
    Requests, Resources, RouteLive, UPSTREAMS_MAX, UpstreamLimitsLive, UpstreamLive,
};
use crate::stats::resident_bytes;
use crate::status::seconds;
use crate::{
    EndpointStatus, OperationResult, Protocol, Reason, Registry, RouteSnapshot, Snapshot, Status,
    UpstreamSnapshot, UpstreamStatus,
};

impl Registry {
    /// Returns the current document. `after` selects the history's points after this time, in seconds since
    /// 1970; 0: all.
    #[must_use]
    pub fn live(&self, after: f64) -> LiveDocument {
        let now = SystemTime::now();
        let snapshot = self.snapshot();
        let status = &snapshot.status;
        let (upstreams, upstreams_left_out) = upstreams(self.upstreams(), &snapshot);
        LiveDocument {
            time: seconds(now),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            state: if status.draining { "draining" } else { "running" }.to_owned(),
            uptime: short(now.duration_since(status.started).unwrap_or_default()),
            file: status.file.clone(),
            generation: status.generation,
            in_force_since: seconds(status.in_force_since),
            last_change: status.last_reload.as_ref().map(last_change),
            configured_routes: status.routes,
            metrics: self.enabled(),
            requests: requests(&snapshot),
            clients: ClientsLive {
                open: snapshot.client_connections,
                opened: snapshot.client_connections_opened,
                rejected: snapshot.client_connections_rejected,
                limit: None,
            },
            workers: snapshot.workers.clone(),
            routes: routes(&snapshot),
            upstreams,
            upstreams_left_out,
            reasons: counted(Reason::ALL.iter().map(|reason| reason.as_str()).zip(snapshot.reasons).skip(1)),
            cost: cost(&snapshot),
            resources: resources(status),
            history: self.history(after),
        }
    }
}

/// Returns the entries whose count is not 0.
fn counted<'a>(all: impl Iterator<Item = (&'a str, u64)>) -> BTreeMap<String, u64> {
    all.filter(|(_, count)| *count > 0).map(|(name, count)| (name.to_owned(), count)).collect()
}

fn last_change(attempt: &OperationResult) -> LastChange {
    let milliseconds = (attempt.took.as_secs_f64() * 1e6).round() / 1e3;
    LastChange { at: seconds(attempt.at), milliseconds, problem: attempt.problem.clone() }
}

fn requests(snapshot: &Snapshot) -> Requests {
    Requests {
        total: snapshot.requests,
        in_flight: snapshot.in_flight,
        codes: snapshot.codes,
        bytes_in: snapshot.bytes_in,
        bytes_out: snapshot.bytes_out,
        latency: Latency::new(&snapshot.duration),
        protocols: counted(Protocol::ALL.iter().map(|protocol| protocol.as_str()).zip(snapshot.protocols)),
    }
}

/// Returns the counts of a route.
pub(super) fn route(route: &RouteSnapshot) -> RouteLive {
    RouteLive {
        name: route.name.to_string(),
        requests: route.requests(),
        codes: route.codes,
        latency: Latency::new(&route.duration),
        recent: None,
    }
}

fn routes(snapshot: &Snapshot) -> Vec<RouteLive> {
    let mut all: Vec<RouteLive> = snapshot.routes.iter().map(route).collect();
    all.sort_by_key(|route| Reverse(route.requests));
    all
}

/// Returns the busiest upstreams, and the number of the others.
fn upstreams(mut all: Vec<UpstreamStatus>, snapshot: &Snapshot) -> (Vec<UpstreamLive>, usize) {
    let counts: HashMap<&str, &UpstreamSnapshot> =
        snapshot.upstreams.iter().map(|counts| (&*counts.name, counts)).collect();
    all.sort_by_cached_key(|upstream| {
        Reverse(upstream.endpoints.iter().map(|endpoint| endpoint.requests).sum::<u64>())
    });
    let left_out = all.len().saturating_sub(UPSTREAMS_MAX);
    let mut room = ENDPOINTS_MAX;
    let shown = all.iter().take(UPSTREAMS_MAX).map(|status| {
        let shown = status.endpoints.len().min(room);
        room -= shown;
        upstream(status, counts.get(&*status.name).copied(), shown)
    });
    (shown.collect(), left_out)
}

/// Returns the state and counts of an upstream, with its first `shown` endpoints.
pub(super) fn upstream(
    status: &UpstreamStatus,
    counts: Option<&UpstreamSnapshot>,
    shown: usize,
) -> UpstreamLive {
    let count = |count: fn(&UpstreamSnapshot) -> u64| counts.map_or(0, count);
    UpstreamLive {
        name: status.name.clone(),
        endpoints_left_out: status.endpoints.len() - shown,
        endpoints: status.endpoints.iter().take(shown).map(endpoint).collect(),
        active: count(UpstreamSnapshot::active),
        idle: count(|counts| counts.idle),
        opened: count(|counts| counts.opened),
        reused: count(|counts| counts.reused),
        waiting: count(|counts| counts.queueing.waiting),
        latency: counts.map_or_else(Latency::default, |counts| Latency::new(&counts.header)),
        failures: count(|counts| counts.failures.iter().sum()),
        retries: count(|counts| counts.resilience.retries),
        breaker_open: counts.is_some_and(|counts| counts.resilience.is_open()),
        limits: UpstreamLimitsLive::default(),
        adaptive: status
            .adaptive
            .map(|adaptive| AdaptiveLive { limit: adaptive.limit, in_flight: adaptive.in_flight }),
        lookup_problem: status.lookups.as_ref().and_then(|lookups| lookups.problem.clone()),
        recent: None,
    }
}

fn endpoint(endpoint: &EndpointStatus) -> EndpointLive {
    let problem = endpoint.last_probe.as_ref().and_then(|probe| probe.failure.as_ref());
    EndpointLive {
        address: endpoint.address.clone(),
        weight: endpoint.weight,
        priority: endpoint.priority,
        zone: endpoint.zone.clone(),
        state: endpoint.shown_state().to_owned(),
        health: endpoint.health.as_str().to_owned(),
        health_for: endpoint.health_for.map(short),
        problem: problem.map(|(_, detail)| detail.clone()),
        ejected_for: endpoint.ejected_for.map(short),
        ejection_cause: endpoint.ejected_for.and(endpoint.ejection_cause).map(str::to_owned),
        connections: endpoint.connections,
        requests: endpoint.requests,
        failures: endpoint.failures,
        recent: None,
    }
}

fn cost(snapshot: &Snapshot) -> CostLive {
    let (cores, now) = (snapshot.cost.cores, snapshot.cost.now());
    CostLive {
        cores,
        observed: short(now.observed),
        requests_per_second: now.requests_per_second(),
        cores_used: now.cores_used(),
        cpu_microseconds_per_request: now.cpu_microseconds_per_request(),
        ceiling: now.ceiling(cores),
        headroom: now.headroom(cores),
    }
}

fn resources(status: &Status) -> Resources {
    let resources = &status.resources;
    let memory = fs::read_to_string("/proc/self/status").ok();
    let shed = ["low", "normal", "high"].into_iter().take(usize::from(resources.sheds));
    Resources {
        memory: memory.and_then(|text| resident_bytes(&text)),
        memory_bound: resources.memory.map(|guarded| guarded.bound),
        files: resources.files.map(|guarded| guarded.used),
        files_bound: resources.files.map(|guarded| guarded.bound),
        shed: shed.map(str::to_owned).collect(),
    }
}

/// Returns the seconds, rounded to the millisecond.
fn short(duration: Duration) -> f64 {
    (duration.as_secs_f64() * 1e3).round() / 1e3
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::Tally;
    use crate::record::sample;
    use crate::upstreams::sample::{Fixed, shop};

    #[test]
    fn it_holds_what_was_counted() {
        let registry = Registry::new(true);
        let worker = registry.worker();
        let (items, shop_slot) = (registry.route_slot("items"), registry.upstream_slot("shop"));
        registry.watch_upstreams(Arc::new(Fixed(vec![shop()])));
        registry.record_second(SystemTime::now() - Duration::from_secs(1));
        worker.client_opened();
        worker.upstream_opened(shop_slot);
        worker.upstream_failed(shop_slot, Reason::ConnectionRefused);
        for reason in [Reason::None, Reason::None, Reason::NoRoute] {
            worker.request_started();
            worker.record(&Tally { route_slot: items, reason, ..sample::tally() }, || items);
        }
        worker.request_started();
        registry.record_second(SystemTime::now());

        let live = registry.live(0.0);
        assert_eq!((live.requests.total, live.requests.in_flight), (3, 1));
        assert_eq!(live.requests.codes, [0, 0, 3, 0, 0, 0]);
        assert_eq!(live.reasons, BTreeMap::from([("no_route".to_owned(), 1)]), "`-` is no reason");
        assert_eq!((live.routes[0].name.as_str(), live.routes[0].requests), ("items", 3));
        assert_eq!((live.workers.len(), live.workers[0].requests, live.workers[0].clients), (1, 3, 1));
        let shop = &live.upstreams[0];
        assert_eq!((shop.active, shop.failures, shop.endpoints.len()), (1, 1, 3));
        let states: Vec<&str> = shop.endpoints.iter().map(|endpoint| endpoint.state.as_str()).collect();
        assert_eq!(states, ["available", "unhealthy", "ejected"]);
        assert_eq!(shop.endpoints[1].problem.as_deref(), Some("no connection"));
        assert_eq!(live.history.time.len(), 1);
        assert!(registry.live(live.time + 1.0).history.time.is_empty());
        assert!(live.resources.memory.is_some_and(|bytes| bytes > 64 * 1024));
        let text = serde_json::to_string(&live).expect("JSON");
        assert_eq!(serde_json::from_str::<LiveDocument>(&text).expect("read back"), live);
    }

    #[test]
    fn a_document_is_bounded() {
        let registry = Registry::new(true);
        let endpoint = EndpointStatus { address: "10.0.0.1:80".to_owned(), ..EndpointStatus::default() };
        let many = UpstreamStatus { endpoints: vec![endpoint; 600], ..UpstreamStatus::default() };
        registry.watch_upstreams(Arc::new(Fixed(vec![many; 300])));
        let live = registry.live(0.0);
        assert_eq!((live.upstreams.len(), live.upstreams_left_out), (UPSTREAMS_MAX, 300 - UPSTREAMS_MAX));
        let shown: usize = live.upstreams.iter().map(|upstream| upstream.endpoints.len()).sum();
        assert_eq!((shown, live.upstreams[1].endpoints_left_out), (ENDPOINTS_MAX, 200));
    }
}
