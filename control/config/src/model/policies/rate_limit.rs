//! Settings of the policy `rate_limit`.

use std::time::Duration;

use super::{Cost, CountKeyPart, Exempt, Redis};

/// Limits requests per period.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RateLimit {
    /// Name that clients see. Default: the key in `by`.
    pub name: Option<String>,
    /// Requests per period.
    pub rate: Rate,
    /// Requests admitted at once after a pause. Default: the count of `rate`.
    pub burst: u64,
    /// The key by which requests are counted.
    pub by: CountKeyPart,
    /// The cost of a request.
    pub cost: Cost,
    /// Requests that are not counted.
    pub exempt: Exempt,
    /// Name that limits at several places share in order to count together.
    pub scope: Option<String>,
    /// Maximum of keys that are remembered.
    pub keys: usize,
    /// Whether every response reports the state of the limit.
    pub headers: bool,
    /// Status of rejected requests. Default 429.
    pub status: Option<u16>,
    /// Whether the limit only reports and rejects nothing.
    pub dry_run: bool,
    /// The Redis that lets several gateways share the limit.
    pub redis: Option<Redis>,
    /// Permits that a gateway takes from Redis at once and spends within a second.
    pub lease: u32,
}

impl RateLimit {
    /// Default of `keys`.
    pub const KEYS: usize = 100_000;
}

/// Requests per period.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// Number of requests, at least 1.
    pub count: u64,
    /// The period: a second, a minute, an hour or a day.
    pub period: Duration,
}
