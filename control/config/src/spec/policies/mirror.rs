//! The keys of `mirror`.

use std::time::Duration;

use crate::spec::{Choice, HEADER_NAME, KeySpec, SectionSpec, Shape, Text, UPSTREAM_NAME};

static HOST: Text =
    Text { expected: "a host such as `shadow.internal`", pattern: Some(r"^\S+$"), loose: false };

pub(crate) static MIRROR_POLICY: SectionSpec = SectionSpec {
    name: "mirror_policy",
    noun: "`mirror`",
    doc: "Sends copies of requests to another upstream and ignores the responses.",
    choice: Choice::Free,
    keys: &[
        KeySpec::new("to", "Name of the upstream that receives the copies.", Shape::Text(&UPSTREAM_NAME))
            .required()
            .aliases(&["upstream", "cluster", "backend", "service"]),
        KeySpec::new(
            "percent",
            "Percentage of requests that are copied.",
            Shape::Percent { min: 0, max: 100, off: false },
        )
        .default("100%")
        .aliases(&["percentage", "runtime_fraction", "sample"]),
        KeySpec::new(
            "body",
            "Maximum bytes of a body; a request with a larger one is not copied.",
            Shape::Size { min: 0, max: 16 << 20, off: false },
        )
        .default("64KiB")
        .aliases(&["max_body", "maxBodySize", "limit"]),
        KeySpec::new(
            "in_flight",
            "Maximum number of concurrent copies; a request beyond it is not copied.",
            Shape::Count { min: 1, max: 100_000, off: false },
        )
        .default("100")
        .aliases(&["max_in_flight", "concurrency", "limit_in_flight"]),
        KeySpec::new(
            "timeout",
            "Maximum duration of a copy's exchange.",
            Shape::Time { min: Duration::from_millis(1), max: Duration::from_secs(600), off: false },
        )
        .default("5s"),
        KeySpec::new(
            "header",
            "The field that marks a copy, with the value `1`.",
            Shape::AnyOf(&[Shape::Off, Shape::Text(&HEADER_NAME)]),
        )
        .default("Tollgate-Shadow"),
        KeySpec::new(
            "host",
            "The `Host` of copies. Default: the host of the original request.",
            Shape::Text(&HOST),
        ),
    ],
};
