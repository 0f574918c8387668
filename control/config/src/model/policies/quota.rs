//! Settings of the policy `quota`.

use super::{Cost, CountKeyPart, Exempt, Redis};

/// Limits requests per calendar day or month, in UTC.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Quota {
    /// Name that clients see. Default: the key in `by`.
    pub name: Option<String>,
    /// Maximum of requests per period and key.
    pub limit: u64,
    /// The period.
    pub per: Period,
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
    /// Whether every response reports the state of the quota.
    pub headers: bool,
    /// Status of rejected requests. Default 429.
    pub status: Option<u16>,
    /// Whether the quota only reports and rejects nothing.
    pub dry_run: bool,
    /// The Redis that counts for several gateways.
    pub redis: Option<Redis>,
}

/// A calendar period, in UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Period {
    /// From midnight to midnight (`day`).
    Day,
    /// From the first of a month to the first of the next one (`month`).
    Month,
}
