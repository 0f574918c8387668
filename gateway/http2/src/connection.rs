//! A connection as the task sees it that reads and writes.

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

/// A request that has begun.
#[derive(Debug)]
pub struct Begun {
    /// Its stream.
    pub stream: Stream,
    /// The fields of its head.
    pub fields: Fields,
}

/// A connection as the task sees it that reads and writes.
#[derive(Debug)]
pub struct Connection {
    core: Rc<RefCell<Core>>,
}

impl Connection {
    /// One that begins now, beside all others that share the totals.
    #[must_use]
    pub fn new(settings: Settings, totals: &Totals) -> Self {
        Self { core: Rc::new(RefCell::new(Core::new(settings, totals))) }
    }

    /// Takes in what came, up to where the [extra weight](Connection::extra_weight) has grown by `most`: the rest is to come again.
    /// Says how many bytes it took: none only once the connection has ended.
    #[must_use]
    pub fn receive(&self, bytes: &[u8], most: u64) -> usize {
        self.core.borrow_mut().receive(bytes, most)
    }

    /// The next request that has begun.
    #[must_use]
    pub fn next(&self) -> Option<Begun> {
        let core = &mut *self.core.borrow_mut();
        let (key, fields) = core.take_up()?;
        Some(Begun { stream: Stream::new(self.core.clone(), key), fields })
    }

    /// Whether requests have begun that were not taken up.
    #[must_use]
    pub fn has_next(&self) -> bool {
        !self.core.borrow().new.is_empty()
    }

    /// Bytes of the heads, and of trailers, of requests that were not taken up, as they are in memory.
    #[must_use]
    pub fn held(&self) -> usize {
        self.core.borrow().held.own()
    }

    /// The same of all connections that share the totals.
    #[must_use]
    pub fn held_by_all(&self) -> usize {
        self.core.borrow().held.all()
    }

    /// Whether the client's SETTINGS have come, without which nothing begins.
    #[must_use]
    pub fn is_greeted(&self) -> bool {
        self.core.borrow().greeted
    }

    /// Streams that were gone before they were taken up.
    #[must_use]
    pub fn stillborn(&self) -> u64 {
        self.core.borrow().stillborn
    }

    /// Streams that were not begun, since there were as many as there may be at once.
    #[must_use]
    pub fn refused(&self) -> u64 {
        self.core.borrow().refused
    }

    /// As how many bytes of bodies, beside its own, what has come weighs: frames that cost far more than to copy them.
    #[must_use]
    pub fn extra_weight(&self) -> u64 {
        self.core.borrow().extra
    }

    /// Frames of DATA that came for streams that are gone, or were reset: nobody reads them.
    #[must_use]
    pub fn unwanted(&self) -> u64 {
        self.core.borrow().unwanted
    }

    /// Whether the client has left much of what was sent unread.
    #[must_use]
    pub fn is_behind(&self) -> bool {
        self.core.borrow().gate.is_behind()
    }

    /// Whether so much waits to be written that nothing more is to be read: what comes could want more of it.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.core.borrow().gate.is_full()
    }

    /// Writes what waits by `write`, which says how much of it has gone.
    ///
    /// # Errors
    /// Those of `write`.
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

    /// Has the task woken when something is to be written.
    pub fn wait(&self, cx: &Context<'_>) {
        self.core.borrow_mut().wait(cx);
    }

    /// The client is to send no more requests.
    pub fn say_goodbye(&self) {
        self.core.borrow_mut().say_goodbye();
    }

    /// The client has had its time to hear the goodbye: what it asks for from now on is not taken. Who was told and goes on
    /// asking could have any number of requests otherwise.
    pub fn close_goodbye(&self) {
        self.core.borrow_mut().goodbye_is_known();
    }

    /// Ends it: the client is told why, and nothing more is read. Streams hear of it by [`Connection::tell_of_end`].
    pub fn end(&self, reason: Reason) {
        self.core.borrow_mut().end(reason);
    }

    /// Nothing comes or goes any longer. Streams hear of it by [`Connection::tell_of_end`].
    pub fn cut(&self) {
        let core = &mut *self.core.borrow_mut();
        core.cut();
        core.forget_unwritten();
    }

    /// Has so many streams at most look again that wait for something and were ended with the connection. Says how many:
    /// fewer, if these were the last. To end a request costs its connection to an endpoint, and others wait while a hundred
    /// are ended.
    #[must_use]
    pub fn tell_of_end(&self, most: usize) -> usize {
        self.core.borrow_mut().tell_of_end(most)
    }

    /// Why it has ended, if it has.
    #[must_use]
    pub fn ended(&self) -> Option<Reason> {
        self.core.borrow().ended
    }

    /// Whether no further request can come, none is there, and all was written.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.core.borrow().is_over()
    }
}
