//! The state that a connection's task and its streams share.
//!
//! It counts the open streams, and the pieces of responses that the client has taken. These decide how far
//! the client is trusted (`Shared::client`) and whether it may start one more stream (`Shared::may_begin`).

use std::cell::{Cell, RefCell};
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Waker};
use std::time::Duration;

use tollgate_http2::ServerConnection;
use tollgate_net::Negotiated;
use tollgate_plan::RouteStay;

use super::crowd::{Crowd, PIECES, SHARE};
use super::intake::Standing;
use crate::connection::Link;
use crate::worker::Worker;

/// Pieces of responses after which a client is trusted. The kernel's usual buffers of two sockets take 18
/// pieces of unread 20 KB responses, which come in three pieces each. They take more pieces of smaller
/// responses, but those cost less.
const KNOWN: usize = 32;

/// The state that a connection's task and its streams share.
#[derive(Debug)]
pub(crate) struct Shared {
    /// Frames, HPACK and flow control.
    pub connection: ServerConnection,
    /// The result of the TLS handshake; `None` for plain text.
    pub tls: Option<Negotiated>,
    /// The address that the client connected to.
    pub local_address: Option<SocketAddr>,
    pub link: Link,
    /// Open streams.
    streams: Cell<usize>,
    /// Pieces of responses that the client has taken. A piece is a part of a body, or the end of a response
    /// without a body.
    taken: Cell<usize>,
    /// Pieces after the first of each response that no window cut short.
    sent: Cell<usize>,
    /// Whether requests of this connection wait for room in the [`Crowd`].
    waits: Cell<bool>,
    /// Whether the crowd's queue holds this connection, even if it waits no longer.
    is_queued: Cell<bool>,
    /// How long the route of the last stream that ended keeps the connection, if that route sets it.
    stay: RefCell<Option<Arc<RouteStay>>>,
    /// Whether the connection's age limit was brought forward since the task last asked.
    has_aged: Cell<bool>,
    /// The waker of the connection's task. It runs when the connection may start further streams, or when the
    /// last stream ends.
    task: RefCell<Option<Waker>>,
}

impl Shared {
    pub fn new(
        connection: ServerConnection,
        link: Link,
        tls: Option<Negotiated>,
        local_address: Option<SocketAddr>,
    ) -> Rc<Self> {
        Rc::new(Self {
            connection,
            tls,
            local_address,
            link,
            streams: Cell::new(0),
            taken: Cell::new(0),
            sent: Cell::new(0),
            waits: Cell::new(false),
            is_queued: Cell::new(false),
            stay: RefCell::default(),
            has_aged: Cell::new(false),
            task: RefCell::default(),
        })
    }

    pub fn worker(&self) -> &Rc<Worker> {
        self.link.worker()
    }

    fn crowd(&self) -> &Crowd {
        &self.worker().http2_crowd
    }

    pub fn stream_began(&self) {
        self.streams.set(self.streams.get() + 1);
        self.crowd().stream_began();
    }

    pub fn stream_ended(&self) {
        self.streams.set(self.streams.get() - 1);
        if self.streams.get() == 0 || self.waits.get() {
            self.look();
        }
        self.crowd().stream_ended();
    }

    /// Shortens the connection's age limit for a stream whose route sets one.
    #[cold]
    pub fn grow_old(&self, stay: &RouteStay) {
        if self.link.grow_old(stay) {
            self.has_aged.set(true);
            self.look();
        }
    }

    /// Returns whether the age limit was brought forward since the last call.
    pub fn has_aged(&self) -> bool {
        self.has_aged.take()
    }

    /// Records how long the route of a stream that ends keeps the connection.
    pub fn keeps_as(&self, stay: Option<Arc<RouteStay>>) {
        let mut last = self.stay.borrow_mut();
        if stay.is_some() || last.is_some() {
            *last = stay;
        }
    }

    /// Returns how long the connection may be without a stream; `None` is without limit.
    pub fn idle(&self) -> Option<Duration> {
        let own = self.stay.borrow().as_ref().and_then(|stay| stay.idle);
        own.unwrap_or(self.link.listener.idle)
    }

    /// Counts a piece of a response that the client took.
    pub fn piece_taken(&self) {
        self.taken.set(self.taken.get() + 1);
        if self.waits.get() && self.taken.get().is_multiple_of(PIECES) {
            self.look();
        }
    }

    /// Counts a piece that went out whole, after the first of its response. Pieces that a window cut short do
    /// not count: a client could open its window byte by byte to earn more of them.
    pub fn piece_sent(&self) {
        self.sent.set(self.sent.get() + 1);
    }

    /// Returns how many pieces [`piece_sent`](Self::piece_sent) has counted.
    pub fn pieces_sent(&self) -> usize {
        self.sent.get()
    }

    /// Returns whether the connection has no open stream.
    pub fn is_idle(&self) -> bool {
        self.streams.get() == 0
    }

    /// Returns how far the client is trusted.
    pub fn client(&self) -> Standing {
        match self.taken.get() {
            0 => Standing::Stranger,
            1..KNOWN => Standing::New,
            _ => Standing::Known,
        }
    }

    /// Returns whether the connection may start one more stream.
    pub fn may_begin(&self) -> bool {
        let earned = if self.connection.is_slow_reader() { 0 } else { self.taken.get() / PIECES };
        self.crowd().has_room() || self.streams.get() < SHARE + earned
    }

    /// Marks that requests wait that the connection may not start now, and queues it.
    pub fn wait(self: &Rc<Self>) {
        self.waits.set(true);
        if !self.is_queued.replace(true) {
            self.crowd().wait(self);
        }
    }

    /// Marks that no requests wait. If the crowd has room that this connection does not use, the next one
    /// gets it.
    pub fn waits_no_longer(&self) {
        self.waits.set(false);
        self.crowd().pass_on();
    }

    /// Called when the connection leaves the crowd's queue because there is room. Wakes the task, and returns
    /// whether requests still wait.
    pub fn has_its_turn(&self) -> bool {
        self.is_queued.set(false);
        if self.waits.get() {
            self.look();
        }
        self.waits.get()
    }

    /// Stores the waker of the connection's task.
    pub fn wake_later(&self, cx: &Context<'_>) {
        let mut task = self.task.borrow_mut();
        if !task.as_ref().is_some_and(|known| known.will_wake(cx.waker())) {
            *task = Some(cx.waker().clone());
        }
    }

    fn look(&self) {
        if let Some(task) = &*self.task.borrow() {
            task.wake_by_ref();
        }
    }
}
