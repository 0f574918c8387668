//! What workers tell each other when connections are short.

use std::sync::Arc;
use std::time::Instant;

use tollgate_net::Detached;

use crate::peers::Tour;
use crate::waiting::Waiting;
use crate::{EndpointState, Permit, UpstreamState};

/// What a worker is told by another: [`Upstreams::receive`](crate::Upstreams::receive) understands it.
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

/// There is a place for one more connection. Goes to the worker whose request waits the longest, and on to the others,
/// until one has used it: dropping it passes it on, so that it is not lost with a worker that ends.
#[derive(Debug)]
pub(crate) struct Room {
    upstream: Arc<UpstreamState>,
    /// There is a place at this endpoint; `None`: in the upstream as a whole.
    pub endpoint: Option<Arc<EndpointState>>,
    tour: Tour,
}

impl Room {
    /// Tells those that wait, if there are any.
    pub fn announce(upstream: &Arc<UpstreamState>, endpoint: &Arc<EndpointState>) {
        let usage = &upstream.usage;
        if usage.queued.get() == 0 {
            return;
        }
        if usage.has_cap() {
            Self::start(upstream, None);
        }
        // With both caps there are two places: others may take the upstream's, and who waits for this endpoint must know
        // that closing an idle connection to another one helps now.
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

    /// It was used: nobody else need look.
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

/// A worker asks for idle connections to an endpoint: for so many requests that wait. Goes from worker to worker until
/// enough was given. Who has none to give remembers, and gives what comes free.
#[derive(Debug)]
pub(crate) struct Ask {
    pub upstream: Arc<UpstreamState>,
    pub endpoint: Arc<EndpointState>,
    /// Who asks.
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

    /// Asks one worker, which is the one that makes this.
    pub fn here(upstream: &Arc<UpstreamState>, endpoint: &Arc<EndpointState>, from: usize) -> Self {
        let tour = Tour::default();
        Self { upstream: upstream.clone(), endpoint: endpoint.clone(), from, want: 1, tour }
    }

    /// Asks the next worker, if there is still something to ask for.
    pub fn pass_on(mut self) {
        while self.want > 0
            && let Some(worker) = self.tour.next()
        {
            if self.endpoint.usage.waiting.knows(worker) {
                continue;
            }
            let upstream = self.upstream.clone();
            match upstream.usage.peers.post(worker, Message(Kind::Ask(self))) {
                // That worker is gone, and has nothing to give.
                Err(Message(Kind::Ask(back))) => self = back,
                _ => return,
            }
        }
    }
}

/// An idle connection changes its worker, together with its place among those that may be open.
#[derive(Debug)]
pub(crate) struct HandOver {
    // Above the permit: where this is dropped, the socket is closed before its place is given back.
    pub socket: Detached,
    pub opened: Instant,
    pub requests: u64,
    /// Others that were asked for with it come after it.
    pub more: bool,
    pub permit: Permit,
}

/// The place of a connection to another endpoint, closed so that a new one can be opened.
#[derive(Debug)]
pub(crate) struct Place {
    pub permit: Permit,
    /// Others that were asked for with it come after it.
    pub more: bool,
}
