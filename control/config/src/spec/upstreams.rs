//! The keys of upstreams, endpoints and targets.

use super::{Choice, EXCHANGE_TIMEOUTS, Key, POLICIES, POLICIES_DOC, Section, Shape, Text, UPSTREAM_TLS};

mod balance;
mod capacity;
mod discover;
mod failure;
mod health;

pub(crate) use balance::*;
pub(crate) use capacity::*;
pub(crate) use discover::*;
pub(crate) use failure::*;
pub(crate) use health::*;

static ENDPOINT_TEXT: Text = Text {
    expected: "an endpoint such as `10.0.0.1:8080`, `api.internal:80` or `unix:/run/app.sock`",
    pattern: Some(r"^[^\s]*[:][^\s]*$"),
    loose: false,
};
static TARGET_TEXT: Text = Text {
    expected: "an endpoint such as `10.0.0.1:8080`, `api.internal:80` or `unix:/run/app.sock`, or the name of an upstream",
    pattern: Some(r"^\S+$"),
    loose: false,
};
pub(crate) static UPSTREAM_NAME: Text = Text {
    expected: "the name of an entry under `upstreams`",
    pattern: Some(r"^[A-Za-z0-9_.-]+$"),
    loose: false,
};

/// The zone of an endpoint or of the gateway.
pub(crate) static ZONE: Text = Text {
    expected: "the name of a zone such as `eu-west-1a`",
    pattern: Some(r"^[A-Za-z0-9_.:/-]+$"),
    loose: false,
};

pub(crate) const TARGET_TEXT_SHAPE: Shape = Shape::Text(&TARGET_TEXT);
pub(crate) static TARGET_SHAPE: Shape = Shape::AnyOf(&[Shape::Text(&TARGET_TEXT), Shape::Section(&TARGET)]);
pub(crate) static ENDPOINT_SHAPE: Shape =
    Shape::AnyOf(&[Shape::Text(&ENDPOINT_TEXT), Shape::Section(&ENDPOINT)]);
pub(crate) static UPSTREAM_VALUE: Shape =
    Shape::AnyOf(&[Shape::Section(&UPSTREAM), Shape::Text(&ENDPOINT_TEXT), Shape::ListOf(&ENDPOINT_SHAPE)]);

/// Bounds of a weight, far above any sensible share. The sum stays within 32 bits for a thousand entries.
const WEIGHT: Shape = Shape::Count { min: 0, max: 1_000_000, off: false };

pub(crate) static TARGET: Section = Section {
    name: "target",
    noun: "a target",
    doc: "A weighted destination of requests.",
    choice: Choice::ExactlyOne(&["address", "upstream"]),
    keys: &[
        Key::new("address", "An endpoint.", Shape::Text(&ENDPOINT_TEXT))
            .also(&["endpoint", "host", "url", "to"]),
        Key::new("upstream", "The name of an upstream.", Shape::Text(&UPSTREAM_NAME)).also(&["name"]),
        Key::new("weight", "Share of the requests; 0 takes none.", WEIGHT).or("1"),
    ],
};

pub(crate) static ENDPOINT: Section = Section {
    name: "endpoint",
    noun: "an endpoint",
    doc: "One endpoint of an upstream.",
    choice: Choice::Free,
    keys: &[
        Key::new("address", "Where it is.", Shape::Text(&ENDPOINT_TEXT))
            .required()
            .also(&["endpoint", "host", "url", "to"]),
        Key::new("weight", "Share of the requests; 0 takes none.", WEIGHT).or("1"),
        Key::new(
            "drain",
            "Whether it is drained: new requests go elsewhere, and active ones finish.",
            Shape::Switch,
        )
        .or("off")
        .also(&["maintenance", "down", "disabled", "draining"]),
        Key::new(
            "priority",
            "Endpoints with 0 are used first; a higher number is used if too few endpoints with lower \
            numbers are healthy.",
            Shape::Count { min: 0, max: 255, off: false },
        )
        .or("0")
        .also(&["backup", "failover", "tier"]),
        Key::new(
            "zone",
            "Its zone; endpoints in the gateway's own `zone` are preferred.",
            Shape::Text(&ZONE),
        )
        .also(&["locality", "az", "availability_zone", "region"]),
    ],
};

