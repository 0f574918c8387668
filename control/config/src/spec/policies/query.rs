//! The keys of `query`.

use crate::spec::{Choice, KeySpec, SectionSpec, Shape, Text};

static NAME: Text = Text { expected: "the name of a parameter", pattern: Some("."), loose: true };
static NAME_SHAPE: Shape = Shape::Text(&NAME);
static VALUE: Text = Text { expected: "a value", pattern: None, loose: true };
static VALUE_SHAPE: Shape = Shape::Text(&VALUE);

pub(crate) static QUERY_POLICY: SectionSpec = SectionSpec {
    name: "query_policy",
    noun: "`query`",
    doc: "Changes the query parameters of requests on their way upstream, in this order: `remove`, `set`, \
        `add`.",
    choice: Choice::Free,
    keys: &[
        KeySpec::new(
            "remove",
            "Parameters to remove; `utm_*` is every parameter whose name begins with `utm_`.",
            Shape::OneOrMany(&NAME_SHAPE),
        )
        .aliases(&["delete"]),
        KeySpec::new(
            "set",
            "Parameters that replace existing parameters of the same name.",
            Shape::MapOf(&VALUE_SHAPE),
        )
        .aliases(&["replace"]),
        KeySpec::new(
            "add",
            "Parameters that are added to existing parameters of the same name.",
            Shape::MapOf(&VALUE_SHAPE),
        )
        .aliases(&["append"]),
    ],
};
