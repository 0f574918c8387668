//! A worker's idle connections to one endpoint.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::poll_fn;
use std::io::ErrorKind;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use tollgate_net::{Address, Deadline, ProxyHeader, Stream, TlsFault};
use tollgate_observe::{Slot, WorkerStats};

use crate::connection::{InUse, OpenGuard, PooledConnection};
use crate::http2::Http2Pool;
use crate::outlier::Traffic;
use crate::pool_set::PoolSet;
use crate::queue::{Grant, Queue};
use crate::state::message::HandOver;
use crate::surplus::remove_latest;
use crate::{ConnectError, Connection, EndpointState, Permit, UpstreamState, proxy_protocol, tls};

/// A connection that was idle for this long is surplus; HAProxy's `pool-purge-delay` has the same default.
/// Half of a pool's surplus is closed, and half of the remainder [some time later](SURPLUS_INTERVAL). So a
/// pool follows the demand in steps, and a short lull costs at most half of it.
const SURPLUS_AFTER: Duration = Duration::from_secs(5);
/// How long after one step the next may follow.
const SURPLUS_INTERVAL: Duration = Duration::from_millis(2_500);
/// A connection that was idle for this long is watched. Under load, connections are reused earlier.
/// Registering a waker with the poller and removing it again is expensive: 300 of the 10,000 instructions of
/// a plain request (callgrind).
const WATCH_AFTER: Duration = Duration::from_millis(100);

/// A worker's idle connections to one endpoint.
///
/// The pool owns its connections, and any event on one destroys it: an end, a reset, and above all
/// unsolicited bytes, which must never answer the next client. So `take` first checks whether the poller
/// reported an event. In addition, one task per pool waits for events on all connections that are not reused
/// soon; it costs nothing while nothing happens.
#[derive(Debug)]
pub struct Pool {
    address: Address,
    /// The address as it appears in logs and in `Host`.
    name: String,
    pool_set: Rc<PoolSet>,
    /// The newest last. It is used first, so that connections beyond the demand grow old and are closed.
    idle: RefCell<VecDeque<Box<PooledConnection>>>,
    /// When the watcher runs next: soon if there are connections that it does not watch yet, else when the
    /// oldest connection has been idle for too long.
    next_sweep: Deadline,
    /// Whether `next_sweep` is set to soon.
    sweep_is_soon: Cell<bool>,
    watcher: RefCell<Option<Waker>>,
    /// The task that opens connections in advance.
    pub(crate) warmer: RefCell<Option<Waker>>,
    /// Its connections if the endpoint speaks HTTP/2. These are never in `idle`.
    pub(crate) http2: Http2Pool,
    /// Requests that wait for a connection of this pool.
    pub(crate) queue: Queue,
    /// Requests that have a connection or wait for one. Balancing by least requests compares this number.
    in_use: Cell<u32>,
    /// The endpoint is no longer a member of the upstream, so returned connections are closed.
    retired: Cell<bool>,
    state: Arc<EndpointState>,
    /// Outcomes of this worker's requests, for outlier detection.
    traffic: Arc<Traffic>,
}

impl Pool {
    pub(crate) fn new(address: Address, set: Rc<PoolSet>) -> Rc<Self> {
        let state = set.shared.endpoint(&address);
        let pool = Rc::new(Self {
            name: address.to_string(),
            address,
            idle: RefCell::new(VecDeque::new()),
            next_sweep: set.timers.deadline(),
            sweep_is_soon: Cell::new(false),
            watcher: RefCell::new(None),
            warmer: RefCell::new(None),
            http2: Http2Pool::default(),
            queue: Queue::default(),
            in_use: Cell::new(0),
            retired: Cell::new(false),
            traffic: state.outlier.traffic(),
            state,
            pool_set: set,
        });
        tollgate_net::spawn(watch(Rc::downgrade(&pool)));
        tollgate_net::spawn(crate::warm::keep_warm(Rc::downgrade(&pool)));
        pool
    }

