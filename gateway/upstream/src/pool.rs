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

use crate::connection::{InUse, Link, OpenGuard};
use crate::http2::Lanes;
use crate::message::HandOver;
use crate::outlier::Traffic;
use crate::pool_set::PoolSet;
use crate::queue::{Grant, Queue};
use crate::surplus::remove_latest;
use crate::{ConnectError, Connection, EndpointState, Permit, UpstreamState, proxy_protocol, tls};

/// A connection that nobody needed for so long is surplus (as long as HAProxy's `pool-purge-delay` is by default). Half of a
/// pool's surplus is closed, and half of what is left [some time later](AGAIN): so a pool follows the need in steps, and a
/// short lull costs it half at most.
const NEED: Duration = Duration::from_secs(5);
/// How long after one step the next may come.
const AGAIN: Duration = Duration::from_millis(2_500);
/// A connection that has been idle for so long is watched. Under load it is not idle that long, and to leave a waker with
/// the poller and take it away again is dear (300 instructions of a plain request's 10,000: callgrind).
const WATCH: Duration = Duration::from_millis(100);

/// A worker's idle connections to one endpoint.
///
/// A connection here belongs to the pool, and any event on it destroys it: an end, a reset, and above all bytes that
/// nobody asked for, which must never answer the next client. So whoever takes one asks first whether the poller has
/// told of an event. And one task a pool waits for such events on all connections that are not taken again at once; that
/// costs nothing while nothing happens.
#[derive(Debug)]
pub struct Pool {
    address: Address,
    /// The address as logs and `Host` have it.
    name: String,
    set: Rc<PoolSet>,
    /// The newest last: it is used first, so that those beyond the need grow old and are closed.
    idle: RefCell<VecDeque<Box<Link>>>,
    /// When the watcher looks next: soon if there are connections that it does not watch yet, else when the oldest has
    /// been idle for too long.
    look: Deadline,
    /// Whether that is soon.
    looks_soon: Cell<bool>,
    watcher: RefCell<Option<Waker>>,
    /// The task that opens connections in advance.
    pub(crate) warmer: RefCell<Option<Waker>>,
    /// Its connections where the endpoint speaks HTTP/2; they are never in `idle`.
    pub(crate) http2: Lanes,
    /// Requests that wait for a connection of this pool.
    pub(crate) queue: Queue,
    /// Requests that have a connection or wait for one: what balancing by least requests compares.
    in_use: Cell<u32>,
    /// The endpoint is no longer the upstream's: what comes back is closed.
    retired: Cell<bool>,
    state: Arc<EndpointState>,
    /// What became of this worker's requests.
    traffic: Arc<Traffic>,
}

impl Pool {
    pub(crate) fn new(address: Address, set: Rc<PoolSet>) -> Rc<Self> {
        let state = set.shared.endpoint(&address);
        let pool = Rc::new(Self {
            name: address.to_string(),
            address,
            idle: RefCell::new(VecDeque::new()),
            look: set.timers.deadline(),
            looks_soon: Cell::new(false),
            watcher: RefCell::new(None),
            warmer: RefCell::new(None),
            http2: Lanes::default(),
            queue: Queue::default(),
            in_use: Cell::new(0),
            retired: Cell::new(false),
            traffic: state.outlier.traffic(),
            state,
            set,
        });
        tollgate_net::spawn(watch(Rc::downgrade(&pool)));
        tollgate_net::spawn(crate::warm::keep(Rc::downgrade(&pool)));
        pool
    }

    /// Counts and shows a failure of the endpoint's TLS, and writes a notice.
    #[cold]
    pub fn tls_failed(&self, fault: &TlsFault) {
        self.set.shared.tls_failed(&self.state, fault);
    }

    /// The endpoint's address as text.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The slot of the upstream in the counters.
    #[must_use]
    pub fn slot(&self) -> Slot {
        self.set.slot
    }

    /// Whether a connection to it has led to this process itself, so that requests to it come back.
    #[must_use]
    #[inline]
    pub fn leads_to_itself(&self) -> bool {
        self.state.is_own()
    }

    /// What all workers know of the endpoint.
    #[must_use]
    pub fn state(&self) -> &Arc<EndpointState> {
        &self.state
    }

    /// What all workers know of its upstream.
    #[must_use]
    pub fn upstream_state(&self) -> &Arc<UpstreamState> {
        &self.set.shared
    }

