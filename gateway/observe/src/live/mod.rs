//! What goes on at this moment, as one document: `GET /api/v1/live`, which the dashboard and `tollgate top` show.
//!
//! It is made of counters that are kept anyway, on the control thread, when somebody asks: a worker does nothing for it.
//! Counts run from the start of the process; who shows rates takes two documents and divides what is between them
//! ([`Latency::since`]). Limits are the plan's, which is not known here: whoever knows it fills them in. The history ([`Columns`]) holds what a newcomer would otherwise have to wait for.

mod document;
mod history;
mod latency;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

pub(crate) use history::{History, Totals};
pub use latency::Latency;

/// Upstreams in a document; those with the most requests are kept.
const UPSTREAMS: usize = 256;

/// Endpoints in a document, over all of its upstreams.
const ENDPOINTS: usize = 1000;

/// The gateway at one moment. Times are seconds since 1970; durations, as histograms', seconds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Live {
    /// Now.
    pub time: f64,
    /// The program's version.
    pub version: String,
    /// `running`, or `draining`.
    pub state: String,
    /// Seconds since the process started.
    pub uptime: f64,
    /// The configuration's file.
    pub file: String,
    /// The number of the plan in force: 1 at the start, one more with each change.
    pub generation: u64,
    /// Since when it has been in force.
    pub in_force_since: f64,
    /// The last reload or change; nothing before the first.
    pub last_change: Option<LastChange>,
    /// Routes of the plan.
    pub configured_routes: usize,
    /// Whether `metrics` is on: if not, all counts but `requests.total` and `requests.in_flight` stand still.
    pub metrics: bool,
    /// All requests.
    pub requests: Requests,
    /// Clients' connections.
    pub clients: Clients,
    /// Each worker, in order.
    pub workers: Vec<Worker>,
    /// Routes that carried requests, the busiest first; `-` is no route, `other` those past the first 256.
    pub routes: Vec<RouteLive>,
    /// Upstreams, the busiest first.
    pub upstreams: Vec<UpstreamLive>,
    /// Upstreams that are not shown: a document has 256, and 1,000 endpoints.
    pub upstreams_left_out: usize,
    /// Exchanges that the gateway ended or answered itself, by reason; those that did not occur are not there.
    pub reasons: BTreeMap<String, u64>,
    /// CPU time a request, and the headroom.
    pub cost: CostLive,
    /// What is used of memory and files.
    pub resources: Resources,
    /// The last minutes, a point a second; those after `?after=TIME` if that was asked for.
    pub history: Columns,
}

/// How the last change of the configuration went.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LastChange {
    /// When it was done, or had failed.
    pub at: f64,
    /// How long it took, in milliseconds.
    pub milliseconds: f64,
    /// Why it failed; nothing: it did not.
    pub problem: Option<String>,
}

/// Requests since the start.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Requests {
    /// Ended.
    pub total: u64,
    /// Begun and not ended.
    pub in_flight: u64,
    /// Ended, by class of status: none answered, 1xx, ... 5xx.
    pub codes: [u64; 6],
    /// Bytes of request bodies from clients.
    pub bytes_in: u64,
    /// Bytes of response bodies to clients.
    pub bytes_out: u64,
    /// How long they took.
    pub latency: Latency,
    /// Ended, by protocol; those that did not occur are not there.
    pub protocols: BTreeMap<String, u64>,
}

/// Connections of clients.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Clients {
    /// Open.
    pub open: u64,
    /// Accepted since the start.
    pub opened: u64,
    /// Refused since the start: at the limit, or for want of means.
    pub rejected: u64,
    /// As many may be open; nothing: no limit.
    pub limit: Option<u64>,
}

/// One worker.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Worker {
    /// Requests ended since the start.
    pub requests: u64,
    /// Requests under way.
    pub in_flight: u64,
    /// Open connections of clients.
    pub clients: u64,
}

/// One route.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RouteLive {
    /// Its name.
    pub name: String,
    /// Requests ended.
    pub requests: u64,
    /// By class of status: none answered, 1xx, ... 5xx.
    pub codes: [u64; 6],
    /// How long they took.
    pub latency: Latency,
}