    /// Records a TLS failure of the endpoint in the metrics and the admin API, and sends a notice.
    #[cold]
    pub fn tls_failed(&self, fault: &TlsFault) {
        self.pool_set.shared.tls_failed(&self.state, fault);
    }

    /// The endpoint's address as text.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The upstream's slot in the metrics.
    #[must_use]
    pub fn slot(&self) -> Slot {
        self.pool_set.slot
    }

    /// Whether a connection to the endpoint has led back to this process, so that requests would loop.
    #[must_use]
    #[inline]
    pub fn loops_back(&self) -> bool {
        self.state.leads_to_self()
    }

    /// State of the endpoint that all workers share.
    #[must_use]
    pub fn state(&self) -> &Arc<EndpointState> {
        &self.state
    }

    /// State of the endpoint's upstream that all workers share.
    #[must_use]
    pub fn upstream_state(&self) -> &Arc<UpstreamState> {
        &self.pool_set.shared
    }

    pub(crate) fn traffic(&self) -> &Traffic {
        &self.traffic
    }

    pub(crate) fn pool_set(&self) -> &Rc<PoolSet> {
        &self.pool_set
    }

    pub(crate) fn stats(&self) -> &WorkerStats {
        &self.pool_set.stats
    }

    /// Returns how many of this worker's requests have a connection or wait for one.
    #[must_use]
    pub fn in_use(&self) -> u32 {
        self.in_use.get()
    }

    pub(crate) fn add_in_use(&self, change: i32) {
        self.in_use.set(self.in_use.get().saturating_add_signed(change));
    }

    /// Marks the endpoint as no longer a member of the upstream. Closes idle connections now, and others when
    /// their requests end.
    pub(crate) fn retire(&self) {
        self.retired.set(true);
        self.close_idle();
        self.http2.retire();
    }

    /// Closes every idle connection.
    pub(crate) fn close_idle(&self) {
        let idle = std::mem::take(&mut *self.idle.borrow_mut());
        self.count_closed(idle.len());
    }

    /// Whether its connections begin with a PROXY protocol header that names the client.
    #[must_use]
    pub fn uses_proxy_protocol(&self) -> bool {
        self.pool_set.proxy_protocol.get().is_some()
    }

    pub(crate) fn is_retired(&self) -> bool {
        self.retired.get()
    }

    /// Marks the endpoint as a member of the upstream again.
    pub(crate) fn unretire(&self) {
        self.retired.set(false);
        self.wake_warmer();
    }

    /// Makes the watcher run now and close connections that the new settings would not have kept.
    pub(crate) fn settings_changed(&self) {
        self.sweep_in(tollgate_net::now(), Duration::ZERO);
        self.wake_warmer();
    }

    fn wake_warmer(&self) {
        if let Some(warmer) = self.warmer.borrow().as_ref() {
            warmer.wake_by_ref();
        }
    }

    /// Takes the connection that was used last and on which nothing has happened since.
    pub fn take(self: &Rc<Self>, now: Instant) -> Option<Connection> {
        self.take_idle(now).map(|connection| self.reuse(connection))
    }

    /// Marks the connection as used by another request.
    fn reuse(&self, mut connection: Connection) -> Connection {
        connection.requests += 1;
        connection.reused = true;
        self.pool_set.stats.upstream_reused(self.pool_set.slot);
        connection
    }

    /// As [`take`](Self::take), but for another purpose than a request.
    pub(crate) fn take_idle(self: &Rc<Self>, now: Instant) -> Option<Connection> {
        let settings = self.pool_set.settings.borrow();
        let mut idle = self.idle.borrow_mut();
        if idle.len() <= settings.warm as usize && settings.warm > 0 {
            self.wake_warmer();
        }
        while let Some(candidate) = idle.pop_back() {
            self.count_idle(-1);
            let fresh = settings.idle_timeout.is_none_or(|bound| is_before(now, candidate.since, bound));
            let young = settings.max_age.is_none_or(|bound| is_before(now, candidate.opened, bound));
            // Makes no system call: the poller has already recorded whether anything happened.
            if fresh && young && candidate.stream.peek().is_none() {
                return Some(Connection { link: candidate, open: OpenGuard::resume(self) });
            }
            self.pool_set.stats.upstream_closed(self.pool_set.slot);
        }
        None
    }

