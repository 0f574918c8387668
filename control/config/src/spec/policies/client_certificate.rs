//! The keys of `client_certificate`.

use crate::sections::consumers::CERTIFICATE_NAME_SHAPE;
use crate::spec::{CONSUMER_HEADER, Choice, GROUPS_HEADER, KeySpec, OPTIONAL, SectionSpec, Shape};

pub(crate) static CLIENT_CERTIFICATE_POLICY: SectionSpec = SectionSpec {
    name: "client_certificate_policy",
    noun: "`client_certificate`",
    doc: "Admits clients whose certificate the listener's `tls.client_certificates` verified.",
    choice: Choice::Free,
    keys: &[
        KeySpec::new(
            "allow",
            "Admitted certificates, by name or fingerprint. Default: every verified one.",
            Shape::OneOrMany(&CERTIFICATE_NAME_SHAPE),
        )
        .aliases(&["subjects", "names", "fingerprints", "san", "require"]),
        OPTIONAL,
        CONSUMER_HEADER,
        GROUPS_HEADER,
    ],
};
