//! A client connection, or one stream of an HTTP/2 connection, as requests see it.
//!
//! [`Client`] is the connection itself; [`ConnectionContext`] is its listener, worker and age. The front
//! creates them, and every layer passes them on.

use std::cell::Cell;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use tollgate_http::RequestHead;
use tollgate_net::{Deadline, ProxyHeader, Stream, component};
use tollgate_plan::{GatewaySettings, PlannedListener, RouteStay};
use tollgate_upstream::Pool;
use tracing::trace;

use crate::state::client_side::{ClientSide, ClientStream};
use crate::state::client_tls::ClientTls;
use crate::state::listener::{ListenerHandle, Queued};
use crate::state::worker::Worker;

/// The address of a peer that has none, as on a Unix socket.
const NO_ADDRESS: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::UNSPECIFIED), 0);

/// A client connection, or one stream of an HTTP/2 connection.
#[derive(Debug)]
pub(crate) struct Client<S = Stream> {
    pub stream: S,
    pub peer: SocketAddr,
    pub deadline: Deadline,
    /// Requests that the connection has carried.
    pub requests: u64,
    pub connection_context: ConnectionContext,
}

impl Client {
    pub fn new(
        worker: &Rc<Worker>,
        handle: Rc<ListenerHandle>,
        stream: Stream,
        peer: SocketAddr,
        listener: Arc<PlannedListener>,
    ) -> Self {
        // On a dual-stack socket an IPv4 peer appears as ::ffff:a.b.c.d; headers and logs show it as plain
        // IPv4.
        let peer = SocketAddr::new(peer.ip().to_canonical(), peer.port());
        let deadline = worker.timers.deadline();
        worker.connection_opened();
        let router = worker.active.borrow().plan.router_of(&listener);
        let age_limit = listener.age.and_then(|age| tollgate_net::now().checked_add(age));
        Self {
            stream,
            peer,
            deadline,
            requests: 0,
            connection_context: ConnectionContext {
                worker: worker.clone(),
                handle,
                listener,
                router,
                plans: worker.plans.get(),
                tls: None,
                destination: None,
                opened: Cell::new(None),
                age_limit: Cell::new(age_limit),
                idle: None,
                is_counted: true,
            },
        }
    }
}

impl<S> Client<S> {
    /// Creates the client for one stream. `requests` counts the connection's requests, this one included.
    pub fn of_stream(connection: &ConnectionContext, stream: S, peer: SocketAddr, requests: u64) -> Self {
        let ConnectionContext {
            worker,
            handle,
            listener,
            router,
            plans,
            tls,
            destination,
            opened,
            age_limit,
            ..
        } = connection;
        let connection_context = ConnectionContext {
            worker: worker.clone(),
            handle: handle.clone(),
            listener: listener.clone(),
            router: *router,
            plans: *plans,
            tls: tls.clone(),
            destination: destination.clone(),
            opened: opened.clone(),
            age_limit: age_limit.clone(),
            idle: None,
            is_counted: false,
        };
        Self { stream, peer, deadline: worker.timers.deadline(), requests, connection_context }
    }

    pub fn worker(&self) -> &Rc<Worker> {
        self.connection_context.worker()
    }

    /// Returns whether the connection closes after this request, whatever the response.
    pub fn closes_after(&self, settings: &GatewaySettings, request: &RequestHead) -> bool {
        let limit = settings.limits.requests_per_connection;
        !request.keep_alive || limit.is_some_and(|limit| self.requests >= limit)
    }

    /// Returns whether the next response is the last one: the worker is about to end, or the listener is
    /// closed.
    pub fn announces_close(&self) -> bool {
        self.connection_context.announces_close()
    }

    /// Returns whether the connection is closed as soon as it is idle.
    pub fn is_draining(&self) -> bool {
        self.connection_context.is_draining()
    }

    /// Reports why the connection is about to close.
    #[cold]
    pub fn log_close(&self, reason: &str) {
        let requests = self.requests;
        trace!(target: component::LISTENER, peer = %self.peer, requests, reason, "closes a connection");
    }

    /// Shortens the time for the next request to what a drain allows.
    pub fn shorten_idle_time(&self) {
        let bound =
            [self.worker().grace.get(), self.connection_context.listener.idle].into_iter().flatten().min();
        self.deadline.set(tollgate_net::now(), bound);
    }

    /// Returns whether streams without an end of their own must end: the worker's drain is over, or the
    /// listener is closed for good.
    pub fn closes_tunnels(&self) -> bool {
        self.connection_context.worker.closes_tunnels.get()
            || self.connection_context.handle.closed() == Some(Queued::Accept)
    }
}

impl<S: ClientStream> Client<S> {
    /// Waits until the client has left, so that it takes no response. An HTTP/1 client leaves by ending its
    /// direction, unless its listener has [`half_close`](PlannedListener::half_close).
    #[inline]
    pub fn poll_peer_closed(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.stream.poll_peer_closed(cx, self.connection_context.listener.half_close)
    }
}

