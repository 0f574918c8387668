//! Settings of the policy `mirror`.

use std::time::Duration;

use crate::model::Percent;
use crate::model::Spanned;

/// Sends copies of requests to another upstream.
#[derive(Clone, Debug, PartialEq)]
pub struct Mirror {
    /// Name of the upstream.
    pub to: Spanned<String>,
    /// Percentage of requests that are copied.
    pub percent: Percent,
    /// Maximum bytes of a body; a request with a larger one is not copied.
    pub body: usize,
    /// Maximum of concurrent copies.
    pub in_flight: usize,
    /// Maximum duration of a copy's exchange.
    pub timeout: Duration,
    /// The field that marks a copy.
    pub header: Option<String>,
    /// The `Host` of copies; `None`: the host of the original request.
    pub host: Option<String>,
}
