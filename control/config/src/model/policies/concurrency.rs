//! `concurrency`.

use super::By;

/// How many requests may be under way at once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Concurrency {
    /// So many.
    pub limit: u64,
    /// What requests are told apart by.
    pub by: By,
    /// Whether nothing is refused.
    pub dry_run: bool,
}
