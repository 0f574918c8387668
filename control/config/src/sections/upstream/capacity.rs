//! The bounds of an upstream: `pool`, `limits`, `queue`, `adaptive`.

use std::net::IpAddr;
use std::time::Duration;

use crate::model::Percent;
use crate::section::{Fields, Problem, Reader, Section};

/// Connections to the endpoints of an upstream.
#[derive(Clone, Debug, PartialEq, Eq, Section)]
#[section(check = check_warm)]
pub struct Pool {
    /// Maximum number of idle connections that each worker keeps per endpoint; 0 keeps none.
    #[key(count = 0..=100_000, default = 256, also = ["keepalive", "size"])]
    pub max_idle: u32,
    /// Maximum idle time of a connection.
    ///
    /// The default is below the 5 s of Node.js, the shortest common timeout of a server.
    #[key(default = "4s")]
    pub idle_timeout: Option<Duration>,
    /// Maximum number of requests per connection.
    #[key(count = 1.., off, default = off)]
    pub max_requests: Option<u64>,
    /// Maximum age for reuse of a connection.
    #[key(default = off)]
    pub max_age: Option<Duration>,
    /// How long an HTTP/2 connection with requests may bring no byte before the gateway sends a PING. After the same
    /// time again it is closed.
    #[key(time = "100ms"..="1d", off, default = "30s", also = ["ping_interval", "keepalive_interval", "keepalive_time"])]
    pub ping: Option<Duration>,
    /// Connections that each worker opens to each endpoint in advance.
    #[key(count = 0..=1000, default = 0, also = ["min_idle", "preconnect", "warmup", "warm_up"])]
    pub warm: u32,
    /// Local address that connections are bound to (`source_address` of the upstream). Default the system's
    /// choice.
    #[key(skip)]
    pub source: Option<IpAddr>,
}

fn check_warm(reader: &mut Reader, fields: &Fields<'_>, pool: &Pool) {
    if let Some(field) = fields.get("warm").filter(|_| pool.warm > pool.max_idle) {
        let problem = Problem::warning(field.at, "`warm` is above `max_idle`");
        let problem = problem.help("raise `max_idle`, or lower `warm`");
        let most = fields.get("max_idle").map(|most| (most.at, "`max_idle` is here"));
        reader.problems.push(match most {
            Some((at, why)) => problem.related(at, why),
            None => problem,
        });
    }
}

/// Bound of counters that have 32 bits.
const COUNTER_MAX: u64 = u32::MAX as u64;

/// Limits over all workers together.
#[derive(Clone, Debug, PartialEq, Eq, Section)]
#[section(name = "upstream_limits", noun = "`limits` of an upstream", check = check_connections)]
pub struct Caps {
    /// Connections to all endpoints together, including idle, upgraded and probe connections.
    #[key(
        count = 1..=COUNTER_MAX, off, default = off,
        also = ["max_connections", "maxconn", "connection"]
    )]
    pub connections: Option<u32>,
    /// Connections to one endpoint.
    #[key(
        count = 1..=COUNTER_MAX, off, default = off,
        also = ["max_conns", "connections_per_endpoint", "per_endpoint", "connections_per_host"]
    )]
    pub endpoint_connections: Option<u32>,
    /// Active requests.
    #[key(
        count = 1..=COUNTER_MAX, off, default = off,
        also = ["max_requests", "concurrency", "in_flight", "inflight", "concurrent_requests"]
    )]
    pub requests: Option<u32>,
    /// Active retries.
    #[key(count = 1..=COUNTER_MAX, off, default = off, also = ["max_retries"])]
    pub retries: Option<u32>,
}

fn check_connections(reader: &mut Reader, fields: &Fields<'_>, caps: &Caps) {
    if let (Some(all), Some(one)) = (caps.connections, caps.endpoint_connections)
        && one > all
        && let (Some(all), Some(one)) = (fields.get("connections"), fields.get("endpoint_connections"))
    {
        let problem = Problem::warning(one.at, "`endpoint_connections` is above `connections`");
        reader.problems.push(
            problem
                .help("`connections` is reached first, so this limit has no effect")
                .related(all.at, "`connections` is here"),
        );
    }
}

/// The queue for requests that exceed a limit on connections. If it is full or the wait is too long, a
/// request gets 503.
#[derive(Clone, Debug, PartialEq, Eq, Section)]
#[section(switch, off = |queue| queue.size = 0)]
pub struct Queue {
    /// Maximum number of waiting requests over all workers; 0: no request waits.
    #[key(
        count = 0..=1_000_000, default = 1024,
        also = ["max", "length", "limit", "queue", "max_pending_requests"]
    )]
    pub size: u32,
    /// Maximum wait of a request.
    #[key(time = "1ms"..="1h", default = "1s", also = ["deadline", "wait", "max_wait"])]
    pub timeout: Duration,
}

/// A limit of concurrent requests that follows the latency. The mapping itself switches it on. Beyond the
/// limit requests get 503, lowest priority first.
///
/// The algorithm is Netflix's gradient, as in Envoy's adaptive concurrency.
#[derive(Clone, Debug, PartialEq, Eq, Section)]
#[section(switch, check = check_adaptive)]
pub struct Adaptive {
    /// Lowest limit, over all workers.
    #[key(count = 1..=COUNTER_MAX, default = 3, also = ["min_concurrency", "minimum", "min_limit"])]
    pub min: u32,
    /// Highest limit.
    #[key(
        count = 1..=COUNTER_MAX, default = 10000,
        also = ["max_concurrency", "maximum", "max_limit", "max_concurrency_limit"]
    )]
    pub max: u32,
    /// How often the limit is recomputed.
    #[key(time = "10ms"..="1m", default = "100ms", also = ["window", "concurrency_update_interval"])]
    pub interval: Duration,
    /// Minimum time between two measurements of the latency without load; during one, only `min` requests are
    /// admitted.
    #[key(
        time = "1s"..="1d", default = "60s",
        also = ["min_rtt_interval", "probe_interval", "min_rtt_calc_params"]
    )]
    pub probe: Duration,
    /// Percentage by which the latency may exceed the latency without load before the limit falls.
    #[key(percent = 1..=200, default = "25%", also = ["buffer", "rtt_tolerance"])]
    pub tolerance: Percent,
}

fn check_adaptive(reader: &mut Reader, fields: &Fields<'_>, adaptive: &Adaptive) {
    if adaptive.min > adaptive.max {
        above(reader, fields, "min", "max");
    }
    if adaptive.interval > adaptive.probe {
        above(reader, fields, "interval", "probe");
    }
}

/// Reports a lower bound that exceeds its upper bound; either may be a default. The message does not repeat
/// the values, because one may come from a variable.
pub(crate) fn above(reader: &mut Reader, fields: &Fields<'_>, low: &str, high: &str) {
    let (one, other) = (fields.get(low), fields.get(high));
    let Some(at) = one.or(other).map(|field| field.node.at) else { return };
    let problem = Problem::error(at, format!("`{low}` is above `{high}`"));
    let default = |name: &str| {
        let default = fields.key(name).and_then(|key| key.default).unwrap_or_default();
        format!("`{name}` was not given: its default is `{default}`")
    };
    reader.problems.push(match (one, other) {
        (Some(_), Some(other)) => problem.related(other.at, format!("`{high}` is here")),
        (Some(_), None) => problem.help(default(high)),
        (None, _) => problem.help(default(low)),
    });
}
