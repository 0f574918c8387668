//! Upstreams: their endpoints, how one is chosen, and what happens when one fails.
//!
//! The plan re-exports these as they are: they are values without a place in a file, but for [`Upstream`] and
//! [`Endpoint`].

use std::net::IpAddr;
use std::time::Duration;

use zeroize::{Zeroize, ZeroizeOnDrop};

use crate::file_access::NamedFile;

use super::Percent;
use super::{EndpointAddress, Policies, RouteTimeouts, Scheme, Spanned, UpstreamTls};

/// A named upstream.
#[derive(Clone, Debug)]
pub struct Upstream {
    /// Its name.
    pub name: Spanned<String>,
    /// Its endpoints; at least one, unless some are discovered.
    pub endpoints: Vec<Endpoint>,
    /// Where further endpoints are looked up.
    pub discover: Option<Spanned<Discover>>,
    /// Timeouts that differ from the gateway's; a route's win over these.
    pub timeouts: RouteTimeouts,
    /// Its connections.
    pub pool: Pool,
    /// TLS to its endpoints, where it differs from what `https://` alone says.
    pub tls: Option<UpstreamTls>,
    /// Whether its endpoints are spoken to in HTTP/2. Default: those that are `h2c://`.
    pub http2: Option<Spanned<bool>>,
    /// The PROXY protocol header that connections to its endpoints begin with. Default none.
    pub proxy_protocol: Option<ProxyProtocol>,
    /// How it copes: everything that a plan takes over unchanged.
    pub rules: Rules,
    /// Policies of the requests that go to it.
    pub policies: Policies,
}

impl Upstream {
    /// Whether its endpoints are spoken to in HTTP/2.
    #[must_use]
    pub fn is_http2(&self) -> bool {
        let prior = |endpoint: &Endpoint| endpoint.address.value.scheme == Scheme::H2c;
        self.http2.as_ref().is_some_and(|http2| http2.value) || self.endpoints.iter().any(prior)
    }
}

/// A version of the PROXY protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProxyProtocol {
    /// A line of text (`v1`).
    V1,
    /// Binary (`v2`).
    V2,
}

/// How an upstream chooses among its endpoints and copes when they fail.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rules {
    /// Which endpoint takes a request.
    pub balance: Balance,
    /// What is never exceeded, over all workers.
    pub caps: Caps,
    /// Where requests wait that a cap holds back.
    pub queue: Queue,
    /// When no more requests are sent for a while.
    pub breaker: Option<Breaker>,
    /// Which requests are tried again.
    pub retry: Retry,
    /// A second attempt beside a slow first one.
    pub hedge: Option<Hedge>,
    /// Probes.
    pub health: Option<Health>,
    /// What traffic itself tells of an endpoint.
    pub outlier: Outlier,
    /// A limit of concurrent requests that finds its own height.
    pub adaptive: Option<Adaptive>,
}

/// One endpoint of an upstream.
#[derive(Clone, Debug)]
pub struct Endpoint {
    /// Where it is.
    pub address: Spanned<EndpointAddress>,
    /// Share of the requests. Default 1; 0 takes none.
    pub weight: u32,
    /// Whether it is taken out: new requests go elsewhere. Default false.
    pub drain: bool,
    /// 0 is used first; a higher one when too few of the lower ones are healthy. Default 0.
    pub priority: u8,
    /// The zone that it is in; those in the gateway's own zone (`zone`) are preferred. Default none.
    pub zone: Option<String>,
}

impl Endpoint {
    /// Its share of the requests: none while it is taken out.
    #[must_use]
    pub fn share(&self) -> u32 {
        if self.drain { 0 } else { self.weight }
    }
}

