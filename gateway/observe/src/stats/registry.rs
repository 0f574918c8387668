//! The registry of all workers' counters.
//!
//! The program creates one [`Registry`] and gives each worker its [`WorkerStats`]. The admin listener, the cost meter
//! and the dashboard read [snapshots](Registry::snapshot), which add the workers' counters up. Invariant: only the
//! worker's thread writes its counters, so a snapshot takes no lock that a request waits for.

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Instant, SystemTime};

use super::endpoints::{EndpointsSnapshot, OtherUpstreams};
use super::exposition;
use super::handshakes::HandshakesSnapshot;
use super::histogram::HistogramSnapshot;
use super::page::Exposition;
use super::policies::PolicyEvents;
use super::routes::{RouteSlots, Routes};
use super::shedding::ShedSnapshot;
use super::slots::{NAMED_SLOTS_DEFAULT, NAMED_SLOTS_MAX, Slot, Slots};
use super::snapshot::{CODES, RouteSnapshot, Snapshot, UpstreamSnapshot};
use super::streams::StreamsSnapshot;
use super::worker::WorkerStats;
use crate::live::{
    Columns, CounterTotals, History, HistoryDocument, HistoryScope, HourHistory, RateSamples, WorkerLive,
    reasons,
};
use crate::log::LogCounts;
use crate::trace::TraceCounts;
use crate::{AccessLog, AdminCounts, CostReading, Protocol, Reason, Status, UpstreamSource, UpstreamStatus};

/// The process-wide registry: hands out label slots, owns the workers' counters, and adds them up.
///
/// Routes and upstreams have a bounded number of slots each, for the names that are used; all others share
/// [`Slot::OTHER`]. So the size of a scrape, and the memory of a worker, stay bounded across any number of
/// configurations.
#[derive(Debug)]
pub struct Registry {
    enabled: bool,
    bounds: SeriesBounds,
    routes: Arc<Routes>,
    upstreams: Slots,
    other: Mutex<OtherUpstreams>,
    workers: Mutex<Vec<Arc<WorkerStats>>>,
    cost: Mutex<CostReading>,
    status: Mutex<Status>,
    /// Counters of every log since the start, so that a reload does not reset the sums.
    logs: Mutex<Vec<Arc<LogCounts>>>,
    source: OnceLock<Arc<dyn UpstreamSource>>,
    history: Mutex<History>,
    hour: Mutex<HourHistory>,
    rates: Mutex<RateSamples>,
    policies: Arc<PolicyEvents>,
    admin: Arc<AdminCounts>,
    traces: Arc<TraceCounts>,
}

/// The number of routes and upstreams that have series of their own. Both are at most 50,000.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SeriesBounds {
    /// Routes.
    pub routes: usize,
    /// Upstreams.
    pub upstreams: usize,
}

impl Default for SeriesBounds {
    fn default() -> Self {
        Self { routes: NAMED_SLOTS_DEFAULT, upstreams: NAMED_SLOTS_DEFAULT }
    }
}

impl Registry {
    /// Creates a registry without workers, with the default bounds. With `enabled` false, only started and ended
    /// requests are counted.
    #[must_use]
    pub fn new(enabled: bool) -> Arc<Registry> {
        let none = SeriesBounds { routes: 0, upstreams: 0 };
        Self::with_bounds(if enabled { SeriesBounds::default() } else { none }, enabled)
    }

    /// Creates a registry without workers; see [`new`](Self::new).
    #[must_use]
    pub fn with_bounds(bounds: SeriesBounds, enabled: bool) -> Arc<Registry> {
        let bounds = SeriesBounds {
            routes: bounds.routes.min(NAMED_SLOTS_MAX),
            upstreams: bounds.upstreams.min(NAMED_SLOTS_MAX),
        };
        Arc::new(Registry {
            enabled,
            bounds,
            routes: Routes::new(bounds.routes),
            upstreams: Slots::new(bounds.upstreams),
            other: Mutex::default(),
            workers: Mutex::default(),
            cost: Mutex::default(),
            status: Mutex::default(),
            logs: Mutex::default(),
            source: OnceLock::new(),
            history: Mutex::default(),
            hour: Mutex::default(),
            rates: Mutex::default(),
            policies: Arc::default(),
            admin: Arc::default(),
            traces: Arc::default(),
        })
    }

