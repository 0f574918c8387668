//! The keys of `rate_limit`.

use crate::spec::{
    BY_ALSO, BY_DOC, BY_SHAPE, COST, COST_ALSO, COST_DOC, Choice, EXEMPT, EXEMPT_ALSO, EXEMPT_DOC, Key,
    MOST_COST, REDIS, SCOPE, SCOPE_ALSO, SCOPE_DOC, STATUS_ALSO, STATUS_DOC, Section, Shape, Text,
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

pub(crate) static RATE_LIMIT: Section = Section {
    name: "rate_limit",
    noun: "`rate_limit`",
    doc: "Limits requests per period. With several limits, a request must pass every one.",
    choice: Choice::Free,
    keys: &[
        Key::new("rate", "Number of requests per period, spread evenly.", Shape::Text(&RATE))
            .required()
            .also(&[
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
        Key::new(
            "burst",
            "Requests admitted at once after a pause. Default: the count of `rate`.",
            Shape::Count { min: 1, max: 1_000_000_000, off: false },
        )
        .also(&["max_tokens", "bucket_size", "capacity"]),
        Key::new("by", BY_DOC, BY_SHAPE).or("all").also(BY_ALSO),
        Key::new(
            "cost",
            COST_DOC,
            Shape::AnyOf(&[Shape::Count { min: 1, max: MOST_COST, off: false }, Shape::Section(&COST)]),
        )
        .or("1")
        .also(COST_ALSO),
        Key::new("exempt", EXEMPT_DOC, Shape::Section(&EXEMPT)).also(EXEMPT_ALSO),
        Key::new("scope", SCOPE_DOC, Shape::Text(&SCOPE)).also(SCOPE_ALSO),
        Key::new(
            "keys",
            "Maximum number of remembered keys; all further keys share buckets.",
            Shape::Count { min: 64, max: 100_000_000, off: false },
        )
        .or("100000")
        .also(&["max_keys", "size", "entries"]),
        Key::new(
            "headers",
            "Whether every response has the `RateLimit` fields, not only the 429.",
            Shape::Switch,
        )
        .or("off")
        .also(&["rate_limit_headers", "fields"]),
        Key::new("status", STATUS_DOC, Shape::Count { min: 400, max: 599, off: false })
            .or("429")
            .also(STATUS_ALSO),
        Key::new(
            "dry_run",
            "Whether the limit rejects nothing and only logs what it would reject.",
            Shape::Switch,
        )
        .or("off")
        .also(&["shadow", "shadow_mode", "limit_req_dry_run", "enforce", "report_only"]),
        Key::new("name", "Name that clients see. Default: the key in `by`.", Shape::Text(&LIMIT_NAME))
            .also(&["id", "policy"]),
        Key::new(
            "redis",
            "The Redis or Valkey that lets several gateways share the limit.",
            Shape::Section(&REDIS),
        )
        .also(&["shared", "store", "valkey", "backend", "storage", "policy_redis", "global"]),
        Key::new(
            "lease",
            "With `redis`: permits that a gateway takes at once and spends within a second; 1: it asks for \
            each request.",
            Shape::Count { min: 1, max: 100_000, off: false },
        )
        .or("1")
        .also(&["batch", "batch_size", "sync_rate", "chunk"]),
    ],
};
