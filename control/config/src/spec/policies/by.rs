//! The values of `by`, the key by which requests are counted.

use crate::spec::{Shape, Text};

pub(crate) static BY: Text = Text {
    expected: "`all`, `consumer`, `address`, `route`, `host`, `path`, `method`, `header NAME`, `claim NAME`, `cookie NAME` or \
               `query NAME`",
    pattern: Some(r"^(all|consumer|address|route|host|path|method|(header|claim|cookie|query) \S.*)$"),
    loose: false,
};

pub(crate) static BY_ONE: Shape = Shape::Text(&BY);
pub(crate) const BY_SHAPE: Shape = Shape::OneOrMany(&BY_ONE);

/// Description of `by` in the reference.
pub(crate) const BY_DOC: &str = "The key by which requests are counted, or a list of parts that form one \
    key. Requests without the key share one counter.";

/// Names of `by` in other gateways.
pub(crate) const BY_ALSO: &[&str] = &[
    "key",
    "keys_by",
    "limit_by",
    "source",
    "per_key",
    "zone",
    "identifier",
    "header",
    "group_by",
    "client",
];
