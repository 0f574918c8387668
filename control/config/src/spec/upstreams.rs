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
    doc: "One place that requests may go to.",
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
            "Whether it is taken out: new requests go elsewhere, what is under way ends.",
            Shape::Switch,
        )
        .or("off")
        .also(&["maintenance", "down", "disabled", "draining"]),
        Key::new(
            "priority",
            "0 is used first; a higher one when too few of the lower ones are healthy.",
            Shape::Count { min: 0, max: 255, off: false },
        )
        .or("0")
        .also(&["backup", "failover", "tier"]),
        Key::new(
            "zone",
            "The zone that it is in; those in the gateway's own `zone` are preferred.",
            Shape::Text(&ZONE),
        )
        .also(&["locality", "az", "availability_zone", "region"]),
    ],
};

pub(crate) static UPSTREAM: Section = Section {
    name: "upstream",
    noun: "an upstream",
    doc: "Endpoints under a name. The endpoints alone are its short form.",
    choice: Choice::Free,
    keys: &[
        Key::new(
            "endpoints",
            "Its endpoints: one or a list. Required, unless some are discovered.",
            Shape::OneOrMany(&ENDPOINT_SHAPE),
        )
        .also(&["endpoint", "servers", "server", "nodes", "targets", "address", "addresses", "to"]),
        Key::new(
            "discover",
            "Where further endpoints are looked up, again and again.",
            Shape::AnyOf(&[Shape::Text(&DISCOVER_TEXT), Shape::Section(&DISCOVER)]),
        )
        .also(&["discovery", "service_discovery", "resolve", "resolver", "dns", "srv", "file"]),
        Key::new(
            "balance",
            "Which endpoint takes a request.",
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
        Key::new("limits", "What is never exceeded, over all workers.", Shape::Section(&UPSTREAM_LIMITS))
            .also(&[
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
            "Where requests wait that a limit of connections holds back.",
            Shape::AnyOf(&[Shape::Switch, Shape::Section(&QUEUE)]),
        )
        .or("on")
        .also(&["pending", "backlog", "max_pending_requests"]),
        Key::new(
            "breaker",
            "When no requests are sent for a while, because too many failed or were slow.",
            Shape::AnyOf(&[Shape::Switch, Shape::Section(&BREAKER)]),
        )
        .or("off")
        .also(&["circuit_breaker", "circuitbreaker", "circuitBreaker"]),
        Key::new(
            "retry",
            "Which requests are tried again.",
            Shape::AnyOf(&[Shape::Switch, Shape::Section(&RETRY)]),
        )
        .or("on")
        .also(RETRY_ALSO),
        Key::new(
            "hedge",
            "A second attempt beside a slow first one: after which time.",
            Shape::AnyOf(&[HEDGE_AFTER, Shape::Off, Shape::Section(&HEDGE)]),
        )
        .or("off")
        .also(&["hedging", "hedge_policy", "speculative"]),
        Key::new(
            "health",
            "Probes of every endpoint: a path, `tcp`, or a mapping.",
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
            "Ejection of endpoints by what traffic tells of them.",
            Shape::AnyOf(&[Shape::Switch, Shape::Section(&OUTLIER)]),
        )
        .or("on")
        .also(&["outlier_detection", "outliers", "passive", "ejection", "max_fails", "fail_timeout"]),
        Key::new(
            "adaptive",
            "A limit of concurrent requests that finds its own height.",
            Shape::AnyOf(&[Shape::Switch, Shape::Section(&ADAPTIVE)]),
        )
        .or("off")
        .also(&["adaptive_concurrency", "concurrency"]),
        Key::new(
            "timeouts",
            "Timeouts that differ from the gateway's; a route's win.",
            Shape::Section(&EXCHANGE_TIMEOUTS),
        )
        .also(&["timeout"]),
        Key::new(
            "http2",
            "Whether its endpoints are spoken to in HTTP/2: over TLS chosen by ALPN, in plain text by prior knowledge. \
             Default: those that are `h2c://`.",
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
        Key::new("tls", "How `https://` is spoken to its endpoints.", Shape::Section(&UPSTREAM_TLS)).also(&[
            "ssl",
            "transport_socket",
            "ca",
            "server_name",
        ]),
        Key::new("pool", "Its connections.", Shape::Section(&POOL)).also(&["keepalive", "connections"]),
        Key::new(
            "source_address",
            "The local address of connections to its endpoints. Default: the system chooses.",
            Shape::Text(&IP),
        )
        .also(&["source", "bind", "proxy_bind", "local_address", "upstream_bind_config", "source_ip"]),
        Key::new(
            "proxy_protocol",
            "Whether connections to its endpoints begin with a PROXY protocol header that names the client, and in which \
             version. Each then carries one request.",
            Shape::Word(&["off", "v1", "v2"]),
        )
        .or("off")
        .also(&["send_proxy", "send-proxy", "send_proxy_protocol", "upstream_proxy_protocol", "proxy"]),
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
            "Idle connections kept for each endpoint by each worker; 0 keeps none.",
            Shape::Count { min: 0, max: 100_000, off: false },
        )
        .or("256")
        .also(&["keepalive", "size"]),
        Key::new("idle_timeout", "How long an idle connection is kept.", Shape::Duration).or("4s"),
        Key::new(
            "max_requests",
            "Requests that a connection may carry.",
            Shape::Count { min: 1, max: u64::MAX, off: true },
        )
        .or("off"),
        Key::new("max_age", "Age at which a connection is no longer used again.", Shape::Duration).or("off"),
        Key::new(
            "warm",
            "Connections that each worker keeps ready to each endpoint before they are asked for.",
            Shape::Count { min: 0, max: 1000, off: false },
        )
        .or("0")
        .also(&["min_idle", "preconnect", "warmup", "warm_up"]),
    ],
};
