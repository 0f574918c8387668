//! The keys of `intercept`.

use crate::spec::{Choice, KeySpec, SectionSpec, Shape, Text};

static REGEX: Text =
    Text { expected: "a regular expression such as `^/old/(.*)$`", pattern: Some("."), loose: false };
static METHOD: Text = Text { expected: "a method such as `GET`", pattern: Some("^[!-~]+$"), loose: false };
static METHOD_SHAPE: Shape = Shape::Text(&METHOD);
static LOCATION: Text = Text {
    expected: "a URL or a path with placeholders such as `{host}` and `{path}`: `https://{host}{path}`",
    pattern: Some("."),
    loose: false,
};
static REPLACE: Text =
    Text { expected: "a text with capture groups such as `$1`", pattern: None, loose: false };
static BODY: Text = Text { expected: "a text", pattern: None, loose: true };
static CONTENT_TYPE: Text =
    Text { expected: "a media type such as `application/json`", pattern: Some("/"), loose: false };

pub(crate) static INTERCEPT_RULE: Shape = Shape::Section(&INTERCEPT);

pub(crate) static INTERCEPT: SectionSpec = SectionSpec {
    name: "intercept_rule",
    noun: "a rule of `intercept`",
    doc: "A rule that answers requests. All of its conditions must hold.",
    choice: Choice::AtMostOne(&["location", "replace"]),
    keys: &[
        KeySpec::new(
            "uri",
            "A regular expression that occurs in the path or the query.",
            Shape::Text(&REGEX),
        )
        .aliases(&["block_rules", "request_uri", "url"]),
        KeySpec::new("path", "A regular expression that occurs in the path.", Shape::Text(&REGEX))
            .aliases(&["regex", "pattern"]),
        KeySpec::new("scheme", "Scheme of the client's request.", Shape::Word(&["http", "https"])),
        KeySpec::new("methods", "The request has one of these methods.", Shape::OneOrMany(&METHOD_SHAPE))
            .aliases(&["method"]),
        KeySpec::new(
            "status",
            "Status of the response. Default: 302 with `location` or `replace`, otherwise 403.",
            Shape::Count { min: 200, max: 599, off: false },
        )
        .aliases(&["code", "ret_code", "rejected_code"]),
        KeySpec::new("location", "`Location` of the response.", Shape::Text(&LOCATION))
            .aliases(&["redirect", "to"]),
        KeySpec::new(
            "replace",
            "Replacement for the first match of `path`; the resulting path is the response's `Location`.",
            Shape::Text(&REPLACE),
        )
        .aliases(&["replacement"]),
        KeySpec::new("keep_query", "Whether the request's query is appended to `Location`.", Shape::Switch)
            .default("off")
            .aliases(&["append_query_string", "query"]),
        KeySpec::new("body", "Body of the response, up to 64 KiB.", Shape::Text(&BODY)).aliases(&[
            "rejected_msg",
            "message",
            "text",
        ]),
        KeySpec::new("content_type", "The body's `Content-Type`.", Shape::Text(&CONTENT_TYPE))
            .default("text/plain; charset=utf-8"),
    ],
};
