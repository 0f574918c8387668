//! The keys of `balance`.

use std::time::Duration;

use super::super::settings::HEADER_NAME;
use super::super::{Choice, KeySpec, SectionSpec, Shape, Text};

/// Policies of the short form of `balance`. `hash` needs `by`, which only the mapping has.
pub(crate) const BALANCE_POLICIES: &[&str] = &["round_robin", "least_requests", "random"];

static COOKIE: Text = Text {
    expected: "the name of a cookie such as `session`",
    pattern: Some(r"^[!#$%&'*+.^_`|~0-9A-Za-z-]+$"),
    loose: false,
};
static PARAMETER: Text =
    Text { expected: "the name of a query parameter such as `user`", pattern: Some("."), loose: true };
static SECRET: Text = Text { expected: "a text of 16 to 1024 bytes", pattern: Some("^.{16,}$"), loose: true };
static COOKIE_PATH: Text =
    Text { expected: "a path such as `/shop`", pattern: Some("^/[^;]*$"), loose: false };

pub(crate) static BALANCE: SectionSpec = SectionSpec {
    name: "balance",
    noun: "`balance`",
    doc: "Load balancing. The short form is the policy alone.",
    choice: Choice::Free,
    keys: &[
        KeySpec::new(
            "policy",
            "How an endpoint is chosen among the available ones; `hash` needs `by`.",
            Shape::Word(&["round_robin", "least_requests", "random", "hash"]),
        )
        .default("round_robin")
        .aliases(&["algorithm", "strategy", "method", "type", "lb_policy", "mode"]),
        KeySpec::new(
            "choices",
            "With `least_requests`: whether the endpoint with the fewest active requests is chosen out of \
            two random ones or out of all.",
            Shape::Word(&["two", "all"]),
        )
        .default("two")
        .aliases(&["choice_count", "candidates"]),
        KeySpec::new(
            "by",
            "With `hash`: the part of the request that is hashed. A request without it goes to any endpoint.",
            Shape::AnyOf(&[Shape::Word(&["client_address", "path"]), Shape::Section(&HASH_BY)]),
        )
        .aliases(&["hash_by", "key", "hash_on", "on", "hash", "header", "cookie", "query"]),
        KeySpec::new(
            "sticky",
            "Session affinity by cookie.",
            Shape::AnyOf(&[Shape::Switch, Shape::Section(&STICKY)]),
        )
        .default("off")
        .aliases(&["session", "affinity", "sticky_session", "sticky_sessions", "session_affinity"]),
        KeySpec::new(
            "slow_start",
            "How long an endpoint that is new or healthy again takes to reach its full share. The share \
            grows linearly from a tenth.",
            Shape::Time { min: Duration::from_millis(100), max: Duration::from_secs(86_400), off: true },
        )
        .default("off")
        .aliases(&["slow_start_window", "warmup", "warm_up"]),
        KeySpec::new(
            "panic_threshold",
            "Percentage of healthy weight below which health is ignored and all endpoints take requests; 0 switches \
             it off.",
            Shape::Percent { min: 0, max: 100, off: false },
        )
        .default("50%")
        .aliases(&["panic", "healthy_panic_threshold"]),
        KeySpec::new(
            "zone_spill",
            "Percentage of healthy weight in the gateway's own zone at which that zone takes all requests; \
            below it a part spills over to other zones.",
            Shape::Percent { min: 0, max: 100, off: false },
        )
        .default("70%")
        .aliases(&["zone", "spill", "spillover", "locality"]),
    ],
};

pub(crate) static HASH_BY: SectionSpec = SectionSpec {
    name: "hash_by",
    noun: "`by`",
    doc: "The part of the request that is hashed.",
    choice: Choice::ExactlyOne(&["header", "cookie", "query"]),
    keys: &[
        KeySpec::new("header", "A header's value.", Shape::Text(&HEADER_NAME)).aliases(&["headers"]),
        KeySpec::new("cookie", "A cookie's value.", Shape::Text(&COOKIE)).aliases(&["cookies"]),
        KeySpec::new("query", "A query parameter's value.", Shape::Text(&PARAMETER)).aliases(&[
            "param",
            "parameter",
            "arg",
            "query_param",
            "vars",
        ]),
    ],
};

pub(crate) static STICKY: SectionSpec = SectionSpec {
    name: "sticky",
    noun: "`sticky`",
    doc: "A cookie that names a client's endpoint by a keyed hash of its address, not by the address itself.",
    choice: Choice::Free,
    keys: &[
        KeySpec::new(
            "cookie",
            "Its name. Default: `tollgate_` and eight digits of a hash of the upstream's name.",
            Shape::Text(&COOKIE),
        )
        .aliases(&["name"]),
        KeySpec::new(
            "ttl",
            "Lifetime of the cookie from when it is set; `off`: a session cookie.",
            Shape::Time { min: Duration::from_secs(1), max: Duration::from_secs(366 * 86_400), off: true },
        )
        .default("off")
        .aliases(&["expires", "max_age", "maxAge"]),
        KeySpec::new("path", "Its `Path`.", Shape::Text(&COOKIE_PATH)).default("/"),
        KeySpec::new("secure", "Whether it is `Secure`: sent over TLS only.", Shape::Switch).default("off"),
        KeySpec::new(
            "secret",
            "The key of the hash, the same on every gateway that serves the client; best as `${VARIABLE}`. \
            Without it, a client that guesses an endpoint's address can confirm the guess.",
            Shape::Text(&SECRET),
        )
        .secret()
        .aliases(&["key", "salt"]),
    ],
};