    /// Keeps a connection after the end of its last response, if it may be reused. If requests wait, offers
    /// it to them.
    pub fn put(connection: Connection, now: Instant) {
        let pool = connection.pool().clone();
        if pool.is_spent(&connection, now) {
            return;
        }
        match pool.pool_set.must_offer_freed() {
            false => pool.put_idle(connection, now),
            true => pool.pool_set.offer(&pool, connection, now),
        }
    }

    fn is_spent(&self, connection: &Connection, now: Instant) -> bool {
        let settings = self.pool_set.settings.borrow();
        settings.max_requests.is_some_and(|bound| connection.requests >= bound)
            || settings.max_age.is_some_and(|bound| now.saturating_duration_since(connection.opened) >= bound)
            || settings.max_idle == 0
            || !self.pool_set.is_current(connection.opened)
            || self.retired.get()
    }

    /// Makes the connection idle, unless something happened on it.
    pub(crate) fn put_idle(&self, connection: Connection, now: Instant) {
        let Connection { mut link, open } = connection;
        if link.stream.peek().is_some() {
            return;
        }
        open.suspend();
        let settings = self.pool_set.settings.borrow();
        let mut idle = self.idle.borrow_mut();
        if idle.len() >= settings.max_idle as usize && idle.pop_front().is_some() {
            self.count_closed(1);
        }
        if !self.sweep_is_soon.get() {
            self.sweep_in(now, WATCH_AFTER);
        }
        link.since = now;
        idle.push_back(link);
        self.count_idle(1);
    }

    /// Makes the watcher run after that time.
    fn sweep_in(&self, now: Instant, after: Duration) {
        self.sweep_is_soon.set(true);
        self.next_sweep.set(now, Some(after));
    }

    pub(crate) fn has_idle(&self) -> bool {
        !self.idle.borrow().is_empty() || self.http2.oldest_since().is_some()
    }

    /// Whether there are fewer idle connections than `pool.warm` asks for.
    pub(crate) fn needs_warming(&self) -> bool {
        let settings = self.pool_set.settings.borrow();
        // `warm` above `max_idle` would never be reached: each new connection would displace one, endlessly.
        !self.retired.get() && self.ready() < settings.warm.min(settings.max_idle) as usize
    }

    /// Returns how many connections a request could use at once.
    pub(crate) fn ready(&self) -> usize {
        self.idle.borrow().len() + self.http2.len()
    }

    /// Returns since when the oldest connection has been idle.
    pub(crate) fn oldest_since(&self) -> Option<Instant> {
        let oldest = self.idle.borrow().front().map(|oldest| oldest.since);
        oldest.or_else(|| self.http2.oldest_since())
    }

    /// Closes the oldest idle connection and returns its permit; `None` if there is none.
    pub(crate) fn close_oldest(&self) -> Option<Permit> {
        let Some(oldest) = self.idle.borrow_mut().pop_front() else { return self.http2.close_oldest() };
        self.count_closed(1);
        let PooledConnection { stream, permit, .. } = *oldest;
        drop(stream);
        Some(permit)
    }

    /// Waits for a connection or for a permit to open one. Called if [`take`](Self::take) found none, or if
    /// the request needs a new connection. If a limit is reached, the request joins the queue. It then gets
    /// the first connection or permit that becomes free on this or another worker.
    ///
    /// # Errors
    /// Returns an error if a limit is reached and the queue is full, or if the queue timeout passes.
    pub async fn wait_for_connection(self: &Rc<Self>) -> Result<Acquired, ConnectError> {
        // Counted before the connection is open: an endpoint whose connects hang must not look idle.
        let in_use = InUse::new(self);
        loop {
            let permit = match self.pool_set.permit(self) {
                Some(permit) => permit,
                None => match self.pool_set.enqueue(self, tollgate_net::now())?.await? {
                    Grant::Permit(permit) => permit,
                    // Otherwise something happened on it before this task ran.
                    Grant::Connection(free) if free.stream.peek().is_none() => {
                        return Ok(Acquired::Connection(self.reuse(free)));
                    }
                    // A stream comes from an old plan, under which the endpoint still spoke HTTP/2.
                    Grant::Connection(_) | Grant::Stream(_) => continue,
                },
            };
            return Ok(Acquired::Permit(ConnectPermit { in_use, permit }));
        }
    }