/// Connections to the endpoints of an upstream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pool {
    /// Idle connections kept for each endpoint by each worker. Default 256.
    pub max_idle: u32,
    /// How long an idle connection is kept. Default 4 s: below the 5 s at which Node.js closes, the shortest common one.
    pub idle_timeout: Option<Duration>,
    /// Requests a connection may carry. Default none.
    pub max_requests: Option<u64>,
    /// Age at which a connection is no longer used again. Default none.
    pub max_age: Option<Duration>,
    /// Connections that each worker keeps ready to each endpoint before they are asked for. Default 0.
    pub warm: u32,
    /// The address of this machine that connections begin at (`source_address` of the upstream). Default the system's choice.
    pub source: Option<IpAddr>,
}

impl Default for Pool {
    fn default() -> Self {
        Self {
            max_idle: 256,
            idle_timeout: Some(Duration::from_secs(4)),
            max_requests: None,
            max_age: None,
            warm: 0,
            source: None,
        }
    }
}

/// Which endpoint takes a request (`balance: round_robin`, or a mapping with `policy`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Balance {
    /// How one is chosen among those that may take it.
    pub policy: Policy,
    /// A client stays with its endpoint by a cookie (`sticky: {cookie: NAME, ...}`).
    pub sticky: Option<Sticky>,
    /// An endpoint that is new or healthy again takes its full share only after this time, growing linearly from a
    /// tenth of it. Default off.
    pub slow_start: Option<Duration>,
    /// Percentage of healthy weight below which health is ignored and all endpoints take requests: overloading the few
    /// that are left helps nobody. Default 50, as Envoy has it; 0 switches it off.
    pub panic_threshold: Percent,
    /// Percentage of healthy weight in the gateway's own zone from which on that zone takes all requests; below it, it
    /// takes the share of them that it has of this, and the rest spills over to other zones. Default 70; 0: the own zone
    /// takes all as long as one of its endpoints is healthy.
    pub zone_spill: Percent,
}

impl Default for Balance {
    fn default() -> Self {
        Self {
            policy: Policy::default(),
            sticky: None,
            slow_start: None,
            panic_threshold: Percent::whole(50),
            zone_spill: Percent::whole(70),
        }
    }
}

/// How an endpoint is chosen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Policy {
    /// Smooth weighted round robin (`round_robin`).
    #[default]
    RoundRobin,
    /// The fewest requests under way, relative to weight: of two picked at random (`least_requests`).
    LeastRequests,
    /// The fewest requests under way, relative to weight: of all (`{policy: least_requests, choices: all}`).
    LeastRequestsOfAll,
    /// Any, by weight (`random`).
    Random,
    /// Maglev consistent hashing (`hash`, with `by`).
    Hash(HashBy),
}

/// What a request is hashed by. One that lacks it goes to any endpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HashBy {
    /// A header's value; the name in lower case (`by: {header: NAME}`).
    Header(String),
    /// A cookie's value (`by: {cookie: NAME}`).
    Cookie(String),
    /// A query parameter's value (`by: {query: NAME}`).
    Query(String),
    /// The client's address, without its port (`by: client_address`).
    ClientAddress,
    /// The path as matched, without the query (`by: path`).
    Path,
}

/// A cookie that names the endpoint of a client, as a keyed hash of its address and not the address itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sticky {
    /// Its name (`cookie`). Default none: `tollgate_` and eight digits of a hash of the upstream's name, so that the
    /// cookies of two upstreams of one host do not overwrite each other.
    pub cookie: Option<String>,
    /// How long the client keeps it, from when it got it; `None`: until it is closed. Default none.
    pub ttl: Option<Duration>,
    /// `Path`. Default `/`.
    pub path: String,
    /// `Secure`. Default false.
    pub secure: bool,
    /// The key of the hash (`secret`), the same on every gateway that the client may meet; best given as `${VARIABLE}`.
    /// Default none: a constant, so that who guesses an address can see that the guess was right.
    pub secret: Option<Secret>,
}

impl Default for Sticky {
    fn default() -> Self {
        Self { cookie: None, ttl: None, path: "/".to_owned(), secure: false, secret: None }
    }
}

/// A text that no message and no log shows, and that is wiped from memory when it is dropped.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Drop for Secret {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

impl ZeroizeOnDrop for Secret {}

