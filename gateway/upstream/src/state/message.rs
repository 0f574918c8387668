//! Messages between workers when connections are short.

use std::sync::Arc;
use std::time::Instant;

use tollgate_net::DetachedStream;

use super::wait_times::WaitTimes;
use super::worker_ring::WorkerRing;
use super::{EndpointState, Permit, UpstreamState};

/// A message to a worker, which passes it to [`Upstreams::receive`](crate::Upstreams::receive).
#[derive(Debug)]
pub struct Message(pub(crate) MessageKind);

#[derive(Debug)]
pub(crate) enum MessageKind {
    PermitFreed(PermitFreed),
    ConnectionRequest(ConnectionRequest),
    HandOver(Box<HandOver>),
    PermitTransfer(PermitTransfer),
}

impl Message {
    pub(crate) fn upstream(&self) -> &Arc<UpstreamState> {
        match &self.0 {
            MessageKind::PermitFreed(freed) => &freed.upstream,
            MessageKind::ConnectionRequest(ask) => &ask.upstream,
            MessageKind::HandOver(handed) => handed.permit.upstream(),
            MessageKind::PermitTransfer(moved) => moved.permit.upstream(),
        }
    }
}

/// A permit for one more connection has become free. The message goes first to the worker whose request has
/// waited longest, then to the others, until one has used the permit. Dropping the message sends it to the
/// next worker, so it does not get lost with a worker that ends.
#[derive(Debug)]
pub(crate) struct PermitFreed {
    upstream: Arc<UpstreamState>,
    /// The endpoint that is below its limit. `None` if the upstream as a whole is below its limit.
    pub endpoint: Option<Arc<EndpointState>>,
    ring: WorkerRing,
}

impl PermitFreed {
    fn start(upstream: &Arc<UpstreamState>, endpoint: Option<&Arc<EndpointState>>) {
        let mut freed =
            Self { upstream: upstream.clone(), endpoint: endpoint.cloned(), ring: WorkerRing::default() };
        if let Some((first, _)) = freed.waiting().longest(None) {
            freed.ring = WorkerRing::from(first, upstream.mailboxes.workers());
        }
    }

    fn waiting(&self) -> &WaitTimes {
        let limits = &self.upstream.limits;
        self.endpoint.as_ref().map_or(&limits.waiting, |endpoint| &endpoint.limits.waiting)
    }

    /// The permit was used, so the message goes to no other worker.
    pub fn mark_used(mut self) {
        self.ring = WorkerRing::default();
    }

    fn is_still_free(&self) -> bool {
        let limits = &self.upstream.limits;
        !self
            .endpoint
            .as_ref()
            .map_or_else(|| limits.is_full(), |endpoint| limits.is_full_at(&endpoint.limits))
    }
}

impl UpstreamState {
    /// Tells the workers whose requests wait that a permit for `endpoint` was returned.
    pub(super) fn announce_freed_permit(self: &Arc<Self>, endpoint: &Arc<EndpointState>) {
        let limits = &self.limits;
        if limits.queued.get() == 0 {
            return;
        }
        if limits.has_connection_limit() {
            PermitFreed::start(self, None);
        }
        // With both kinds of limit, two counts went down, and other requests may use the upstream's. A
        // request that waits for this endpoint must also learn that it now helps to close an idle connection
        // to another one.
        if !limits.has_connection_limit() || limits.has_endpoint_limit() {
            PermitFreed::start(self, Some(endpoint));
        }
    }
}

impl Drop for PermitFreed {
    fn drop(&mut self) {
        while let Some(worker) = self.ring.next() {
            if !self.waiting().has_waiter(worker) {
                continue;
            }
            if !self.is_still_free() {
                return;
            }
            let ring = std::mem::take(&mut self.ring);
            let next = Self { upstream: self.upstream.clone(), endpoint: self.endpoint.clone(), ring };
            match self.upstream.mailboxes.send(worker, Message(MessageKind::PermitFreed(next))) {
                Err(Message(MessageKind::PermitFreed(mut back))) => {
                    self.ring = std::mem::take(&mut back.ring);
                }
                _ => return,
            }
        }
    }
}

/// Asks for idle connections to an endpoint, one for each request that waits. The message goes from worker to
/// worker until enough were given. A worker that has none remembers the request and gives what becomes free.
#[derive(Debug)]
pub(crate) struct ConnectionRequest {
    pub upstream: Arc<UpstreamState>,
    pub endpoint: Arc<EndpointState>,
    /// The worker that asks.
    pub from: usize,
    pub want: usize,
    ring: WorkerRing,
}

impl ConnectionRequest {
    /// Asks all other workers that do not know yet.
    pub fn send_to_others(
        upstream: &Arc<UpstreamState>,
        endpoint: &Arc<EndpointState>,
        from: usize,
        want: usize,
    ) {
        let ring = WorkerRing::others(from, upstream.mailboxes.workers());
        Self { upstream: upstream.clone(), endpoint: endpoint.clone(), from, want, ring }.forward();
    }

    /// Creates a request for one connection on behalf of worker `from`, for the current worker to answer.
    pub fn for_current_worker(
        upstream: &Arc<UpstreamState>,
        endpoint: &Arc<EndpointState>,
        from: usize,
    ) -> Self {
        let ring = WorkerRing::default();
        Self { upstream: upstream.clone(), endpoint: endpoint.clone(), from, want: 1, ring }
    }

    /// Sends the request to the next worker, if it still wants connections.
    pub fn forward(mut self) {
        while self.want > 0
            && let Some(worker) = self.ring.next()
        {
            if self.endpoint.limits.waiting.is_exhausted(worker) {
                continue;
            }
            let upstream = self.upstream.clone();
            match upstream.mailboxes.send(worker, Message(MessageKind::ConnectionRequest(self))) {
                // That worker is gone, so it has nothing to give.
                Err(Message(MessageKind::ConnectionRequest(back))) => self = back,
                _ => return,
            }
        }
    }
}

/// Moves an idle connection to another worker, together with its permit.
#[derive(Debug)]
pub(crate) struct HandOver {
    // Above the permit, because fields are dropped in order: the socket is closed before the permit is
    // returned.
    pub socket: DetachedStream,
    pub opened: Instant,
    pub requests: u64,
    /// Whether more connections or permits for the same [`ConnectionRequest`] follow.
    pub more_follow: bool,
    pub permit: Permit,
}

/// Moves the permit of a connection that was closed so that the receiver can open a new one.
#[derive(Debug)]
pub(crate) struct PermitTransfer {
    pub permit: Permit,
    /// Whether more connections or permits for the same [`ConnectionRequest`] follow.
    pub more_follow: bool,
}