    /// Takes over a connection from another worker, unless something happened on it.
    pub(crate) fn adopt(self: &Rc<Self>, handed: HandOver) -> Option<Connection> {
        // The other worker's poller may not have reported an event yet, so the socket itself is checked.
        // The connection may also be from a plan without the PROXY protocol, and then names no client.
        let names_nobody = self.pool_set.proxy_protocol.get().is_some();
        if names_nobody || !handed.socket.has_nothing_unread() || !self.pool_set.is_current(handed.opened) {
            return None;
        }
        let HandOver { socket, opened, requests, permit, .. } = handed;
        let stream = socket.attach().ok()?;
        let link = PooledConnection { stream, opened, since: opened, requests, reused: true, permit };
        Some(Connection { link: Box::new(link), open: OpenGuard::resume(self) })
    }

    /// Closes every idle connection on which something happened, that is too old, or that is surplus. Watches
    /// the others.
    fn sweep(&self, cx: &mut Context<'_>) {
        let mut idle = self.idle.borrow_mut();
        let before = idle.len();
        idle.retain(|candidate| candidate.stream.poll_peek(cx).is_pending());
        if self.next_sweep.poll_passed(cx).is_ready() {
            let now = tollgate_net::now();
            let next = self.close_unneeded(&mut idle, now);
            self.sweep_is_soon.set(false);
            self.next_sweep.set(now, next);
            // The deadline is in the future again, so this call only registers the waker.
            let _ = self.next_sweep.poll_passed(cx);
        }
        if idle.len() != before {
            self.count_closed(before - idle.len());
            idle.shrink_to(8);
            if self.pool_set.settings.borrow().warm > 0 {
                self.wake_warmer();
            }
        }
    }

    /// Closes connections that are too old, and half of the surplus. Returns how long to wait until the next
    /// look.
    fn close_unneeded(&self, idle: &mut VecDeque<Box<PooledConnection>>, now: Instant) -> Option<Duration> {
        let settings = self.pool_set.settings.borrow();
        let age = |idle: &PooledConnection| now.saturating_duration_since(idle.since);
        let expired =
            |oldest: &PooledConnection| settings.idle_timeout.is_some_and(|bound| age(oldest) >= bound);
        while idle.len() > settings.max_idle as usize || idle.front().is_some_and(|oldest| expired(oldest)) {
            idle.pop_front();
        }
        // Sorted by idle time, because the newest connection is always used first.
        let unneeded = idle.partition_point(|idle| age(idle) >= SURPLUS_AFTER);
        // Rounded down, so the last connection is closed only by its timeout.
        let surplus = (unneeded / 2).min(idle.len().saturating_sub(settings.warm as usize));
        remove_latest(idle, unneeded, surplus, |idle| idle.opened);
        let oldest = age(idle.front()?);
        let need = if oldest < SURPLUS_AFTER { SURPLUS_AFTER - oldest } else { SURPLUS_INTERVAL };
        Some(settings.idle_timeout.map_or(need, |bound| (bound - oldest).min(need)))
    }

    /// Counts this many idle connections as closed.
    fn count_closed(&self, connections: usize) {
        self.count_idle(-(connections as isize));
        (0..connections).for_each(|_| self.pool_set.stats.upstream_closed(self.pool_set.slot));
    }

    pub(crate) fn count_idle(&self, change: isize) {
        let total = self.pool_set.idle.get().saturating_add_signed(change);
        self.pool_set.idle.set(total);
        self.pool_set.stats.upstream_idle(self.pool_set.slot, total);
    }
}

