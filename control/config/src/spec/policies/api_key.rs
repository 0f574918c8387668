//! The keys of `api_key`, and keys that authentication policies share.

use crate::section::Section;
use crate::sections::IdentityHeaders;
use crate::spec::{Choice, FROM, HEADER_NAME, KeySpec, OPTIONAL, SectionSpec, Shape, Text};

pub(crate) static PARAMETER: Text = Text {
    expected: "the name of a parameter such as `api_key`",
    pattern: Some("^[A-Za-z0-9._~-]+$"),
    loose: false,
};

pub(crate) static API_KEY_POLICY: SectionSpec = SectionSpec {
    name: "api_key_policy",
    noun: "`api_key`",
    doc: "Admits requests with a key of one of the `consumers`.",
    choice: Choice::Free,
    keys: &[
        KeySpec::new(
            "header",
            "The field that holds the key.",
            Shape::AnyOf(&[Shape::Off, Shape::Text(&HEADER_NAME)]),
        )
        .default("X-Api-Key")
        .aliases(&["name", "key_names", "in_header"]),
        KeySpec::new(
            "query",
            "A query parameter that may also hold the key. Queries appear in logs, so prefer a header.",
            Shape::AnyOf(&[Shape::Off, Shape::Text(&PARAMETER)]),
        )
        .default("off")
        .aliases(&["parameter", "in_query", "key_in_query"]),
        KeySpec::new("forward", "Whether the key is forwarded upstream.", Shape::Switch)
            .default("off")
            .aliases(&["keep", "hide_credentials", "hide"]),
        FROM,
        OPTIONAL,
        CONSUMER_HEADER,
        GROUPS_HEADER,
    ],
};

pub(crate) const CONSUMER_HEADER: KeySpec = IdentityHeaders::KEYS[0];
pub(crate) const GROUPS_HEADER: KeySpec = IdentityHeaders::KEYS[1];