impl<S: ClientSide> Client<S> {
    /// Returns the PROXY header that names the client to an endpoint. It is computed only if the pool [needs
    /// it](Pool::uses_proxy_protocol).
    pub fn proxy_header_for(&self, pool: &Pool) -> ProxyHeader {
        if !pool.uses_proxy_protocol() {
            return ProxyHeader::Local;
        }
        let announced = self.connection_context.destination.as_deref().copied();
        let destination = match announced.or_else(|| self.stream.local_address()) {
            Some(to) => SocketAddr::new(to.ip().to_canonical(), to.port()),
            // Without a destination the source address still counts.
            None => self.connection_context.listener.bind.tcp().unwrap_or(NO_ADDRESS),
        };
        ProxyHeader::Proxied { source: self.peer, destination }
    }
}

/// The listener that a connection arrived at, and the worker that serves it. It counts the connection while
/// it exists.
#[derive(Debug)]
pub(crate) struct ConnectionContext {
    worker: Rc<Worker>,
    handle: Rc<ListenerHandle>,
    /// The configuration of the listener.
    pub listener: Arc<PlannedListener>,
    /// The number of the listener's router in the plan that the worker ran when `listener` was read.
    pub router: u32,
    /// The value of the worker's plan counter when `listener` was read.
    plans: u32,
    /// The TLS state, once the handshake is complete; `None` for plain text.
    pub tls: Option<Rc<ClientTls>>,
    /// The address that the client connected to, if a proxy in front has announced it. Boxed, since few
    /// connections have it.
    pub destination: Option<Rc<SocketAddr>>,
    /// When the wait for its first request started.
    opened: Cell<Option<Instant>>,
    /// The age limit from `timeouts.age`; `None` if it has none.
    age_limit: Cell<Option<Instant>>,
    /// The idle timeout of the route of its last request, if that route has its own.
    idle: Option<Option<Duration>>,
    /// Whether it counts in the worker's statistics. A stream counts with its connection.
    is_counted: bool,
}

impl ConnectionContext {
    pub fn worker(&self) -> &Rc<Worker> {
        &self.worker
    }

    /// Called before each request: reads the listener's configuration again if a new plan is in force.
    #[inline]
    pub fn renew(&mut self) {
        if self.plans != self.worker.plans.get() {
            self.take_listener();
        }
    }

    #[cold]
    fn take_listener(&mut self) {
        self.plans = self.worker.plans.get();
        let active = self.worker.active.borrow();
        // If no plan contains the listener any more, the last known configuration stays.
        if let Some(listener) = self.handle.listener(&active.plan) {
            self.listener = listener;
        }
        self.router = active.plan.router_of(&self.listener);
    }

    pub fn announces_close(&self) -> bool {
        self.worker.announces_close.get() || self.handle.closed().is_some() || self.is_too_old()
    }

    /// Returns whether the connection has reached its age limit.
    fn is_too_old(&self) -> bool {
        self.age_limit.get().is_some_and(|age_limit| tollgate_net::now() >= age_limit)
    }

    /// Records when the wait for its first request started. Age limits of routes count from here.
    pub fn open(&self, now: Instant) {
        self.opened.set(self.opened.get().or(Some(now)));
    }

    /// Called for a request whose route bounds the connection's life. Returns whether its age limit was
    /// brought forward.
    #[cold]
    pub fn apply_route_timeouts(&mut self, stay: &RouteStay) -> bool {
        self.idle = stay.idle;
        self.shorten_age_limit(stay)
    }

    /// Shortens the age limit only. Routes never extend it.
    pub fn shorten_age_limit(&self, stay: &RouteStay) -> bool {
        let opened = self.opened.get().unwrap_or_else(tollgate_net::now);
        let own = stay.age.and_then(|age| opened.checked_add(age));
        let sooner = own.filter(|own| self.age_limit.get().is_none_or(|age_limit| *own < age_limit));
        if sooner.is_some() {
            self.age_limit.set(sooner);
        }
        sooner.is_some()
    }

    /// Returns how long the connection may be idle from now on: its idle timeout, or the time until its age
    /// limit. The idle timeout of a route holds until the next request.
    pub fn idle_bound(&mut self, now: Instant) -> Option<Duration> {
        let idle = self.idle.take().unwrap_or(self.listener.idle);
        match self.age_left(now) {
            None => idle,
            Some(left) => Some(idle.map_or(left, |idle| idle.min(left))),
        }
    }

    /// Returns the time until the age limit.
    pub fn age_left(&self, now: Instant) -> Option<Duration> {
        self.age_limit.get().map(|age_limit| age_limit.saturating_duration_since(now))
    }

    pub fn is_draining(&self) -> bool {
        self.worker.draining.get() || self.handle.closed().is_some()
    }
}

impl Drop for ConnectionContext {
    fn drop(&mut self) {
        if self.is_counted {
            self.worker.connection_closed();
        }
    }
}