/// Whether `now` is less than `bound` after `start`. The sum takes less than half of the time of a
/// difference.
#[inline]
fn is_before(now: Instant, start: Instant, bound: Duration) -> bool {
    start.checked_add(bound).is_none_or(|end| now < end)
}

/// The end of a request's wait for a connection.
#[derive(Debug)]
pub enum Acquired<C = Connection, O = ConnectPermit> {
    /// A connection that became free.
    Connection(C),
    /// The right to open a new connection.
    Permit(O),
}

/// The right to open a connection, together with the request that needs it.
#[derive(Debug)]
#[must_use = "dropping it gives the place back"]
pub struct ConnectPermit {
    in_use: InUse,
    permit: Permit,
}

impl ConnectPermit {
    /// Creates the right from a permit.
    pub(crate) fn new(pool: &Rc<Pool>, permit: Permit) -> Self {
        Self { in_use: InUse::new(pool), permit }
    }

    /// Opens the connection. If the pool [uses the PROXY protocol](Pool::uses_proxy_protocol),
    /// `client_header` names the client. The permit is returned if the connect fails or is cancelled. The
    /// wait has no timeout of its own; the caller's deadline ends it.
    ///
    /// # Errors
    /// Returns an error if the endpoint is unreachable or the TLS handshake fails.
    pub async fn connect(self, client_header: ProxyHeader) -> Result<Connection, ConnectError> {
        let Self { in_use, permit } = self;
        // Taken before the connect. If the plan changes before the connection is open, it is not reused.
        let opened = tollgate_net::now();
        let stream = dial(in_use.pool(), client_header).await?;
        let open = OpenGuard::new(in_use);
        let link = PooledConnection { stream, opened, since: opened, requests: 1, reused: false, permit };
        Ok(Connection { link: Box::new(link), open })
    }
}

/// Connects to a pool's endpoint, then writes the PROXY protocol header and performs the TLS handshake, if
/// the upstream has these.
pub(crate) async fn dial(pool: &Pool, client_header: ProxyHeader) -> Result<Stream, ConnectError> {
    let address = &pool.address;
    let source = pool.pool_set.settings.borrow().source;
    let mut stream = Stream::connect_from(address, source).await.map_err(|error| match error.kind() {
        ErrorKind::NotFound if matches!(address, Address::Name { .. }) => ConnectError::Dns,
        _ if tollgate_net::is_shortage(&error) => ConnectError::Shortage,
        _ => ConnectError::Refused,
    })?;
    if stream.is_self_connection() {
        pool.state.mark_leads_to_self();
    }
    if let Some(version) = pool.pool_set.proxy_protocol.get() {
        proxy_protocol::write_header(&mut stream, client_header, version)
            .await
            .map_err(|_| ConnectError::Refused)?;
    }
    let tls = pool.pool_set.tls.borrow().clone();
    match tls {
        None => Ok(stream),
        Some(tls) => match tls::connect_tls(stream, &tls, address).await {
            Ok(stream) => {
                pool.pool_set.shared.tls_worked(&pool.state);
                Ok(stream)
            }
            Err(fault) => {
                pool.tls_failed(&fault);
                Err(ConnectError::Tls(fault))
            }
        },
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.count_closed(self.idle.borrow().len());
        self.http2.retire();
        self.pool_set.remove_pool(&self.address);
        // The tasks notice that the pool is gone.
        let tasks = [self.watcher.take(), self.warmer.take()];
        tasks.into_iter().flatten().for_each(Waker::wake);
    }
}

async fn watch(pool: Weak<Pool>) {
    poll_fn(|cx| {
        let Some(pool) = pool.upgrade() else { return Poll::Ready(()) };
        let known = pool.watcher.borrow().as_ref().is_some_and(|known| known.will_wake(cx.waker()));
        if !known {
            *pool.watcher.borrow_mut() = Some(cx.waker().clone());
        }
        pool.sweep(cx);
        Poll::Pending
    })
    .await;
}
