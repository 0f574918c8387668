//! The keys of `security_headers`.

use crate::spec::{Choice, KeySpec, SectionSpec, Shape, Text};

static VALUE: Text = Text { expected: "a value", pattern: None, loose: true };
const VALUE_OR_OFF: Shape = Shape::AnyOf(&[Shape::Off, Shape::Text(&VALUE)]);

pub(crate) static SECURITY_HEADERS_POLICY: SectionSpec = SectionSpec {
    name: "security_headers_policy",
    noun: "`security_headers`",
    doc: "Adds response fields that restrict browsers.",
    choice: Choice::Free,
    keys: &[
        KeySpec::new("content_type_options", "`X-Content-Type-Options: nosniff`.", Shape::Switch)
            .default("on"),
        KeySpec::new(
            "frame_options",
            "`X-Frame-Options`, and `frame-ancestors` if `content_security_policy` is not set.",
            Shape::Word(&["deny", "sameorigin", "off"]),
        )
        .default("deny"),
        KeySpec::new("referrer_policy", "`Referrer-Policy`.", VALUE_OR_OFF)
            .default("strict-origin-when-cross-origin"),
        KeySpec::new(
            "content_security_policy",
            "`Content-Security-Policy`. Default: `frame-ancestors` according to `frame_options`.",
            VALUE_OR_OFF,
        )
        .aliases(&["csp"]),
        KeySpec::new("permissions_policy", "`Permissions-Policy`.", VALUE_OR_OFF).default("off"),
        KeySpec::new("opener_policy", "`Cross-Origin-Opener-Policy`.", VALUE_OR_OFF)
            .default("off")
            .aliases(&["coop"]),
        KeySpec::new("resource_policy", "`Cross-Origin-Resource-Policy`.", VALUE_OR_OFF)
            .default("off")
            .aliases(&["corp"]),
        KeySpec::new("overwrite", "Whether they replace fields that the upstream sets.", Shape::Switch)
            .default("off")
            .aliases(&["override", "replace"]),
    ],
};
