//! The keys of `cookies`.

use crate::spec::{Choice, KeySpec, SectionSpec, Shape, Text};

static NAME: Text = Text { expected: "the name of a cookie", pattern: Some("."), loose: true };
static NAME_SHAPE: Shape = Shape::Text(&NAME);
static VALUE: Text = Text { expected: "a value", pattern: None, loose: true };
const VALUE_OR_OFF: Shape = Shape::AnyOf(&[Shape::Off, Shape::Text(&VALUE)]);

pub(crate) static COOKIES_POLICY: SectionSpec = SectionSpec {
    name: "cookies_policy",
    noun: "`cookies`",
    doc: "Changes the cookies that responses set. A missing key leaves that attribute as the upstream sets \
        it.",
    choice: Choice::Free,
    keys: &[
        KeySpec::new(
            "names",
            "Names of the cookies that change. Default: all.",
            Shape::OneOrMany(&NAME_SHAPE),
        )
        .aliases(&["name"]),
        KeySpec::new("remove", "Cookies to remove.", Shape::OneOrMany(&NAME_SHAPE)).aliases(&["delete"]),
        KeySpec::new("secure", "Whether browsers send them over TLS only (`Secure`).", Shape::Switch),
        KeySpec::new("http_only", "Whether they are hidden from scripts (`HttpOnly`).", Shape::Switch)
            .aliases(&["httponly"]),
        KeySpec::new(
            "same_site",
            "From which sites browsers send them (`SameSite`).",
            Shape::Word(&["strict", "lax", "none", "off"]),
        )
        .aliases(&["samesite"]),
        KeySpec::new("domain", "Their `Domain`.", VALUE_OR_OFF),
        KeySpec::new("path", "Their `Path`.", VALUE_OR_OFF),
    ],
};
