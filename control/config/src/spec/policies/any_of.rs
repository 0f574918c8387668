//! The keys of `any_of`.

use super::{API_KEY, AUTHORIZE, BASIC, CLIENT_CERTIFICATE, EXT_AUTHZ, FORWARD_AUTH, HMAC, IP, JWT};
use crate::spec::{Choice, SectionSpec, Shape};

pub(crate) static ALTERNATIVE_SHAPE: Shape = Shape::Section(&ALTERNATIVE);

pub(crate) static ALTERNATIVE: SectionSpec = SectionSpec {
    name: "any_of_alternative",
    noun: "an alternative of `any_of`",
    doc: "Policies of one alternative. A request must pass all of them.",
    choice: Choice::Free,
    keys: &[IP, CLIENT_CERTIFICATE, HMAC, API_KEY, BASIC, JWT, FORWARD_AUTH, EXT_AUTHZ, AUTHORIZE],
};
