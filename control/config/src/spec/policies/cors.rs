//! The keys of `cors`.

use std::time::Duration;

use crate::spec::{Choice, HEADER_NAME, KeySpec, SectionSpec, Shape, Text};

static ORIGIN: Text = Text {
    expected: "an origin such as `https://app.example.com` or `https://*.example.com`, `null`, or `*`",
    pattern: Some(r"^(\*|null|[A-Za-z][A-Za-z0-9+.-]*://\S+)$"),
    loose: true,
};
static ORIGIN_SHAPE: Shape = Shape::Text(&ORIGIN);
static REGEX: Text = Text {
    expected: "a regular expression such as `https://pr-[0-9]+\\.example\\.com`",
    pattern: Some("."),
    loose: true,
};
static REGEX_SHAPE: Shape = Shape::Text(&REGEX);
static METHOD: Text = Text {
    expected: "a method such as `PUT`",
    pattern: Some(r"^[!#$%&'*+.^_`|~0-9A-Za-z-]+$"),
    loose: false,
};
static METHOD_SHAPE: Shape = Shape::Text(&METHOD);
static NAME_SHAPE: Shape = Shape::Text(&HEADER_NAME);

pub(crate) static CORS_POLICY: SectionSpec = SectionSpec {
    name: "cors_policy",
    noun: "`cors`",
    doc: "Controls which web origins may read the responses.",
    choice: Choice::Free,
    keys: &[
        KeySpec::new("origins", "Allowed origins; `*`: all.", Shape::OneOrMany(&ORIGIN_SHAPE)).aliases(&[
            "origin",
            "allow_origins",
            "allowed_origins",
            "accessControlAllowOriginList",
        ]),
        KeySpec::new(
            "regex",
            "Regular expressions for allowed origins; each must match the whole origin.",
            Shape::OneOrMany(&REGEX_SHAPE),
        )
        .aliases(&["origin_regex", "accessControlAllowOriginListRegex"]),
        KeySpec::new("methods", "Methods that pages may use.", Shape::OneOrMany(&METHOD_SHAPE))
            .default("[GET, HEAD, POST]")
            .aliases(&["allow_methods", "allowed_methods"]),
        KeySpec::new(
            "headers",
            "Fields of a request that a page may set; `*`: any.",
            Shape::OneOrMany(&NAME_SHAPE),
        )
        .aliases(&["allow_headers", "allowed_headers"]),
        KeySpec::new("expose", "Response fields that a page may read.", Shape::OneOrMany(&NAME_SHAPE))
            .aliases(&["expose_headers", "exposed_headers"]),
        KeySpec::new("credentials", "Whether requests may carry credentials such as cookies.", Shape::Switch)
            .default("off")
            .aliases(&["allow_credentials"]),
        KeySpec::new(
            "max_age",
            "How long a browser may cache the response to a preflight.",
            Shape::Time { min: Duration::ZERO, max: Duration::from_secs(86_400), off: true },
        )
        .default("off"),
    ],
};
