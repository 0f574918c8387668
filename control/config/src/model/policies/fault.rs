//! `fault`.

use std::time::Duration;

use crate::model::Percent;

/// Requests that are late or fail on purpose.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fault {
    /// A status, and to how many of a hundred requests it is given.
    pub abort: Option<(u16, Percent)>,
    /// A time, and how many of a hundred requests wait for it.
    pub delay: Option<(Duration, Percent)>,
    /// Only requests that have this header, with this value if one is named.
    pub header: Option<(String, Option<String>)>,
}
