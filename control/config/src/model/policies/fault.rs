//! `fault`.

use std::time::Duration;

/// Requests that are late or fail on purpose.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fault {
    /// A status, and to how many of a hundred requests it is given.
    pub abort: Option<(u16, u8)>,
    /// A time, and how many of a hundred requests wait for it.
    pub delay: Option<(Duration, u8)>,
    /// Only requests that have this header, with this value if one is named.
    pub header: Option<(String, Option<String>)>,
}
