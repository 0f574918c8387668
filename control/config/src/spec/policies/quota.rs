//! The keys of `quota`.

use crate::spec::{
    BY_ALSO, BY_DOC, BY_SHAPE, COST, COST_ALSO, COST_DOC, Choice, EXEMPT, EXEMPT_ALSO, EXEMPT_DOC, Key,
    LIMIT_NAME, MOST_COST, REDIS, SCOPE, SCOPE_ALSO, SCOPE_DOC, STATUS_ALSO, STATUS_DOC, Section, Shape,
};

pub(crate) static QUOTA_SHAPE: Shape = Shape::Section(&QUOTA);

pub(crate) static QUOTA: Section = Section {
    name: "quota",
    noun: "`quota`",
    doc: "Limits requests per calendar day or month, in UTC. With several quotas, a request must pass every \
        one.",
    choice: Choice::Free,
    keys: &[
        Key::new(
            "limit",
            "Maximum number of requests.",
            Shape::Count { min: 1, max: 1_000_000_000_000, off: false },
        )
        .required()
        .also(&["count", "requests", "max", "amount"]),
        Key::new(
            "per",
            "The period: from midnight to midnight, or from the first of a month to the first of the next, \
            in UTC.",
            Shape::Word(&["day", "month"]),
        )
        .required()
        .also(&["period", "interval", "time_window", "window", "unit"]),
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
            "Maximum number of remembered keys; all further keys share one counter.",
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
        .also(&["shadow", "shadow_mode", "enforce", "report_only"]),
        Key::new("name", "Name that clients see. Default: the key in `by`.", Shape::Text(&LIMIT_NAME))
            .also(&["id", "policy"]),
        Key::new("redis", "The Redis or Valkey that counts for several gateways.", Shape::Section(&REDIS))
            .also(&["shared", "store", "valkey", "backend", "storage"]),
    ],
};
