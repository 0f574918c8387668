//! The handle of a connection for the task that reads and writes its socket.
//!
//! The proxy's connection task passes received bytes to [`Connection::receive`], takes requests with
//! [`Connection::next`], and writes with [`Connection::poll_write`]. The counters tell it when a client
//! misuses the protocol. The handle and all [`Stream`]s share one `Core`.

use std::cell::RefCell;
use std::io;
use std::rc::Rc;
use std::task::{Context, Poll};

use crate::core::Core;
use crate::fields::Fields;
use crate::reason::Reason;
use crate::settings::Settings;
use crate::stream::Stream;
use crate::totals::Totals;

/// A request whose head was received.
#[derive(Debug)]
pub struct Begun {
    /// The stream on which to answer it.
    pub stream: Stream,
    /// The fields of the request's head, pseudo-header fields included.
    pub fields: Fields,
}

/// The handle of a connection for the task that reads and writes its socket.
#[derive(Debug)]
pub struct Connection {
    core: Rc<RefCell<Core>>,
}

impl Connection {
    /// Starts a connection. `totals` is shared with the other connections of the worker.
    #[must_use]
    pub fn new(settings: Settings, totals: &Totals) -> Self {
        Self { core: Rc::new(RefCell::new(Core::new(settings, totals))) }
    }

    /// Parses received bytes until the [extra weight](Connection::extra_weight) has grown by `most`. Returns
    /// how many bytes it consumed; the caller passes the rest again later. Returns 0 only after the end of
    /// the connection.
    #[must_use]
    pub fn receive(&self, bytes: &[u8], most: u64) -> usize {
        self.core.borrow_mut().receive(bytes, most)
    }

    /// Takes the next request from the queue of received requests.
    #[must_use]
    pub fn next(&self) -> Option<Begun> {
        let core = &mut *self.core.borrow_mut();
        let (key, fields) = core.take_up()?;
        Some(Begun { stream: Stream::new(self.core.clone(), key), fields })
    }

    /// Whether received requests wait for [`Connection::next`].
    #[must_use]
    pub fn has_next(&self) -> bool {
        !self.core.borrow().new.is_empty()
    }

    /// Bytes of memory that the fields of queued requests take: their heads, and trailers that have already
    /// arrived.
    #[must_use]
    pub fn held(&self) -> usize {
        self.core.borrow().held.own()
    }

    /// The same for all connections that share the totals.
    #[must_use]
    pub fn held_by_all(&self) -> usize {
        self.core.borrow().held.all()
    }

    /// Whether the client's SETTINGS frame was received. Until then every other frame is an error.
    #[must_use]
    pub fn is_greeted(&self) -> bool {
        self.core.borrow().greeted
    }

    /// How many streams were reset before the caller took them from the queue.
    #[must_use]
    pub fn stillborn(&self) -> u64 {
        self.core.borrow().stillborn
    }

    /// How many streams were refused because too many were open at once, or because they depended on
    /// themselves.
    #[must_use]
    pub fn refused(&self) -> u64 {
        self.core.borrow().refused
    }

    /// CPU cost of the frames received so far beyond their size, expressed in bytes of body. Heads and
    /// SETTINGS cost far more than copying their bytes.
    #[must_use]
    pub fn extra_weight(&self) -> u64 {
        self.core.borrow().extra
    }

    /// How many DATA frames arrived for streams that are closed or were reset; they are discarded.
    #[must_use]
    pub fn unwanted(&self) -> u64 {
        self.core.borrow().unwanted
    }

    /// Whether the client reads slowly: more than 8 KiB wait to be written.
    #[must_use]
    pub fn is_behind(&self) -> bool {
        self.core.borrow().gate.is_behind()
    }

    /// Whether the output buffer is full. The caller then reads no more from the client, because any frame
    /// may need a reply.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.core.borrow().gate.is_full()
    }

    /// Writes the output buffer by calling `write`, which returns how many bytes the socket accepted.
    ///
    /// # Errors
    /// Errors of `write`; `WriteZero` if it accepts nothing.
    pub fn poll_write(
        &self,
        mut write: impl FnMut(&[u8]) -> Poll<io::Result<usize>>,
    ) -> Poll<io::Result<()>> {
        let core = &mut *self.core.borrow_mut();
        while core.unwritten() > 0 {
            match write(&core.out[core.written..]) {
                Poll::Ready(Ok(0)) => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                Poll::Ready(Ok(count)) => core.has_written(count),
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                Poll::Pending => return Poll::Pending,
            }
        }
        Poll::Ready(Ok(()))
    }

    /// Registers the task to be woken when there is something to write.
    pub fn wait(&self, cx: &Context<'_>) {
        self.core.borrow_mut().wait(cx);
    }

    /// Sends GOAWAY: the client should open no more streams. Streams that it opens before it receives that
    /// are still served.
    pub fn say_goodbye(&self) {
        self.core.borrow_mut().say_goodbye();
    }

    /// Ends the grace period after [`Connection::say_goodbye`]: streams that the client opens from now on are
    /// ignored. Without this bound, a client that ignores GOAWAY could send requests without limit.
    pub fn close_goodbye(&self) {
        self.core.borrow_mut().goodbye_is_known();
    }

    /// Ends the connection: sends GOAWAY with the reason and reads nothing more. [`Connection::tell_of_end`]
    /// wakes the streams.
    pub fn end(&self, reason: Reason) {
        self.core.borrow_mut().end(reason);
    }

    /// Marks the connection as lost: nothing is read or written from now on. [`Connection::tell_of_end`]
    /// wakes the streams.
    pub fn cut(&self) {
        let core = &mut *self.core.borrow_mut();
        core.cut();
        core.forget_unwritten();
    }

    /// Wakes at most `most` streams that were waiting when the connection ended. Returns how many it woke;
    /// fewer than `most` means that none is left. The wake-ups are spread out because each ended request
    /// costs a connection to an endpoint, and other work waits while a hundred are ended.
    #[must_use]
    pub fn tell_of_end(&self, most: usize) -> usize {
        self.core.borrow_mut().tell_of_end(most)
    }

    /// The reason why the connection ended, if it has.
    #[must_use]
    pub fn ended(&self) -> Option<Reason> {
        self.core.borrow().ended
    }

    /// Whether the connection is finished: the client can open no more streams, none is open, and everything
    /// was written.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.core.borrow().is_over()
    }
}