    /// Returns whether metrics are on.
    #[must_use]
    pub fn enabled(&self) -> bool {
        self.enabled
    }

    /// Returns the slots of the routes of a new plan, in their order.
    #[must_use]
    pub fn route_slots<'a>(&self, names: impl Iterator<Item = &'a str>) -> RouteSlots {
        self.routes.plan(names)
    }

    /// Returns the slot of the route with this name, which takes a free one if it has none; [`Slot::NONE`] for an
    /// empty name. It takes a lock.
    #[must_use]
    pub fn route_slot(&self, name: &str) -> Slot {
        self.routes.assign(name)
    }

    /// Returns the slot of the upstream with this name, which takes a free one if it has none; [`Slot::NONE`] for
    /// an empty name. Called when a worker first uses an upstream, not for a request: it takes a lock.
    #[must_use]
    pub fn upstream_slot(&self, name: &str) -> Slot {
        self.upstreams.get(name)
    }

    /// Creates the counters of a new worker. They stay in the sums after the worker ends.
    #[must_use]
    pub fn worker(&self) -> Arc<WorkerStats> {
        let stats = Arc::new(WorkerStats::new(self.enabled, self.bounds.routes, self.bounds.upstreams));
        lock(&self.workers).push(stats.clone());
        stats
    }

    /// Adds the log's line counts to the metrics, in addition to those from earlier logs.
    pub fn watch_log(&self, log: &AccessLog) {
        lock(&self.logs).extend(log.counts());
    }

    /// Sets the source for the state of upstreams in the metrics and on the admin listener. Only the first
    /// call takes effect.
    pub fn watch_upstreams(&self, source: Arc<dyn UpstreamSource>) {
        let _ = self.source.set(source);
    }

    /// Returns the present state of every upstream.
    #[must_use]
    pub fn upstreams(&self) -> Vec<UpstreamStatus> {
        self.source.get().map_or_else(Vec::new, |source| source.upstreams())
    }

    /// Returns the counters of policy events.
    #[must_use]
    pub fn policy_events(&self) -> Arc<PolicyEvents> {
        self.policies.clone()
    }

    /// Returns the counters of the admin listener.
    #[must_use]
    pub fn admin_counts(&self) -> Arc<AdminCounts> {
        self.admin.clone()
    }

    /// Returns the counters of traces.
    #[must_use]
    pub fn trace_counts(&self) -> Arc<TraceCounts> {
        self.traces.clone()
    }

    /// Publishes a reading of the cost meter, for [`snapshot`](Self::snapshot) and the admin listener.
    pub fn set_cost(&self, reading: CostReading) {
        *lock(&self.cost) = reading;
    }

    /// Returns the last published reading of the cost meter.
    #[must_use]
    pub fn cost(&self) -> CostReading {
        lock(&self.cost).clone()
    }

    /// Changes the status that the admin listener shows.
    pub fn update_status(&self, change: impl FnOnce(&mut Status)) {
        change(&mut lock(&self.status));
    }

    /// Returns the state of the process.
    #[must_use]
    pub fn status(&self) -> Status {
        lock(&self.status).clone()
    }

    /// Returns the requests that ended since the start, over all workers.
    #[must_use]
    pub fn requests(&self) -> u64 {
        lock(&self.workers).iter().map(|worker| worker.ended()).sum()
    }

    /// Returns the requests in flight, over all workers; a drain waits for them.
    #[must_use]
    pub fn in_flight(&self) -> u64 {
        lock(&self.workers).iter().map(|worker| worker.in_flight()).sum()
    }

    /// Adds a second to the history of [`live`](Self::live), and every ten seconds a step to that of
    /// [`hour`](Self::hour). It also gives slots to busy routes. Callers call it once per second, after
    /// [`set_cost`](Self::set_cost).
    pub fn record_second(&self, now: SystemTime) {
        let mut totals = CounterTotals::default();
        let workers = lock(&self.workers).clone();
        for worker in &workers {
            worker.add_to_totals(&mut totals);
        }
        self.routes.rebalance(&workers);
        let cost = self.cost();
        lock(&self.history).add(now, &cost, totals);
        lock(&self.rates).expire(Instant::now());
        if lock(&self.hour).is_due(now) {
            // Taken before the lock, since a snapshot walks all endpoints.
            let snapshot = self.snapshot();
            lock(&self.hour).add(now, &snapshot);
        }
    }

    /// Calls `look` with the samples from which rates are computed.
    pub(crate) fn with_rates<T>(&self, look: impl FnOnce(&mut RateSamples) -> T) -> T {
        look(&mut lock(&self.rates))
    }

    /// Returns the last hour of the gateway, a route or an upstream, in steps of ten seconds. `name` counts
    /// only for a route or an upstream; `after` selects the rows after this time, in seconds since 1970.
    #[must_use]
    pub fn hour(&self, scope: HistoryScope, name: &str, after: f64) -> HistoryDocument {
        let reasons = reasons(&self.snapshot(), scope, name);
        HistoryDocument { reasons, ..lock(&self.hour).document(scope, name, after) }
    }

    /// Returns the seconds of the history after this time, in seconds since 1970.
    pub(crate) fn history(&self, after: f64) -> Columns {
        lock(&self.history).columns(after)
    }

    /// Returns the counts of each worker.
    pub(crate) fn worker_counts(&self) -> Vec<WorkerLive> {
        lock(&self.workers).iter().map(|worker| worker.counts()).collect()
    }

    /// Returns all counts at this moment.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        let logs = lock(&self.logs).clone();
        let owners = self.routes.owners();
        let unnamed = ["-".into(), "other".into(), Arc::default()];
        let routes = unnamed.iter().chain(owners.iter().map(|(name, _)| name));
        let upstreams = self.upstreams.names();
        let status = self.upstreams();
        let labels = self.upstreams.labels(status.iter().map(|upstream| upstream.name.as_str()));
        let mut sum = Snapshot {
            in_flight: 0,
            requests: 0,
            bytes_in: 0,
            bytes_out: 0,
            client_connections: 0,
            client_connections_opened: 0,
            client_connections_rejected: 0,
            client_connections_handed_over: 0,
            messages: 0,
            shed: ShedSnapshot::default(),
            policies: self.policies.snapshot(),
            admin: self.admin.snapshot(),
            traces: self.traces.snapshot(),
            handshakes: HandshakesSnapshot::default(),
            grpc_methods: Default::default(),
            protocols: [0; Protocol::ALL.len()],
            reasons: [0; Reason::ALL.len()],
            codes: [0; CODES],
            duration: HistogramSnapshot::default(),
            routes: routes.map(|name| RouteSnapshot::new(name.clone())).collect(),
            upstreams: unnamed
                .iter()
                .chain(&upstreams)
                .map(|name| UpstreamSnapshot::new(name.clone()))
                .collect(),
            in_other: [self.routes.in_other(), self.upstreams.in_other()],
            streams: StreamsSnapshot::default(),
            workers: self.worker_counts(),
            log_lines: logs.iter().map(|log| log.written()).sum(),
            log_dropped: logs.iter().map(|log| log.dropped()).sum(),
            cost: self.cost(),
            status: self.status(),
            endpoints: EndpointsSnapshot::new(status, &labels, &mut lock(&self.other)),
        };
        for worker in lock(&self.workers).iter() {
            worker.add_to(&mut sum);
        }
        for (index, route) in sum.routes.iter_mut().enumerate() {
            // The totals have what was counted for earlier owners of a slot too.
            add(&mut sum.codes, &route.codes);
            add(&mut sum.reasons, &route.reasons);
            sum.duration.add(&route.duration);
            let owner = index.checked_sub(unnamed.len()).and_then(|owner| owners.get(owner));
            if let Some((_, Some(base))) = owner {
                route.subtract(base);
            }
        }
        sum.routes.retain(RouteSnapshot::is_used);
        sum.upstreams.retain(UpstreamSnapshot::is_used);
        sum
    }

    /// Renders the metrics as OpenMetrics 1.0 text. See [`render_as`](Self::render_as).
    #[must_use]
    pub fn render(&self) -> String {
        self.render_as(Exposition::OpenMetrics)
    }

    /// Renders the metrics in a format. Names and labels are listed in `docs/metrics.md`.
    #[must_use]
    pub fn render_as(&self, format: Exposition) -> String {
        exposition::render(self.snapshot(), format)
    }
}

