//! A worker's idle connections to one endpoint.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::poll_fn;
use std::io::ErrorKind;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use tollgate_net::{Address, Deadline, Stream, Timers};
use tollgate_observe::{Slot, WorkerStats};
use tollgate_plan::Pool as Settings;

use crate::connection::OpenGuard;
use crate::{ConnectError, Connection};

/// A worker's idle connections to one endpoint.
///
/// A connection here belongs to the pool, and any event on it destroys it: an end, a reset, and above all bytes that
/// nobody asked for, which must never answer the next client. One task a pool waits for such events on all its idle
/// connections; that costs nothing while nothing happens.
#[derive(Debug)]
pub struct Pool {
    address: Address,
    /// The address as logs and `Host` have it.
    name: String,
    settings: RefCell<Settings>,
    /// The newest last: it is used first, so that those beyond the need grow old and are closed.
    idle: RefCell<VecDeque<Idle>>,
    /// When the oldest has been idle for too long.
    oldest: Deadline,
    watcher: RefCell<Option<Waker>>,
    slot: Slot,
    /// Idle connections of the whole upstream, this endpoint's among them.
    idle_in_upstream: Rc<Cell<usize>>,
    stats: Arc<WorkerStats>,
}

#[derive(Debug)]
struct Idle {
    since: Instant,
    stream: Stream,
    opened: Instant,
    requests: u64,
}

impl Pool {
    pub(crate) fn new(
        address: Address,
        settings: Settings,
        (slot, idle_in_upstream): (Slot, Rc<Cell<usize>>),
        timers: &Timers,
        stats: Arc<WorkerStats>,
    ) -> Rc<Self> {
        let pool = Rc::new(Self {
            name: address.to_string(),
            address,
            settings: RefCell::new(settings),
            idle: RefCell::new(VecDeque::new()),
            oldest: timers.deadline(),
            watcher: RefCell::new(None),
            slot,
            idle_in_upstream,
            stats,
        });
        tollgate_net::spawn(watch(Rc::downgrade(&pool)));
        pool
    }

    /// The endpoint's address as text.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The slot of the upstream in the counters.
    #[must_use]
    pub fn slot(&self) -> Slot {
        self.slot
    }

    pub(crate) fn stats(&self) -> &WorkerStats {
        &self.stats
    }

    pub(crate) fn change(&self, settings: &Settings) {
        if *self.settings.borrow() != *settings {
            *self.settings.borrow_mut() = settings.clone();
            // Those that the new settings would not have kept go at the watcher's next turn.
            self.oldest.set(Instant::now(), Some(Duration::ZERO));
        }
    }

    /// The connection that was used last and on which nothing has happened since.
    pub fn take(self: &Rc<Self>, now: Instant) -> Option<Connection> {
        let settings = self.settings.borrow();
        let mut idle = self.idle.borrow_mut();
        while let Some(candidate) = idle.pop_back() {
            self.count_idle(-1);
            let fresh = settings
                .idle_timeout
                .is_none_or(|bound| now.saturating_duration_since(candidate.since) < bound);
            let young =
                settings.max_age.is_none_or(|bound| now.saturating_duration_since(candidate.opened) < bound);
            // Makes no system call: the poller has said whether anything happened.
            if fresh && young && candidate.stream.peek().is_none() {
                self.stats.upstream_reused(self.slot);
                let Idle { stream, opened, requests, .. } = candidate;
                return Some(Connection {
                    stream,
                    opened,
                    requests: requests + 1,
                    guard: OpenGuard::resume(self),
                });
            }
            self.stats.upstream_closed(self.slot);
        }
        None
    }

    /// Keeps a connection whose last response has ended, if it may be used again.
    pub fn put(connection: Connection, now: Instant) {
        let Connection { stream, opened, requests, guard } = connection;
        let pool = guard.pool().clone();
        let settings = pool.settings.borrow();
        let spent = settings.max_requests.is_some_and(|bound| requests >= bound)
            || settings.max_age.is_some_and(|bound| now.saturating_duration_since(opened) >= bound)
            || settings.max_idle == 0;
        let watcher = pool.watcher.borrow();
        let Some(watcher) = watcher.as_ref().filter(|_| !spent) else { return };
        if stream.poll_peek(&mut Context::from_waker(watcher)).is_ready() {
            return;
        }
        guard.suspend();
        let mut idle = pool.idle.borrow_mut();
        if idle.len() >= settings.max_idle as usize && idle.pop_front().is_some() {
            pool.forget(1);
        }
        if idle.is_empty() {
            pool.oldest.set(now, settings.idle_timeout);
        }
        idle.push_back(Idle { since: now, stream, opened, requests });
        pool.count_idle(1);
    }

    /// Opens a new connection.
    ///
    /// # Errors
    /// When the endpoint cannot be reached. The wait has no bound of its own: the caller's deadline ends it.
    pub async fn connect(self: &Rc<Self>) -> Result<Connection, ConnectError> {
        let stream = Stream::connect(&self.address).await.map_err(|error| match error.kind() {
            ErrorKind::NotFound if matches!(self.address, Address::Name { .. }) => ConnectError::Dns,
            _ => ConnectError::Refused,
        })?;
        Ok(Connection { stream, opened: Instant::now(), requests: 1, guard: OpenGuard::new(self) })
    }

    /// Destroys every idle connection on which something happened, or that is too old.
    fn sweep(&self, cx: &mut Context<'_>) {
        let (bound, most) = {
            let settings = self.settings.borrow();
            (settings.idle_timeout, settings.max_idle as usize)
        };
        let mut idle = self.idle.borrow_mut();
        let before = idle.len();
        idle.retain(|candidate| candidate.stream.poll_peek(cx).is_pending());
        if self.oldest.poll_passed(cx).is_ready() {
            let now = Instant::now();
            let expired = |oldest: &Idle| {
                bound.is_some_and(|bound| now.saturating_duration_since(oldest.since) >= bound)
            };
            while idle.len() > most || idle.front().is_some_and(expired) {
                idle.pop_front();
            }
            let left = idle
                .front()
                .zip(bound)
                .map(|(oldest, bound)| bound - now.saturating_duration_since(oldest.since));
            self.oldest.set(now, left);
            // Not passed any longer: this leaves the waker with the deadline.
            let _ = self.oldest.poll_passed(cx);
        }
        if idle.len() != before {
            self.forget(before - idle.len());
            idle.shrink_to(8);
        }
    }

    /// So many idle connections were closed.
    fn forget(&self, connections: usize) {
        self.count_idle(-(connections as isize));
        (0..connections).for_each(|_| self.stats.upstream_closed(self.slot));
    }

    fn count_idle(&self, change: isize) {
        let total = self.idle_in_upstream.get().saturating_add_signed(change);
        self.idle_in_upstream.set(total);
        self.stats.upstream_idle(self.slot, total);
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.forget(self.idle.borrow().len());
        if let Some(watcher) = self.watcher.borrow_mut().take() {
            watcher.wake();
        }
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
