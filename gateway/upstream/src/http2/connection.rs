//! One HTTP/2 connection: a task moves its frames, and requests use its streams.

use std::cell::{Cell, RefCell};
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::rc::{Rc, Weak};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use h2::SendStream;
use h2::client::{Connection, ResponseFuture, SendRequest};
use http::Request;
use tollgate_http::h2::{BudgetedData, ResponseInspector, SendBudget};
use tollgate_net::Deadline;
use tollgate_plan::Pool as PoolSettings;

use super::io::EndpointIo;
use super::{RESETS_MAX, STREAMS_MAX};
use crate::connection::InUse;
use crate::{Permit, Pool};

/// One connection to an endpoint.
#[derive(Debug)]
pub(crate) struct Http2Connection {
    pool: Weak<Pool>,
    sender: SendRequest<BudgetedData>,
    budget: Rc<SendBudget>,
    opened: Instant,
    /// When bytes last arrived.
    last_read: Rc<Cell<Instant>>,
    /// Finds responses from which the `h2` crate dropped fields.
    inspector: Rc<RefCell<ResponseInspector>>,
    /// Since when it carries no request.
    since: Cell<Instant>,
    /// How many requests it carries now, and how many it has carried in all.
    streams: Cell<usize>,
    requests: Cell<u64>,
    /// How many requests on it were cancelled.
    cancelled: Cell<u32>,
    /// It accepts no further request.
    retired: Cell<bool>,
    /// Passes when it has carried no request for too long.
    idle: Deadline,
    task: RefCell<Option<Waker>>,
    /// `None` after it was closed.
    open: RefCell<Option<OpenParts>>,
}

/// The parts of a connection that exist while it is open.
#[derive(Debug)]
pub(super) struct OpenParts {
    pub frames: Connection<EndpointIo, BudgetedData>,
    // Below the frames, because fields are dropped in order: the socket is closed before the permit is
    // returned.
    pub permit: Permit,
}

impl Http2Connection {
    /// Registers a connection that was just opened and carries no request, and starts its task.
    pub(super) fn start(
        pool: &Rc<Pool>,
        open: OpenParts,
        sender: SendRequest<BudgetedData>,
        (last_read, inspector): (Rc<Cell<Instant>>, Rc<RefCell<ResponseInspector>>),
    ) -> Rc<Self> {
        let now = tollgate_net::now();
        let connection = Rc::new(Self {
            pool: Rc::downgrade(pool),
            sender,
            budget: Rc::default(),
            opened: now,
            last_read,
            inspector,
            since: Cell::new(now),
            streams: Cell::new(0),
            requests: Cell::new(0),
            cancelled: Cell::new(0),
            retired: Cell::new(false),
            idle: pool.pool_set().timers.deadline(),
            task: RefCell::default(),
            open: RefCell::new(Some(open)),
        });
        pool.stats().upstream_opened(pool.slot());
        pool.count_idle(1);
        pool.http2.add(connection.clone());
        connection.idle.set(now, pool.pool_set().settings.borrow().idle_timeout);
        let task = connection.clone();
        tollgate_net::spawn(async move { poll_fn(|cx| task.poll(cx)).await });
        connection
    }

    fn poll(&self, cx: &mut Context<'_>) -> Poll<()> {
        let known = self.task.borrow().as_ref().is_some_and(|known| known.will_wake(cx.waker()));
        if !known {
            *self.task.borrow_mut() = Some(cx.waker().clone());
        }
        let ended = match &mut *self.open.borrow_mut() {
            Some(open) => Pin::new(&mut open.frames).poll(cx).is_ready(),
            None => return Poll::Ready(()),
        };
        if ended {
            self.close();
            return Poll::Ready(());
        }
        while self.idle.poll_passed(cx).is_ready() {
            let Some(left) = self.idle_left() else {
                self.close();
                return Poll::Ready(());
            };
            self.idle.set(tollgate_net::now(), left);
        }
        Poll::Pending
    }