/// One upstream.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct UpstreamLive {
    /// Its name.
    pub name: String,
    /// Its endpoints.
    pub endpoints: Vec<EndpointLive>,
    /// Endpoints that are not shown.
    pub endpoints_left_out: usize,
    /// Connections in use.
    pub active: u64,
    /// Connections idle in pools.
    pub idle: u64,
    /// Connections opened since the start.
    pub opened: u64,
    /// Requests that took a connection from a pool.
    pub reused: u64,
    /// Requests that wait for a connection.
    pub waiting: u64,
    /// Attempts that were answered, and how long their response's head took.
    pub latency: Latency,
    /// Attempts that failed.
    pub failures: u64,
    /// Attempts that followed a failed one.
    pub retries: u64,
    /// Whether its breaker is open.
    pub breaker_open: bool,
    /// What is never exceeded.
    pub limits: UpstreamLimits,
    /// How its adaptive limit stands.
    pub adaptive: Option<AdaptiveLive>,
    /// Why its endpoints could not be looked up last.
    pub lookup_problem: Option<String>,
}

/// The limits of an upstream, over all workers; nothing: no limit.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct UpstreamLimits {
    /// Connections to all endpoints together.
    pub connections: Option<u32>,
    /// Connections to one endpoint.
    pub endpoint_connections: Option<u32>,
    /// Requests under way.
    pub requests: Option<u32>,
}

/// An adaptive limit.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct AdaptiveLive {
    /// As many requests may be under way.
    pub limit: u32,
    /// As many are.
    pub in_flight: u32,
}

/// One endpoint.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct EndpointLive {
    /// Its address.
    pub address: String,
    /// Its share of the requests.
    pub weight: u32,
    /// 0 is used first.
    pub priority: u8,
    /// The zone that it is in.
    pub zone: Option<String>,
    /// `available`, `unhealthy` or `ejected`.
    pub state: String,
    /// What probes say: `unknown`, `healthy` or `unhealthy`.
    pub health: String,
    /// Seconds for which probes have said so.
    pub health_for: Option<f64>,
    /// Why the last probe failed.
    pub problem: Option<String>,
    /// Seconds that it is still ejected.
    pub ejected_for: Option<f64>,
    /// Why it is ejected.
    pub ejection_cause: Option<String>,
    /// Connections, open or being opened.
    pub connections: u32,
    /// Attempts that ended.
    pub requests: u64,
    /// Those that failed, or were answered 5xx.
    pub failures: u64,
}

/// CPU time a request, and what is left; see `docs/cost.md`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CostLive {
    /// Cores that the gateway can use.
    pub cores: f64,
    /// Seconds that the figures below were observed for.
    pub observed: f64,
    /// Requests a second.
    pub requests_per_second: Option<f64>,
    /// Cores in use.
    pub cores_used: Option<f64>,
    /// Microseconds of CPU time a request; nothing: too few requests to tell.
    pub cpu_microseconds_per_request: Option<f64>,
    /// Requests a second that these cores carry at this cost.
    pub ceiling: Option<f64>,
    /// How many more than now.
    pub headroom: Option<f64>,
}

/// What is used.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Resources {
    /// Bytes of resident memory.
    pub memory: Option<u64>,
    /// As many as there may be.
    pub memory_bound: Option<u64>,
    /// Open files.
    pub files: Option<u64>,
    /// As many as there may be.
    pub files_bound: Option<u64>,
    /// Priorities whose requests are turned away.
    pub shed: Vec<String>,
}

/// What happened in each second: columns of one length. A figure that is not known is `null`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Columns {
    /// The end of the second.
    pub time: Vec<f64>,
    /// Requests a second.
    pub requests: Vec<f64>,
    /// Of them, those answered 4xx.
    pub client_errors: Vec<f64>,
    /// Of them, those answered 5xx.
    pub server_errors: Vec<f64>,
    /// Half of the requests took at most so long.
    pub p50: Vec<Option<f64>>,
    /// Nine of ten.
    pub p90: Vec<Option<f64>>,
    /// 99 of 100.
    pub p99: Vec<Option<f64>>,
    /// Microseconds of CPU time a request, of the last ten seconds; nothing: too few requests to tell.
    pub cpu_microseconds_per_request: Vec<Option<f64>>,
    /// Cores in use, of the last ten seconds.
    pub cores_used: Vec<f64>,
    /// Requests under way at the end.
    pub in_flight: Vec<u64>,
}
