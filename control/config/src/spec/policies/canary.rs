//! The keys of `canary`.

use crate::spec::{Choice, Key, Section, Shape, Text, UPSTREAM_NAME};

static VALUE: Text = Text { expected: "a value, or `*` for any", pattern: None, loose: true };
static VALUE_SHAPE: Shape = Shape::Text(&VALUE);
static BY: Text = Text {
    expected: "`random`, `consumer`, `address`, `header NAME` or `cookie NAME`",
    pattern: Some(r"^(random|consumer|address|(header|cookie) \S+)$"),
    loose: false,
};

pub(crate) static CANARY_RULE: Shape = Shape::Section(&CANARY_POLICY);

pub(crate) static CANARY_POLICY: Section = Section {
    name: "canary_rule",
    noun: "a rule of `canary`",
    doc: "A rule that sends requests to one of the route's upstreams, regardless of weights. All of its \
        conditions must hold.",
    choice: Choice::Free,
    keys: &[
        Key::new(
            "to",
            "One of the route's upstreams, by name; its weight may be 0.",
            Shape::Text(&UPSTREAM_NAME),
        )
        .required()
        .also(&["upstream", "backend", "service", "target"]),
        Key::new(
            "headers",
            "Headers that a request must have, with these values.",
            Shape::MapOf(&VALUE_SHAPE),
        )
        .also(&["header"]),
        Key::new(
            "cookies",
            "Cookies that a request must have, with these values.",
            Shape::MapOf(&VALUE_SHAPE),
        )
        .also(&["cookie"]),
        Key::new("percent", "Percentage of these requests.", Shape::Percent { min: 0, max: 100, off: false })
            .or("100%")
            .also(&["percentage", "share", "weight"]),
        Key::new(
            "by",
            "The key that keeps a client in the same sample; `random`: each request is sampled \
            independently.",
            Shape::Text(&BY),
        )
        .or("random")
        .also(&["sticky", "hash", "key"]),
    ],
};
