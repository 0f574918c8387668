//! Upstreams: their endpoints, load balancing, and the handling of failures.
//!
//! The plan re-exports these types. Except for [`Upstream`] and [`Endpoint`], they are plain values without
//! source positions.

use std::time::Duration;

use zeroize::{Zeroize, ZeroizeOnDrop};

use crate::file_access::NamedFile;

use super::Percent;
use super::{Adaptive, Caps, Pool, Queue};
use super::{EndpointAddress, Policies, RouteTimeouts, Scheme, Spanned, UpstreamTls};

/// A named upstream.
#[derive(Clone, Debug)]
pub struct Upstream {
    /// Unique name of the upstream.
    pub name: Spanned<String>,
    /// Its endpoints; at least one, unless some are discovered.
    pub endpoints: Vec<Endpoint>,
    /// Source of additional endpoints.
    pub discover: Option<Spanned<Discover>>,
    /// Overrides of the gateway's timeouts; a route's override wins.
    pub timeouts: RouteTimeouts,
    /// Settings of its connection pool.
    pub pool: Pool,
    /// TLS settings for its endpoints; `None`: the defaults of `https://`.
    pub tls: Option<UpstreamTls>,
    /// Whether its endpoints are reached by HTTP/2. Default: only those written `h2c://`.
    pub http2: Option<Spanned<bool>>,
    /// The PROXY protocol header that starts connections to its endpoints. Default none.
    pub proxy_protocol: Option<ProxyProtocol>,
    /// Settings that a plan takes over unchanged.
    pub rules: Rules,
    /// Policies of the requests that go to it.
    pub policies: Policies,
}

impl Upstream {
    /// Returns whether its endpoints are reached by HTTP/2.
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

/// How an upstream balances requests and handles failures.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rules {
    /// Load balancing.
    pub balance: Balance,
    /// Limits that hold over all workers together.
    pub caps: Caps,
    /// The queue for requests that exceed a limit on connections.
    pub queue: Queue,
    /// When requests are rejected for a while because too many fail.
    pub breaker: Option<Breaker>,
    /// Retry rules.
    pub retry: Retry,
    /// A second attempt alongside a slow first one.
    pub hedge: Option<Hedge>,
    /// Active health checks.
    pub health: Option<Health>,
    /// Ejection of endpoints whose traffic fails.
    pub outlier: Outlier,
    /// A limit of concurrent requests that follows the measured latency.
    pub adaptive: Option<Adaptive>,
}

/// One endpoint of an upstream.
#[derive(Clone, Debug)]
pub struct Endpoint {
    /// Its address and protocol.
    pub address: Spanned<EndpointAddress>,
    /// Share of the requests. Default 1; 0 takes none.
    pub weight: u32,
    /// Whether it is drained: new requests go elsewhere. Default false.
    pub drain: bool,
    /// Endpoints with 0 are used first; a higher number is used if too few endpoints with lower numbers are
    /// healthy. Default 0.
    pub priority: u8,
    /// Its zone; endpoints in the gateway's own zone (`zone`) are preferred. Default none.
    pub zone: Option<String>,
}

impl Endpoint {
    /// Returns its share of the requests: 0 while it is drained.
    #[must_use]
    pub fn share(&self) -> u32 {
        if self.drain { 0 } else { self.weight }
    }
}

/// Load balancing (`balance: round_robin`, or a mapping with `policy`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Balance {
    /// How an endpoint is chosen among the available ones.
    pub policy: Policy,
    /// Session affinity by cookie (`sticky: {cookie: NAME, ...}`).
    pub sticky: Option<Sticky>,
    /// How long an endpoint that is new or healthy again takes to reach its full share. The share grows
    /// linearly from a tenth. Default off.
    pub slow_start: Option<Duration>,
    /// Percentage of healthy weight below which health is ignored and all endpoints take requests. Otherwise
    /// the few healthy ones would be overloaded. Default 50, as in Envoy; 0 switches it off.
    pub panic_threshold: Percent,
    /// Percentage of healthy weight in the gateway's own zone at which that zone takes all requests. Below
    /// it, the zone takes (healthy weight / this percentage) of the requests, and the rest spills over to
    /// other zones. Default 70; 0: the own zone takes all requests as long as one of its endpoints is
    /// healthy.
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
    /// Fewest active requests relative to weight, out of two random endpoints (`least_requests`).
    LeastRequests,
    /// Fewest active requests relative to weight, out of all endpoints (`{policy: least_requests, choices:
    /// all}`).
    LeastRequestsOfAll,
    /// A random endpoint, by weight (`random`).
    Random,
    /// Maglev consistent hashing (`hash`, with `by`).
    Hash(HashBy),
}

/// The part of a request that is hashed. A request without it goes to any endpoint.
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

