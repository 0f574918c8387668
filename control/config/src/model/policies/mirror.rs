//! `mirror`.

use std::time::Duration;

use crate::model::Percent;
use crate::model::Spanned;

/// Copies of requests for another upstream.
#[derive(Clone, Debug, PartialEq)]
pub struct Mirror {
    /// The upstream's name.
    pub to: Spanned<String>,
    /// How many of a hundred requests are copied.
    pub percent: Percent,
    /// Bytes of a body; a request with more is not copied.
    pub body: usize,
    /// Copies under way at a time.
    pub in_flight: usize,
    /// How long a copy may take.
    pub timeout: Duration,
    /// The field that marks a copy.
    pub header: Option<String>,
    /// The host that copies are sent with.
    pub host: Option<String>,
}
