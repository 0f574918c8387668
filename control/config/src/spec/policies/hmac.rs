//! The keys of `hmac`.

use std::time::Duration;

use super::{CONSUMER_HEADER, GROUPS_HEADER, OPTIONAL};
use crate::spec::{Choice, KeySpec, SectionSpec, Shape, Text};

static COMPONENT: Text = Text {
    expected: "`@method`, `@target-uri`, `@authority`, `@scheme`, `@request-target`, `@path`, `@query` or the name of a field in lower case",
    pattern: Some(
        "^(@(method|target-uri|authority|scheme|request-target|path|query)|[a-z0-9!#$%&'*+.^_`|~-]+)$",
    ),
    loose: false,
};
static COMPONENT_SHAPE: Shape = Shape::Text(&COMPONENT);
static LABEL: Text =
    Text { expected: "a label such as `sig1`", pattern: Some("^[a-z*][a-z0-9_.*-]*$"), loose: false };
static TAG: Text = Text { expected: "a text such as `my-app`", pattern: Some("^[ -~]+$"), loose: false };

pub(crate) static HMAC_POLICY: SectionSpec = SectionSpec {
    name: "hmac_policy",
    noun: "`hmac`",
    doc: "Admits requests that are signed with a secret of one of the `consumers` (RFC 9421, `hmac-sha256`).",
    choice: Choice::Free,
    keys: &[
        KeySpec::new(
            "components",
            "Components that a signature must cover.",
            Shape::OneOrMany(&COMPONENT_SHAPE),
        )
        .default("[\"@method\", \"@authority\", \"@path\", \"@query\"]")
        .aliases(&["headers", "signed_headers", "covered", "enforce_headers"]),
        KeySpec::new(
            "max_age",
            "Maximum age of a signature, by its `created`.",
            Shape::Time { min: Duration::from_secs(1), max: Duration::from_secs(86_400), off: false },
        )
        .default("5m")
        .aliases(&["validity", "clock_skew"]),
        KeySpec::new(
            "leeway",
            "Tolerated difference between the clocks.",
            Shape::Time { min: Duration::ZERO, max: Duration::from_secs(600), off: false },
        )
        .default("30s"),
        KeySpec::new(
            "nonces",
            "How many nonces are remembered to prevent replays; `off`: signatures need no nonce.",
            Shape::Count { min: 1, max: 10_000_000, off: true },
        )
        .default("off")
        .aliases(&["nonce", "replay"]),
        KeySpec::new(
            "body",
            "Maximum bytes of a body that is compared with `Content-Digest`, which the signature must cover \
            (413); `off`: bodies are not checked.",
            Shape::Size { min: 1, max: 16 << 20, off: true },
        )
        .default("off")
        .aliases(&["digest", "content_digest", "validate_request_body"]),
        KeySpec::new(
            "label",
            "The label of the signature. Default: any of the first four signatures.",
            Shape::Text(&LABEL),
        ),
        KeySpec::new("tag", "The required `tag`. Default: any.", Shape::Text(&TAG)),
        KeySpec::new("forward", "Whether the signature is forwarded upstream.", Shape::Switch)
            .default("off")
            .aliases(&["keep", "hide_credentials", "keep_headers"]),
        OPTIONAL,
        CONSUMER_HEADER,
        GROUPS_HEADER,
    ],
};