/// A cookie that names a client's endpoint by a keyed hash of its address, not by the address itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sticky {
    /// Its name (`cookie`). Default none: `tollgate_` and eight digits of a hash of the upstream's name, so
    /// that the cookies of two upstreams on one host do not overwrite each other.
    pub cookie: Option<String>,
    /// Lifetime of the cookie from when it is set; `None`: a session cookie. Default none.
    pub ttl: Option<Duration>,
    /// `Path`. Default `/`.
    pub path: String,
    /// `Secure`. Default false.
    pub secure: bool,
    /// The key of the hash (`secret`), the same on every gateway that serves the client; best given as
    /// `${VARIABLE}`. Default none: the key is a constant, so a client that guesses an endpoint's address can
    /// confirm the guess.
    pub secret: Option<Secret>,
}

impl Default for Sticky {
    fn default() -> Self {
        Self { cookie: None, ttl: None, path: "/".to_owned(), secure: false, secret: None }
    }
}

/// A text that no message and no log shows. It is wiped from memory on drop.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Drop for Secret {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

impl ZeroizeOnDrop for Secret {}

impl Secret {
    /// Returns the text, for use only. It must not be shown.
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

/// A rate-based circuit breaker per upstream, as in resilience4j. It opens if too large a share of calls
/// fails or is slow; requests then get 503 at once. After a time, a few calls probe the upstream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Breaker {
    /// Percentage of failed calls (no answer, or 5xx) at which it opens. Default 50.
    pub failures: Percent,
    /// Percentage of slow calls at which it opens. Default 100.
    pub slow: Percent,
    /// Time to the response's head from which a call counts as slow. Default none: no call does.
    pub slow_after: Option<Duration>,
    /// The time over which calls are counted. Default 10 s.
    pub window: Duration,
    /// Minimum of calls in the window for it to open. Default 20.
    pub minimum: u32,
    /// How long it stays open before it admits probes. Default 5 s.
    pub open: Duration,
    /// Number of probe calls. It closes if their ratios are good, and otherwise opens again. Default 3.
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

/// Retry rules. The gateway never retries after it has sent body bytes that it cannot
/// replay, nor after the client has received a part of a response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Retry {
    /// Maximum of attempts, including the first; 1: no retries. Default 2.
    pub attempts: u8,
    /// The failures that are retried. Default [`RetryOn::default`].
    pub on: RetryOn,
    /// Methods that are retried even if the endpoint may have acted on the request, upper case; empty: the
    /// idempotent ones (RFC 9110, 9.2.2). A request of which the endpoint has received nothing may always be
    /// retried.
    pub methods: Vec<String>,
    /// Time from the start of an attempt to its response's head. Default none.
    pub per_try: Option<Duration>,
    /// Wait before the first retry; doubled for each further one, with full jitter. Default 25 ms, as in
    /// Envoy.
    pub backoff: Duration,
    /// Maximum wait. Default 250 ms.
    pub backoff_max: Duration,
    /// Maximum of retries as a percentage of the requests of the last 10 s. Default 20.
    pub budget: Percent,
    /// Retries per second that the budget always allows, for upstreams with little traffic. Default 3.
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

/// The names of gRPC's status codes in the configuration, without `ok`: index 0 is `grpc-status: 1`.
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

/// The failures after which a request is retried (`on: [connect_failure, reset, timeout, 502, 503]`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RetryOn {
    /// No connection could be opened (`connect_failure`). Default true.
    pub connect_failure: bool,
    /// The connection broke before a response's head (`reset`). Default true.
    pub reset: bool,
    /// The response's head did not arrive in time (`timeout`). Default false.
    pub timeout: bool,
    /// Statuses, sorted (`502`, `5xx`). Default none.
    pub statuses: Vec<u16>,
    /// `grpc-status` of a response without a message, sorted (`unavailable` is 14). Default none.
    pub grpc: Vec<u8>,
}

impl Default for RetryOn {
    fn default() -> Self {
        Self { connect_failure: true, reset: true, timeout: false, statuses: Vec::new(), grpc: Vec::new() }
    }
}

/// A second attempt at another endpoint while the first has not responded. The first response wins, and the
/// other attempt is dropped. Only for requests that have arrived completely, and within the retry budget.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hedge {
    /// Time to the first attempt's response head after which the second attempt starts.
    pub after: Duration,
    /// Methods whose requests may reach two endpoints at a time, upper case; empty: the safe ones (RFC 9110,
    /// 9.2.1). The idempotent ones are excluded: an endpoint may still execute a cancelled PUT, after a later
    /// one.
    pub methods: Vec<String>,
}

