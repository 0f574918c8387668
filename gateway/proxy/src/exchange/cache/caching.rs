//! The terms on which the cache serves one request: the policy's rules, and the directives of the request. All modules
//! of the cache get them from [`serve`](super::serve).

use std::sync::Arc;
use std::time::Duration;

use tollgate_cache::{Allowances, RequestControl};
use tollgate_policy::ActiveCache;

use crate::exchange::forward_target::RoutedRequest;

/// The terms on which the cache serves one request.
#[derive(Clone, Copy, Debug)]
pub(super) struct Caching<'a> {
    pub cache: &'a Arc<ActiveCache>,
    /// The request's `Cache-Control` directives, if the policy honours them.
    pub control: RequestControl,
    pub may_store: bool,
    /// Whether the request has an identity, such as a consumer, so that only responses that permit it are shared.
    pub is_identified: bool,
    pub routed: RoutedRequest,
    /// Whether the client's connection closes after this request.
    pub close: bool,
}

impl Caching<'_> {
    /// Returns how long the policy allows stale responses.
    pub fn allowances(&self) -> Allowances {
        let times = &self.cache.rules.stale_times;
        let seconds =
            |time: Option<Duration>| time.map_or(0, |time| u32::try_from(time.as_secs()).unwrap_or(u32::MAX));
        Allowances {
            stale_while_revalidate: seconds(times.stale_while_revalidate),
            stale_if_error: seconds(times.stale_if_error),
        }
    }
}
