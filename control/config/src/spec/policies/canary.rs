//! The keys of `canary`.

use crate::spec::{Choice, KeySpec, SectionSpec, Shape, Text, UPSTREAM_NAME};

static VALUE: Text = Text { expected: "a value, or `*` for any", pattern: None, loose: true };
static VALUE_SHAPE: Shape = Shape::Text(&VALUE);
static BY: Text = Text {
    expected: "`random`, `consumer`, `address`, `header NAME` or `cookie NAME`",
    pattern: Some(r"^(random|consumer|address|(header|cookie) \S+)$"),
    loose: false,
};

pub(crate) static CANARY_RULE: Shape = Shape::Section(&CANARY_POLICY);

pub(crate) static CANARY_POLICY: SectionSpec = SectionSpec {
    name: "canary_rule",
    noun: "a rule of `canary`",
    doc: "A rule that sends requests to one of the route's upstreams, regardless of weights. All of its \
        conditions must hold.",
    choice: Choice::Free,
    keys: &[
        KeySpec::new(
            "to",
            "One of the route's upstreams, by name; its weight may be 0.",
            Shape::Text(&UPSTREAM_NAME),
        )
        .required()
        .aliases(&["upstream", "backend", "service", "target"]),
        KeySpec::new(
            "headers",
            "Headers that a request must have, with these values.",
            Shape::MapOf(&VALUE_SHAPE),
        )
        .aliases(&["header"]),
        KeySpec::new(
            "cookies",
            "Cookies that a request must have, with these values.",
            Shape::MapOf(&VALUE_SHAPE),
        )
        .aliases(&["cookie"]),
        KeySpec::new(
            "percent",
            "Percentage of these requests.",
            Shape::Percent { min: 0, max: 100, off: false },
        )
        .default("100%")
        .aliases(&["percentage", "share", "weight"]),
        KeySpec::new(
            "by",
            "The key that keeps a client in the same sample; `random`: each request is sampled \
            independently.",
            Shape::Text(&BY),
        )
        .default("random")
        .aliases(&["sticky", "hash", "key"]),
    ],
};
