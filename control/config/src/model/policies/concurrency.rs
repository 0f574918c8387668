//! `concurrency`.

use super::{By, Cost, Exempt};

/// How many requests may be under way at once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Concurrency {
    /// So many.
    pub limit: u64,
    /// What requests are told apart by.
    pub by: By,
    /// What a request counts for.
    pub cost: Cost,
    /// Requests that are not counted.
    pub exempt: Exempt,
    /// What limits at several places have in common that count together.
    pub scope: Option<String>,
    /// The status of what is refused. Default 429.
    pub status: Option<u16>,
    /// Whether nothing is refused.
    pub dry_run: bool,
}
