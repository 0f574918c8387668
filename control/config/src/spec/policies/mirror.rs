//! The keys of `mirror`.

use std::time::Duration;

use crate::spec::{Choice, HEADER_NAME, Key, Section, Shape, Text, UPSTREAM_NAME};

static HOST: Text =
    Text { expected: "a host such as `shadow.internal`", pattern: Some(r"^\S+$"), loose: false };

pub(crate) static MIRROR_POLICY: Section = Section {
    name: "mirror_policy",
    noun: "`mirror`",
    doc: "Copies of requests for another upstream; nobody waits for what comes of them.",
    choice: Choice::Free,
    keys: &[
        Key::new("to", "The upstream that gets copies, by name.", Shape::Text(&UPSTREAM_NAME))
            .required()
            .also(&["upstream", "cluster", "backend", "service"]),
        Key::new(
            "percent",
            "How many of a hundred requests are copied.",
            Shape::Percent { min: 0, max: 100, off: false },
        )
        .or("100%")
        .also(&["percentage", "runtime_fraction", "sample"]),
        Key::new(
            "body",
            "Largest body that is copied; a request with more is not.",
            Shape::Size { min: 0, max: 16 << 20, off: false },
        )
        .or("64KiB")
        .also(&["max_body", "maxBodySize", "limit"]),
        Key::new(
            "in_flight",
            "Copies under way at a time; a request beyond them is not copied.",
            Shape::Count { min: 1, max: 100_000, off: false },
        )
        .or("100")
        .also(&["max_in_flight", "concurrency", "limit_in_flight"]),
        Key::new(
            "timeout",
            "How long a copy may take.",
            Shape::Time { min: Duration::from_millis(1), max: Duration::from_secs(600), off: false },
        )
        .or("5s"),
        Key::new(
            "header",
            "The field that marks a copy, with the value `1`.",
            Shape::AnyOf(&[Shape::Off, Shape::Text(&HEADER_NAME)]),
        )
        .or("Tollgate-Shadow"),
        Key::new("host", "The host that copies are sent with; without it the request's.", Shape::Text(&HOST)),
    ],
};
