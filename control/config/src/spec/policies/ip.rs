//! The keys of `ip`.

use crate::spec::{CIDR_SHAPE, Choice, Key, Section, Shape};

pub(crate) static IP_POLICY: Section = Section {
    name: "ip_policy",
    noun: "`ip`",
    doc: "Which addresses may come: the client's, behind `forwarded.trusted_proxies`.",
    choice: Choice::Free,
    keys: &[
        Key::new("allow", "Who may; without it everybody.", Shape::OneOrMany(&CIDR_SHAPE)),
        Key::new("deny", "Who may not, whatever `allow` says.", Shape::OneOrMany(&CIDR_SHAPE)),
    ],
};