impl Secret {
    /// The text itself, to be used and not to be shown.
    #[must_use]
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl From<String> for Secret {
    fn from(text: String) -> Self {
        Self(text)
    }
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secret")
    }
}

/// What is never exceeded, summed over all workers (`limits` of an upstream). `None` is `off`, the default of each.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Caps {
    /// Connections to all endpoints together, idle, upgraded and probing ones included.
    pub connections: Option<u32>,
    /// Connections to one endpoint.
    pub endpoint_connections: Option<u32>,
    /// Requests under way.
    pub requests: Option<u32>,
    /// Retries under way.
    pub retries: Option<u32>,
}

/// Where requests wait that a cap on connections holds back (`queue`). A full queue and a passed deadline are 503.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Queue {
    /// Requests that wait at most, over all workers. Default 1024; 0: none waits.
    pub size: u32,
    /// How long one waits at most. Default 1 s.
    pub timeout: Duration,
}

impl Default for Queue {
    fn default() -> Self {
        Self { size: 1024, timeout: Duration::from_secs(1) }
    }
}

/// A rate-based breaker for each upstream, as resilience4j has it: past a ratio of failed or slow calls it opens and
/// requests are answered 503 at once; after a time a few probe it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Breaker {
    /// Percentage of failed calls (no answer, or 5xx) at which it opens. Default 50.
    pub failures: Percent,
    /// Percentage of slow calls at which it opens. Default 100.
    pub slow: Percent,
    /// From when on a call is slow: the time to its response's head. Default none: none is.
    pub slow_after: Option<Duration>,
    /// The time over which calls are counted. Default 10 s.
    pub window: Duration,
    /// Calls in the window below which it does not open. Default 20.
    pub minimum: u32,
    /// How long it stays open before calls probe. Default 5 s.
    pub open: Duration,
    /// Calls that probe; if their ratios are good it closes, else it opens again. Default 3.
    pub probes: u32,
}

impl Default for Breaker {
    fn default() -> Self {
        Self {
            failures: Percent::whole(50),
            slow: Percent::whole(100),
            slow_after: None,
            window: Duration::from_secs(10),
            minimum: 20,
            open: Duration::from_secs(5),
            probes: 3,
        }
    }
}

/// Which requests are tried again, and how. Never once bytes of a body that cannot be replayed are gone, nor once
/// the client has got a part of a response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Retry {
    /// Attempts at most, the first included; 1: none is tried again. Default 2.
    pub attempts: u8,
    /// After what. Default [`RetryOn::default`].
    pub on: RetryOn,
    /// Methods that may be tried again although the endpoint may have acted on them, upper case; empty: the idempotent
    /// ones (RFC 9110, 9.2.2). A request of which the endpoint has got nothing is always fit to be tried again.
    pub methods: Vec<String>,
    /// From the start of an attempt to its response's head. Default none.
    pub per_try: Option<Duration>,
    /// Wait before the first retry; doubled each time, with full jitter. Default 25 ms, as Envoy has it.
    pub backoff: Duration,
    /// Longest wait. Default 250 ms.
    pub backoff_max: Duration,
    /// Retries at most as a percentage of the requests of the last 10 s. Default 20.
    pub budget: Percent,
    /// Retries each second that the budget always allows, so that a quiet upstream has some. Default 3.
    pub budget_min: u32,
}

impl Default for Retry {
    fn default() -> Self {
        Self {
            attempts: 2,
            on: RetryOn::default(),
            methods: Vec::new(),
            per_try: None,
            backoff: Duration::from_millis(25),
            backoff_max: Duration::from_millis(250),
            budget: Percent::whole(20),
            budget_min: 3,
        }
    }
}

/// gRPC's codes but `ok`, as they are written in the file: the first is that of `grpc-status: 1`.
pub const GRPC_CODES: [&str; 16] = [
    "cancelled",
    "unknown",
    "invalid_argument",
    "deadline_exceeded",
    "not_found",
    "already_exists",
    "permission_denied",
    "resource_exhausted",
    "failed_precondition",
    "aborted",
    "out_of_range",
    "unimplemented",
    "internal",
    "unavailable",
    "data_loss",
    "unauthenticated",
];

