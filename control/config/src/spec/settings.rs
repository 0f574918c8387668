//! The gateway-wide keys.

use crate::section::Value;
use crate::sections::admin::Admin;
use crate::sections::texts::ZONE;
use crate::sections::*;

use super::{
    Choice, KeySpec, POLICIES_DOC, POLICIES_SHAPE, POLICY_SET_VALUE, ROUTE, SectionSpec, Shape, Text,
};

static PATTERN: Text = Text {
    expected: "the path of a file, or a pattern such as `routes/*.yaml`",
    pattern: Some("."),
    loose: false,
};

static PATTERN_SHAPE: Shape = Shape::Text(&PATTERN);
static ROUTE_SHAPE: Shape = Shape::Section(&ROUTE);

static LISTENER_SHAPE: Shape = <Listener as Value>::SHAPE;

pub(crate) static ROOT: SectionSpec = SectionSpec {
    name: "configuration",
    noun: "the configuration",
    doc: "The configuration of a gateway. Keys that start with `x-` are ignored, so they can hold YAML \
        anchors.",
    choice: Choice::Free,
    keys: &[
        KeySpec::new("listen", "The listeners: one address or a list.", Shape::OneOrMany(&LISTENER_SHAPE))
            .aliases(&["listener", "port", "bind", "address", "server", "servers", "http", "entrypoints"]),
        KeySpec::new(
            "workers",
            "Number of worker threads. `auto`: the number of processors that this process may use (affinity \
            and cgroup quota).",
            <WorkerCount as Value>::SHAPE,
        )
        .default("auto")
        .aliases(&["worker_processes", "threads", "concurrency"]),
        KeySpec::new(
            "admin",
            "The admin listener, which serves the dashboard, metrics, health and the admin API. A bare port \
            means the loopback address.",
            <Admin as Value>::SHAPE,
        )
        .default("127.0.0.1:9901"),
        KeySpec::new(
            "access_log",
            "One or several logs with a line per request.",
            <Vec<AccessLog> as Value>::SHAPE,
        )
        .default("off")
        .aliases(&["logs", "accesslog", "access_logs"]),
        KeySpec::new(
            "log",
            "The log of the gateway's own messages: a level, or a mapping.",
            <DiagnosticLog as Value>::SHAPE,
        )
        .default("info")
        .aliases(&["error_log", "logging", "logger", "log_level", "loglevel", "diagnostics"]),
        KeySpec::new(
            "request_id",
            "An id for each request, sent upstream and logged.",
            <RequestId as Value>::SHAPE,
        )
        .default("off"),
        KeySpec::new("metrics", "Whether statistics are kept.", Shape::Switch).default("on"),
        KeySpec::new(
            "forwarded",
            "Fields that tell the upstream about the client and the proxies in between.",
            <Forwarded as Value>::SHAPE,
        ),
        KeySpec::new("limits", "Sizes and counts that a peer may not exceed.", <Limits as Value>::SHAPE),
        KeySpec::new("timeouts", "Timeouts.", <Timeouts as Value>::SHAPE).aliases(&["timeout"]),
        KeySpec::new(
            "buffer",
            "Whether bodies are buffered before they are passed on, unless a route overrides it: `on` \
            buffers both directions, `request` or `response` one of them.",
            <RouteBuffer as Value>::SHAPE,
        )
        .default("off")
        .aliases(&["buffering", "proxy_request_buffering", "request_buffering"]),
        KeySpec::new("paths", "How ambiguous bytes of a path are treated.", <Paths as Value>::SHAPE),
        KeySpec::new("errors", "Bodies of the gateway's own error responses.", <ErrorBodies as Value>::SHAPE),
        KeySpec::new(
            "overload",
            "Bounds on the process's memory and file descriptors. Beyond a bound the gateway sheds new work \
            before old work fails.",
            <Overload as Value>::SHAPE,
        )
        .aliases(&["overload_manager", "shedding", "guards"]),
        KeySpec::new(
            "consumers",
            "Known consumers and their credentials, by name.",
            Shape::MapOf(&CONSUMER_VALUE),
        )
        .aliases(&["consumer", "users", "clients"]),
        KeySpec::new(
            "certificates",
            "Certificates by name, for every listener with `tls` or for some of them.",
            Shape::MapOf(&NAMED_CERTIFICATE_VALUE),
        )
        .aliases(&["certificate", "certs", "ssls"]),
        KeySpec::new("policies", POLICIES_DOC, POLICIES_SHAPE).aliases(&[
            "policy",
            "plugins",
            "middlewares",
            "filters",
            "http_filters",
        ]),
        KeySpec::new(
            "policy_sets",
            "Named sets of policies, which other places refer to with `use`.",
            Shape::MapOf(&POLICY_SET_VALUE),
        )
        .aliases(&["policy_set", "policies_sets", "plugin_configs", "shared_policies"]),
        KeySpec::new(
            "store",
            "The file that stores the resources written through the admin API.",
            <StoreSettings as Value>::SHAPE,
        )
        .aliases(&["database", "db", "storage"]),
        KeySpec::new(
            "etcd",
            "The etcd that shares the resources written through the admin API between several gateways; \
            replaces `store`.",
            <EtcdSettings as Value>::SHAPE,
        ),
        KeySpec::new(
            "zone",
            "The zone of this gateway; endpoints of the same zone are preferred.",
            Shape::Text(&ZONE),
        )
        .aliases(&["locality", "region", "az", "availability_zone"]),
        KeySpec::new(
            "watch",
            "Whether the gateway watches its files and reloads when one changes.",
            Shape::Switch,
        )
        .default("off")
        .aliases(&["reload", "auto_reload", "hot_reload"]),
        KeySpec::new(
            "include",
            "Other files whose routes and upstreams are added.",
            Shape::OneOrMany(&PATTERN_SHAPE),
        )
        .aliases(&["includes", "import"]),
        KeySpec::new("routes", "The routes.", Shape::ListOf(&ROUTE_SHAPE)).aliases(&[
            "route",
            "locations",
            "location",
            "rules",
        ]),
        KeySpec::new("upstreams", "Named groups of endpoints.", Shape::MapOf(&UPSTREAM_VALUE))
            .aliases(&["upstream", "backends", "backend", "clusters", "services"]),
    ],
};
