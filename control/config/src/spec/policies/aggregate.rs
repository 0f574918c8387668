//! The keys of `aggregate`.

use std::time::Duration;

use crate::spec::{Choice, Key, Section, Shape, Text, UPSTREAM_NAME};

static HOST: Text =
    Text { expected: "a host such as `users.internal`", pattern: Some(r"^\S+$"), loose: false };
static PATH: Text = Text {
    expected: "a path such as `/users/{consumer}?full=1`",
    pattern: Some(r"^(/|\{path\})\S*$"),
    loose: false,
};
static PART_SHAPE: Shape = Shape::Section(&AGGREGATE_PART);

pub(crate) static AGGREGATE_POLICY: Section = Section {
    name: "aggregate_policy",
    noun: "`aggregate`",
    doc: "The request is answered with one JSON document of what several upstreams say.",
    choice: Choice::Free,
    keys: &[
        Key::new("parts", "What the document is made of, by name; 16 at most.", Shape::MapOf(&PART_SHAPE))
            .required()
            .also(&["backends", "requests", "calls"]),
        Key::new(
            "shape",
            "How the document looks: any JSON in which `$NAME` is the part of that name and `$failed` a list of those that failed; without it an object of all parts with `failed`.",
            Shape::Anything,
        )
        .also(&["document", "body", "response"]),
        Key::new(
            "timeout",
            "How long each part may take that says nothing else (504).",
            Shape::Time { min: Duration::from_millis(1), max: Duration::from_secs(600), off: false },
        )
        .or("5s"),
        Key::new(
            "limit",
            "Largest size of all parts together (502).",
            Shape::Size { min: 1, max: 256 << 20, off: false },
        )
        .or("4MiB")
        .also(&["total", "max_body"]),
    ],
};

pub(crate) static AGGREGATE_PART: Section = Section {
    name: "aggregate_part",
    noun: "a part of `aggregate`",
    doc: "A part of the document: what an upstream answers to a GET.",
    choice: Choice::Free,
    keys: &[
        Key::new("to", "The upstream that is asked, by name.", Shape::Text(&UPSTREAM_NAME))
            .required()
            .also(&["upstream", "cluster", "backend", "service"]),
        Key::new(
            "path",
            "Its path and query, in which parts of the request are filled in.",
            Shape::Text(&PATH),
        )
        .or("{path}?{query}")
        .also(&["url", "uri", "target"]),
        Key::new("host", "The host that it is asked with; without it the request's.", Shape::Text(&HOST)),
        Key::new(
            "timeout",
            "How long it may take, to the last byte; without it as long as all.",
            Shape::Time { min: Duration::from_millis(1), max: Duration::from_secs(600), off: false },
        ),
        Key::new("limit", "Its largest size (502).", Shape::Size { min: 1, max: 64 << 20, off: false })
            .or("1MiB")
            .also(&["max_body"]),
        Key::new("required", "Whether the request fails without it.", Shape::Switch).or("on"),
        Key::new(
            "fallback",
            "Any JSON that stands in its place when it fails; it is not required then.",
            Shape::Anything,
        )
        .also(&["default", "otherwise"]),
    ],
};
