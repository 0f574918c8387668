//! The state that a connection's task and its streams share.
//!
//! It counts the open streams, and the pieces of responses that the client has taken. These decide how far
//! the client is trusted (`ConnectionState::client`) and whether it may start one more stream
//! (`ConnectionState::may_start_stream`).

pub(crate) mod stream_limit;

use std::cell::{Cell, RefCell};
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Waker};
use std::time::Duration;

use tollgate_http2::ServerConnection;
use tollgate_net::Negotiated;
use tollgate_plan::RouteStay;

use self::stream_limit::{PIECES_PER_STREAM, SHARE_STREAMS, StreamLimit};
use crate::front::scheduler::EndedConnection;
use crate::front::scheduler::frame_budget::ClientTrust;
use crate::state::client::ConnectionContext;
use crate::state::worker::Worker;

/// Pieces of responses after which a client is trusted. The kernel's usual buffers of two sockets take 18
/// pieces of unread 20 KB responses, which come in three pieces each. They take more pieces of smaller
/// responses, but those cost less.
const TRUSTED_PIECES: usize = 32;

/// The state that a connection's task and its streams share.
#[derive(Debug)]
pub(crate) struct ConnectionState {
    /// Frames, HPACK and flow control.
    pub connection: ServerConnection,
    /// The result of the TLS handshake; `None` for plain text.
    pub tls: Option<Negotiated>,
    /// The address that the client connected to.
    pub local_address: Option<SocketAddr>,
    pub connection_context: ConnectionContext,
    /// The limit on streams of the worker.
    stream_limit: Rc<StreamLimit>,
    /// Open streams.
    streams: Cell<usize>,
    /// Pieces of responses that the client has taken. A piece is a part of a body, or the end of a response
    /// without a body.
    taken: Cell<usize>,
    /// Pieces after the first of each response that no window cut short.
    sent: Cell<usize>,
    /// Whether requests of this connection wait for room in the [`StreamLimit`].
    waits: Cell<bool>,
    /// Whether the limit's queue holds this connection, even if it waits no longer.
    is_queued: Cell<bool>,
    /// How long the route of the last stream that ended keeps the connection, if that route sets it.
    stay: RefCell<Option<Arc<RouteStay>>>,
    /// Whether the connection's age limit was brought forward since the task last asked.
    has_aged: Cell<bool>,
    /// The waker of the connection's task. It runs when the connection may start further streams, or when the
    /// last stream ends.
    task: RefCell<Option<Waker>>,
}

impl ConnectionState {
    pub fn new(
        connection: ServerConnection,
        connection_context: ConnectionContext,
        stream_limit: Rc<StreamLimit>,
        tls: Option<Negotiated>,
        local_address: Option<SocketAddr>,
    ) -> Rc<Self> {
        Rc::new(Self {
            connection,
            tls,
            local_address,
            connection_context,
            stream_limit,
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
        self.connection_context.worker()
    }

    pub fn stream_began(&self) {
        self.streams.set(self.streams.get() + 1);
        self.stream_limit.stream_began();
    }

    pub fn stream_ended(&self) {
        self.streams.set(self.streams.get() - 1);
        if self.streams.get() == 0 || self.waits.get() {
            self.wake_task();
        }
        self.stream_limit.stream_ended();
    }

    /// Shortens the connection's age limit for a stream whose route sets one.
    #[cold]
    pub fn shorten_age_limit(&self, stay: &RouteStay) {
        if self.connection_context.shorten_age_limit(stay) {
            self.has_aged.set(true);
            self.wake_task();
        }
    }

    /// Returns whether the age limit was brought forward since the last call.
    pub fn has_aged(&self) -> bool {
        self.has_aged.take()
    }

    /// Records how long the route of a stream that ends keeps the connection.
    pub fn set_idle_from(&self, stay: Option<Arc<RouteStay>>) {
        let mut last = self.stay.borrow_mut();
        if stay.is_some() || last.is_some() {
            *last = stay;
        }
    }

    /// Returns how long the connection may be without a stream; `None` is without limit.
    pub fn idle(&self) -> Option<Duration> {
        let own = self.stay.borrow().as_ref().and_then(|stay| stay.idle);
        own.unwrap_or(self.connection_context.listener.idle)
    }

    /// Counts a piece of a response that the client took.
    pub fn piece_taken(&self) {
        self.taken.set(self.taken.get() + 1);
        if self.waits.get() && self.taken.get().is_multiple_of(PIECES_PER_STREAM) {
            self.wake_task();
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
    pub fn client(&self) -> ClientTrust {
        match self.taken.get() {
            0 => ClientTrust::Untested,
            1..TRUSTED_PIECES => ClientTrust::New,
            _ => ClientTrust::Trusted,
        }
    }

    /// Returns whether the connection may start one more stream.
    pub fn may_start_stream(&self) -> bool {
        let earned = if self.connection.is_slow_reader() { 0 } else { self.taken.get() / PIECES_PER_STREAM };
        self.stream_limit.has_room() || self.streams.get() < SHARE_STREAMS + earned
    }

    /// Marks that requests wait that the connection may not start now, and queues it.
    pub fn wait(self: &Rc<Self>) {
        self.waits.set(true);
        if !self.is_queued.replace(true) {
            self.stream_limit.wait(self);
        }
    }

    /// Marks that no requests wait. If the limit has room that this connection does not use, the next one
    /// gets it.
    pub fn stop_waiting(&self) {
        self.waits.set(false);
        self.stream_limit.wake_next();
    }

    /// Called when the connection leaves the limit's queue because there is room. Wakes the task, and returns
    /// whether requests still wait.
    pub fn leave_queue(&self) -> bool {
        self.is_queued.set(false);
        if self.waits.get() {
            self.wake_task();
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

    fn wake_task(&self) {
        if let Some(task) = &*self.task.borrow() {
            task.wake_by_ref();
        }
    }
}

impl EndedConnection for ConnectionState {
    fn notify_streams(&self, max_count: usize) -> usize {
        self.connection.wake_ended_streams(max_count)
    }
}
