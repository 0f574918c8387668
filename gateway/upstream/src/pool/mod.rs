//! A worker's connections to the endpoints of an upstream.
//!
//! | File | Contents |
//! |---|---|
//! | `mod.rs` | [`Pool`]: the idle connections to one endpoint |
//! | `connection.rs` | [`Connection`], and the guards that count it |
//! | `connecting.rs` | the wait for a connection or a permit, and opening one |
//! | `http2/` | connections that many requests share, and the streams on them |
//! | `pool_set.rs`, `pool_set/sharing.rs` | [`PoolSet`]: all pools of an upstream, and who gets a connection that becomes free |
//! | `queue.rs` | the requests that wait |
//! | `context.rs` | the settings and counters that the pools share |
//! | `warm.rs`, `surplus.rs` | connections opened in advance; which idle ones are closed |
//!
//! A connection in use refers to its pool, a pool to its set, and the set's queue to the connections that it
//! grants, so these types know each other. The other files are above them or below.

mod connecting;
mod connection;
mod context;
pub mod http2;
mod pool_set;
mod queue;
mod surplus;
pub(crate) mod warm;

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::future::poll_fn;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use tollgate_net::{Address, Deadline, TlsFault};
use tollgate_observe::Slot;

use crate::outlier::Traffic;
use crate::state::message::HandOver;
use crate::{EndpointState, Permit, UpstreamState};

pub use connecting::{Acquired, ConnectPermit};
use connection::OpenGuard;
pub use connection::{Connection, PooledConnection};
use context::PoolContext;
use http2::Http2Pool;
pub(crate) use pool_set::PoolSet;
use queue::Queue;
use surplus::remove_latest;

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
    context: Rc<PoolContext>,
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
    warmer: RefCell<Option<Waker>>,
    /// Its connections if the endpoint speaks HTTP/2. These are never in `idle`.
    http2: Rc<Http2Pool>,
    /// Requests that wait for a connection of this pool.
    queue: Queue,
    /// Requests that have a connection or wait for one. Balancing by least requests compares this number.
    in_use: Cell<u32>,
    /// The endpoint is no longer a member of the upstream, so returned connections are closed.
    retired: Cell<bool>,
    /// Tasks that wait for a connection to open, by number. They are woken when the endpoint is no longer a member.
    dialing: RefCell<BTreeMap<u64, Waker>>,
    next_dial: Cell<u64>,
    /// Until when other requests pass the endpoint over, because it refused a connection.
    refusing_until: Cell<Option<Instant>>,
    state: Arc<EndpointState>,
    /// Outcomes of this worker's requests, for outlier detection.
    traffic: Arc<Traffic>,
}

impl Pool {
    fn new(address: Address, context: Rc<PoolContext>, pool_set: Rc<PoolSet>) -> Rc<Self> {
        let state = context.shared.endpoint(&address);
        let pool = Rc::new(Self {
            name: address.to_string(),
            address,
            idle: RefCell::new(VecDeque::new()),
            next_sweep: context.timers.deadline(),
            sweep_is_soon: Cell::new(false),
            watcher: RefCell::new(None),
            warmer: RefCell::new(None),
            http2: Rc::default(),
            queue: Queue::default(),
            in_use: Cell::new(0),
            retired: Cell::new(false),
            dialing: RefCell::new(BTreeMap::new()),
            next_dial: Cell::new(0),
            refusing_until: Cell::new(None),
            traffic: state.outlier.traffic(),
            state,
            context,
            pool_set,
        });
        tollgate_net::spawn(watch(Rc::downgrade(&pool)));
        pool
    }

    /// Records a TLS failure of the endpoint in the metrics and the admin API, and sends a notice.
    #[cold]
    pub fn tls_failed(&self, fault: &TlsFault) {
        self.context.shared.tls_failed(&self.state, fault);
    }

    /// The endpoint's address as text.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The upstream's slot in the metrics.
    #[must_use]
    pub fn slot(&self) -> Slot {
        self.context.slot
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
        &self.context.shared
    }

    pub(crate) fn traffic(&self) -> &Traffic {
        &self.traffic
    }

    /// Returns how many of this worker's requests have a connection or wait for one.
    #[must_use]
    pub fn in_use(&self) -> u32 {
        self.in_use.get()
    }

    fn add_in_use(&self, change: i32) {
        self.in_use.set(self.in_use.get().saturating_add_signed(change));
    }

    /// Makes other requests of this worker pass the endpoint over for a moment, because it refused a connection.
    #[cold]
    fn refused(&self) {
        self.refusing_until.set(self.context.refused());
    }

    /// Whether requests pass the endpoint over at this time.
    pub(crate) fn is_refusing(&self, now: Instant) -> bool {
        self.refusing_until.get().is_some_and(|until| now < until)
    }

    /// Marks the endpoint as no longer a member of the upstream. Closes idle connections now, and others when
    /// their requests end.
    pub(crate) fn retire(&self) {
        self.retired.set(true);
        self.dialing.take().into_values().for_each(Waker::wake);
        self.close_idle();
        self.http2.retire();
    }

    /// Closes every idle connection.
    fn close_idle(&self) {
        let idle = std::mem::take(&mut *self.idle.borrow_mut());
        self.count_closed(idle.len());
    }

