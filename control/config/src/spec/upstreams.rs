//! The keys of upstreams, endpoints and targets.

use super::{Choice, EXCHANGE_TIMEOUTS, Key, Section, Shape, Text};

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
static UPSTREAM_NAME: Text = Text {
    expected: "the name of an entry under `upstreams`",
    pattern: Some(r"^[A-Za-z0-9_.-]+$"),
    loose: false,
};

pub(crate) static TARGET_SHAPE: Shape = Shape::AnyOf(&[Shape::Text(&TARGET_TEXT), Shape::Section(&TARGET)]);
pub(crate) static ENDPOINT_SHAPE: Shape =
    Shape::AnyOf(&[Shape::Text(&ENDPOINT_TEXT), Shape::Section(&ENDPOINT)]);
pub(crate) static UPSTREAM_VALUE: Shape =
    Shape::AnyOf(&[Shape::Section(&UPSTREAM), Shape::Text(&ENDPOINT_TEXT), Shape::ListOf(&ENDPOINT_SHAPE)]);

/// Far above any sensible share; sums of weights stay within 32 bits for a thousand entries.
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
    ],
};

pub(crate) static UPSTREAM: Section = Section {
    name: "upstream",
    noun: "an upstream",
    doc: "Endpoints under a name. The endpoints alone are its short form.",
    choice: Choice::Free,
    keys: &[
        Key::new("endpoints", "Its endpoints: one or a list.", Shape::OneOrMany(&ENDPOINT_SHAPE))
            .required()
            .also(&["endpoint", "servers", "server", "nodes", "targets", "address", "addresses", "to"]),
        Key::new(
            "timeouts",
            "Timeouts that differ from the gateway's; a route's win.",
            Shape::Section(&EXCHANGE_TIMEOUTS),
        )
        .also(&["timeout"]),
        Key::new("pool", "Its connections.", Shape::Section(&POOL)).also(&["keepalive", "connections"]),
    ],
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
    ],
};
