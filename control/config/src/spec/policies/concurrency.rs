//! `concurrency`.

use crate::spec::{BY_ALSO, BY_SHAPE, Choice, Key, Section, Shape};

pub(crate) static CONCURRENCY_SHAPE: Shape = Shape::Section(&CONCURRENCY);

pub(crate) static CONCURRENCY: Section = Section {
    name: "concurrency",
    noun: "`concurrency`",
    doc: "How many requests may be under way at once, from their head to the end of their answer. Of several limits each has \
          to have room.",
    choice: Choice::Free,
    keys: &[
        Key::new("limit", "How many.", Shape::Count { min: 1, max: 1_000_000_000, off: false })
            .required()
            .also(&["amount", "max", "conn", "connections", "requests", "count"]),
        Key::new("by", "What requests are told apart by; those that lack it count as one.", BY_SHAPE)
            .or("all")
            .also(BY_ALSO),
        Key::new(
            "dry_run",
            "Whether nothing is refused, and only the log told what would be.",
            Shape::Switch,
        )
        .or("off")
        .also(&["shadow", "shadow_mode", "enforce", "report_only"]),
    ],
};
