//! What requests are told apart by.

use crate::spec::{Shape, Text};

pub(crate) static BY: Text = Text {
    expected: "`all`, `consumer`, `address`, `route`, `header NAME`, `claim NAME`, `cookie NAME` or `query NAME`",
    pattern: Some(r"^(all|consumer|address|route|(header|claim|cookie|query) \S.*)$"),
    loose: false,
};

pub(crate) const BY_SHAPE: Shape = Shape::Text(&BY);

/// What other gateways call `by`.
pub(crate) const BY_ALSO: &[&str] =
    &["key", "limit_by", "source", "per_key", "zone", "identifier", "header", "group_by", "client"];
