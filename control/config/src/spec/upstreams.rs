//! The keys of upstreams, endpoints and targets.

use super::{
    Choice, EXCHANGE_TIMEOUTS, KeySpec, POLICIES, POLICIES_DOC, SectionSpec, Shape, Text, UPSTREAM_TLS,
};

use crate::model::{Adaptive, Caps, Pool, Queue};
use crate::section::Value;

mod balance;
mod discover;
mod failure;
mod health;

pub(crate) use balance::*;
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

pub(crate) static TARGET: SectionSpec = SectionSpec {
    name: "target",
    noun: "a target",
    doc: "A weighted destination of requests.",
    choice: Choice::ExactlyOne(&["address", "upstream"]),
    keys: &[
        KeySpec::new("address", "An endpoint.", Shape::Text(&ENDPOINT_TEXT))
            .aliases(&["endpoint", "host", "url", "to"]),
        KeySpec::new("upstream", "The name of an upstream.", Shape::Text(&UPSTREAM_NAME)).aliases(&["name"]),
        KeySpec::new("weight", "Share of the requests; 0 takes none.", WEIGHT).default("1"),
    ],
};

pub(crate) static ENDPOINT: SectionSpec = SectionSpec {
    name: "endpoint",
    noun: "an endpoint",
    doc: "One endpoint of an upstream.",
    choice: Choice::Free,
    keys: &[
        KeySpec::new("address", "Where it is.", Shape::Text(&ENDPOINT_TEXT))
            .required()
            .aliases(&["endpoint", "host", "url", "to"]),
        KeySpec::new("weight", "Share of the requests; 0 takes none.", WEIGHT).default("1"),
        KeySpec::new(
            "drain",
            "Whether it is drained: new requests go elsewhere, and active ones finish.",
            Shape::Switch,
        )
        .default("off")
        .aliases(&["maintenance", "down", "disabled", "draining"]),
        KeySpec::new(
            "priority",
            "Endpoints with 0 are used first; a higher number is used if too few endpoints with lower \
            numbers are healthy.",
            Shape::Count { min: 0, max: 255, off: false },
        )
        .default("0")
        .aliases(&["backup", "failover", "tier"]),
        KeySpec::new(
            "zone",
            "Its zone; endpoints in the gateway's own `zone` are preferred.",
            Shape::Text(&ZONE),
        )
        .aliases(&["locality", "az", "availability_zone", "region"]),
    ],
};

