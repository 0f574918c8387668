//! One HTTP/2 connection: [its task](super::assignment) moves its frames, and requests use its streams.
//!
//! A request holds it through a [`StreamPermit`](super::StreamPermit). The connection closes when it ends,
//! when it was idle or silent for too long, or when its pool needs its permit. If the gateway ends it, its last frame
//! is a GOAWAY.

use std::cell::{Cell, RefCell};
use std::rc::{Rc, Weak};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use tollgate_http2::ClientConnection;
use tollgate_net::Deadline;

use super::{Http2Pool, RESETS_MAX, STREAMS_MAX};
use crate::Permit;
use crate::endpoint_io::EndpointIo;
use crate::pool::context::PoolContext;

/// How often a connection is checked that may be idle and silent without end.
const CHECK_INTERVAL: Duration = Duration::from_secs(30);

/// One connection to an endpoint.
#[derive(Debug)]
pub(crate) struct Http2Connection {
    context: Rc<PoolContext>,
    /// The connections among which requests choose, until their pool is dropped.
    pool: Weak<Http2Pool>,
    pub(super) client: ClientConnection,
    opened: Instant,
    /// When bytes last arrived.
    last_read: Cell<Instant>,
    /// Since when it carries no request, or carries some.
    since: Cell<Instant>,
    /// How many requests it carries now, and how many it has carried in all.
    streams: Cell<usize>,
    requests: Cell<u64>,
    /// How many requests on it were cancelled.
    cancelled: Cell<u32>,
    /// It accepts no further request.
    retired: Cell<bool>,
    /// Passes when it may have been idle or silent for too long.
    idle: Deadline,
    task: RefCell<Option<Waker>>,
    /// `None` after it was closed.
    open: RefCell<Option<OpenParts>>,
}

/// The parts of a connection that exist while it is open.
#[derive(Debug)]
pub(super) struct OpenParts {
    pub io: EndpointIo,
    // Below the socket, because fields are dropped in order: the socket is closed before the permit is
    // returned.
    pub permit: Permit,
}

impl Http2Connection {
    /// Registers a connection that was just opened and carries no request. The caller starts its task.
    pub(super) fn start(
        context: Rc<PoolContext>,
        pool: &Rc<Http2Pool>,
        open: OpenParts,
        client: ClientConnection,
    ) -> Rc<Self> {
        let now = tollgate_net::now();
        let connection = Rc::new(Self {
            pool: Rc::downgrade(pool),
            client,
            opened: now,
            last_read: Cell::new(open.io.last_read()),
            since: Cell::new(now),
            streams: Cell::new(0),
            requests: Cell::new(0),
            cancelled: Cell::new(0),
            retired: Cell::new(false),
            idle: context.timers.deadline(),
            task: RefCell::default(),
            open: RefCell::new(Some(open)),
            context,
        });
        let context = &connection.context;
        context.stats.upstream_opened(context.slot);
        context.count_idle(1);
        pool.add(connection.clone());
        connection.watch(now);
        connection
    }

    /// Moves frames. Ready when it is closed.
    pub(super) fn poll(&self, cx: &mut Context<'_>) -> Poll<()> {
        let known = self.task.borrow().as_ref().is_some_and(|known| known.will_wake(cx.waker()));
        if !known {
            *self.task.borrow_mut() = Some(cx.waker().clone());
        }
        let ended = match &mut *self.open.borrow_mut() {
            Some(open) => {
                let ended = open.io.poll(&self.client, cx).is_ready();
                self.last_read.set(open.io.last_read());
                ended
            }
            None => return Poll::Ready(()),
        };
        if ended {
            self.close();
            return Poll::Ready(());
        }
        if !self.client.can_open() {
            // After a GOAWAY, the requests in progress are the last ones.
            self.retire();
            if self.open.borrow().is_none() {
                return Poll::Ready(());
            }
        }
        while self.idle.poll_passed(cx).is_ready() {
            let Some(left) = self.time_left() else {
                self.close();
                return Poll::Ready(());
            };
            self.idle.set(tollgate_net::now(), Some(left));
        }
        Poll::Pending
    }

