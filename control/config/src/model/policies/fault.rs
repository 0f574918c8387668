//! Settings of the policy `fault`.

use std::time::Duration;

use crate::model::Percent;

/// Delays or fails requests on purpose.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fault {
    /// A status, and the percentage of requests that get it.
    pub abort: Option<(u16, Percent)>,
    /// A delay, and the percentage of requests that wait for it.
    pub delay: Option<(Duration, Percent)>,
    /// Restricts the policy to requests with this header, and with this value if there is one.
    pub header: Option<(String, Option<String>)>,
}
