//! The keys of an upstream's capacity: `limits`, `queue`, `adaptive`.

use std::time::Duration;

use super::super::{Choice, KeySpec, Section, Shape};

/// Bounds of a limit.
const CAP: Shape = Shape::Count { min: 1, max: u32::MAX as u64, off: true };

pub(crate) static UPSTREAM_LIMITS: Section =
    Section {
        name: "upstream_limits",
        noun: "`limits` of an upstream",
        doc: "Limits over all workers together.",
        choice: Choice::Free,
        keys: &[
            KeySpec::new(
                "connections",
                "Connections to all endpoints together, including idle, upgraded and probe connections.",
                CAP,
            )
            .default("off")
            .aliases(&["max_connections", "maxconn", "connection"]),
            KeySpec::new("endpoint_connections", "Connections to one endpoint.", CAP)
                .default("off")
                .aliases(&["max_conns", "connections_per_endpoint", "per_endpoint", "connections_per_host"]),
            KeySpec::new("requests", "Active requests.", CAP).default("off").aliases(&[
                "max_requests",
                "concurrency",
                "in_flight",
                "inflight",
                "concurrent_requests",
            ]),
            KeySpec::new("retries", "Active retries.", CAP).default("off").aliases(&["max_retries"]),
        ],
    };

pub(crate) static QUEUE: Section = Section {
    name: "queue",
    noun: "`queue`",
    doc: "The queue for requests that exceed a limit on connections. If it is full or the wait is too long, \
        a request gets 503.",
    choice: Choice::Free,
    keys: &[
        KeySpec::new(
            "size",
            "Maximum number of waiting requests over all workers; 0: no request waits.",
            Shape::Count { min: 0, max: 1_000_000, off: false },
        )
        .default("1024")
        .aliases(&["max", "length", "limit", "queue", "max_pending_requests"]),
        KeySpec::new(
            "timeout",
            "Maximum wait of a request.",
            Shape::Time { min: Duration::from_millis(1), max: Duration::from_secs(3600), off: false },
        )
        .default("1s")
        .aliases(&["deadline", "wait", "max_wait"]),
    ],
};

pub(crate) static ADAPTIVE: Section = Section {
    name: "adaptive",
    noun: "`adaptive`",
    doc: "A limit of concurrent requests that follows the latency. The mapping itself switches it on. Beyond \
          the limit requests get 503, lowest priority first.",
    choice: Choice::Free,
    keys: &[
        KeySpec::new(
            "min",
            "Lowest limit, over all workers.",
            Shape::Count { min: 1, max: u32::MAX as u64, off: false },
        )
        .default("3")
        .aliases(&["min_concurrency", "minimum", "min_limit"]),
        KeySpec::new("max", "Highest limit.", Shape::Count { min: 1, max: u32::MAX as u64, off: false })
            .default("10000")
            .aliases(&["max_concurrency", "maximum", "max_limit", "max_concurrency_limit"]),
        KeySpec::new(
            "interval",
            "How often the limit is recomputed.",
            Shape::Time { min: Duration::from_millis(10), max: Duration::from_secs(60), off: false },
        )
        .default("100ms")
        .aliases(&["window", "concurrency_update_interval"]),
        KeySpec::new(
            "probe",
            "Minimum time between two measurements of the latency without load; during one, only `min` \
            requests are admitted.",
            Shape::Time { min: Duration::from_secs(1), max: Duration::from_secs(86_400), off: false },
        )
        .default("60s")
        .aliases(&["min_rtt_interval", "probe_interval", "min_rtt_calc_params"]),
        KeySpec::new(
            "tolerance",
            "Percentage by which the latency may exceed the latency without load before the limit falls.",
            Shape::Percent { min: 1, max: 200, off: false },
        )
        .default("25%")
        .aliases(&["buffer", "rtt_tolerance"]),
    ],
};
