//! One client connection: waits for a request, and holds almost nothing while it waits.

use std::cell::Cell;
use std::convert::Infallible;
use std::future::{Future, poll_fn};
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use tollgate_net::{Deadline, ProxyHeader, Stream};
use tollgate_plan::{Http2, Listener, RouteStay};
use tollgate_upstream::Pool;

use crate::client_side::{ClientSide, ClientStream};
use crate::door::{Door, Waiting};
use crate::http2;
use crate::preamble::preamble;
use crate::routine::{RoutinePool, Seat};
use crate::secured::Secured;
use crate::worker::Worker;

/// The address of a peer that has none, as on a Unix socket.
const NOWHERE: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::UNSPECIFIED), 0);

/// One client connection, or one stream of one.
#[derive(Debug)]
pub(crate) struct Client<S = Stream> {
    pub stream: S,
    pub peer: SocketAddr,
    pub deadline: Deadline,
    /// Requests that the connection has carried.
    pub requests: u64,
    pub link: Link,
}

impl Client {
    pub fn new(
        worker: &Rc<Worker>,
        door: Rc<Door>,
        stream: Stream,
        peer: SocketAddr,
        listener: Arc<Listener>,
    ) -> Self {
        // On a dual-stack socket an IPv4 peer comes as ::ffff:a.b.c.d; nobody wants to see that in a header or log.
        let peer = SocketAddr::new(peer.ip().to_canonical(), peer.port());
        let deadline = worker.timers.deadline();
        worker.connection_opened();
        let due = listener.age.and_then(|age| tollgate_net::now().checked_add(age));
        Self {
            stream,
            peer,
            deadline,
            requests: 0,
            link: Link {
                worker: worker.clone(),
                door,
                listener,
                plans: worker.plans.get(),
                tls: None,
                destination: None,
                opened: Cell::new(None),
                due: Cell::new(due),
                idle: None,
                counts: true,
            },
        }
    }
}

impl<S> Client<S> {
    /// One stream of a connection, which has carried so many requests with this one.
    pub fn of_stream(connection: &Link, stream: S, peer: SocketAddr, requests: u64) -> Self {
        let Link { worker, door, listener, plans, tls, destination, opened, due, .. } = connection;
        let link = Link {
            worker: worker.clone(),
            door: door.clone(),
            listener: listener.clone(),
            plans: *plans,
            tls: tls.clone(),
            destination: destination.clone(),
            opened: opened.clone(),
            due: due.clone(),
            idle: None,
            counts: false,
        };
        Self { stream, peer, deadline: worker.timers.deadline(), requests, link }
    }

    pub fn worker(&self) -> &Rc<Worker> {
        self.link.worker()
    }

    /// Whether its next answer is its last: the worker is about to end, or its listen address is gone.
    pub fn is_leaving(&self) -> bool {
        self.link.is_leaving()
    }

    /// Whether it is closed when it has nothing to say.
    pub fn is_draining(&self) -> bool {
        self.link.is_draining()
    }

    /// Has it no more time for its next request than a drain leaves.
    pub fn hurry(&self) {
        let bound = [self.worker().grace.get(), self.link.listener.idle].into_iter().flatten().min();
        self.deadline.set(tollgate_net::now(), bound);
    }

    /// Whether what never ends by itself is to end: the worker's drain comes to its end, or the listen address is gone for
    /// good.
    pub fn is_parting(&self) -> bool {
        self.link.worker.parting.get() || self.link.door.closed() == Some(Waiting::Take)
    }
}

impl<S: ClientStream> Client<S> {
    /// Waits until the client has left, so that it takes no answer. An HTTP/1 client leaves by ending its direction, unless its
    /// listener has [`half_close`](Listener::half_close).
    #[inline]
    pub fn poll_gone(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.stream.poll_gone(cx, self.link.listener.half_close)
    }
}

impl<S: ClientSide> Client<S> {
    /// What an endpoint is told of it at the begin of a connection; made only where the pool [wants it](Pool::names_clients).
    pub fn named_to(&self, pool: &Pool) -> ProxyHeader {
        if !pool.names_clients() {
            return ProxyHeader::Local;
        }
        let told = self.link.destination.as_deref().copied();
        let destination = match told.or_else(|| self.stream.local_address()) {
            Some(to) => SocketAddr::new(to.ip().to_canonical(), to.port()),
            // Whose it is counts, whatever else is not known.
            None => self.link.listener.bind.tcp().unwrap_or(NOWHERE),
        };
        ProxyHeader::Proxied { source: self.peer, destination }
    }
}

