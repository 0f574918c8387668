//! The keys of `aggregate`.

use std::time::Duration;

use crate::spec::{Choice, KeySpec, SectionSpec, Shape, Text, UPSTREAM_NAME};

static HOST: Text =
    Text { expected: "a host such as `users.internal`", pattern: Some(r"^\S+$"), loose: false };
static PATH: Text = Text {
    expected: "a path such as `/users/{consumer}?full=1`",
    pattern: Some(r"^(/|\{path\})\S*$"),
    loose: false,
};
static PART_SHAPE: Shape = Shape::Section(&AGGREGATE_PART);

pub(crate) static AGGREGATE_POLICY: SectionSpec = SectionSpec {
    name: "aggregate_policy",
    noun: "`aggregate`",
    doc: "Answers the request with one JSON document that combines responses of several upstreams.",
    choice: Choice::Free,
    keys: &[
        KeySpec::new("parts", "The parts of the document by name, at most 16.", Shape::MapOf(&PART_SHAPE))
            .required()
            .aliases(&["backends", "requests", "calls"]),
        KeySpec::new(
            "shape",
            "Layout of the document: any JSON, in which `$NAME` is replaced by a part and `$failed` by the \
            list of failed parts. Default: an object of all parts and `failed`.",
            Shape::Anything,
        )
        .aliases(&["document", "body", "response"]),
        KeySpec::new(
            "timeout",
            "Maximum time for each part without its own `timeout` (504).",
            Shape::Time { min: Duration::from_millis(1), max: Duration::from_secs(600), off: false },
        )
        .default("5s"),
        KeySpec::new(
            "limit",
            "Maximum bytes of all parts together (502).",
            Shape::Size { min: 1, max: 256 << 20, off: false },
        )
        .default("4MiB")
        .aliases(&["total", "max_body"]),
    ],
};

pub(crate) static AGGREGATE_PART: SectionSpec = SectionSpec {
    name: "aggregate_part",
    noun: "a part of `aggregate`",
    doc: "A part of the document: the response of an upstream to a GET.",
    choice: Choice::Free,
    keys: &[
        KeySpec::new("to", "Name of the upstream.", Shape::Text(&UPSTREAM_NAME))
            .required()
            .aliases(&["upstream", "cluster", "backend", "service"]),
        KeySpec::new("path", "Its path and query, a template of parts of the request.", Shape::Text(&PATH))
            .default("{path}?{query}")
            .aliases(&["url", "uri", "target"]),
        KeySpec::new(
            "host",
            "The `Host` of its request. Default: the host of the original request.",
            Shape::Text(&HOST),
        ),
        KeySpec::new(
            "timeout",
            "Maximum time to its last byte. Default: the policy's `timeout`.",
            Shape::Time { min: Duration::from_millis(1), max: Duration::from_secs(600), off: false },
        ),
        KeySpec::new("limit", "Maximum bytes (502).", Shape::Size { min: 1, max: 64 << 20, off: false })
            .default("1MiB")
            .aliases(&["max_body"]),
        KeySpec::new("required", "Whether the request fails without it.", Shape::Switch).default("on"),
        KeySpec::new(
            "fallback",
            "Any JSON that replaces the part if it fails. The part is then optional.",
            Shape::Anything,
        )
        .aliases(&["default", "otherwise"]),
    ],
};
