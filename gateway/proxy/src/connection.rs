//! One client connection between its requests.
//!
//! `worker` starts [`serve`] for each connection that [`accept`](crate::accept) admits. `serve` handles the
//! PROXY header and TLS (`preamble`), and passes HTTP/2 connections to [`http2`]. An HTTP/1 connection then
//! waits for the first byte of a request and holds almost no memory. When that byte arrives, it borrows a
//! reusable future from a pool for its exchanges and returns it when it is idle again.
//!
//! [`Client`] is the connection (or stream) itself; [`ConnectionContext`] is its listener, worker and age.

use std::cell::Cell;
use std::convert::Infallible;
use std::future::{Future, poll_fn};
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use tollgate_net::{Deadline, ProxyHeader, Stream};
use tollgate_plan::{Http2, PlannedListener, RouteStay};
use tollgate_upstream::Pool;

use crate::client_side::{ClientSide, ClientStream};
use crate::client_tls::ClientTls;
use crate::future_pool::{FuturePool, FutureSlot};
use crate::http2;
use crate::listener::{ListenerHandle, Queued};
use crate::preamble::preamble;
use crate::worker::Worker;

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
            worker, handle, listener, plans, tls, destination, opened, age_limit, ..
        } = connection;
        let connection_context = ConnectionContext {
            worker: worker.clone(),
            handle: handle.clone(),
            listener: listener.clone(),
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

    /// Returns whether the next response is the last one: the worker is about to end, or the listener is
    /// closed.
    pub fn announces_close(&self) -> bool {
        self.connection_context.announces_close()
    }

    /// Returns whether the connection is closed as soon as it is idle.
    pub fn is_draining(&self) -> bool {
        self.connection_context.is_draining()
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
        // If no plan contains the listener any more, the last known configuration stays.
        if let Some(listener) = self.handle.listener(&self.worker.active.borrow().plan) {
            self.listener = listener;
        }
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

/// The state of a connection when a run of exchanges on it ends.
#[derive(Debug)]
pub(crate) enum AfterExchanges {
    /// It has no more input now.
    Idle(Box<Client>),
    /// It is closed.
    Closed,
    /// It speaks HTTP/2; the bytes are what was read of it. Boxed, so that the usual variants stay small.
    Http2(Box<(Box<Client>, Vec<u8>)>),
}

/// The slot through which a connection borrows a reusable future for its exchanges.
pub(crate) type ExchangeSlot = FutureSlot<Box<Client>, AfterExchanges>;

/// Serves a connection to its end. `exchanges` handles requests for as long as one follows another, and
/// returns the state after that. The connection moves back and forth in its box, so each move copies one
/// pointer.
pub(crate) async fn serve<F>(
    mut client: Box<Client>,
    exchanges: impl Fn(Rc<ExchangeSlot>) -> F,
    pool: Rc<FuturePool<Box<Client>, AfterExchanges, F>>,
) where
    F: Future<Output = Infallible>,
{
    if client.connection_context.listener.has_preamble() {
        match preamble(client).await {
            Some(ready) => client = ready,
            None => return,
        }
    }
    if client.connection_context.listener.http2 == Http2::Only || client.stream.alpn() == Some(b"h2") {
        return http2::start(client, Vec::new());
    }
    let now = tollgate_net::now();
    client.connection_context.open(now);
    client.deadline.set(now, client.connection_context.idle_bound(now));
    while wait_for_request(&mut client).await {
        match FuturePool::run(&*pool, client, |slot| Box::pin(exchanges(slot))).await {
            AfterExchanges::Idle(back) => client = back,
            AfterExchanges::Closed => return,
            // A task of its own, since this one stays small for the many idle connections.
            AfterExchanges::Http2(begun) => return http2::start(begun.0, begun.1),
        }
    }
}

/// Waits for the first byte of a request. Returns `false` if the wait took too long, or if the worker drains.
///
/// Closing an idle connection can always lose a request that is on its way. The client loses none only if a
/// response tells it that the connection closes. So an idle connection has a grace period when the drain
/// starts: a client that sends requests often enough sends one more, and gets such a response.
async fn wait_for_request(client: &mut Client) -> bool {
    let mut hurried = false;
    poll_fn(|cx| {
        // A request that is already here is served even if its time is up or the worker drains.
        if client.stream.poll_readable(cx).is_ready() {
            return Poll::Ready(true);
        }
        if !hurried && client.is_draining() {
            hurried = true;
            client.shorten_idle_time();
        }
        client.deadline.poll_passed(cx).map(|()| false)
    })
    .await
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::net::{TcpListener, TcpStream};

    use tollgate_listen::ConnectionCounts;
    use tollgate_net::Runtime;
    use tollgate_observe::{AccessLog, LogConfig, LogFormat, LogTarget, Reason, Registry};

    use super::*;
    use crate::accept::admit;
    use crate::request_state::RequestStateGuard;
    use crate::worker::{Mailbox, WorkerSetup};

    /// Panics during the first connection's request, while its record is open; closes the other connections.
    async fn panics_once(slot: Rc<ExchangeSlot>, first: u16) -> Infallible {
        loop {
            let client = slot.next().await;
            let worker = client.worker().clone();
            let mut state = RequestStateGuard::new(&worker);
            state.record.open(&worker, tollgate_net::now(), client.peer, None);
            assert!(client.peer.port() != first, "a defect");
            drop(state);
            slot.done(AfterExchanges::Closed);
        }
    }

    #[test]
    fn a_panic_ends_its_connection_only_and_is_written_down() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let mut clients: Vec<TcpStream> = (0..2)
            .map(|_| {
                let stream =
                    TcpStream::connect(listener.local_addr().expect("an address")).expect("connected");
                stream.set_read_timeout(Some(Duration::from_secs(20))).expect("a timeout");
                stream
            })
            .collect();
        let registry = Registry::new(true);
        let config = LogConfig { target: LogTarget::Off, format: LogFormat::Combined };
        let log = AccessLog::start(config).expect("no log");
        let loaded = tollgate_config::from_text(
            "",
            "listen: 127.0.0.1:0\nroutes: [{match: /, respond: 204}]",
            &|_| None,
        );
        let plan = tollgate_plan::compile(&loaded.config.expect("a config")).expect("it compiles").plan;
        let (mailbox, control) = Mailbox::new();
        let setup = WorkerSetup {
            id: 0,
            plan: crate::rollout::Rollout::first(plan, &registry),
            control,
            mailboxes: vec![mailbox],
            loads: Arc::new(ConnectionCounts::new(1)),
            registry: registry.clone(),
            stats: registry.worker(),
            shared: tollgate_upstream::UpstreamStates::new(),
            log: log.sink(),
        };
        let runtime = Runtime::new().expect("a runtime");
        runtime.run(async {
            let worker = Worker::new(setup).expect("a worker");
            let first = clients[0].local_addr().expect("an address").port();
            let pool = Rc::new(FuturePool::new());
            let start = |client| {
                let exchanges = move |slot| panics_once(slot, first);
                tollgate_net::spawn(serve(client, exchanges, pool.clone()));
            };
            for _ in 0..2 {
                let (stream, peer) = listener.accept().expect("a connection");
                stream.set_nonblocking(true).expect("non-blocking");
                assert_eq!(worker.reserve(), Ok(0));
                let bind = worker.active().plan.listeners[0].bind.clone();
                let handle = worker.listeners.open(crate::listener::ListenerId(0), bind);
                let listener = handle.listener(&worker.active().plan).expect("the plan has it");
                admit(&worker, handle, (stream.into(), peer, listener), &start);
            }
            for (turn, client) in clients.iter_mut().enumerate() {
                assert_eq!(registry.snapshot().client_connections, 2 - turn as u64);
                std::io::Write::write_all(client, b"x").expect("sent");
                while registry.snapshot().client_connections == 2 - turn as u64 {
                    tollgate_net::yield_now().await;
                }
            }
        });
        let counts = registry.snapshot();
        assert_eq!((counts.in_flight, counts.requests), (0, 2));
        assert_eq!(counts.reasons[Reason::ProxyInternalError as usize], 1);
        drop(runtime);
        for client in &mut clients {
            // An end or a reset: both mean closed.
            let _ = client.read(&mut [0]).map(|count| assert_eq!(count, 0));
        }
    }
}
