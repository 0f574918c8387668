//! The keys of `ip`.

use crate::spec::{CIDR_SHAPE, Choice, KeySpec, SectionSpec, Shape};

pub(crate) static IP_POLICY: SectionSpec = SectionSpec {
    name: "ip_policy",
    noun: "`ip`",
    doc: "Admits or rejects client addresses, as determined behind `forwarded.trusted_proxies`.",
    choice: Choice::Free,
    keys: &[
        KeySpec::new("allow", "Admitted addresses. Default: all.", Shape::OneOrMany(&CIDR_SHAPE)),
        KeySpec::new(
            "deny",
            "Rejected addresses, even if `allow` contains them.",
            Shape::OneOrMany(&CIDR_SHAPE),
        ),
    ],
};
