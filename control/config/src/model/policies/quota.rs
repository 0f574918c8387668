//! `quota`.

use super::{By, Cost, Exempt, Redis};

/// How many requests may come in a day or a month of the calendar, in UTC.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Quota {
    /// What clients are told that it is called. Default: what it is `by`.
    pub name: Option<String>,
    /// So many.
    pub limit: u64,
    /// In each of these.
    pub per: Period,
    /// What requests are told apart by.
    pub by: By,
    /// What a request counts for.
    pub cost: Cost,
    /// Requests that are not counted.
    pub exempt: Exempt,
    /// What limits at several places have in common that count together.
    pub scope: Option<String>,
    /// Keys that are remembered at once.
    pub keys: usize,
    /// Whether every answer tells how the quota stands.
    pub headers: bool,
    /// The status of what is refused. Default 429.
    pub status: Option<u16>,
    /// Whether nothing is refused.
    pub dry_run: bool,
    /// The Redis that counts for several gateways.
    pub redis: Option<Redis>,
}

/// A stretch of the calendar, in UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Period {
    /// From midnight to midnight (`day`).
    Day,
    /// From the first of a month to the first of the next one (`month`).
    Month,
}
