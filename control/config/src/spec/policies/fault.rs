//! The keys of `fault`.

use std::time::Duration;

use crate::spec::{Choice, Key, Section, Shape, Text};

static HEADER: Text = Text {
    expected: "a header such as `X-Fault`, or with a value, `X-Fault: yes`",
    pattern: Some(r"^[!#$%&'*+.^_`|~0-9A-Za-z-]+(:.*)?$"),
    loose: false,
};

pub(crate) static FAULT: Section = Section {
    name: "fault",
    noun: "`fault`",
    doc: "Delays or fails requests on purpose.",
    choice: Choice::Free,
    keys: &[
        Key::new(
            "abort",
            "Requests that get this status without being forwarded.",
            Shape::Section(&FAULT_ABORT),
        )
        .also(&["error", "fail", "status"]),
        Key::new("delay", "Requests that are delayed.", Shape::Section(&FAULT_DELAY))
            .also(&["latency", "sleep"]),
        Key::new(
            "header",
            "Restricts the policy to requests with this header, and with this value if there is one.",
            Shape::Text(&HEADER),
        )
        .also(&["headers", "if", "match", "when"]),
    ],
};

pub(crate) static FAULT_ABORT: Section = Section {
    name: "fault_abort",
    noun: "`abort`",
    doc: "Requests that get this status without being forwarded.",
    choice: Choice::Free,
    keys: &[
        Key::new("status", "200 to 599.", Shape::Count { min: 200, max: 599, off: false })
            .required()
            .also(&["http_status", "code"]),
        Key::new("percent", "Percentage of these requests.", Shape::Percent { min: 0, max: 100, off: false })
            .or("100%")
            .also(&["percentage", "share"]),
    ],
};

pub(crate) static FAULT_DELAY: Section = Section {
    name: "fault_delay",
    noun: "`delay`",
    doc: "Requests that are delayed.",
    choice: Choice::Free,
    keys: &[
        Key::new(
            "time",
            "Length of the delay.",
            Shape::Time { min: Duration::from_millis(1), max: Duration::from_secs(300), off: false },
        )
        .required()
        .also(&["duration", "fixed_delay", "delay"]),
        Key::new("percent", "Percentage of these requests.", Shape::Percent { min: 0, max: 100, off: false })
            .or("100%")
            .also(&["percentage", "share"]),
    ],
};
