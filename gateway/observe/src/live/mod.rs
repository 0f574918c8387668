//! The gateway's current state as one document: `GET /api/v1/live`, which the dashboard and `tollgate top`
//! show.
//!
//! The control thread assembles it on request from counters that exist anyway; a worker does nothing for it.
//! Counts run from the start of the process. To show a rate, a client fetches two documents and divides the
//! difference ([`Latency::since`]). Limits come from the plan, which this crate does not know; the caller
//! fills them in. The history ([`Columns`]) gives a new client the last minutes at once.

mod assemble;
mod history;
mod hour;
mod latency;
mod lists;
mod rates;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

pub(crate) use history::{CounterTotals, History};
pub use hour::{HistoryDocument, HistoryScope};
pub(crate) use hour::{HourHistory, reasons};
pub use latency::Latency;
pub use lists::{Figures, UpstreamState, endpoint_states};
pub(crate) use rates::RateSamples;
pub use rates::RecentRates;

/// Bound of upstreams in a document; the ones with the most requests are kept.
const UPSTREAMS_MAX: usize = 256;

/// Bound of endpoints in a document, over all of its upstreams.
const ENDPOINTS_MAX: usize = 1000;

/// The gateway at one moment. Times are seconds since 1970, and durations are seconds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LiveDocument {
    /// Time of the document.
    pub time: f64,
    /// Version of the program.
    pub version: String,
    /// `running`, or `draining`.
    pub state: String,
    /// Seconds since the process started.
    pub uptime: f64,
    /// Path of the configuration file.
    pub file: String,
    /// Number of the plan in force: 1 at the start, plus 1 for each change.
    pub generation: u64,
    /// Time since which that plan has been in force.
    pub in_force_since: f64,
    /// The last reload or change; `None` before the first.
    pub last_change: Option<LastChange>,
    /// Number of routes in the plan.
    pub configured_routes: usize,
    /// Whether `metrics` is on. If it is off, only `requests.total` and `requests.in_flight` count.
    pub metrics: bool,
    /// Totals over all requests.
    pub requests: Requests,
    /// Client connections.
    pub clients: ClientsLive,
    /// The workers, in order.
    pub workers: Vec<WorkerLive>,
    /// Routes with requests, the busiest first. `-` is no route; `other` is every route without figures of its own.
    pub routes: Vec<RouteLive>,
    /// Upstreams, the busiest first.
    pub upstreams: Vec<UpstreamLive>,
    /// Number of upstreams left out: a document holds at most 256, and 1,000 endpoints.
    pub upstreams_left_out: usize,
    /// Exchanges that the gateway ended or answered itself, by reason. Reasons with a count of 0 are left
    /// out.
    pub reasons: BTreeMap<String, u64>,
    /// CPU time per request, and the headroom.
    pub cost: CostLive,
    /// Use of memory and file descriptors.
    pub resources: Resources,
    /// The last minutes, one point per second. With `?after=TIME`, only later points.
    pub history: Columns,
}

/// Result of the last change of the configuration.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LastChange {
    /// Time at which it finished or failed.
    pub at: f64,
    /// Its duration, in milliseconds.
    pub milliseconds: f64,
    /// Why it failed; `None`: it took effect.
    pub problem: Option<String>,
}

/// Requests since the start.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Requests {
    /// Requests that ended.
    pub total: u64,
    /// Requests that are in flight.
    pub in_flight: u64,
    /// Ended requests by class of status: no answer, 1xx, ... 5xx.
    pub codes: [u64; 6],
    /// Bytes of request bodies received from clients.
    pub bytes_in: u64,
    /// Bytes of response bodies sent to clients.
    pub bytes_out: u64,
    /// Duration of the exchanges.
    pub latency: Latency,
    /// Ended requests by protocol. Protocols with a count of 0 are left out.
    pub protocols: BTreeMap<String, u64>,
}

/// Client connections.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ClientsLive {
    /// Open connections.
    pub open: u64,
    /// Connections accepted since the start.
    pub opened: u64,
    /// Connections refused since the start: at the limit, or for lack of memory or descriptors.
    pub rejected: u64,
    /// Bound of open connections; `None`: no limit.
    pub limit: Option<u64>,
}

/// The counts of one worker.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct WorkerLive {
    /// Requests that ended since the start.
    pub requests: u64,
    /// Requests in flight.
    pub in_flight: u64,
    /// Open client connections.
    pub clients: u64,
}

/// The counts of one route.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RouteLive {
    /// Name of the route, `-` or `other`.
    pub name: String,
    /// Requests that ended.
    pub requests: u64,
    /// Ended requests by class of status: no answer, 1xx, ... 5xx.
    pub codes: [u64; 6],
    /// Duration of the exchanges.
    pub latency: Latency,
    /// The last seconds; only in lists, and there `None` in the first answer for a while.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recent: Option<RecentRates>,
}