    pub(crate) fn traffic(&self) -> &Traffic {
        &self.traffic
    }

    pub(crate) fn set(&self) -> &Rc<PoolSet> {
        &self.set
    }

    pub(crate) fn stats(&self) -> &WorkerStats {
        &self.set.stats
    }

    /// This worker's requests that have a connection or wait for one.
    #[must_use]
    pub fn in_use(&self) -> u32 {
        self.in_use.get()
    }

    pub(crate) fn used(&self, change: i32) {
        self.in_use.set(self.in_use.get().saturating_add_signed(change));
    }

    /// The endpoint is no longer the upstream's: idle connections are closed, and those in use when they end.
    pub(crate) fn retire(&self) {
        self.retired.set(true);
        self.close_idle();
        self.http2.leave();
    }

    /// Closes every idle connection.
    pub(crate) fn close_idle(&self) {
        let idle = std::mem::take(&mut *self.idle.borrow_mut());
        self.forget(idle.len());
    }

    /// Whether its connections begin with a header that says whose they are.
    #[must_use]
    pub fn names_clients(&self) -> bool {
        self.set.proxy_protocol.get().is_some()
    }

    pub(crate) fn is_retired(&self) -> bool {
        self.retired.get()
    }

    /// The endpoint is the upstream's again.
    pub(crate) fn unretire(&self) {
        self.retired.set(false);
        self.wake_warmer();
    }

    /// Those that the new settings would not have kept go at the watcher's next turn.
    pub(crate) fn settings_changed(&self) {
        self.look_in(tollgate_net::now(), Duration::ZERO);
        self.wake_warmer();
    }

    fn wake_warmer(&self) {
        if let Some(warmer) = self.warmer.borrow().as_ref() {
            warmer.wake_by_ref();
        }
    }

    /// The connection that was used last and on which nothing has happened since.
    pub fn take(self: &Rc<Self>, now: Instant) -> Option<Connection> {
        self.take_idle(now).map(|connection| self.reuse(connection))
    }

    /// The next request takes it.
    fn reuse(&self, mut connection: Connection) -> Connection {
        connection.requests += 1;
        connection.reused = true;
        self.set.stats.upstream_reused(self.set.slot);
        connection
    }

    /// As [`take`](Self::take), but not for a request.
    pub(crate) fn take_idle(self: &Rc<Self>, now: Instant) -> Option<Connection> {
        let settings = self.set.settings.borrow();
        let mut idle = self.idle.borrow_mut();
        if idle.len() <= settings.warm as usize && settings.warm > 0 {
            self.wake_warmer();
        }
        while let Some(candidate) = idle.pop_back() {
            self.count_idle(-1);
            let fresh = settings.idle_timeout.is_none_or(|bound| is_before(now, candidate.since, bound));
            let young = settings.max_age.is_none_or(|bound| is_before(now, candidate.opened, bound));
            // Makes no system call: the poller has said whether anything happened.
            if fresh && young && candidate.stream.peek().is_none() {
                return Some(Connection { link: candidate, open: OpenGuard::resume(self) });
            }
            self.set.stats.upstream_closed(self.set.slot);
        }
        None
    }

    /// Keeps a connection whose last response has ended, if it may be used again.
    pub fn put(connection: Connection, now: Instant) {
        let pool = connection.pool().clone();
        if pool.is_spent(&connection, now) {
            return;
        }
        match pool.set.is_sought() {
            false => pool.keep(connection, now),
            true => pool.set.offer(&pool, connection, now),
        }
    }

    fn is_spent(&self, connection: &Connection, now: Instant) -> bool {
        let settings = self.set.settings.borrow();
        settings.max_requests.is_some_and(|bound| connection.requests >= bound)
            || settings.max_age.is_some_and(|bound| now.saturating_duration_since(connection.opened) >= bound)
            || settings.max_idle == 0
            || !self.set.is_current(connection.opened)
            || self.retired.get()
    }

    /// Makes it idle, unless something has happened on it.
    pub(crate) fn keep(&self, connection: Connection, now: Instant) {
        let Connection { mut link, open } = connection;
        if link.stream.peek().is_some() {
            return;
        }
        open.suspend();
        let settings = self.set.settings.borrow();
        let mut idle = self.idle.borrow_mut();
        if idle.len() >= settings.max_idle as usize && idle.pop_front().is_some() {
            self.forget(1);
        }
        if !self.looks_soon.get() {
            self.look_in(now, WATCH);
        }
        link.since = now;
        idle.push_back(link);
        self.count_idle(1);
    }