/// After what a request is tried again (`on: [connect_failure, reset, timeout, 502, 503]`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RetryOn {
    /// No connection could be opened (`connect_failure`). Default true.
    pub connect_failure: bool,
    /// The connection broke before a response's head (`reset`). Default true.
    pub reset: bool,
    /// No response's head within its time (`timeout`). Default false.
    pub timeout: bool,
    /// Statuses, sorted (`502`, `5xx`). Default none.
    pub statuses: Vec<u16>,
    /// `grpc-status` of an answer without a message, sorted (`unavailable` is 14). Default none.
    pub grpc: Vec<u8>,
}

impl Default for RetryOn {
    fn default() -> Self {
        Self { connect_failure: true, reset: true, timeout: false, statuses: Vec::new(), grpc: Vec::new() }
    }
}

/// A second attempt at another endpoint while the first has not answered; whoever answers first counts, and the
/// other is dropped. Only for requests that are here as a whole, and within the retry budget.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hedge {
    /// How long the first attempt may take to its response's head before the second starts.
    pub after: Duration,
    /// Methods whose requests may be at two endpoints at a time, upper case; empty: the safe ones (RFC 9110, 9.2.1).
    /// Not the idempotent ones: of a PUT that was given up one endpoint may still write, after a later one.
    pub methods: Vec<String>,
}

/// Probes of every endpoint (`health: /healthz`, or a mapping).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Health {
    /// What a probe is.
    pub probe: Probe,
    /// From one probe of an endpoint to the next. Default 5 s.
    pub interval: Duration,
    /// Each interval is shortened by up to this percentage at random. Default 10.
    pub jitter: Percent,
    /// How long a probe may take. Default 2 s.
    pub timeout: Duration,
    /// Good probes in a row that make an endpoint healthy; the first probe of all decides alone. Default 2.
    pub healthy: u32,
    /// Bad probes in a row that make it unhealthy. Default 3.
    pub unhealthy: u32,
    /// Another port than the endpoint's own. Default none.
    pub port: Option<u16>,
}

/// What a probe is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Probe {
    /// A GET, and what its answer must be (`http: /healthz`).
    Http {
        /// Path and query.
        path: String,
        /// `Host`; `None`: the endpoint's address.
        host: Option<String>,
        /// Further fields. Default none.
        headers: Vec<(String, String)>,
        /// Statuses that are good, as ranges. Default 200-299.
        statuses: Vec<(u16, u16)>,
        /// Text that must be in the first 64 KiB of the body. Default none.
        body: Option<String>,
    },
    /// A call of `grpc.health.v1.Health/Check` (`grpc: on`, `grpc: my.Service`).
    Grpc {
        /// The service that is asked for; empty: the server as a whole.
        service: String,
        /// `:authority`; `None`: the endpoint's address.
        host: Option<String>,
    },
    /// A connection that opens (`tcp: true`).
    Tcp,
}

/// Ejection of endpoints by what traffic tells of them, on by default.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outlier {
    /// Whether on. Default true.
    pub enabled: bool,
    /// Responses 5xx (and failures) in a row that eject; `None`: never. Default 5.
    pub consecutive_5xx: Option<u32>,
    /// Failures of the gateway's own (no connection, reset, timeout) and 502, 503, 504 in a row that eject. Default 5.
    pub consecutive_gateway_errors: Option<u32>,
    /// Whether endpoints whose success rate lies 1.9 standard deviations below the mean are ejected (Envoy's rule; at
    /// least 5 endpoints with 100 requests each in an interval). Default true.
    pub success_rate: bool,
    /// How often success rates are compared and ejected endpoints looked at. Default 10 s.
    pub interval: Duration,
    /// Ejection time, multiplied by how many times in a row the endpoint was ejected. Default 30 s.
    pub ejection: Duration,
    /// Longest ejection. Default 300 s.
    pub ejection_max: Duration,
    /// Percentage of an upstream's endpoints that may be out by ejection at a time; at least one may, if there is more
    /// than one. Default 10.
    pub max_ejected: Percent,
}

