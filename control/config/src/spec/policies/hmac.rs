//! The keys of `hmac`.

use std::time::Duration;

use super::{CONSUMER_HEADER, GROUPS_HEADER, OPTIONAL};
use crate::spec::{Choice, Key, Section, Shape, Text};

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

pub(crate) static HMAC_POLICY: Section = Section {
    name: "hmac_policy",
    noun: "`hmac`",
    doc: "Admits requests that are signed with a secret of one of the `consumers` (RFC 9421, `hmac-sha256`).",
    choice: Choice::Free,
    keys: &[
        Key::new(
            "components",
            "What a signature must cover, at least.",
            Shape::OneOrMany(&COMPONENT_SHAPE),
        )
        .or("[\"@method\", \"@authority\", \"@path\", \"@query\"]")
        .also(&["headers", "signed_headers", "covered", "enforce_headers"]),
        Key::new(
            "max_age",
            "How old a signature may be, by its `created`.",
            Shape::Time { min: Duration::from_secs(1), max: Duration::from_secs(86_400), off: false },
        )
        .or("5m")
        .also(&["validity", "clock_skew"]),
        Key::new(
            "leeway",
            "How much clocks may differ.",
            Shape::Time { min: Duration::ZERO, max: Duration::from_secs(600), off: false },
        )
        .or("30s"),
        Key::new(
            "nonces",
            "How many nonces are remembered, so that no request comes twice; `off`: none is wanted.",
            Shape::Count { min: 1, max: 10_000_000, off: true },
        )
        .or("off")
        .also(&["nonce", "replay"]),
        Key::new(
            "body",
            "Largest body that is read and compared with `Content-Digest`, which must be covered (413); `off`: bodies are not looked at.",
            Shape::Size { min: 1, max: 16 << 20, off: true },
        )
        .or("off")
        .also(&["digest", "content_digest", "validate_request_body"]),
        Key::new("label", "The label of the signature; without it any of the first four.", Shape::Text(&LABEL)),
        Key::new("tag", "The `tag` that it must have; without it whichever it has.", Shape::Text(&TAG)),
        Key::new("forward", "Whether the signature goes upstream.", Shape::Switch).or("off").also(&[
            "keep",
            "hide_credentials",
            "keep_headers",
        ]),
        OPTIONAL,
        CONSUMER_HEADER,
        GROUPS_HEADER,
    ],
};