    /// Has the watcher look after that time.
    fn look_in(&self, now: Instant, after: Duration) {
        self.looks_soon.set(true);
        self.look.set(now, Some(after));
    }

    pub(crate) fn has_idle(&self) -> bool {
        !self.idle.borrow().is_empty() || self.http2.oldest_since().is_some()
    }

    /// Whether there are fewer idle connections than are to be kept ready.
    pub(crate) fn is_cold(&self) -> bool {
        let settings = self.set.settings.borrow();
        // More than are kept are never there: each would take the place of the one before, without end.
        !self.retired.get() && self.ready() < settings.warm.min(settings.max_idle) as usize
    }

    /// Connections that a request can have at once.
    pub(crate) fn ready(&self) -> usize {
        self.idle.borrow().len() + self.http2.len()
    }

    /// Since when the oldest is idle.
    pub(crate) fn oldest_since(&self) -> Option<Instant> {
        let oldest = self.idle.borrow().front().map(|oldest| oldest.since);
        oldest.or_else(|| self.http2.oldest_since())
    }

    /// Closes the oldest. Its place, if there was one.
    pub(crate) fn close_oldest(&self) -> Option<Permit> {
        let Some(oldest) = self.idle.borrow_mut().pop_front() else { return self.http2.close_oldest() };
        self.forget(1);
        let Link { stream, permit, .. } = *oldest;
        drop(stream);
        Some(permit)
    }

    /// What a request gets that found no connection to [take](Self::take), or wants a new one: a place for a new one, or
    /// where a cap is in the way the first connection or place that comes free, here or at another worker.
    ///
    /// # Errors
    /// When a cap is in the way and the queue is full or the wait too long.
    pub async fn turn(self: &Rc<Self>) -> Result<Granted, ConnectError> {
        // Counted before it is open: an endpoint that lets connects hang is not one that has nothing to do.
        let in_use = InUse::new(self);
        loop {
            let permit = match self.set.permit(self) {
                Some(permit) => permit,
                None => match self.set.join(self, tollgate_net::now())?.await? {
                    Grant::Permit(permit) => permit,
                    // Else something has happened on it meanwhile.
                    Grant::Connection(free) if free.stream.peek().is_none() => {
                        return Ok(Granted::Connection(self.reuse(free)));
                    }
                    // The second, of a plan that has just ended, by which the endpoint spoke HTTP/2.
                    Grant::Connection(_) | Grant::Stream(_) => continue,
                },
            };
            return Ok(Granted::Place(Opening { in_use, permit }));
        }
    }

    /// Takes over a connection from another worker, unless something has happened on it.
    pub(crate) fn adopt(self: &Rc<Self>, handed: HandOver) -> Option<Connection> {
        // The other worker's poller may have been about to tell it.
        // It may have been opened under a plan by which connections did not say whose they are.
        let names_nobody = self.set.proxy_protocol.get().is_some();
        if names_nobody || !handed.socket.is_quiet() || !self.set.is_current(handed.opened) {
            return None;
        }
        let HandOver { socket, opened, requests, permit, .. } = handed;
        let stream = socket.attach().ok()?;
        let link = Link { stream, opened, since: opened, requests, reused: true, permit };
        Some(Connection { link: Box::new(link), open: OpenGuard::resume(self) })
    }

    /// Destroys every idle connection on which something happened, that is too old, or that nobody needs; watches the
    /// others.
    fn sweep(&self, cx: &mut Context<'_>) {
        let mut idle = self.idle.borrow_mut();
        let before = idle.len();
        idle.retain(|candidate| candidate.stream.poll_peek(cx).is_pending());
        if self.look.poll_passed(cx).is_ready() {
            let now = tollgate_net::now();
            let next = self.close_unneeded(&mut idle, now);
            self.looks_soon.set(false);
            self.look.set(now, next);
            // Not passed any longer: this leaves the waker with the deadline.
            let _ = self.look.poll_passed(cx);
        }
        if idle.len() != before {
            self.forget(before - idle.len());
            idle.shrink_to(8);
            if self.set.settings.borrow().warm > 0 {
                self.wake_warmer();
            }
        }
    }

