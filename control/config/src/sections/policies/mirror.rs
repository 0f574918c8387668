//! `mirror`: sends copies of requests to another upstream.

use std::time::Duration;

use super::own_header;
use crate::model::{Percent, Spanned};
use crate::scalar::{address, field as header};
use crate::section::Section;
use crate::sections::texts::{HEADER_NAME, UPSTREAM_NAME};

/// Sends copies of requests to another upstream and ignores the responses.
#[derive(Clone, Debug, PartialEq, Section)]
#[section(name = "mirror_policy", noun = "`mirror`")]
pub struct Mirror {
    /// Name of the upstream that receives the copies.
    #[key(text = UPSTREAM_NAME, parse = address::upstream, required, also = ["upstream", "cluster", "backend", "service"])]
    pub to: Spanned<String>,
    /// Percentage of requests that are copied.
    #[key(percent = 0..=100, default = "100%", also = ["percentage", "runtime_fraction", "sample"])]
    pub percent: Percent,
    /// Maximum bytes of a body; a request with a larger one is not copied.
    #[key(size = 0..=16 << 20, default = "64KiB", also = ["max_body", "maxBodySize", "limit"])]
    pub body: usize,
    /// Maximum number of concurrent copies; a request beyond it is not copied.
    #[key(count = 1..=100_000, default = 100, also = ["max_in_flight", "concurrency", "limit_in_flight"])]
    pub in_flight: usize,
    /// Maximum duration of a copy's exchange.
    #[key(time = "1ms"..="10m", default = "5s")]
    pub timeout: Duration,
    /// The field that marks a copy, with the value `1`.
    #[key(off, text = HEADER_NAME, parse = own_header, default = "Tollgate-Shadow")]
    pub header: Option<String>,
    /// The `Host` of copies. Default: the host of the original request.
    #[key(expected = "a host such as `shadow.internal`", pattern = r"^\S+$", parse = header::value)]
    pub host: Option<String>,
}
