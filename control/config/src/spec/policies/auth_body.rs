//! Keys for the part of a request's body that an authorization service receives, shared by `forward_auth` and
//! `ext_authz`.

use crate::spec::{Choice, KeySpec, SectionSpec, Shape};

const LIMIT: Shape = Shape::Size { min: 1, max: 16 << 20, off: true };

const MAX: KeySpec = KeySpec::new(
    "max",
    "Maximum bytes of the body that are read for the service.",
    Shape::Size { min: 1, max: 16 << 20, off: false },
)
.required()
.aliases(&["max_request_bytes", "max_body_size", "max_size", "size", "limit"]);

const PARTIAL: KeySpec = KeySpec::new(
    "partial",
    "Whether the service gets the beginning of a larger body; otherwise such a request is rejected (413).",
    Shape::Switch,
)
.default("off")
.aliases(&["allow_partial_message", "allow_partial"]);

pub(crate) static FORWARD_AUTH_BODY: SectionSpec = SectionSpec {
    name: "forward_auth_body",
    noun: "`body`",
    doc: "The request's body, for the service.",
    choice: Choice::Free,
    keys: &[MAX, PARTIAL],
};

pub(crate) static EXT_AUTHZ_BODY: SectionSpec = SectionSpec {
    name: "ext_authz_body",
    noun: "`body`",
    doc: "The request's body, for the service.",
    choice: Choice::Free,
    keys: &[
        MAX,
        PARTIAL,
        KeySpec::new(
            "as_bytes",
            "Whether the body is always sent in `raw_body`. By default a UTF-8 body is in `body`, and any \
            other in `raw_body`.",
            Shape::Switch,
        )
        .default("off")
        .aliases(&["pack_as_bytes"]),
    ],
};

const DOC: &str = "Whether the service also receives the request's body, and its maximum size. The body is \
    forwarded upstream unchanged.";
const ALSO: &[&str] =
    &["with_request_body", "forward_body", "forwardBody", "include_body", "request_body", "max_body_size"];

static FORWARD_AUTH_FORMS: [Shape; 2] = [LIMIT, Shape::Section(&FORWARD_AUTH_BODY)];
static EXT_AUTHZ_FORMS: [Shape; 2] = [LIMIT, Shape::Section(&EXT_AUTHZ_BODY)];

/// `body` of `forward_auth`.
pub(crate) const WITH_BODY: KeySpec =
    KeySpec::new("body", DOC, Shape::AnyOf(&FORWARD_AUTH_FORMS)).default("off").aliases(ALSO);

/// `body` of `ext_authz`.
pub(crate) const WITH_BODY_OR_BYTES: KeySpec =
    KeySpec::new("body", DOC, Shape::AnyOf(&EXT_AUTHZ_FORMS)).default("off").aliases(ALSO);
