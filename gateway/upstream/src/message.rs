//! Messages between workers when connections are short.

use std::sync::Arc;
use std::time::Instant;

use tollgate_net::Detached;

use crate::peers::Tour;
use crate::waiting::Waiting;
use crate::{EndpointState, Permit, UpstreamState};

/// A message to a worker, which passes it to [`Upstreams::receive`](crate::Upstreams::receive).
#[derive(Debug)]
pub struct Message(pub(crate) Kind);

#[derive(Debug)]
pub(crate) enum Kind {
    Room(Room),
    Ask(Ask),
    HandOver(Box<HandOver>),
    Place(Place),
}

impl Message {
    pub(crate) fn upstream(&self) -> &Arc<UpstreamState> {
        match &self.0 {
            Kind::Room(room) => &room.upstream,
            Kind::Ask(ask) => &ask.upstream,
            Kind::HandOver(handed) => handed.permit.upstream(),
            Kind::Place(place) => place.permit.upstream(),
        }
    }
}

/// A permit for one more connection has become free. The message goes first to the worker whose request has
/// waited longest, then to the others, until one has used the permit. Dropping the message sends it to the
/// next worker, so it does not get lost with a worker that ends.
#[derive(Debug)]
pub(crate) struct Room {
    upstream: Arc<UpstreamState>,
    /// The endpoint that is below its limit. `None` if the upstream as a whole is below its limit.
    pub endpoint: Option<Arc<EndpointState>>,
    tour: Tour,
}

impl Room {
    /// Sends the message, if any request waits.
    pub fn announce(upstream: &Arc<UpstreamState>, endpoint: &Arc<EndpointState>) {
        let usage = &upstream.usage;
        if usage.queued.get() == 0 {
            return;
        }
        if usage.has_cap() {
            Self::start(upstream, None);
        }
        // With both kinds of limit, two counts went down, and other requests may use the upstream's. A
        // request that waits for this endpoint must also learn that it now helps to close an idle connection
        // to another one.
        if !usage.has_cap() || usage.has_endpoint_cap() {
            Self::start(upstream, Some(endpoint));
        }
    }

    fn start(upstream: &Arc<UpstreamState>, endpoint: Option<&Arc<EndpointState>>) {
        let mut room =
            Self { upstream: upstream.clone(), endpoint: endpoint.cloned(), tour: Tour::default() };
        if let Some((first, _)) = room.waiting().longest(None) {
            room.tour = Tour::from(first, upstream.usage.peers.workers());
        }
    }

    fn waiting(&self) -> &Waiting {
        let usage = &self.upstream.usage;
        self.endpoint.as_ref().map_or(&usage.waiting, |endpoint| &endpoint.usage.waiting)
    }

    /// The permit was used, so the message goes to no other worker.
    pub fn used(mut self) {
        self.tour = Tour::default();
    }

    fn is_left(&self) -> bool {
        let usage = &self.upstream.usage;
        !self.endpoint.as_ref().map_or_else(|| usage.is_full(), |endpoint| usage.is_full_at(endpoint))
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        while let Some(worker) = self.tour.next() {
            if !self.waiting().at(worker) {
                continue;
            }
            if !self.is_left() {
                return;
            }
            let tour = std::mem::take(&mut self.tour);
            let next = Self { upstream: self.upstream.clone(), endpoint: self.endpoint.clone(), tour };
            match self.upstream.usage.peers.post(worker, Message(Kind::Room(next))) {
                Err(Message(Kind::Room(mut back))) => self.tour = std::mem::take(&mut back.tour),
                _ => return,
            }
        }
    }
}

/// Asks for idle connections to an endpoint, one for each request that waits. The message goes from worker to
/// worker until enough were given. A worker that has none remembers the request and gives what becomes free.
#[derive(Debug)]
pub(crate) struct Ask {
    pub upstream: Arc<UpstreamState>,
    pub endpoint: Arc<EndpointState>,
    /// The worker that asks.
    pub from: usize,
    pub want: usize,
    tour: Tour,
}

impl Ask {
    /// Asks all other workers that do not know yet.
    pub fn others(upstream: &Arc<UpstreamState>, endpoint: &Arc<EndpointState>, from: usize, want: usize) {
        let tour = Tour::others(from, upstream.usage.peers.workers());
        Self { upstream: upstream.clone(), endpoint: endpoint.clone(), from, want, tour }.pass_on();
    }

    /// Creates a request for one connection on behalf of worker `from`, for the current worker to answer.
    pub fn here(upstream: &Arc<UpstreamState>, endpoint: &Arc<EndpointState>, from: usize) -> Self {
        let tour = Tour::default();
        Self { upstream: upstream.clone(), endpoint: endpoint.clone(), from, want: 1, tour }
    }

    /// Sends the request to the next worker, if it still wants connections.
    pub fn pass_on(mut self) {
        while self.want > 0
            && let Some(worker) = self.tour.next()
        {
            if self.endpoint.usage.waiting.knows(worker) {
                continue;
            }
            let upstream = self.upstream.clone();
            match upstream.usage.peers.post(worker, Message(Kind::Ask(self))) {
                // That worker is gone, so it has nothing to give.
                Err(Message(Kind::Ask(back))) => self = back,
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
    pub socket: Detached,
    pub opened: Instant,
    pub requests: u64,
    /// Whether more connections or permits for the same [`Ask`] follow.
    pub more: bool,
    pub permit: Permit,
}

/// Moves the permit of a connection that was closed so that the receiver can open a new one.
#[derive(Debug)]
pub(crate) struct Place {
    pub permit: Permit,
    /// Whether more connections or permits for the same [`Ask`] follow.
    pub more: bool,
}
