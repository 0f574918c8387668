//! The keys of `security_headers`.

use crate::spec::{Choice, Key, Section, Shape, Text};

static VALUE: Text = Text { expected: "a value", pattern: None, loose: true };
const VALUE_OR_OFF: Shape = Shape::AnyOf(&[Shape::Off, Shape::Text(&VALUE)]);

pub(crate) static SECURITY_HEADERS_POLICY: Section = Section {
    name: "security_headers_policy",
    noun: "`security_headers`",
    doc: "Adds response fields that restrict browsers.",
    choice: Choice::Free,
    keys: &[
        Key::new("content_type_options", "`X-Content-Type-Options: nosniff`.", Shape::Switch).or("on"),
        Key::new(
            "frame_options",
            "`X-Frame-Options`, and `frame-ancestors` if `content_security_policy` is not set.",
            Shape::Word(&["deny", "sameorigin", "off"]),
        )
        .or("deny"),
        Key::new("referrer_policy", "`Referrer-Policy`.", VALUE_OR_OFF).or("strict-origin-when-cross-origin"),
        Key::new(
            "content_security_policy",
            "`Content-Security-Policy`. Default: `frame-ancestors` according to `frame_options`.",
            VALUE_OR_OFF,
        )
        .also(&["csp"]),
        Key::new("permissions_policy", "`Permissions-Policy`.", VALUE_OR_OFF).or("off"),
        Key::new("opener_policy", "`Cross-Origin-Opener-Policy`.", VALUE_OR_OFF).or("off").also(&["coop"]),
        Key::new("resource_policy", "`Cross-Origin-Resource-Policy`.", VALUE_OR_OFF)
            .or("off")
            .also(&["corp"]),
        Key::new("overwrite", "Whether they replace fields that the upstream sets.", Shape::Switch)
            .or("off")
            .also(&["override", "replace"]),
    ],
};
