//! The keys of `rate_limit`.

use crate::spec::{
    BY_ALSO, BY_DOC, BY_SHAPE, COST, COST_ALSO, COST_DOC, Choice, EXEMPT, EXEMPT_ALSO, EXEMPT_DOC, KeySpec,
    MOST_COST, REDIS, SCOPE, SCOPE_ALSO, SCOPE_DOC, STATUS_ALSO, STATUS_DOC, SectionSpec, Shape, Text,
};

static RATE: Text = Text {
    expected: "a rate such as `1000/s`, `60/m`, `500/h`, `10000/d` or `100/30s`",
    pattern: Some(r"^[1-9][0-9]*/([1-9][0-9]*)?[smhd]$"),
    loose: false,
};
pub(crate) static LIMIT_NAME: Text = Text {
    expected: "a name such as `per-tenant`, with letters, digits, blanks, `-`, `_` and `.`",
    pattern: Some(r"^[A-Za-z0-9_. -]+$"),
    loose: true,
};

pub(crate) static RATE_LIMIT_SHAPE: Shape = Shape::Section(&RATE_LIMIT);

pub(crate) static RATE_LIMIT: SectionSpec = SectionSpec {
    name: "rate_limit",
    noun: "`rate_limit`",
    doc: "Limits requests per period. With several limits, a request must pass every one.",
    choice: Choice::Free,
    keys: &[
        KeySpec::new("rate", "Number of requests per period, spread evenly.", Shape::Text(&RATE))
            .required()
            .aliases(&[
                "limit",
                "average",
                "requests",
                "rps",
                "requests_per_second",
                "count",
                "per",
                "period",
                "unit",
            ]),
        KeySpec::new(
            "burst",
            "Requests admitted at once after a pause. Default: the count of `rate`.",
            Shape::Count { min: 1, max: 1_000_000_000, off: false },
        )
        .aliases(&["max_tokens", "bucket_size", "capacity"]),
        KeySpec::new("by", BY_DOC, BY_SHAPE).default("all").aliases(BY_ALSO),
        KeySpec::new(
            "cost",
            COST_DOC,
            Shape::AnyOf(&[Shape::Count { min: 1, max: MOST_COST, off: false }, Shape::Section(&COST)]),
        )
        .default("1")
        .aliases(COST_ALSO),
        KeySpec::new("exempt", EXEMPT_DOC, Shape::Section(&EXEMPT)).aliases(EXEMPT_ALSO),
        KeySpec::new("scope", SCOPE_DOC, Shape::Text(&SCOPE)).aliases(SCOPE_ALSO),
        KeySpec::new(
            "keys",
            "Maximum number of remembered keys; all further keys share buckets.",
            Shape::Count { min: 64, max: 100_000_000, off: false },
        )
        .default("100000")
        .aliases(&["max_keys", "size", "entries"]),
        KeySpec::new(
            "headers",
            "Whether every response has the `RateLimit` fields, not only the 429.",
            Shape::Switch,
        )
        .default("off")
        .aliases(&["rate_limit_headers", "fields"]),
        KeySpec::new("status", STATUS_DOC, Shape::Count { min: 400, max: 599, off: false })
            .default("429")
            .aliases(STATUS_ALSO),
        KeySpec::new(
            "dry_run",
            "Whether the limit rejects nothing and only logs what it would reject.",
            Shape::Switch,
        )
        .default("off")
        .aliases(&["shadow", "shadow_mode", "limit_req_dry_run", "enforce", "report_only"]),
        KeySpec::new("name", "Name that clients see. Default: the key in `by`.", Shape::Text(&LIMIT_NAME))
            .aliases(&["id", "policy"]),
        KeySpec::new(
            "redis",
            "The Redis or Valkey that lets several gateways share the limit.",
            Shape::Section(&REDIS),
        )
        .aliases(&["shared", "store", "valkey", "backend", "storage", "policy_redis", "global"]),
        KeySpec::new(
            "lease",
            "With `redis`: permits that a gateway takes at once and spends within a second; 1: it asks for \
            each request.",
            Shape::Count { min: 1, max: 100_000, off: false },
        )
        .default("1")
        .aliases(&["batch", "batch_size", "sync_rate", "chunk"]),
    ],
};
