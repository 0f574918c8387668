//! The keys of `quota`.

use crate::spec::{
    BY_ALSO, BY_DOC, BY_SHAPE, COST, COST_ALSO, COST_DOC, Choice, EXEMPT, EXEMPT_ALSO, EXEMPT_DOC, KeySpec,
    LIMIT_NAME, MOST_COST, REDIS, SCOPE, SCOPE_ALSO, SCOPE_DOC, STATUS_ALSO, STATUS_DOC, SectionSpec, Shape,
};

pub(crate) static QUOTA_SHAPE: Shape = Shape::Section(&QUOTA);

pub(crate) static QUOTA: SectionSpec = SectionSpec {
    name: "quota",
    noun: "`quota`",
    doc: "Limits requests per calendar day or month, in UTC. With several quotas, a request must pass every \
        one.",
    choice: Choice::Free,
    keys: &[
        KeySpec::new(
            "limit",
            "Maximum number of requests.",
            Shape::Count { min: 1, max: 1_000_000_000_000, off: false },
        )
        .required()
        .aliases(&["count", "requests", "max", "amount"]),
        KeySpec::new(
            "per",
            "The period: from midnight to midnight, or from the first of a month to the first of the next, \
            in UTC.",
            Shape::Word(&["day", "month"]),
        )
        .required()
        .aliases(&["period", "interval", "time_window", "window", "unit"]),
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
            "Maximum number of remembered keys; all further keys share one counter.",
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
        .aliases(&["shadow", "shadow_mode", "enforce", "report_only"]),
        KeySpec::new("name", "Name that clients see. Default: the key in `by`.", Shape::Text(&LIMIT_NAME))
            .aliases(&["id", "policy"]),
        KeySpec::new(
            "redis",
            "The Redis or Valkey that counts for several gateways.",
            Shape::Section(&REDIS),
        )
        .aliases(&["shared", "store", "valkey", "backend", "storage"]),
    ],
};
