//! The limits of the bodies of one request, as the policy registers them for the proxy.

use std::num::NonZeroU64;
use std::sync::Arc;

use super::shares::Share;

/// The largest rate of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TransferRate {
    /// Bytes per second.
    pub bytes_per_second: NonZeroU64,
    /// Bytes that move at full speed before the rate applies.
    pub free_bytes: u64,
}

/// The limit of one body.
#[derive(Clone, Debug)]
pub struct BodyLimit {
    /// The rate of all that share it.
    pub rate: TransferRate,
    /// The request's share; `None`: it has the rate by itself.
    pub share: Option<Arc<Share>>,
}

/// The limits of the bodies of one request. `None`: full speed.
#[derive(Clone, Debug, Default)]
pub struct Bandwidth {
    /// The limit of the response's body.
    pub response: Option<BodyLimit>,
    /// The limit of the request's body.
    pub request: Option<BodyLimit>,
}

impl Bandwidth {
    /// Returns whether a body is limited.
    #[must_use]
    pub fn is_limited(&self) -> bool {
        self.response.is_some() || self.request.is_some()
    }

    /// Returns, for each body, the limit with the lower rate of these and `other`.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self { response: lower(self.response, other.response), request: lower(self.request, other.request) }
    }
}

fn lower(one: Option<BodyLimit>, other: Option<BodyLimit>) -> Option<BodyLimit> {
    one.into_iter().chain(other).min_by_key(|limit| limit.rate.bytes_per_second)
}
