//! The keys of `headers`.

use crate::spec::{Choice, HEADER_NAME, Key, Section, Shape, Text};

static VALUE: Text = Text { expected: "a value", pattern: None, loose: true };
static NAME_SHAPE: Shape = Shape::Text(&HEADER_NAME);
static VALUE_SHAPE: Shape = Shape::Text(&VALUE);

pub(crate) static HEADERS_POLICY: Section = Section {
    name: "headers_policy",
    noun: "`headers`",
    doc: "Fields that requests gain and lose on their way upstream, and responses on their way back.",
    choice: Choice::Free,
    keys: &[
        Key::new("request", "Of requests.", Shape::Section(&HEADER_CHANGE)),
        Key::new("response", "Of responses, the gateway's own too.", Shape::Section(&HEADER_CHANGE)),
    ],
};

pub(crate) static HEADER_CHANGE: Section = Section {
    name: "header_change",
    noun: "a change of headers",
    doc: "What changes in the fields of a message: first `remove`, then `set`, then `add`.",
    choice: Choice::Free,
    keys: &[
        Key::new(
            "remove",
            "Fields to remove; `X-Debug-*` is every field whose name begins with `X-Debug-`.",
            Shape::OneOrMany(&NAME_SHAPE),
        )
        .also(&["delete", "unset", "hide"]),
        Key::new("set", "Fields that take the place of those of their name.", Shape::MapOf(&VALUE_SHAPE))
            .also(&["replace", "overwrite"]),
        Key::new("add", "Fields that come beside those of their name.", Shape::MapOf(&VALUE_SHAPE))
            .also(&["append"]),
    ],
};
