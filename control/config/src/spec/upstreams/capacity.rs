//! The keys of an upstream's capacity: `limits`, `queue`, `adaptive`.

use std::time::Duration;

use super::super::{Choice, Key, Section, Shape};

/// Bounds of a limit.
const CAP: Shape = Shape::Count { min: 1, max: u32::MAX as u64, off: true };

pub(crate) static UPSTREAM_LIMITS: Section = Section {
    name: "upstream_limits",
    noun: "`limits` of an upstream",
    doc: "Limits over all workers together.",
    choice: Choice::Free,
    keys: &[
        Key::new(
            "connections",
            "Connections to all endpoints together, including idle, upgraded and probe connections.",
            CAP,
        )
        .or("off")
        .also(&["max_connections", "maxconn", "connection"]),
        Key::new("endpoint_connections", "Connections to one endpoint.", CAP).or("off").also(&[
            "max_conns",
            "connections_per_endpoint",
            "per_endpoint",
            "connections_per_host",
        ]),
        Key::new("requests", "Active requests.", CAP).or("off").also(&[
            "max_requests",
            "concurrency",
            "in_flight",
            "inflight",
            "concurrent_requests",
        ]),
        Key::new("retries", "Active retries.", CAP).or("off").also(&["max_retries"]),
    ],
};

pub(crate) static QUEUE: Section = Section {
    name: "queue",
    noun: "`queue`",
    doc: "The queue for requests that exceed a limit on connections. If it is full or the wait is too long, \
        a request gets 503.",
    choice: Choice::Free,
    keys: &[
        Key::new(
            "size",
            "Maximum number of waiting requests over all workers; 0: no request waits.",
            Shape::Count { min: 0, max: 1_000_000, off: false },
        )
        .or("1024")
        .also(&["max", "length", "limit", "queue", "max_pending_requests"]),
        Key::new(
            "timeout",
            "Maximum wait of a request.",
            Shape::Time { min: Duration::from_millis(1), max: Duration::from_secs(3600), off: false },
        )
        .or("1s")
        .also(&["deadline", "wait", "max_wait"]),
    ],
};

pub(crate) static ADAPTIVE: Section = Section {
    name: "adaptive",
    noun: "`adaptive`",
    doc: "A limit of concurrent requests that follows the latency. The mapping itself switches it on. Beyond \
          the limit requests get 503, lowest priority first.",
    choice: Choice::Free,
    keys: &[
        Key::new(
            "min",
            "Lowest limit, over all workers.",
            Shape::Count { min: 1, max: u32::MAX as u64, off: false },
        )
        .or("3")
        .also(&["min_concurrency", "minimum", "min_limit"]),
        Key::new("max", "Highest limit.", Shape::Count { min: 1, max: u32::MAX as u64, off: false })
            .or("10000")
            .also(&["max_concurrency", "maximum", "max_limit", "max_concurrency_limit"]),
        Key::new(
            "interval",
            "How often the limit is recomputed.",
            Shape::Time { min: Duration::from_millis(10), max: Duration::from_secs(60), off: false },
        )
        .or("100ms")
        .also(&["window", "concurrency_update_interval"]),
        Key::new(
            "probe",
            "Minimum time between two measurements of the latency without load; during one, only `min` \
            requests are admitted.",
            Shape::Time { min: Duration::from_secs(1), max: Duration::from_secs(86_400), off: false },
        )
        .or("60s")
        .also(&["min_rtt_interval", "probe_interval", "min_rtt_calc_params"]),
        Key::new(
            "tolerance",
            "Percentage by which the latency may exceed the latency without load before the limit falls.",
            Shape::Percent { min: 1, max: 200, off: false },
        )
        .or("25%")
        .also(&["buffer", "rtt_tolerance"]),
    ],
};