    /// Closes those that are too old, and half of those that nobody has needed for a while. The time to look again.
    fn close_unneeded(&self, idle: &mut VecDeque<Box<Link>>, now: Instant) -> Option<Duration> {
        let settings = self.set.settings.borrow();
        let age = |idle: &Link| now.saturating_duration_since(idle.since);
        let expired = |oldest: &Link| settings.idle_timeout.is_some_and(|bound| age(oldest) >= bound);
        while idle.len() > settings.max_idle as usize || idle.front().is_some_and(|oldest| expired(oldest)) {
            idle.pop_front();
        }
        // In order of age, since the newest is always used first.
        let unneeded = idle.partition_point(|idle| age(idle) >= NEED);
        // Rounded down: the last one goes by its timeout alone.
        let surplus = (unneeded / 2).min(idle.len().saturating_sub(settings.warm as usize));
        remove_latest(idle, unneeded, surplus, |idle| idle.opened);
        let oldest = age(idle.front()?);
        let need = if oldest < NEED { NEED - oldest } else { AGAIN };
        Some(settings.idle_timeout.map_or(need, |bound| (bound - oldest).min(need)))
    }

    /// So many idle connections were closed.
    fn forget(&self, connections: usize) {
        self.count_idle(-(connections as isize));
        (0..connections).for_each(|_| self.set.stats.upstream_closed(self.set.slot));
    }

    pub(crate) fn count_idle(&self, change: isize) {
        let total = self.set.idle.get().saturating_add_signed(change);
        self.set.idle.set(total);
        self.set.stats.upstream_idle(self.set.slot, total);
    }
}

/// Whether `now` is less than `bound` after `start`: a sum takes less than half of what a difference does.
#[inline]
fn is_before(now: Instant, start: Instant, bound: Duration) -> bool {
    start.checked_add(bound).is_none_or(|end| now < end)
}

/// What a request gets when it has its turn.
#[derive(Debug)]
pub enum Granted<C = Connection, O = Opening> {
    /// A connection that came free.
    Connection(C),
    /// A place for a new one.
    Place(O),
}

/// The right to open a connection, and the request that wants it.
#[derive(Debug)]
#[must_use = "dropping it gives the place back"]
pub struct Opening {
    in_use: InUse,
    permit: Permit,
}

impl Opening {
    /// For the pool, with a place that it has.
    pub(crate) fn new(pool: &Rc<Pool>, permit: Permit) -> Self {
        Self { in_use: InUse::new(pool), permit }
    }

    /// Opens the connection. `whose` it is the endpoint is told where the pool [says so](Pool::names_clients). The place is
    /// given back, should that fail or be given up. The wait has no bound of its own: the caller's deadline ends it.
    ///
    /// # Errors
    /// When the endpoint cannot be reached.
    pub async fn connect(self, whose: ProxyHeader) -> Result<Connection, ConnectError> {
        let Self { in_use, permit } = self;
        // By the plan of now: where another one comes before it is open, it is not used again.
        let opened = tollgate_net::now();
        let stream = dial(in_use.pool(), whose).await?;
        let open = OpenGuard::new(in_use);
        let link = Link { stream, opened, since: opened, requests: 1, reused: false, permit };
        Ok(Connection { link: Box::new(link), open })
    }
}

/// Connects to a pool's endpoint, and tells it whose the connection is, and by TLS, if its upstream says so.
pub(crate) async fn dial(pool: &Pool, whose: ProxyHeader) -> Result<Stream, ConnectError> {
    let address = &pool.address;
    let source = pool.set.settings.borrow().source;
    let mut stream = Stream::connect_from(address, source).await.map_err(|error| match error.kind() {
        ErrorKind::NotFound if matches!(address, Address::Name { .. }) => ConnectError::Dns,
        _ if tollgate_net::is_shortage(&error) => ConnectError::Shortage,
        _ => ConnectError::Refused,
    })?;
    if stream.leads_to_itself() {
        pool.state.note_own();
    }
    if let Some(version) = pool.set.proxy_protocol.get() {
        proxy_protocol::announce(&mut stream, whose, version).await.map_err(|_| ConnectError::Refused)?;
    }
    let tls = pool.set.tls.borrow().clone();
    match tls {
        None => Ok(stream),
        Some(tls) => match tls::secured(stream, &tls, address).await {
            Ok(stream) => {
                pool.set.shared.tls_worked(&pool.state);
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
        self.forget(self.idle.borrow().len());
        self.http2.leave();
        self.set.forget(&self.address);
        // Their tasks see that it is gone.
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
