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
    doc: "How many requests may come in a time. Of several limits each has to have room.",
    choice: Choice::Free,
    keys: &[
        Key::new("rate", "How many in which time, evenly.", Shape::Text(&RATE)).required().also(&[
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
            "How many at once after a pause; without it as many as `rate` says.",
            Shape::Count { min: 1, max: 1_000_000_000, off: false },
        )
        .also(&["max_tokens", "bucket_size", "capacity"]),
        Key::new("by", BY_DOC, BY_SHAPE)
            .or("all")
            .also(BY_ALSO),
        Key::new("cost", COST_DOC, Shape::AnyOf(&[Shape::Count { min: 1, max: MOST_COST, off: false }, Shape::Section(&COST)]))
            .or("1")
            .also(COST_ALSO),
        Key::new("exempt", EXEMPT_DOC, Shape::Section(&EXEMPT)).also(EXEMPT_ALSO),
        Key::new("scope", SCOPE_DOC, Shape::Text(&SCOPE)).also(SCOPE_ALSO),
        Key::new(
            "keys",
            "How many keys are remembered at once; those past them share buckets.",
            Shape::Count { min: 64, max: 100_000_000, off: false },
        )
        .or("100000")
        .also(&["max_keys", "size", "entries"]),
        Key::new(
            "headers",
            "Whether every answer has the `RateLimit` fields, and not only the 429.",
            Shape::Switch,
        )
        .or("off")
        .also(&["rate_limit_headers", "fields"]),
        Key::new("status", STATUS_DOC, Shape::Count { min: 400, max: 599, off: false })
            .or("429")
            .also(STATUS_ALSO),
        Key::new(
            "dry_run",
            "Whether nothing is refused, and only the log told what would be.",
            Shape::Switch,
        )
        .or("off")
        .also(&["shadow", "shadow_mode", "limit_req_dry_run", "enforce", "report_only"]),
        Key::new(
            "name",
            "What clients are told that it is called; without it what it is `by`.",
            Shape::Text(&LIMIT_NAME),
        )
        .also(&["id", "policy"]),
        Key::new("redis", "The Redis or Valkey by which several gateways hold it together.", Shape::Section(&REDIS))
            .also(&["shared", "store", "valkey", "backend", "storage", "policy_redis", "global"]),
        Key::new(
            "lease",
            "With `redis`: how many are taken at once, to be given out within a second; 1: each request asks.",
            Shape::Count { min: 1, max: 100_000, off: false },
        )
        .or("1")
        .also(&["batch", "batch_size", "sync_rate", "chunk"]),
    ],
};
