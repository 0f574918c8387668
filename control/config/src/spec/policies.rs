//! The keys of policies: one file a policy.

use super::{Choice, Key, Section, Shape};

mod by;
mod concurrency;
mod fault;
mod headers;
mod ip;
mod quota;
mod rate_limit;
mod redis;

pub(crate) use by::*;
pub(crate) use concurrency::*;
pub(crate) use fault::*;
pub(crate) use headers::*;
pub(crate) use ip::*;
pub(crate) use quota::*;
pub(crate) use rate_limit::*;
pub(crate) use redis::*;

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
            "rate_limit",
            "How many requests may come in a time (429).",
            Shape::AnyOf(&[Shape::Off, Shape::OneOrMany(&RATE_LIMIT_SHAPE)]),
        )
        .also(&[
            "ratelimit",
            "rate_limits",
            "limit_req",
            "rate-limiting",
            "throttle",
            "local_rate_limit",
            "limits",
        ]),
        Key::new(
            "quota",
            "How many requests may come in a day or a month (429).",
            Shape::AnyOf(&[Shape::Off, Shape::OneOrMany(&QUOTA_SHAPE)]),
        )
        .also(&["quotas", "limit_count"]),
        Key::new(
            "concurrency",
            "How many requests may be under way at once (429).",
            Shape::AnyOf(&[Shape::Off, Shape::OneOrMany(&CONCURRENCY_SHAPE)]),
        )
        .also(&[
            "in_flight_req",
            "inFlightReq",
            "limit_conn",
            "limit-conn",
            "max_concurrent_requests",
        ]),
        Key::new(
            "fault",
            "Requests that are late or fail on purpose.",
            Shape::AnyOf(&[Shape::Off, Shape::Section(&FAULT)]),
        )
        .also(&["fault_injection", "fault-injection", "faults", "chaos"]),
        Key::new(
            "headers",
            "Fields that requests and responses gain and lose.",
            Shape::AnyOf(&[Shape::Off, Shape::Section(&HEADERS_POLICY)]),
        )
        .also(&["header", "add_header", "proxy_set_header", "request_headers", "response_headers"]),
    ],
};