    /// Whether its connections begin with a PROXY protocol header that names the client.
    #[must_use]
    pub fn uses_proxy_protocol(&self) -> bool {
        self.context.proxy_protocol.get().is_some()
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
    fn settings_changed(&self) {
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
        self.context.stats.upstream_reused(self.context.slot);
        connection
    }

    /// As [`take`](Self::take), but for another purpose than a request.
    fn take_idle(self: &Rc<Self>, now: Instant) -> Option<Connection> {
        let settings = self.context.settings.borrow();
        let mut idle = self.idle.borrow_mut();
        if idle.len() <= settings.warm as usize && settings.warm > 0 {
            self.wake_warmer();
        }
        while let Some(candidate) = idle.pop_back() {
            self.context.count_idle(-1);
            let fresh = settings.idle_timeout.is_none_or(|bound| is_before(now, candidate.since, bound));
            let young = settings.max_age.is_none_or(|bound| is_before(now, candidate.opened, bound));
            // Makes no system call: the poller has already recorded whether anything happened.
            if fresh && young && candidate.stream.peek().is_none() {
                return Some(Connection { link: candidate, open: OpenGuard::resume(self) });
            }
            self.context.stats.upstream_closed(self.context.slot);
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
        match pool.context.must_offer_freed() {
            false => pool.put_idle(connection, now),
            true => pool.pool_set.offer(&pool, connection, now),
        }
    }

    fn is_spent(&self, connection: &Connection, now: Instant) -> bool {
        let settings = self.context.settings.borrow();
        settings.max_requests.is_some_and(|bound| connection.requests >= bound)
            || settings.max_age.is_some_and(|bound| now.saturating_duration_since(connection.opened) >= bound)
            || settings.max_idle == 0
            || !self.context.is_current(connection.opened)
            || self.retired.get()
    }

    /// Makes the connection idle, unless something happened on it.
    fn put_idle(&self, connection: Connection, now: Instant) {
        let Connection { mut link, open } = connection;
        if link.stream.peek().is_some() {
            return;
        }
        open.suspend();
        let settings = self.context.settings.borrow();
        let mut idle = self.idle.borrow_mut();
        if idle.len() >= settings.max_idle as usize && idle.pop_front().is_some() {
            self.count_closed(1);
        }
        if !self.sweep_is_soon.get() {
            self.sweep_in(now, WATCH_AFTER);
        }
        link.since = now;
        idle.push_back(link);
        self.context.count_idle(1);
    }

    /// Makes the watcher run after that time.
    fn sweep_in(&self, now: Instant, after: Duration) {
        self.sweep_is_soon.set(true);
        self.next_sweep.set(now, Some(after));
    }

    fn has_idle(&self) -> bool {
        !self.idle.borrow().is_empty() || self.http2.oldest_since().is_some()
    }

    /// Whether there are fewer idle connections than `pool.warm` asks for.
    fn needs_warming(&self) -> bool {
        let settings = self.context.settings.borrow();
        // `warm` above `max_idle` would never be reached: each new connection would displace one, endlessly.
        !self.retired.get() && self.ready() < settings.warm.min(settings.max_idle) as usize
    }

    /// Returns how many connections a request could use at once.
    fn ready(&self) -> usize {
        self.idle.borrow().len() + self.http2.len()
    }

    /// Returns since when the oldest connection has been idle.
    fn oldest_since(&self) -> Option<Instant> {
        let oldest = self.idle.borrow().front().map(|oldest| oldest.since);
        oldest.or_else(|| self.http2.oldest_since())
    }

    /// Closes the oldest idle connection and returns its permit; `None` if there is none.
    fn close_oldest(&self) -> Option<Permit> {
        let Some(oldest) = self.idle.borrow_mut().pop_front() else { return self.http2.close_oldest() };
        self.count_closed(1);
        let PooledConnection { stream, permit, .. } = *oldest;
        drop(stream);
        Some(permit)
    }

    /// Takes over a connection from another worker, unless something happened on it.
    fn adopt(self: &Rc<Self>, handed: HandOver) -> Option<Connection> {
        // The other worker's poller may not have reported an event yet, so the socket itself is checked.
        // The connection may also be from a plan without the PROXY protocol, and then names no client.
        let names_nobody = self.context.proxy_protocol.get().is_some();
        if names_nobody || !handed.socket.has_nothing_unread() || !self.context.is_current(handed.opened) {
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
            if self.context.settings.borrow().warm > 0 {
                self.wake_warmer();
            }
        }
    }

    /// Closes connections that are too old, and half of the surplus. Returns how long to wait until the next
    /// look.
    fn close_unneeded(&self, idle: &mut VecDeque<Box<PooledConnection>>, now: Instant) -> Option<Duration> {
        let settings = self.context.settings.borrow();
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
        self.context.count_idle(-(connections as isize));
        (0..connections).for_each(|_| self.context.stats.upstream_closed(self.context.slot));
    }
}

/// Whether `now` is less than `bound` after `start`. The sum takes less than half of the time of a
/// difference.
#[inline]
fn is_before(now: Instant, start: Instant, bound: Duration) -> bool {
    start.checked_add(bound).is_none_or(|end| now < end)
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
