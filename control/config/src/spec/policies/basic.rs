//! The keys of `basic`.

use std::time::Duration;

use crate::spec::{CONSUMER_HEADER, Choice, GROUPS_HEADER, KeySpec, OPTIONAL, SectionSpec, Shape, Text};

static REALM: Text =
    Text { expected: "a text such as `staff only`", pattern: Some("^[^\"\\\\]+$"), loose: true };

pub(crate) static BASIC_POLICY: SectionSpec = SectionSpec {
    name: "basic_policy",
    noun: "`basic`",
    doc: "Admits requests with the name and password of one of the `consumers` (RFC 7617).",
    choice: Choice::Free,
    keys: &[
        KeySpec::new("realm", "The realm that browsers show.", Shape::Text(&REALM)).default("restricted"),
        KeySpec::new("forward", "Whether the password is forwarded upstream.", Shape::Switch)
            .default("off")
            .aliases(&["keep", "hide_credentials"]),
        KeySpec::new(
            "cache",
            "How long a verified password is cached.",
            Shape::Time { min: Duration::from_secs(1), max: Duration::from_secs(3600), off: true },
        )
        .default("1m"),
        OPTIONAL,
        CONSUMER_HEADER,
        GROUPS_HEADER,
    ],
};
