//! The keys of `concurrency`.

use crate::spec::{
    BY_ALSO, BY_DOC, BY_SHAPE, COST, COST_ALSO, COST_DOC, Choice, EXEMPT, EXEMPT_ALSO, EXEMPT_DOC, Key,
    MOST_COST, SCOPE, SCOPE_ALSO, SCOPE_DOC, STATUS_ALSO, STATUS_DOC, Section, Shape,
};

pub(crate) static CONCURRENCY_SHAPE: Shape = Shape::Section(&CONCURRENCY);

pub(crate) static CONCURRENCY: Section = Section {
    name: "concurrency",
    noun: "`concurrency`",
    doc: "Limits concurrent requests, each from its head to the end of its response. With several limits, a \
          request must pass every one.",
    choice: Choice::Free,
    keys: &[
        Key::new(
            "limit",
            "Maximum number of requests.",
            Shape::Count { min: 1, max: 1_000_000_000, off: false },
        )
        .required()
        .also(&["amount", "max", "conn", "connections", "requests", "count"]),
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
    ],
};