impl Default for Outlier {
    fn default() -> Self {
        Self {
            enabled: true,
            consecutive_5xx: Some(5),
            consecutive_gateway_errors: Some(5),
            success_rate: true,
            interval: Duration::from_secs(10),
            ejection: Duration::from_secs(30),
            ejection_max: Duration::from_secs(300),
            max_ejected: Percent::whole(10),
        }
    }
}

/// Where endpoints are looked up (`discover`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Discover {
    /// Addresses of a name (`{dns: NAME, port: N}`, or `dns://NAME:PORT`).
    Dns {
        /// The name.
        name: String,
        /// Port of every endpoint.
        port: u16,
        /// Bounds and servers of the look-ups.
        rules: DnsRules,
    },
    /// SRV records (`{srv: NAME}`, or `srv://NAME`): they give ports, weights and priorities.
    Srv {
        /// The name, such as `_http._tcp.orders.internal`.
        name: String,
        /// Bounds and servers of the look-ups.
        rules: DnsRules,
    },
    /// A YAML or JSON list of endpoints, as under `endpoints`, read again when it changes (`{file: PATH}`). The path is
    /// relative to the config's file.
    File(NamedFile),
}

/// Bounds of DNS look-ups.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DnsRules {
    /// A shorter TTL is taken for this. Default 1 s.
    pub min_ttl: Duration,
    /// A longer TTL is taken for this. Default 60 s.
    pub max_ttl: Duration,
    /// Name servers, `ADDRESS` or `ADDRESS:PORT`; empty: those of `/etc/resolv.conf`.
    pub servers: Vec<std::net::SocketAddr>,
}

impl Default for DnsRules {
    fn default() -> Self {
        Self { min_ttl: Duration::from_secs(1), max_ttl: Duration::from_secs(60), servers: Vec::new() }
    }
}

/// A limit of concurrent requests to an upstream that follows the latency (Netflix's gradient, as Envoy's adaptive
/// concurrency): past it a request is answered 503, those of the lowest priority first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Adaptive {
    /// Lowest limit, over all workers. Default 3.
    pub min: u32,
    /// Highest limit. Default 10,000.
    pub max: u32,
    /// How often the limit is set anew. Default 100 ms.
    pub interval: Duration,
    /// How often, at most, only `min` are let through for a moment, to measure the latency without load anew. Default
    /// 60 s.
    pub probe: Duration,
    /// Percentage by which latency may lie above that before the limit falls. Default 25.
    pub tolerance: Percent,
}

impl Default for Adaptive {
    fn default() -> Self {
        Self {
            min: 3,
            max: 10_000,
            interval: Duration::from_millis(100),
            probe: Duration::from_secs(60),
            tolerance: Percent::whole(25),
        }
    }
}

/// How urgent a route's requests are: the last that are let go when there is too much to do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Priority {
    /// Shed first (`low`).
    Low,
    /// The default (`normal`).
    #[default]
    Normal,
    /// Shed last (`high`).
    High,
}

/// What of the process's own means is guarded (`overload` of the gateway). Past a bound new work is shed before old
/// work breaks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Overload {
    /// Bytes of resident memory; `None`: 90 % of the cgroup's limit if there is one. At the bound all new work is shed.
    pub memory: Option<u64>,
    /// Percentage of the process's file descriptors from which on no new client connection is taken in. Default 95.
    pub files: Percent,
    /// Percentage of the bound (memory, files) from which on low-priority requests are shed; those of normal priority are
    /// from half of the way between that and the bound of memory. Default 90.
    pub shed_from: Percent,
}

impl Default for Overload {
    fn default() -> Self {
        Self { memory: None, files: Percent::whole(95), shed_from: Percent::whole(90) }
    }
}
