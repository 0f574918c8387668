//! What the streams of a connection have in common.

use std::cell::{Cell, RefCell};
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Waker};
use std::time::Duration;

use tollgate_http2::Connection;
use tollgate_net::Negotiated;
use tollgate_plan::RouteStay;

use super::crowd::{Crowd, PIECES, SHARE};
use super::intake::Standing;
use crate::connection::Link;
use crate::worker::Worker;

/// Pieces of responses that a client has taken which is no longer new. Of responses of 20 KB, which come in three of them, two
/// sockets with the kernel's usual buffers take 18 that nobody reads; of smaller ones more, which cost less.
const KNOWN: usize = 32;

/// What the streams of a connection have in common.
#[derive(Debug)]
pub(crate) struct Shared {
    /// Its frames.
    pub connection: Connection,
    /// What TLS has agreed on; `None`: plain text.
    pub tls: Option<Negotiated>,
    /// The address that the client has connected to.
    pub local_address: Option<SocketAddr>,
    pub link: Link,
    /// Streams that live.
    streams: Cell<usize>,
    /// Pieces of responses that the client has taken: of a body, or the end of one without.
    taken: Cell<usize>,
    /// Those behind the first of each response that no window has cut.
    sent: Cell<usize>,
    /// Whether requests wait for room in the [`Crowd`].
    waits: Cell<bool>,
    /// Whether the crowd knows it, as one that waits or has waited.
    is_queued: Cell<bool>,
    /// How long the route of the last stream that ended keeps it, where that says so.
    stay: RefCell<Option<Arc<RouteStay>>>,
    /// Whether it gets old sooner than was known.
    has_aged: Cell<bool>,
    /// The connection's task, to look again when that may begin further streams, or the last one has ended.
    task: RefCell<Option<Waker>>,
}

impl Shared {
    pub fn new(
        connection: Connection,
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

    /// It carries a stream of a route that bounds its age.
    #[cold]
    pub fn grow_old(&self, stay: &RouteStay) {
        if self.link.grow_old(stay) {
            self.has_aged.set(true);
            self.look();
        }
    }

    /// Whether it gets old sooner than it was when this was asked last.
    pub fn has_aged(&self) -> bool {
        self.has_aged.take()
    }

    /// A stream ends whose route keeps the connection for so long.
    pub fn keeps_as(&self, stay: Option<Arc<RouteStay>>) {
        let mut last = self.stay.borrow_mut();
        if stay.is_some() || last.is_some() {
            *last = stay;
        }
    }

    /// How long it may be without a stream.
    pub fn idle(&self) -> Option<Duration> {
        let own = self.stay.borrow().as_ref().and_then(|stay| stay.idle);
        own.unwrap_or(self.link.listener.idle)
    }

    /// A piece of a response has gone.
    pub fn piece_taken(&self) {
        self.taken.set(self.taken.get() + 1);
        if self.waits.get() && self.taken.get().is_multiple_of(PIECES) {
            self.look();
        }
    }

    /// A piece of a response has gone as it came, behind the first one: no window has cut it, which the client could have
    /// opened by a byte only to have more of them.
    pub fn piece_sent(&self) {
        self.sent.set(self.sent.get() + 1);
    }

    /// How many such pieces have.
    pub fn pieces_sent(&self) -> usize {
        self.sent.get()
    }

    /// Whether no stream lives.
    pub fn is_idle(&self) -> bool {
        self.streams.get() == 0
    }

    /// What is known of the client.
    pub fn client(&self) -> Standing {
        match self.taken.get() {
            0 => Standing::Stranger,
            1..KNOWN => Standing::New,
            _ => Standing::Known,
        }
    }

    /// Whether it may begin one more stream.
    pub fn may_begin(&self) -> bool {
        let earned = if self.connection.is_behind() { 0 } else { self.taken.get() / PIECES };
        self.crowd().has_room() || self.streams.get() < SHARE + earned
    }

    /// Has requests that it may not begin now.
    pub fn wait(self: &Rc<Self>) {
        self.waits.set(true);
        if !self.is_queued.replace(true) {
            self.crowd().wait(self);
        }
    }

    /// Has no such requests any longer. Who was told of room and needs none lets the next one have it.
    pub fn waits_no_longer(&self) {
        self.waits.set(false);
        self.crowd().pass_on();
    }

    /// There is room in the crowd, which does not know it any longer. Whether it still waits for that.
    pub fn has_its_turn(&self) -> bool {
        self.is_queued.set(false);
        if self.waits.get() {
            self.look();
        }
        self.waits.get()
    }

    /// The connection's task is to be woken.
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