/// Where a connection came in and who serves it. Counts it for as long as it lives.
#[derive(Debug)]
pub(crate) struct Link {
    worker: Rc<Worker>,
    door: Rc<Door>,
    /// What the plan says of where it came in.
    pub listener: Arc<Listener>,
    /// How many plans the worker had had then.
    plans: u32,
    /// The TLS of it, once its handshake is over; `None`: plain text.
    pub tls: Option<Rc<Secured>>,
    /// Where the client has connected to, where a proxy in front has said so. Behind a pointer, since few have it.
    pub destination: Option<Rc<SocketAddr>>,
    /// When its first request was waited for.
    opened: Cell<Option<Instant>>,
    /// The end of its life by `timeouts.age`; `None`: it has none.
    due: Cell<Option<Instant>>,
    /// The idle timeout of the route of its last request, where that has one of its own.
    idle: Option<Option<Duration>>,
    /// A stream is counted with its connection.
    counts: bool,
}

impl Link {
    pub fn worker(&self) -> &Rc<Worker> {
        &self.worker
    }

    /// Before a request: whether it is redirected, and what else its listener says, is as the plan in force says it.
    #[inline]
    pub fn renew(&mut self) {
        if self.plans != self.worker.plans.get() {
            self.take_listener();
        }
    }

    #[cold]
    fn take_listener(&mut self) {
        self.plans = self.worker.plans.get();
        // One that no plan knows any more keeps what the last one said.
        if let Some(listener) = self.door.listener(&self.worker.active.borrow().plan) {
            self.listener = listener;
        }
    }

    pub fn is_leaving(&self) -> bool {
        self.worker.leaving.get() || self.door.closed().is_some() || self.is_too_old()
    }

    /// Whether it has reached the greatest age that its listener allows.
    fn is_too_old(&self) -> bool {
        self.due.get().is_some_and(|due| tollgate_net::now() >= due)
    }

    /// Its first request is waited for: its age counts from here where a route bounds it.
    pub fn open(&self, now: Instant) {
        self.opened.set(self.opened.get().or(Some(now)));
    }

    /// It carries a request of a route that says how long it stays. Whether it gets old sooner by that.
    #[cold]
    pub fn stay(&mut self, stay: &RouteStay) -> bool {
        self.idle = stay.idle;
        self.grow_old(stay)
    }

    /// The same of its age alone, which the routes that it has carried requests of only shorten.
    pub fn grow_old(&self, stay: &RouteStay) -> bool {
        let opened = self.opened.get().unwrap_or_else(tollgate_net::now);
        let own = stay.age.and_then(|age| opened.checked_add(age));
        let sooner = own.filter(|own| self.due.get().is_none_or(|due| *own < due));
        if sooner.is_some() {
            self.due.set(sooner);
        }
        sooner.is_some()
    }

    /// How long it may be idle from now on: its idle timeout, or the time until it is too old. The idle timeout of a route
    /// holds until the next request.
    pub fn idle_bound(&mut self, now: Instant) -> Option<Duration> {
        let idle = self.idle.take().unwrap_or(self.listener.idle);
        match self.age_left(now) {
            None => idle,
            Some(left) => Some(idle.map_or(left, |idle| idle.min(left))),
        }
    }

    /// The time until it is too old.
    pub fn age_left(&self, now: Instant) -> Option<Duration> {
        self.due.get().map(|due| due.saturating_duration_since(now))
    }

    pub fn is_draining(&self) -> bool {
        self.worker.draining.get() || self.door.closed().is_some()
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        if self.counts {
            self.worker.connection_closed();
        }
    }
}

/// What becomes of a connection when its requests do not follow each other any longer.
#[derive(Debug)]
pub(crate) enum Then {
    /// It has nothing more to read.
    Idle(Box<Client>),
    /// It is closed.
    Closed,
    /// It speaks HTTP/2; so much of that has come. Behind a pointer, so that the usual ends are small.
    Http2(Box<(Box<Client>, Vec<u8>)>),
}

