//! The keys of upstreams, endpoints and targets.

use super::{Choice, KeySpec, SectionSpec, Shape};
use crate::sections::texts::{ENDPOINT_TEXT, TARGET_TEXT, UPSTREAM_NAME};

pub(crate) const TARGET_TEXT_SHAPE: Shape = Shape::Text(&TARGET_TEXT);
pub(crate) static TARGET_SHAPE: Shape = Shape::AnyOf(&[Shape::Text(&TARGET_TEXT), Shape::Section(&TARGET)]);
/// Bounds of a weight, far above any sensible share. The sum stays within 32 bits for a thousand entries.
const WEIGHT: Shape = Shape::Count { min: 0, max: 1_000_000, off: false };

pub(crate) static TARGET: SectionSpec = SectionSpec {
    name: "target",
    noun: "a target",
    doc: "A weighted destination of requests.",
    choice: Choice::ExactlyOne(&["address", "upstream"]),
    keys: &[
        KeySpec::new("address", "An endpoint.", Shape::Text(&ENDPOINT_TEXT))
            .aliases(&["endpoint", "host", "url", "to"]),
        KeySpec::new("upstream", "The name of an upstream.", Shape::Text(&UPSTREAM_NAME)).aliases(&["name"]),
        KeySpec::new("weight", "Share of the requests; 0 takes none.", WEIGHT).default("1"),
    ],
};
