//! The keys of `intercept`.

use crate::spec::{Choice, Key, Section, Shape, Text};

static REGEX: Text =
    Text { expected: "a regular expression such as `^/old/(.*)$`", pattern: Some("."), loose: false };
static METHOD: Text = Text { expected: "a method such as `GET`", pattern: Some("^[!-~]+$"), loose: false };
static METHOD_SHAPE: Shape = Shape::Text(&METHOD);
static LOCATION: Text = Text {
    expected: "a URL or a path in which `{host}`, `{path}` and the like are filled in, such as `https://{host}{path}`",
    pattern: Some("."),
    loose: false,
};
static REPLACE: Text =
    Text { expected: "a text in which `$1` stands for a group", pattern: None, loose: false };
static BODY: Text = Text { expected: "a text", pattern: None, loose: true };
static CONTENT_TYPE: Text =
    Text { expected: "a media type such as `application/json`", pattern: Some("/"), loose: false };

pub(crate) static INTERCEPT_RULE: Shape = Shape::Section(&INTERCEPT);

pub(crate) static INTERCEPT: Section = Section {
    name: "intercept_rule",
    noun: "a rule of `intercept`",
    doc: "Requests that get an answer of the gateway's own: those that fit all that is written.",
    choice: Choice::AtMostOne(&["location", "replace"]),
    keys: &[
        Key::new("uri", "A regular expression that is found in the path or the query.", Shape::Text(&REGEX))
            .also(&["block_rules", "request_uri", "url"]),
        Key::new("path", "A regular expression that is found in the path.", Shape::Text(&REGEX))
            .also(&["regex", "pattern"]),
        Key::new("scheme", "How the client has come.", Shape::Word(&["http", "https"])),
        Key::new("methods", "The request has one of these methods.", Shape::OneOrMany(&METHOD_SHAPE))
            .also(&["method"]),
        Key::new(
            "status",
            "The answer's status; without it 302 with `location` or `replace`, else 403.",
            Shape::Count { min: 200, max: 599, off: false },
        )
        .also(&["code", "ret_code", "rejected_code"]),
        Key::new("location", "The answer's `Location`.", Shape::Text(&LOCATION)).also(&["redirect", "to"]),
        Key::new(
            "replace",
            "What takes the place of the first match of `path`; the path that comes of it is the answer's `Location`.",
            Shape::Text(&REPLACE),
        )
        .also(&["replacement"]),
        Key::new("keep_query", "Whether the request's query follows in `Location`.", Shape::Switch)
            .or("off")
            .also(&["append_query_string", "query"]),
        Key::new("body", "The answer's body, up to 64 KiB.", Shape::Text(&BODY))
            .also(&["rejected_msg", "message", "text"]),
        Key::new("content_type", "The body's `Content-Type`.", Shape::Text(&CONTENT_TYPE))
            .or("text/plain; charset=utf-8"),
    ],
};