fn add(sum: &mut [u64], counts: &[u64]) {
    for (sum, count) in sum.iter_mut().zip(counts) {
        *sum += count;
    }
}

/// Locks a mutex, also after a panic in another thread: the guarded data is consistent between any two
/// statements.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::Tally;
    use crate::record::sample;

    #[test]
    fn workers_add_up() {
        let registry = Registry::new(true);
        let (items, shop) = (registry.route_slot("items"), registry.upstream_slot("shop"));
        let workers = [registry.worker(), registry.worker()];
        let tally = Tally { route_slot: items, upstream_slot: shop, bytes_in: 7, ..sample::tally() };
        for worker in &workers {
            worker.client_opened();
            worker.upstream_opened(shop);
            worker.upstream_opened(shop);
            worker.upstream_idle(shop, 1);
            for _ in 0..3 {
                worker.request_started();
                worker.record(&tally, || items);
            }
            worker.request_started();
        }
        workers[0].client_closed();
        workers[1].upstream_failed(shop, Reason::ConnectionRefused);

        let sum = registry.snapshot();
        assert_eq!((sum.requests, sum.in_flight), (6, 2));
        assert_eq!((registry.requests(), registry.in_flight()), (6, 2));
        assert_eq!((sum.bytes_in, sum.bytes_out), (42, 6 * 1234));
        assert_eq!((sum.client_connections, sum.client_connections_opened), (1, 2));
        assert_eq!(sum.reasons[Reason::None as usize], 6);
        assert_eq!(sum.routes.len(), 1);
        assert_eq!((&*sum.routes[0].name, sum.routes[0].codes), ("items", [0, 0, 6, 0, 0, 0]));
        assert_eq!(sum.routes[0].duration.nanos, 6 * 2_500_000);
        let upstream = &sum.upstreams[0];
        assert_eq!((upstream.active(), upstream.idle, upstream.opened), (2, 2, 4));
        assert_eq!(upstream.header.count(), 6);
        assert_eq!(upstream.failures[Reason::ConnectionRefused as usize], 1);
    }

    #[test]
    fn off_counts_requests_only() {
        let registry = Registry::new(false);
        let worker = registry.worker();
        let route_slot = registry.route_slot("items");
        worker.request_started();
        worker.request_started();
        worker.client_opened();
        worker.upstream_opened(registry.upstream_slot("shop"));
        worker.record(&Tally { route_slot, total: Duration::from_secs(1), ..sample::tally() }, || route_slot);
        let sum = registry.snapshot();
        assert_eq!((sum.requests, sum.in_flight), (1, 1));
        assert_eq!((sum.bytes_out, sum.client_connections_opened), (0, 0));
        assert!(sum.routes.is_empty() && sum.upstreams.is_empty());
    }
}