/// The state and counts of one upstream.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct UpstreamLive {
    /// Name of the upstream.
    pub name: String,
    /// Its endpoints, up to the bound of the document.
    pub endpoints: Vec<EndpointLive>,
    /// Number of its endpoints left out.
    pub endpoints_left_out: usize,
    /// Connections in use.
    pub active: u64,
    /// Connections idle in pools.
    pub idle: u64,
    /// Connections opened since the start.
    pub opened: u64,
    /// Requests that took a connection from a pool.
    pub reused: u64,
    /// Requests waiting for a connection.
    pub waiting: u64,
    /// Answered attempts: time to the response's head.
    pub latency: Latency,
    /// Attempts that failed.
    pub failures: u64,
    /// Attempts after a failed one.
    pub retries: u64,
    /// Whether its circuit breaker is open.
    pub breaker_open: bool,
    /// Its configured limits.
    pub limits: UpstreamLimitsLive,
    /// State of its adaptive limit; `None`: it has none.
    pub adaptive: Option<AdaptiveLive>,
    /// Why the last look-up of its endpoints failed; `None`: it succeeded.
    pub lookup_problem: Option<String>,
    /// The last seconds; only in lists, and there `None` in the first answer for a while.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recent: Option<RecentRates>,
}

/// The limits of an upstream, over all workers; `None`: no limit.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct UpstreamLimitsLive {
    /// Connections to all endpoints together.
    pub connections: Option<u32>,
    /// Connections to one endpoint.
    pub endpoint_connections: Option<u32>,
    /// Requests in flight.
    pub requests: Option<u32>,
}

/// The state of an adaptive limit.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct AdaptiveLive {
    /// How many requests may be in flight.
    pub limit: u32,
    /// How many are in flight.
    pub in_flight: u32,
}

/// The state and counts of one endpoint.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct EndpointLive {
    /// Address of the endpoint.
    pub address: String,
    /// Its share of the requests, relative to the other weights.
    pub weight: u32,
    /// Its priority; endpoints with 0 are used first.
    pub priority: u8,
    /// Its zone.
    pub zone: Option<String>,
    /// `available`, `unhealthy`, `ejected`, `draining`, or `unknown`: it would take requests, and was never
    /// contacted.
    pub state: String,
    /// The verdict of the probes: `unknown`, `healthy` or `unhealthy`.
    pub health: String,
    /// Seconds since that verdict; `None`: there is none yet.
    pub health_for: Option<f64>,
    /// Why the last probe failed.
    pub problem: Option<String>,
    /// Seconds until its ejection ends; `None`: it is not ejected.
    pub ejected_for: Option<f64>,
    /// Cause of its ejection.
    pub ejection_cause: Option<String>,
    /// Connections that are open or being opened.
    pub connections: u32,
    /// Attempts that ended.
    pub requests: u64,
    /// Attempts that failed, or were answered with 5xx.
    pub failures: u64,
    /// The last seconds; only in lists, and there `None` in the first answer for a while.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recent: Option<RecentRates>,
}

/// CPU time per request, and the headroom; see `docs/cost.md`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CostLive {
    /// Cores that the gateway can use.
    pub cores: f64,
    /// Seconds over which the figures below were observed.
    pub observed: f64,
    /// Requests per second.
    pub requests_per_second: Option<f64>,
    /// Cores in use.
    pub cores_used: Option<f64>,
    /// Microseconds of CPU time per request; `None`: too few requests.
    pub cpu_microseconds_per_request: Option<f64>,
    /// Requests per second that these cores carry at this cost.
    pub ceiling: Option<f64>,
    /// The ceiling minus the present rate.
    pub headroom: Option<f64>,
}

/// Use of memory and file descriptors.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Resources {
    /// Bytes of resident memory.
    pub memory: Option<u64>,
    /// Bound of resident memory, in bytes; `None`: no bound.
    pub memory_bound: Option<u64>,
    /// Open file descriptors.
    pub files: Option<u64>,
    /// Bound of open file descriptors.
    pub files_bound: Option<u64>,
    /// Priorities whose requests are rejected.
    pub shed: Vec<String>,
}

/// The history as columns of equal length, one row per second. Unknown figures are `null`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Columns {
    /// The end of the second.
    pub time: Vec<f64>,
    /// Requests per second.
    pub requests: Vec<f64>,
    /// Requests per second answered with 4xx.
    pub client_errors: Vec<f64>,
    /// Requests per second answered with 5xx.
    pub server_errors: Vec<f64>,
    /// The 50th percentile of durations, in seconds.
    pub p50: Vec<Option<f64>>,
    /// The 90th percentile.
    pub p90: Vec<Option<f64>>,
    /// The 99th percentile.
    pub p99: Vec<Option<f64>>,
    /// Microseconds of CPU time per request, over the last ten seconds; `null`: too few requests.
    pub cpu_microseconds_per_request: Vec<Option<f64>>,
    /// Cores in use, over the last ten seconds.
    pub cores_used: Vec<f64>,
    /// Requests in flight at the end of the second.
    pub in_flight: Vec<u64>,
}