/// What carries the requests of one connection after the other.
pub(crate) type ExchangeSeat = Seat<Box<Client>, Then>;

/// Serves a connection to its end. `exchanges` carries requests for as long as they follow each other, and says what
/// then. The connection goes to and fro in its box: with each request, only a pointer is to move.
pub(crate) async fn serve<F>(
    mut client: Box<Client>,
    exchanges: impl Fn(Rc<ExchangeSeat>) -> F,
    pool: Rc<RoutinePool<Box<Client>, Then, F>>,
) where
    F: Future<Output = Infallible>,
{
    if client.link.listener.has_preamble() {
        match preamble(client).await {
            Some(ready) => client = ready,
            None => return,
        }
    }
    if client.link.listener.http2 == Http2::Only || client.stream.alpn() == Some(b"h2") {
        return http2::start(client, Vec::new());
    }
    let now = tollgate_net::now();
    client.link.open(now);
    client.deadline.set(now, client.link.idle_bound(now));
    while wait_for_request(&mut client).await {
        match RoutinePool::run(&*pool, client, |seat| Box::pin(exchanges(seat))).await {
            Then::Idle(back) => client = back,
            Then::Closed => return,
            // A task of its own: this one is small, for the many connections that are idle.
            Then::Http2(begun) => return http2::start(begun.0, begun.1),
        }
    }
}

/// Waits for the first byte. Says whether it came: not if the wait took too long, or the worker drains.
///
/// A connection that is closed while it is idle may meet a request on its way, which is then lost, whenever it is
/// closed. Only a client that is told to close with an answer cannot lose one. So an idle connection has a grace when
/// the drain begins: whoever asks often enough asks once more, and is told.
async fn wait_for_request(client: &mut Client) -> bool {
    let mut hurried = false;
    poll_fn(|cx| {
        // A request that is already here is served even if its time is up, or the worker is draining.
        if client.stream.poll_readable(cx).is_ready() {
            return Poll::Ready(true);
        }
        if !hurried && client.is_draining() {
            hurried = true;
            client.hurry();
        }
        client.deadline.poll_passed(cx).map(|()| false)
    })
    .await
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::net::{TcpListener, TcpStream};

    use tollgate_listen::Loads;
    use tollgate_net::Runtime;
    use tollgate_observe::{AccessLog, LogConfig, LogFormat, LogTarget, Reason, Registry};

    use super::*;
    use crate::accept::admit;
    use crate::scratch::Loan;
    use crate::worker::{Mailbox, WorkerSetup};

    /// Panics for the first connection's request, in the middle of its books; gives the others back.
    async fn panics_once(seat: Rc<ExchangeSeat>, first: u16) -> Infallible {
        loop {
            let client = seat.next().await;
            let worker = client.worker().clone();
            let mut loan = Loan::new(&worker);
            loan.ledger.open(&worker, tollgate_net::now(), client.peer, None);
            assert!(client.peer.port() != first, "a defect");
            drop(loan);
            seat.done(Then::Closed);
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
            loads: Arc::new(Loads::new(1)),
            registry: registry.clone(),
            stats: registry.worker(),
            shared: tollgate_upstream::Shared::new(),
            log: log.sink(),
        };
        let runtime = Runtime::new().expect("a runtime");
        runtime.run(async {
            let worker = Worker::new(setup).expect("a worker");
            let first = clients[0].local_addr().expect("an address").port();
            let pool = Rc::new(RoutinePool::new());
            let start = |client| {
                let exchanges = move |seat| panics_once(seat, first);
                tollgate_net::spawn(serve(client, exchanges, pool.clone()));
            };
            for _ in 0..2 {
                let (stream, peer) = listener.accept().expect("a connection");
                stream.set_nonblocking(true).expect("non-blocking");
                assert_eq!(worker.reserve(), Ok(0));
                let bind = worker.active().plan.listeners[0].bind.clone();
                let door = worker.doors.open(crate::door::DoorId(0), bind);
                let listener = door.listener(&worker.active().plan).expect("the plan has it");
                admit(&worker, door, (stream.into(), peer, listener), &start);
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
            // An end or a reset: closed in either case.
            let _ = client.read(&mut [0]).map(|count| assert_eq!(count, 0));
        }
    }
}
