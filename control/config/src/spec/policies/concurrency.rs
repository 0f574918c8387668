//! The keys of `concurrency`.

use crate::spec::{
    BY_ALSO, BY_DOC, BY_SHAPE, COST, COST_ALSO, COST_DOC, Choice, EXEMPT, EXEMPT_ALSO, EXEMPT_DOC, KeySpec,
    MOST_COST, SCOPE, SCOPE_ALSO, SCOPE_DOC, STATUS_ALSO, STATUS_DOC, SectionSpec, Shape,
};

pub(crate) static CONCURRENCY_SHAPE: Shape = Shape::Section(&CONCURRENCY);

pub(crate) static CONCURRENCY: SectionSpec = SectionSpec {
    name: "concurrency",
    noun: "`concurrency`",
    doc: "Limits concurrent requests, each from its head to the end of its response. With several limits, a \
          request must pass every one.",
    choice: Choice::Free,
    keys: &[
        KeySpec::new(
            "limit",
            "Maximum number of requests.",
            Shape::Count { min: 1, max: 1_000_000_000, off: false },
        )
        .required()
        .aliases(&["amount", "max", "conn", "connections", "requests", "count"]),
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
    ],
};
