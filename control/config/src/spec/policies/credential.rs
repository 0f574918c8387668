//! Keys that several policies share: the places of a credential, and whether a request needs one.

use super::{COOKIE, PARAMETER};
use crate::spec::{Choice, HEADER_NAME, KeySpec, SectionSpec, Shape, Text};

static PREFIX: Text = Text {
    expected: "the text before the credential, such as `Bearer`",
    pattern: Some("^[!-~]+( [!-~]+)* ?$"),
    loose: false,
};

pub(crate) static CREDENTIAL_PLACE: SectionSpec = SectionSpec {
    name: "credential_place",
    noun: "an entry of `from`",
    doc: "A place in a request where a credential may be.",
    choice: Choice::ExactlyOne(&["header", "cookie", "query"]),
    keys: &[
        KeySpec::new("header", "A field.", Shape::Text(&HEADER_NAME)).aliases(&["name", "field"]),
        KeySpec::new(
            "prefix",
            "The text before the credential in the field, case-insensitive. A field without it holds no \
            credential. In `jwt`, the default for `Authorization` is `Bearer`.",
            Shape::Text(&PREFIX),
        )
        .aliases(&["value_prefix", "scheme"]),
        KeySpec::new("cookie", "A cookie.", Shape::Text(&COOKIE)),
        KeySpec::new("query", "A parameter of the query.", Shape::Text(&PARAMETER)).aliases(&[
            "param",
            "parameter",
            "arg",
        ]),
    ],
};
static PLACE_SHAPE: Shape = Shape::Section(&CREDENTIAL_PLACE);

/// The places where a credential may be, for policies that accept several.
pub(crate) const FROM: KeySpec = KeySpec::new(
    "from",
    "The places where the credential may be. A request with credentials in two of them is rejected (401).",
    Shape::OneOrMany(&PLACE_SHAPE),
);

/// Whether a request without a credential passes.
pub(crate) const OPTIONAL: KeySpec = KeySpec::new(
    "optional",
    "Whether a request without such a credential passes, without a consumer. An invalid credential is still \
    rejected (401).",
    Shape::Switch,
)
.default("off");