/// Active health checks of every endpoint (`health: /healthz`, or a mapping).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Health {
    /// The kind of probe.
    pub probe: Probe,
    /// Time from one probe of an endpoint to the next. Default 5 s.
    pub interval: Duration,
    /// Each interval is shortened by up to this percentage at random. Default 10.
    pub jitter: Percent,
    /// Maximum duration of a probe. Default 2 s.
    pub timeout: Duration,
    /// Consecutive good probes that make an endpoint healthy; the very first probe decides alone. Default 2.
    pub healthy: u32,
    /// Consecutive bad probes that make it unhealthy. Default 3.
    pub unhealthy: u32,
    /// Port of the probes, if it differs from the endpoint's own. Default none.
    pub port: Option<u16>,
}

/// The kind of probe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Probe {
    /// A GET, and conditions on its response (`http: /healthz`).
    Http {
        /// Path and query.
        path: String,
        /// `Host`; `None`: the endpoint's address.
        host: Option<String>,
        /// Additional fields. Default none.
        headers: Vec<(String, String)>,
        /// Statuses that are good, as ranges. Default 200-299.
        statuses: Vec<(u16, u16)>,
        /// Text that must be in the first 64 KiB of the body. Default none.
        body: Option<String>,
    },
    /// A call of `grpc.health.v1.Health/Check` (`grpc: on`, `grpc: my.Service`).
    Grpc {
        /// The service that is queried; empty: the server as a whole.
        service: String,
        /// `:authority`; `None`: the endpoint's address.
        host: Option<String>,
    },
    /// A successful connect (`tcp: true`).
    Tcp,
}

/// Ejection of endpoints whose traffic fails. On by default.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outlier {
    /// Whether ejection is on. Default true.
    pub enabled: bool,
    /// Consecutive 5xx responses (and failures) that eject; `None`: never. Default 5.
    pub consecutive_5xx: Option<u32>,
    /// Consecutive failures of the gateway's own (no connection, reset, timeout) and 502, 503, 504 that
    /// eject. Default 5.
    pub consecutive_gateway_errors: Option<u32>,
    /// Whether endpoints are ejected if their success rate is 1.9 standard deviations below the mean. This is
    /// Envoy's rule; it needs at least 5 endpoints with 100 requests each in an interval. Default true.
    pub success_rate: bool,
    /// How often success rates are compared and ejections reviewed. Default 10 s.
    pub interval: Duration,
    /// Ejection time, multiplied by the number of consecutive ejections. Default 30 s.
    pub ejection: Duration,
    /// Longest ejection. Default 300 s.
    pub ejection_max: Duration,
    /// Maximum percentage of an upstream's endpoints that may be ejected at a time. If there are several
    /// endpoints, at least one may. Default 10.
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

/// Sources of endpoints (`discover`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Discover {
    /// The addresses of a DNS name (`{dns: NAME, port: N}`, or `dns://NAME:PORT`).
    Dns {
        /// The name.
        name: String,
        /// Port of every endpoint.
        port: u16,
        /// Bounds and name servers of the look-ups.
        rules: DnsRules,
    },
    /// SRV records (`{srv: NAME}`, or `srv://NAME`), which give ports, weights and priorities.
    Srv {
        /// The name, such as `_http._tcp.orders.internal`.
        name: String,
        /// Bounds and name servers of the look-ups.
        rules: DnsRules,
    },
    /// A YAML or JSON list of endpoints, as under `endpoints`, reread when it changes (`{file: PATH}`). The
    /// path is relative to the configuration file.
    File(NamedFile),
}

/// Bounds and name servers of DNS look-ups.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DnsRules {
    /// Lower bound of a record's TTL. Default 1 s.
    pub min_ttl: Duration,
    /// Upper bound of a record's TTL. Default 60 s.
    pub max_ttl: Duration,
    /// Name servers, `ADDRESS` or `ADDRESS:PORT`; empty: those of `/etc/resolv.conf`.
    pub servers: Vec<std::net::SocketAddr>,
}

impl Default for DnsRules {
    fn default() -> Self {
        Self { min_ttl: Duration::from_secs(1), max_ttl: Duration::from_secs(60), servers: Vec::new() }
    }
}

/// Priority of a route's requests under overload: the lowest is shed first.
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

/// Bounds on the process's own memory and file descriptors (`overload` of the gateway). Beyond a bound the
/// gateway sheds new work before old work fails.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Overload {
    /// Bytes of resident memory; `None`: 90 % of the cgroup's limit if there is one. At the bound all new
    /// work is shed.
    pub memory: Option<u64>,
    /// Percentage of the process's file descriptors at which the gateway stops accepting client connections.
    /// Default 95.
    pub files: Percent,
    /// Percentage of the bound (memory, files) at which low-priority requests are shed. Requests of normal
    /// priority are shed from halfway between that point and the bound of memory. Default 90.
    pub shed_from: Percent,
}

impl Default for Overload {
    fn default() -> Self {
        Self { memory: None, files: Percent::whole(95), shed_from: Percent::whole(90) }
    }
}