    /// Returns how much longer it may be idle or silent; `None` if it must be closed. Sends a PING on a
    /// connection that was silent for too long.
    fn time_left(&self) -> Option<Duration> {
        // Without its pool no request can find it.
        self.pool.upgrade()?;
        let now = tollgate_net::now();
        let (idle_timeout, ping) = {
            let settings = self.context.settings.borrow();
            (settings.idle_timeout, settings.ping)
        };
        let check = ping.unwrap_or(CHECK_INTERVAL);
        if self.is_idle() {
            let Some(bound) = idle_timeout else { return Some(check) };
            let idle = now.saturating_duration_since(self.since.get());
            let left = bound.checked_sub(idle).filter(|left| !left.is_zero());
            // Not longer than a request that begins now may be silent.
            return left.map(|left| left.min(check));
        }
        let Some(ping) = ping else { return Some(check) };
        let silence = now.saturating_duration_since(self.last_read.get().max(self.since.get()));
        if silence < ping {
            return Some(ping - silence);
        }
        if self.client.awaits_pong() {
            return (ping * 2).checked_sub(silence).filter(|left| !left.is_zero());
        }
        self.client.send_ping();
        Some(ping)
    }

    /// Sets the deadline of a connection that carries no request since `now`. It remains set when a request
    /// begins, and then bounds the silence.
    fn watch(&self, now: Instant) {
        let settings = self.context.settings.borrow();
        let bounds = [settings.idle_timeout, settings.ping].into_iter().flatten();
        self.idle.set(now, bounds.min().or(Some(CHECK_INTERVAL)));
    }

    /// Whether it carries no request.
    pub fn is_idle(&self) -> bool {
        self.streams.get() == 0
    }

    /// Returns since when it carries no request.
    pub fn since(&self) -> Instant {
        self.since.get()
    }

    /// Whether it accepts no further request: a limit of the pool's settings is reached, the plan has
    /// changed, or its endpoint sent GOAWAY.
    pub fn is_spent(&self, now: Instant) -> bool {
        let settings = self.context.settings.borrow();
        settings.max_requests.is_some_and(|bound| self.requests.get() >= bound)
            || settings.max_age.is_some_and(|bound| now.saturating_duration_since(self.opened) >= bound)
            || !self.context.is_current(self.opened)
            || !self.client.can_open()
    }

    /// How many concurrent requests it may carry. The endpoint can change that at any time.
    pub(super) fn places(&self) -> usize {
        self.client.max_concurrent_streams().min(STREAMS_MAX)
    }

    /// Whether it can carry one more request now.
    pub fn has_capacity(&self) -> bool {
        !self.retired.get() && self.streams.get() < self.places()
    }

    /// Counts a request that starts on the connection. `reused` says that the connection was already open.
    pub fn begin_stream(&self, reused: bool) {
        let context = &self.context;
        if self.streams.replace(self.streams.get() + 1) == 0 {
            context.count_idle(-1);
            self.since.set(tollgate_net::now());
        }
        self.requests.set(self.requests.get() + 1);
        if reused {
            context.stats.upstream_reused(context.slot);
        }
    }

    /// Counts a request that ended. Returns whether the connection is open, so that another one may start.
    pub fn end_stream(&self) -> bool {
        self.streams.set(self.streams.get() - 1);
        if self.open.borrow().is_none() {
            return false;
        }
        if self.is_idle() {
            let now = tollgate_net::now();
            self.since.set(now);
            self.watch(now);
            self.context.count_idle(1);
        }
        true
    }

    /// Records that a request on it was cancelled and its stream reset. After `RESETS_MAX` of these it
    /// accepts no further request.
    pub fn count_cancelled(&self) {
        self.cancelled.set(self.cancelled.get() + 1);
        if self.cancelled.get() >= RESETS_MAX {
            self.retire();
        }
    }

    /// Makes it accept no further request if no bytes arrived since `sent`.
    pub fn retire_if_silent(&self, sent: Instant) {
        if self.last_read.get() < sent {
            self.retire();
        }
    }

    /// Whether it accepts no further request.
    pub fn is_retired(&self) -> bool {
        self.retired.get()
    }

    /// Makes it accept no further request. It closes as soon as it carries none.
    pub fn retire(&self) {
        if self.retired.replace(true) {
            return;
        }
        if self.is_idle() {
            self.close();
        } else if let Some(pool) = self.pool.upgrade() {
            pool.remove(self);
        }
    }

    /// Closes it, and with it its streams. Returns its permit, if it was still open.
    pub fn close(&self) -> Option<Permit> {
        let OpenParts { mut io, permit } = self.open.borrow_mut().take()?;
        io.say_goodbye(&self.client);
        drop(io);
        self.client.abort();
        self.retired.set(true);
        if let Some(task) = self.task.borrow_mut().take() {
            task.wake();
        }
        if let Some(pool) = self.pool.upgrade() {
            pool.remove(self);
            self.context.stats.upstream_closed(self.context.slot);
            if self.is_idle() {
                self.context.count_idle(-1);
            }
        }
        Some(permit)
    }
}
