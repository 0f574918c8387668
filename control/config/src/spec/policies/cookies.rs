//! The keys of `cookies`.

use crate::spec::{Choice, Key, Section, Shape, Text};

static NAME: Text = Text { expected: "the name of a cookie", pattern: Some("."), loose: true };
static NAME_SHAPE: Shape = Shape::Text(&NAME);
static VALUE: Text = Text { expected: "a value", pattern: None, loose: true };
const VALUE_OR_OFF: Shape = Shape::AnyOf(&[Shape::Off, Shape::Text(&VALUE)]);

pub(crate) static COOKIES_POLICY: Section = Section {
    name: "cookies_policy",
    noun: "`cookies`",
    doc: "What changes in the cookies that responses set; without a key as the upstream says.",
    choice: Choice::Free,
    keys: &[
        Key::new("names", "The cookies that change; without it all.", Shape::OneOrMany(&NAME_SHAPE))
            .also(&["name"]),
        Key::new("remove", "Cookies that are not set at all.", Shape::OneOrMany(&NAME_SHAPE))
            .also(&["delete"]),
        Key::new("secure", "Whether they go over TLS only (`Secure`).", Shape::Switch),
        Key::new("http_only", "Whether scripts do not see them (`HttpOnly`).", Shape::Switch)
            .also(&["httponly"]),
        Key::new(
            "same_site",
            "From where they are sent (`SameSite`).",
            Shape::Word(&["strict", "lax", "none", "off"]),
        )
        .also(&["samesite"]),
        Key::new("domain", "Their `Domain`.", VALUE_OR_OFF),
        Key::new("path", "Their `Path`.", VALUE_OR_OFF),
    ],
};