pub(crate) static UPSTREAM: Section = Section {
    name: "upstream",
    noun: "an upstream",
    doc: "A named group of endpoints. The short form is the list of endpoints.",
    choice: Choice::Free,
    keys: &[
        Key::new(
            "endpoints",
            "Its endpoints: one or a list. Required without `discover`.",
            Shape::OneOrMany(&ENDPOINT_SHAPE),
        )
        .also(&["endpoint", "servers", "server", "nodes", "targets", "address", "addresses", "to"]),
        Key::new(
            "discover",
            "Source of additional endpoints, which the gateway looks up repeatedly.",
            Shape::AnyOf(&[Shape::Text(&DISCOVER_TEXT), Shape::Section(&DISCOVER)]),
        )
        .also(&["discovery", "service_discovery", "resolve", "resolver", "dns", "srv", "file"]),
        Key::new(
            "balance",
            "Load balancing.",
            Shape::AnyOf(&[Shape::Word(BALANCE_POLICIES), Shape::Section(&BALANCE)]),
        )
        .or("round_robin")
        .also(&[
            "lb",
            "lb_policy",
            "balancing",
            "balancer",
            "load_balancing",
            "load_balancer",
            "loadbalancer",
            "algorithm",
            "strategy",
            "policy",
            "sticky",
            "hash",
            "least_conn",
            "ip_hash",
            "slow_start",
        ]),
        Key::new("limits", "Limits over all workers together.", Shape::Section(&UPSTREAM_LIMITS)).also(&[
            "limit",
            "caps",
            "circuit_breakers",
            "thresholds",
            "max_conns",
            "max_connections",
            "maxconn",
            "max_requests",
            "max_retries",
        ]),
        Key::new(
            "queue",
            "The queue for requests that exceed a limit on connections.",
            Shape::AnyOf(&[Shape::Switch, Shape::Section(&QUEUE)]),
        )
        .or("on")
        .also(&["pending", "backlog", "max_pending_requests"]),
        Key::new(
            "breaker",
            "Circuit breaker: rejects requests for a while if too many failed or were slow.",
            Shape::AnyOf(&[Shape::Switch, Shape::Section(&BREAKER)]),
        )
        .or("off")
        .also(&["circuit_breaker", "circuitbreaker", "circuitBreaker"]),
        Key::new("retry", "Retry rules.", Shape::AnyOf(&[Shape::Switch, Shape::Section(&RETRY)]))
            .or("on")
            .also(RETRY_ALSO),
        Key::new(
            "hedge",
            "Starts a second attempt alongside a slow first one: after this time.",
            Shape::AnyOf(&[HEDGE_AFTER, Shape::Off, Shape::Section(&HEDGE)]),
        )
        .or("off")
        .also(&["hedging", "hedge_policy", "speculative"]),
        Key::new(
            "health",
            "Active health checks of every endpoint: a path, `tcp`, or a mapping.",
            Shape::AnyOf(&[
                Shape::Off,
                Shape::Text(&PROBE_PATH),
                Shape::Word(&["tcp", "grpc"]),
                Shape::Section(&HEALTH),
            ]),
        )
        .or("off")
        .also(&[
            "health_check",
            "health_checks",
            "healthcheck",
            "healthchecks",
            "healthCheck",
            "probe",
            "probes",
            "check",
            "checks",
            "active",
        ]),
        Key::new(
            "outlier",
            "Ejection of endpoints that fail requests (passive health checks).",
            Shape::AnyOf(&[Shape::Switch, Shape::Section(&OUTLIER)]),
        )
        .or("on")
        .also(&["outlier_detection", "outliers", "passive", "ejection", "max_fails", "fail_timeout"]),
        Key::new(
            "adaptive",
            "A limit of concurrent requests that adapts to the latency.",
            Shape::AnyOf(&[Shape::Switch, Shape::Section(&ADAPTIVE)]),
        )
        .or("off")
        .also(&["adaptive_concurrency", "concurrency"]),
        Key::new(
            "timeouts",
            "Overrides of the gateway's timeouts; a route's override wins.",
            Shape::Section(&EXCHANGE_TIMEOUTS),
        )
        .also(&["timeout"]),
        Key::new(
            "http2",
            "Whether its endpoints are reached by HTTP/2: over TLS by ALPN, in plain text by prior \
            knowledge. Default: only endpoints written `h2c://`.",
            Shape::Switch,
        )
        .also(&[
            "h2",
            "h2c",
            "protocol",
            "protocols",
            "http_version",
            "proxy_http_version",
            "http2_protocol_options",
            "grpc",
        ]),
        Key::new("tls", "TLS settings for its `https://` endpoints.", Shape::Section(&UPSTREAM_TLS)).also(&[
            "ssl",
            "transport_socket",
            "ca",
            "server_name",
        ]),
        Key::new("pool", "Its connection pool.", Shape::Section(&POOL)).also(&["keepalive", "connections"]),
        Key::new(
            "source_address",
            "The local address of connections to its endpoints. Default: the system chooses.",
            Shape::Text(&IP),
        )
        .also(&[
            "source",
            "bind",
            "proxy_bind",
            "local_address",
            "upstream_bind_config",
            "source_ip",
        ]),
        Key::new(
            "proxy_protocol",
            "Whether connections to its endpoints start with a PROXY protocol header that names the client, \
            and its version. Each connection then carries one request.",
            Shape::Word(&["off", "v1", "v2"]),
        )
        .or("off")
        .also(&[
            "send_proxy",
            "send-proxy",
            "send_proxy_protocol",
            "upstream_proxy_protocol",
            "proxy",
        ]),
        Key::new("policies", POLICIES_DOC, Shape::Section(&POLICIES)),
    ],
};

static IP: Text = Text {
    expected: "an IP address of this machine such as `10.0.0.5`",
    pattern: Some(r"^[0-9A-Fa-f:.]+$"),
    loose: false,
};

pub(crate) static POOL: Section = Section {
    name: "pool",
    noun: "`pool`",
    doc: "Connections to the endpoints of an upstream.",
    choice: Choice::Free,
    keys: &[
        Key::new(
            "max_idle",
            "Maximum number of idle connections that each worker keeps per endpoint; 0 keeps none.",
            Shape::Count { min: 0, max: 100_000, off: false },
        )
        .or("256")
        .also(&["keepalive", "size"]),
        Key::new("idle_timeout", "Maximum idle time of a connection.", Shape::Duration).or("4s"),
        Key::new(
            "max_requests",
            "Maximum number of requests per connection.",
            Shape::Count { min: 1, max: u64::MAX, off: true },
        )
        .or("off"),
        Key::new("max_age", "Maximum age for reuse of a connection.", Shape::Duration).or("off"),
        Key::new(
            "warm",
            "Connections that each worker opens to each endpoint in advance.",
            Shape::Count { min: 0, max: 1000, off: false },
        )
        .or("0")
        .also(&["min_idle", "preconnect", "warmup", "warm_up"]),
    ],
};
