//! Settings of the policy `concurrency`.

use super::{Cost, CountKeyPart, Exempt};

/// Limits concurrent requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Concurrency {
    /// Maximum of concurrent requests per key.
    pub limit: u64,
    /// The key by which requests are counted.
    pub by: CountKeyPart,
    /// The cost of a request.
    pub cost: Cost,
    /// Requests that are not counted.
    pub exempt: Exempt,
    /// Name that limits at several places share in order to count together.
    pub scope: Option<String>,
    /// Status of rejected requests. Default 429.
    pub status: Option<u16>,
    /// Whether the limit only reports and rejects nothing.
    pub dry_run: bool,
}
