//! The keys of `headers`.

use crate::spec::{Choice, HEADER_NAME, KeySpec, SectionSpec, Shape, Text};

static VALUE: Text = Text { expected: "a value", pattern: None, loose: true };
static NAME_SHAPE: Shape = Shape::Text(&HEADER_NAME);
static VALUE_SHAPE: Shape = Shape::Text(&VALUE);

pub(crate) static HEADERS_POLICY: SectionSpec = SectionSpec {
    name: "headers_policy",
    noun: "`headers`",
    doc: "Changes fields of requests on their way upstream and of responses on their way back.",
    choice: Choice::Free,
    keys: &[
        KeySpec::new("request", "Changes of requests.", Shape::Section(&HEADER_CHANGE)),
        KeySpec::new(
            "response",
            "Changes of responses, including the gateway's own.",
            Shape::Section(&HEADER_CHANGE),
        ),
    ],
};

pub(crate) static HEADER_CHANGE: SectionSpec = SectionSpec {
    name: "header_change",
    noun: "a change of headers",
    doc: "Changes of a message's fields, in this order: `remove`, `set`, `add`.",
    choice: Choice::Free,
    keys: &[
        KeySpec::new(
            "remove",
            "Fields to remove; `X-Debug-*` is every field whose name begins with `X-Debug-`.",
            Shape::OneOrMany(&NAME_SHAPE),
        )
        .aliases(&["delete", "unset", "hide"]),
        KeySpec::new(
            "set",
            "Fields that replace existing fields of the same name.",
            Shape::MapOf(&VALUE_SHAPE),
        )
        .aliases(&["replace", "overwrite"]),
        KeySpec::new(
            "add",
            "Fields that are added to existing fields of the same name.",
            Shape::MapOf(&VALUE_SHAPE),
        )
        .aliases(&["append"]),
    ],
};
