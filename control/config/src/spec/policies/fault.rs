//! The keys of `fault`.

use std::time::Duration;

use crate::spec::{Choice, KeySpec, SectionSpec, Shape, Text};

static HEADER: Text = Text {
    expected: "a header such as `X-Fault`, or with a value, `X-Fault: yes`",
    pattern: Some(r"^[!#$%&'*+.^_`|~0-9A-Za-z-]+(:.*)?$"),
    loose: false,
};

pub(crate) static FAULT: SectionSpec = SectionSpec {
    name: "fault",
    noun: "`fault`",
    doc: "Delays or fails requests on purpose.",
    choice: Choice::Free,
    keys: &[
        KeySpec::new(
            "abort",
            "Requests that get this status without being forwarded.",
            Shape::Section(&FAULT_ABORT),
        )
        .aliases(&["error", "fail", "status"]),
        KeySpec::new("delay", "Requests that are delayed.", Shape::Section(&FAULT_DELAY))
            .aliases(&["latency", "sleep"]),
        KeySpec::new(
            "header",
            "Restricts the policy to requests with this header, and with this value if there is one.",
            Shape::Text(&HEADER),
        )
        .aliases(&["headers", "if", "match", "when"]),
    ],
};

pub(crate) static FAULT_ABORT: SectionSpec = SectionSpec {
    name: "fault_abort",
    noun: "`abort`",
    doc: "Requests that get this status without being forwarded.",
    choice: Choice::Free,
    keys: &[
        KeySpec::new("status", "200 to 599.", Shape::Count { min: 200, max: 599, off: false })
            .required()
            .aliases(&["http_status", "code"]),
        KeySpec::new(
            "percent",
            "Percentage of these requests.",
            Shape::Percent { min: 0, max: 100, off: false },
        )
        .default("100%")
        .aliases(&["percentage", "share"]),
    ],
};

pub(crate) static FAULT_DELAY: SectionSpec = SectionSpec {
    name: "fault_delay",
    noun: "`delay`",
    doc: "Requests that are delayed.",
    choice: Choice::Free,
    keys: &[
        KeySpec::new(
            "time",
            "Length of the delay.",
            Shape::Time { min: Duration::from_millis(1), max: Duration::from_secs(300), off: false },
        )
        .required()
        .aliases(&["duration", "fixed_delay", "delay"]),
        KeySpec::new(
            "percent",
            "Percentage of these requests.",
            Shape::Percent { min: 0, max: 100, off: false },
        )
        .default("100%")
        .aliases(&["percentage", "share"]),
    ],
};