pub(crate) static UPSTREAM: SectionSpec = SectionSpec {
    name: "upstream",
    noun: "an upstream",
    doc: "A named group of endpoints. The short form is the list of endpoints.",
    choice: Choice::Free,
    keys: &[
        KeySpec::new(
            "endpoints",
            "Its endpoints: one or a list. Required without `discover`.",
            Shape::OneOrMany(&ENDPOINT_SHAPE),
        )
        .aliases(&[
            "endpoint",
            "servers",
            "server",
            "nodes",
            "targets",
            "address",
            "addresses",
            "to",
        ]),
        KeySpec::new(
            "discover",
            "Source of additional endpoints, which the gateway looks up repeatedly.",
            Shape::AnyOf(&[Shape::Text(&DISCOVER_TEXT), Shape::Section(&DISCOVER)]),
        )
        .aliases(&["discovery", "service_discovery", "resolve", "resolver", "dns", "srv", "file"]),
        KeySpec::new(
            "balance",
            "Load balancing.",
            Shape::AnyOf(&[Shape::Word(BALANCE_POLICIES), Shape::Section(&BALANCE)]),
        )
        .default("round_robin")
        .aliases(&[
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
        KeySpec::new("limits", "Limits over all workers together.", <Caps as Value>::SHAPE).aliases(&[
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
        KeySpec::new(
            "queue",
            "The queue for requests that exceed a limit on connections.",
            <Queue as Value>::SHAPE,
        )
        .default("on")
        .aliases(&["pending", "backlog", "max_pending_requests"]),
        KeySpec::new(
            "breaker",
            "Circuit breaker: rejects requests for a while if too many failed or were slow.",
            Shape::AnyOf(&[Shape::Switch, Shape::Section(&BREAKER)]),
        )
        .default("off")
        .aliases(&["circuit_breaker", "circuitbreaker", "circuitBreaker"]),
        KeySpec::new("retry", "Retry rules.", Shape::AnyOf(&[Shape::Switch, Shape::Section(&RETRY)]))
            .default("on")
            .aliases(RETRY_ALSO),
        KeySpec::new(
            "hedge",
            "Starts a second attempt alongside a slow first one: after this time.",
            Shape::AnyOf(&[HEDGE_AFTER, Shape::Off, Shape::Section(&HEDGE)]),
        )
        .default("off")
        .aliases(&["hedging", "hedge_policy", "speculative"]),
        KeySpec::new(
            "health",
            "Active health checks of every endpoint: a path, `tcp`, or a mapping.",
            Shape::AnyOf(&[
                Shape::Off,
                Shape::Text(&PROBE_PATH),
                Shape::Word(&["tcp", "grpc"]),
                Shape::Section(&HEALTH),
            ]),
        )
        .default("off")
        .aliases(&[
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
        KeySpec::new(
            "outlier",
            "Ejection of endpoints that fail requests (passive health checks).",
            Shape::AnyOf(&[Shape::Switch, Shape::Section(&OUTLIER)]),
        )
        .default("on")
        .aliases(&[
            "outlier_detection",
            "outliers",
            "passive",
            "ejection",
            "max_fails",
            "fail_timeout",
        ]),
        KeySpec::new(
            "adaptive",
            "A limit of concurrent requests that adapts to the latency.",
            <Adaptive as Value>::SHAPE,
        )
        .default("off")
        .aliases(&["adaptive_concurrency", "concurrency"]),
        KeySpec::new(
            "timeouts",
            "Overrides of the gateway's timeouts; a route's override wins.",
            Shape::Section(&EXCHANGE_TIMEOUTS),
        )
        .aliases(&["timeout"]),
        KeySpec::new(
            "http2",
            "Whether its endpoints are reached by HTTP/2: over TLS by ALPN, in plain text by prior \
            knowledge. Default: only endpoints written `h2c://`.",
            Shape::Switch,
        )
        .aliases(&[
            "h2",
            "h2c",
            "protocol",
            "protocols",
            "http_version",
            "proxy_http_version",
            "http2_protocol_options",
            "grpc",
        ]),
        KeySpec::new("tls", "TLS settings for its `https://` endpoints.", Shape::Section(&UPSTREAM_TLS))
            .aliases(&["ssl", "transport_socket", "ca", "server_name"]),
        KeySpec::new("pool", "Its connection pool.", <Pool as Value>::SHAPE)
            .aliases(&["keepalive", "connections"]),
        KeySpec::new(
            "source_address",
            "The local address of connections to its endpoints. Default: the system chooses.",
            Shape::Text(&IP),
        )
        .aliases(&[
            "source",
            "bind",
            "proxy_bind",
            "local_address",
            "upstream_bind_config",
            "source_ip",
        ]),
        KeySpec::new(
            "proxy_protocol",
            "Whether connections to its endpoints start with a PROXY protocol header that names the client, \
            and its version. Each connection then carries one request.",
            Shape::Word(&["off", "v1", "v2"]),
        )
        .default("off")
        .aliases(&[
            "send_proxy",
            "send-proxy",
            "send_proxy_protocol",
            "upstream_proxy_protocol",
            "proxy",
        ]),
        KeySpec::new("policies", POLICIES_DOC, Shape::Section(&POLICIES)),
    ],
};

static IP: Text = Text {
    expected: "an IP address of this machine such as `10.0.0.5`",
    pattern: Some(r"^[0-9A-Fa-f:.]+$"),
    loose: false,
};
