//! The guards that hold a part of an upstream's limits: permits for connections, counts of requests and
//! retries.
//!
//! A worker takes a connection's permit before it opens the socket, and returns it after it closed the
//! socket. The kernel's table therefore never has more established connections than the limit. This costs two
//! shared additions for each connection, and none for a request. Requests and retries are counted only if
//! they are limited. A permit that is returned while requests wait is [announced](UpstreamState::announce_freed_permit) to them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use super::limits::{Count, NO_LIMIT, UpstreamLimits};
use super::{EndpointState, UpstreamState};

/// Counts a request or a retry as in flight until it is dropped.
#[derive(Debug)]
#[must_use = "dropping it ends the count"]
pub struct InFlightGuard(Option<(Arc<UpstreamState>, RequestKind)>);

#[derive(Clone, Copy, Debug)]
enum RequestKind {
    Request,
    Retry,
}

impl RequestKind {
    fn count(self, limits: &UpstreamLimits) -> (&Count, &AtomicU32) {
        match self {
            Self::Request => (&limits.requests, &limits.max_requests),
            Self::Retry => (&limits.retries, &limits.max_retries),
        }
    }
}

impl Drop for InFlightGuard {
    fn drop(&mut self) {
        if let Some((state, kind)) = &self.0 {
            kind.count(&state.limits).0.release();
        }
    }
}

impl UpstreamState {
    /// Counts a request against `limits.requests`. Returns `None` if that limit is reached. Without the limit
    /// nothing is counted. If a reload sets one, requests that began before do not count.
    pub fn try_begin_request(self: &Arc<Self>) -> Option<InFlightGuard> {
        self.begin(RequestKind::Request)
    }

    /// Counts a retry against `limits.retries`. Returns `None` if that limit is reached. Otherwise as
    /// [`try_begin_request`](Self::try_begin_request).
    pub fn try_begin_retry(self: &Arc<Self>) -> Option<InFlightGuard> {
        self.begin(RequestKind::Retry)
    }

    fn begin(self: &Arc<Self>, kind: RequestKind) -> Option<InFlightGuard> {
        let (count, limit) = kind.count(&self.limits);
        match limit.load(Ordering::Relaxed) {
            NO_LIMIT => Some(InFlightGuard(None)),
            limit => count.try_acquire(limit).then(|| InFlightGuard(Some((self.clone(), kind)))),
        }
    }

    /// Returns the number of connections, open or being opened, on all workers.
    pub fn connections(&self) -> u32 {
        self.limits.connections.get()
    }
}

impl EndpointState {
    /// Returns the number of connections, open or being opened, on all workers.
    pub fn connections(&self) -> u32 {
        self.limits.connections.get()
    }
}

/// The right to one connection to an endpoint. It counts against the limits of the endpoint and of its
/// upstream until it is dropped. A worker takes it before it opens the socket, and the permit must outlive
/// the socket. If the socket moves to another worker, the permit moves with it.
#[derive(Debug)]
#[must_use = "dropping it returns the permit"]
pub struct Permit {
    upstream: Arc<UpstreamState>,
    endpoint: Arc<EndpointState>,
}

impl Permit {
    /// Takes a permit for one more connection. Returns `None` if `limits.connections` or
    /// `limits.endpoint_connections` is reached.
    pub fn try_acquire(upstream: &Arc<UpstreamState>, endpoint: &Arc<EndpointState>) -> Option<Self> {
        let limits = &upstream.limits;
        let most = limits.max_connections.load(Ordering::SeqCst);
        // A check first: if the upstream is full, the endpoint's count is not touched.
        if limits.connections.get() >= most
            || !endpoint
                .limits
                .connections
                .try_acquire(limits.max_endpoint_connections.load(Ordering::SeqCst))
        {
            return None;
        }
        if !limits.connections.try_acquire(most) {
            endpoint.limits.connections.release();
            // For a moment the endpoint's count was too high. Another worker may have seen it full and waits
            // now.
            upstream.announce_freed_permit(endpoint);
            return None;
        }
        Some(Self { upstream: upstream.clone(), endpoint: endpoint.clone() })
    }

