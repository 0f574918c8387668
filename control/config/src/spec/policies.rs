//! The keys of policies: one file a policy.

use super::{Choice, Key, Section, Shape};

mod headers;
mod ip;

pub(crate) use headers::*;
pub(crate) use ip::*;

pub(crate) const POLICIES_DOC: &str = "What requests meet on their way. The policy of a kind that is written closest holds; `off` keeps one away.";

/// In the order in which a request meets them.
pub(crate) static POLICIES: Section = Section {
    name: "policies",
    noun: "`policies`",
    doc: "Policies of the gateway, a listener, a route or an upstream.",
    choice: Choice::Free,
    keys: &[
        Key::new(
            "ip",
            "Which addresses may come (403).",
            Shape::AnyOf(&[Shape::Off, Shape::Section(&IP_POLICY)]),
        )
        .also(&["ip_filter", "whitelist", "ipAllowList", "allow", "deny"]),
        Key::new(
            "headers",
            "Fields that requests and responses gain and lose.",
            Shape::AnyOf(&[Shape::Off, Shape::Section(&HEADERS_POLICY)]),
        )
        .also(&["header", "add_header", "proxy_set_header", "request_headers", "response_headers"]),
    ],
};
