//! The keys of health: `health` by probes, `outlier` by traffic.

use std::time::Duration;

use super::super::{Choice, KeySpec, SectionSpec, Shape, Text};

/// The short form of `health`, and `http` in the mapping.
pub(crate) static PROBE_PATH: Text =
    Text { expected: "a path such as `/healthz`", pattern: Some(r"^/[^\s#]*$"), loose: false };
static PROBE_HOST: Text =
    Text { expected: "a host such as `api.internal`", pattern: Some(r"^\S+$"), loose: false };
static PROBE_SERVICE: Text =
    Text { expected: "a service such as `shop.Orders`", pattern: Some(r"^[!-~]+$"), loose: false };
static PROBE_BODY: Text = Text { expected: "a text such as `ok`", pattern: Some("."), loose: true };
static PROBE_HEADER: Text = Text { expected: "a value", pattern: None, loose: true };
static PROBE_HEADER_SHAPE: Shape = Shape::Text(&PROBE_HEADER);
static STATUS: Text = Text {
    expected: "a status such as `200`, or several as `2xx` or `200-299`",
    pattern: Some(r"^[1-5]([0-9]{2}|xx|[0-9]{2}-[1-5][0-9]{2})$"),
    loose: true,
};
static STATUS_SHAPE: Shape = Shape::Text(&STATUS);

pub(crate) static HEALTH: SectionSpec = SectionSpec {
    name: "health",
    noun: "`health`",
    doc: "Active health checks of every endpoint.",
    choice: Choice::ExactlyOne(&["http", "grpc", "tcp"]),
    keys: &[
        KeySpec::new(
            "http",
            "A GET of this path and query; its response must pass the checks below.",
            Shape::Text(&PROBE_PATH),
        )
        .aliases(&["path", "uri", "url", "http_path", "http_health_check"]),
        KeySpec::new(
            "grpc",
            "The gRPC health checking protocol: a call of `grpc.health.v1.Health/Check` for this service, or `on` for \
             the server as a whole.",
            Shape::AnyOf(&[Shape::Switch, Shape::Text(&PROBE_SERVICE)]),
        )
        .aliases(&["grpc_health_check", "service_name", "service"]),
        KeySpec::new("tcp", "A successful connect: `on`.", Shape::Switch)
            .aliases(&["tcp_health_check", "connect"]),
        KeySpec::new("status", "Statuses that are good: one or a list.", Shape::OneOrMany(&STATUS_SHAPE))
            .default("200-299")
            .aliases(&["statuses", "expected_statuses", "codes", "match", "expect"]),
        KeySpec::new(
            "body",
            "Text that must occur in the first 64 KiB of the response's body.",
            Shape::Text(&PROBE_BODY),
        )
        .aliases(&["contains", "receive", "text"]),
        KeySpec::new(
            "host",
            "Its `Host` (for gRPC, `:authority`). Default: the endpoint's address.",
            Shape::Text(&PROBE_HOST),
        )
        .aliases(&["hostname"]),
        KeySpec::new(
            "headers",
            "With `http`: additional fields of the probe. `User-Agent` replaces the gateway's.",
            Shape::MapOf(&PROBE_HEADER_SHAPE),
        )
        .aliases(&["header", "req_headers", "request_headers", "request_headers_to_add"]),
        KeySpec::new(
            "interval",
            "Time from one probe of an endpoint to the next.",
            Shape::Time { min: Duration::from_millis(100), max: Duration::from_secs(86_400), off: false },
        )
        .default("5s")
        .aliases(&["every", "period", "inter"]),
        KeySpec::new(
            "jitter",
            "Each interval is shortened by up to this percentage at random.",
            Shape::Percent { min: 0, max: 100, off: false },
        )
        .default("10%")
        .aliases(&["interval_jitter", "interval_jitter_percent"]),
        KeySpec::new(
            "timeout",
            "Maximum duration of a probe.",
            Shape::Time { min: Duration::from_millis(1), max: Duration::from_secs(3600), off: false },
        )
        .default("2s"),
        KeySpec::new(
            "healthy",
            "Consecutive good probes that make an endpoint healthy; the very first probe decides alone.",
            Shape::Count { min: 1, max: 1000, off: false },
        )
        .default("2")
        .aliases(&["healthy_threshold", "rise", "passes", "success_threshold"]),
        KeySpec::new(
            "unhealthy",
            "Consecutive bad probes that make it unhealthy.",
            Shape::Count { min: 1, max: 1000, off: false },
        )
        .default("3")
        .aliases(&["unhealthy_threshold", "fall", "fails", "failure_threshold"]),
        KeySpec::new(
            "port",
            "Port of the probes, if it differs from the endpoint's own.",
            Shape::Count { min: 1, max: 65_535, off: false },
        ),
    ],
};

pub(crate) static OUTLIER: SectionSpec = SectionSpec {
    name: "outlier",
    noun: "`outlier`",
    doc: "Ejection of endpoints that fail requests (passive health checks).",
    choice: Choice::Free,
    keys: &[
        KeySpec::new(
            "consecutive_5xx",
            "Consecutive 5xx responses (and failures) that eject.",
            Shape::Count { min: 1, max: 1_000_000, off: true },
        )
        .default("5")
        .aliases(&["consecutive_errors", "max_fails", "failures", "errors"]),
        KeySpec::new(
            "consecutive_gateway_errors",
            "Consecutive failures of the gateway's own (no connection, reset, timeout) and 502, 503, 504 \
            that eject.",
            Shape::Count { min: 1, max: 1_000_000, off: true },
        )
        .default("5")
        .aliases(&["consecutive_gateway_failure", "gateway_errors"]),
        KeySpec::new(
            "success_rate",
            "Whether endpoints are ejected if their success rate is 1.9 standard deviations below the mean. \
            Needs at least 5 endpoints with 100 requests each in an interval.",
            Shape::Switch,
        )
        .default("on"),
        KeySpec::new(
            "interval",
            "How often success rates are compared and ejections reviewed.",
            Shape::Time { min: Duration::from_millis(100), max: Duration::from_secs(3600), off: false },
        )
        .default("10s"),
        KeySpec::new(
            "ejection",
            "Ejection time, multiplied by the number of consecutive ejections.",
            Shape::Time { min: Duration::from_millis(1), max: Duration::from_secs(86_400), off: false },
        )
        .default("30s")
        .aliases(&["base_ejection_time", "ejection_time", "fail_timeout"]),
        KeySpec::new(
            "ejection_max",
            "Maximum ejection time.",
            Shape::Time { min: Duration::from_millis(1), max: Duration::from_secs(86_400), off: false },
        )
        .default("5m")
        .aliases(&["max_ejection_time", "max_ejection"]),
        KeySpec::new(
            "max_ejected",
            "Maximum percentage of an upstream's endpoints that may be ejected at a time. If there are \
            several endpoints, at least one may.",
            Shape::Percent { min: 0, max: 100, off: false },
        )
        .default("10%")
        .aliases(&["max_ejection_percent", "max_ejected_percent"]),
    ],
};