    /// Converts the permit to one for another endpoint of the same upstream. Returns `None` if that endpoint
    /// is at its limit. The upstream's count does not change at any time, so no other worker can take that
    /// place.
    pub(crate) fn for_endpoint(mut self, endpoint: &Arc<EndpointState>) -> Option<Self> {
        if Arc::ptr_eq(&self.endpoint, endpoint) {
            return Some(self);
        }
        let limits = &self.upstream.limits;
        if !endpoint.limits.connections.try_acquire(limits.max_endpoint_connections.load(Ordering::SeqCst)) {
            return None;
        }
        let before = std::mem::replace(&mut self.endpoint, endpoint.clone());
        before.limits.connections.release();
        self.upstream.announce_freed_permit(&before);
        Some(self)
    }

    pub(crate) fn upstream(&self) -> &Arc<UpstreamState> {
        &self.upstream
    }

    pub(crate) fn endpoint(&self) -> &Arc<EndpointState> {
        &self.endpoint
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.endpoint.limits.connections.release();
        self.upstream.limits.connections.release();
        self.upstream.announce_freed_permit(&self.endpoint);
    }
}

#[cfg(test)]
mod tests {
    use tollgate_net::Address;
    use tollgate_plan::Caps;

    use super::*;
    use crate::UpstreamStates;

    fn limited(caps: &Caps) -> Arc<UpstreamState> {
        let upstream = UpstreamStates::new().upstream("u");
        upstream.limits.set_limits(caps);
        upstream
    }

    #[test]
    fn both_limits_hold() {
        let upstream =
            limited(&Caps { connections: Some(3), endpoint_connections: Some(2), ..Caps::default() });
        let [a, b] = [1, 2].map(|port| upstream.endpoint(&Address::tcp("127.0.0.1", port)));
        let mut kept = Vec::new();
        for (endpoint, free) in [(&a, true), (&a, true), (&a, false), (&b, true), (&b, false)] {
            let permit = Permit::try_acquire(&upstream, endpoint);
            assert_eq!(permit.is_some(), free);
            kept.extend(permit);
        }
        assert_eq!(
            (upstream.connections(), a.limits.connections.get(), b.limits.connections.get()),
            (3, 2, 1)
        );
        kept.pop();
        assert!(Permit::try_acquire(&upstream, &a).is_none());
        kept.extend(Permit::try_acquire(&upstream, &b));
        assert_eq!(upstream.connections(), 3);
        drop(kept);
        assert_eq!(
            (upstream.connections(), a.limits.connections.get(), b.limits.connections.get()),
            (0, 0, 0)
        );
    }

    #[test]
    fn requests_and_retries_are_counted_where_they_are_limited() {
        let upstream = limited(&Caps { requests: Some(2), ..Caps::default() });
        let first = upstream.try_begin_request().expect("a place");
        let _second = upstream.try_begin_request().expect("a place");
        assert!(upstream.try_begin_request().is_none());
        let retries: Vec<_> = (0..10).map(|_| upstream.try_begin_retry().expect("no limit")).collect();
        assert_eq!(upstream.limits.retries.get(), 0);
        drop((first, retries));
        assert!(upstream.try_begin_request().is_some());
        // Without a limit every request passes; what was counted under the old limit is still returned.
        upstream.limits.set_limits(&Caps::default());
        let _third = upstream.try_begin_request().expect("no limit");
        assert_eq!(upstream.limits.requests.get(), 1);
    }

    #[test]
    fn a_limit_holds_among_threads() {
        const LIMIT: u32 = 3;
        let upstream = limited(&Caps { connections: Some(LIMIT), ..Caps::default() });
        let endpoint = upstream.endpoint(&Address::tcp("127.0.0.1", 1));
        let (held, most) = (AtomicU32::new(0), AtomicU32::new(0));
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for _ in 0..5_000 {
                        if let Some(permit) = Permit::try_acquire(&upstream, &endpoint) {
                            most.fetch_max(held.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                            std::thread::yield_now();
                            held.fetch_sub(1, Ordering::SeqCst);
                            drop(permit);
                        }
                    }
                });
            }
        });
        assert_eq!(most.into_inner(), LIMIT);
        assert_eq!((upstream.connections(), endpoint.limits.connections.get()), (0, 0));
    }
}
