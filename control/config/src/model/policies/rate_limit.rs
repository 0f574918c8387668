//! `rate_limit`.

use std::time::Duration;

use super::{By, Cost, Exempt, Redis};

/// How many requests may come in a time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RateLimit {
    /// What clients are told that it is called. Default: what it is `by`.
    pub name: Option<String>,
    /// How many, and in which time.
    pub rate: Rate,
    /// How many at once after a pause. Default: as many as `rate` says in its time.
    pub burst: u64,
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
    /// Whether every answer tells how the limit stands.
    pub headers: bool,
    /// The status of what is refused. Default 429.
    pub status: Option<u16>,
    /// Whether nothing is refused.
    pub dry_run: bool,
    /// The Redis by which several gateways hold it together.
    pub redis: Option<Redis>,
    /// How many are taken of it at once, to be given out within a second.
    pub lease: u32,
}

impl RateLimit {
    /// Keys that are remembered at once, where nothing is said.
    pub const KEYS: usize = 100_000;
}

/// So many in a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// How many, at least 1.
    pub count: u64,
    /// In which time: a second, a minute, an hour or a day.
    pub period: Duration,
}