    /// Returns how much longer it may be idle. `None` if it has been idle for long enough; `Some(None)` if no
    /// timeout applies.
    fn idle_left(&self) -> Option<Option<Duration>> {
        let bound = self.pool.upgrade()?.pool_set().settings.borrow().idle_timeout;
        let Some(bound) = bound.filter(|_| self.streams.get() == 0) else { return Some(None) };
        let idle = tollgate_net::now().saturating_duration_since(self.since.get());
        (idle < bound).then(|| Some(bound - idle))
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
    pub fn is_spent(&self, pool: &Pool, settings: &PoolSettings, now: Instant) -> bool {
        settings.max_requests.is_some_and(|bound| self.requests.get() >= bound)
            || settings.max_age.is_some_and(|bound| now.saturating_duration_since(self.opened) >= bound)
            || !pool.pool_set().is_current(self.opened)
            || self.has_goaway()
    }

    /// Whether a GOAWAY or the end of the connection has arrived.
    fn has_goaway(&self) -> bool {
        let ready = self.sender.clone().poll_ready(&mut Context::from_waker(Waker::noop()));
        matches!(ready, Poll::Ready(Err(_)))
    }

    /// Whether it can carry one more request now.
    pub fn has_capacity(&self) -> bool {
        let streams = self.streams.get();
        !self.retired.get() && streams < STREAMS_MAX && streams < self.sender.current_max_send_streams()
    }

    /// Starts a request on the connection. `reused` says that the connection was already open.
    pub fn begin(self: &Rc<Self>, in_use: InUse, reused: bool) -> StreamPermit {
        let pool = in_use.pool();
        if self.streams.replace(self.streams.get() + 1) == 0 {
            pool.count_idle(-1);
        }
        self.requests.set(self.requests.get() + 1);
        if reused {
            pool.stats().upstream_reused(pool.slot());
        }
        StreamPermit { connection: self.clone(), in_use, reused }
    }

    /// Ends a request. Its stream goes to the next waiting request, if the connection stays.
    fn end(self: &Rc<Self>, pool: &Rc<Pool>) {
        self.streams.set(self.streams.get() - 1);
        if self.open.borrow().is_none() {
            return;
        }
        let idle = self.is_idle();
        if idle {
            let now = tollgate_net::now();
            self.since.set(now);
            self.idle.set(now, pool.pool_set().settings.borrow().idle_timeout);
            pool.count_idle(1);
        }
        if idle && (self.retired.get() || !pool.keeps_http2()) {
            self.close();
        } else {
            pool.offer_stream(self);
        }
    }

    /// Makes it accept no further request. It closes as soon as it carries none.
    pub fn retire(&self) {
        if self.retired.replace(true) {
            return;
        }
        if self.is_idle() {
            self.close();
        } else if let Some(pool) = self.pool.upgrade() {
            pool.http2.remove(self);
        }
    }

    /// Closes it, and with it its streams. Returns its permit, if it was still open.
    pub fn close(&self) -> Option<Permit> {
        let OpenParts { frames, permit } = self.open.borrow_mut().take()?;
        drop(frames);
        self.retired.set(true);
        if let Some(task) = self.task.borrow_mut().take() {
            task.wake();
        }
        if let Some(pool) = self.pool.upgrade() {
            pool.http2.remove(self);
            pool.stats().upstream_closed(pool.slot());
            if self.is_idle() {
                pool.count_idle(-1);
            }
        }
        Some(permit)
    }
}

/// The right to one stream on a connection. Dropping it gives the stream to the next request.
#[derive(Debug)]
pub struct StreamPermit {
    connection: Rc<Http2Connection>,
    in_use: InUse,
    reused: bool,
}

impl StreamPermit {
    /// The pool that its connection belongs to.
    #[must_use]
    pub fn pool(&self) -> &Rc<Pool> {
        self.in_use.pool()
    }

    /// Whether the connection was already open when the request took it. If so, the endpoint may have closed
    /// it since, which is not a failure of the endpoint.
    #[must_use]
    pub fn is_reused(&self) -> bool {
        self.reused
    }

    /// Whether the connection uses TLS.
    #[must_use]
    pub fn is_secure(&self) -> bool {
        self.pool().pool_set().tls.borrow().is_some()
    }

    /// Whether the endpoint supports extended CONNECT, by which a stream switches to another protocol (RFC
    /// 8441, 3).
    #[must_use]
    pub fn can_switch(&self) -> bool {
        self.connection.sender.is_extended_connect_protocol_enabled()
    }

    /// The budget that bounds the bytes that the connection was given and has not sent.
    #[must_use]
    pub fn budget(&self) -> &Rc<SendBudget> {
        &self.connection.budget
    }

    /// Sends the head of a request. With `ended`, the request has no body.
    ///
    /// # Errors
    /// Returns an error if the connection is gone or the head is invalid.
    pub fn send(
        &self,
        request: Request<()>,
        ended: bool,
    ) -> Result<(ResponseFuture, SendStream<BudgetedData>), h2::Error> {
        self.connection.sender.clone().send_request(request, ended)
    }

    /// Whether a field section of this stream was too long. `Some(true)` if the stream ended with it.
    #[must_use]
    pub fn is_too_long(&self, stream: u32) -> Option<bool> {
        self.connection.inspector.borrow().is_too_long(stream)
    }

    /// Whether pseudo-fields make the response on this stream malformed (RFC 9113, 8.3).
    #[must_use]
    pub fn is_malformed(&self, stream: u32) -> bool {
        self.connection.inspector.borrow().is_malformed(stream)
    }

    /// Drops the state of a stream that has no reader.
    pub fn forget(&self, stream: u32) {
        self.connection.inspector.borrow_mut().forget(stream);
    }

    /// Records that the request was cancelled and its stream reset. After `RESETS_MAX` of these, the
    /// connection accepts no further request, so that clients that cancel do not make the gateway look like
    /// an attacker.
    pub fn count_cancelled(&self) {
        let connection = &self.connection;
        connection.cancelled.set(connection.cancelled.get() + 1);
        if connection.cancelled.get() >= RESETS_MAX {
            connection.retire();
        }
    }

    /// Reports that no response arrived in time. If no bytes at all arrived since the request was sent, the
    /// connection may be dead without notice, so it accepts no further request.
    pub fn on_timeout(&self, sent: Instant) {
        if self.connection.last_read.get() < sent {
            self.connection.retire();
        }
    }
}

impl Drop for StreamPermit {
    fn drop(&mut self) {
        self.connection.end(self.in_use.pool());
    }
}
