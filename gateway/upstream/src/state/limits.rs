//! The limits of an upstream, and the use of each, counted exactly over all workers.
//!
//! [`Permit`](super::Permit) and [`InFlightGuard`](super::InFlightGuard) take a part of a limit and return it.
//! The limits also know how many requests wait for a connection, so that a returned permit costs nothing more
//! while none does.

use std::sync::atomic::{AtomicU32, Ordering};

use tollgate_plan::Caps;

use super::wait_times::WaitTimes;

/// The atomics' value for `off`.
pub(super) const NO_LIMIT: u32 = u32::MAX;

/// A count that never exceeds a limit. It has its own cache line (128 bytes, because processors fetch lines
/// in pairs), so that a reader of a neighbouring field does not wait for it.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct Count(AtomicU32);

impl Count {
    /// Adds one, if the count stays within `limit`. Returns whether it did.
    pub(crate) fn try_acquire(&self, limit: u32) -> bool {
        // SeqCst: one thread fails here and then registers as waiting; another returns a permit and then
        // looks for waiters. One of the two must see the other.
        self.0
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, |count| (count < limit).then_some(count + 1))
            .is_ok()
    }

    pub(crate) fn release(&self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }

    pub(crate) fn get(&self) -> u32 {
        self.0.load(Ordering::SeqCst)
    }
}

/// The limits of an upstream, and the use of each.
#[derive(Debug)]
pub(crate) struct UpstreamLimits {
    pub(super) connections: Count,
    pub(super) requests: Count,
    pub(super) retries: Count,
    /// The limits of the plan that a worker adopted last.
    pub(super) max_connections: AtomicU32,
    pub(super) max_endpoint_connections: AtomicU32,
    pub(super) max_requests: AtomicU32,
    pub(super) max_retries: AtomicU32,
    /// Requests that wait for a connection, on all workers.
    pub(crate) queued: Count,
    /// Since when the first request of each worker waits.
    pub(crate) waiting: WaitTimes,
}

/// The connections of an endpoint, which count against its limit.
#[derive(Debug, Default)]
pub(crate) struct EndpointLimits {
    pub(super) connections: Count,
    /// Since when the first request for this endpoint waits, by worker.
    pub(crate) waiting: WaitTimes,
}

impl Default for UpstreamLimits {
    /// Nothing is limited until a plan sets limits.
    fn default() -> Self {
        Self {
            connections: Count::default(),
            requests: Count::default(),
            retries: Count::default(),
            max_connections: NO_LIMIT.into(),
            max_endpoint_connections: NO_LIMIT.into(),
            max_requests: NO_LIMIT.into(),
            max_retries: NO_LIMIT.into(),
            queued: Count::default(),
            waiting: WaitTimes::default(),
        }
    }
}

impl UpstreamLimits {
    /// Sets the limits of a plan.
    pub(crate) fn set_limits(&self, caps: &Caps) {
        let limits = [
            (&self.max_connections, caps.connections),
            (&self.max_endpoint_connections, caps.endpoint_connections),
            (&self.max_requests, caps.requests),
            (&self.max_retries, caps.retries),
        ];
        for (limit, most) in limits {
            limit.store(most.unwrap_or(NO_LIMIT), Ordering::SeqCst);
        }
    }

    /// Returns the limits that are set.
    pub(crate) fn by_name(&self) -> Vec<(&'static str, u64)> {
        let limits = [
            ("connections", &self.max_connections),
            ("endpoint_connections", &self.max_endpoint_connections),
            ("requests", &self.max_requests),
            ("retries", &self.max_retries),
        ];
        let set = |(name, limit): (_, &AtomicU32)| match limit.load(Ordering::SeqCst) {
            NO_LIMIT => None,
            limit => Some((name, u64::from(limit))),
        };
        limits.into_iter().filter_map(set).collect()
    }

    /// Whether the upstream as a whole has a limit of connections.
    pub(crate) fn has_connection_limit(&self) -> bool {
        self.max_connections.load(Ordering::SeqCst) != NO_LIMIT
    }

    /// Whether each endpoint has a limit of connections.
    pub(crate) fn has_endpoint_limit(&self) -> bool {
        self.max_endpoint_connections.load(Ordering::SeqCst) != NO_LIMIT
    }

    /// Whether the upstream as a whole has reached its limit of connections.
    pub(crate) fn is_full(&self) -> bool {
        self.connections.get() >= self.max_connections.load(Ordering::SeqCst)
    }

    /// Whether an endpoint has reached its limit of connections.
    pub(crate) fn is_full_at(&self, endpoint: &EndpointLimits) -> bool {
        endpoint.connections.get() >= self.max_endpoint_connections.load(Ordering::SeqCst)
    }

    /// Whether the upstream as a whole exceeds its limit, which a reload may have lowered.
    pub(crate) fn is_above_limit(&self) -> bool {
        self.connections.get() > self.max_connections.load(Ordering::SeqCst)
    }

    /// Whether an endpoint exceeds its limit, which a reload may have lowered.
    pub(crate) fn is_above_limit_at(&self, endpoint: &EndpointLimits) -> bool {
        endpoint.connections.get() > self.max_endpoint_connections.load(Ordering::SeqCst)
    }
}
