//! A connection that is being opened, for all requests that wait for it.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use super::STREAMS_MAX;
use super::connection::Http2Connection;
use crate::ConnectError;

/// A connection that is being opened. No request owns it, so any of the requests that wait for it may leave.
#[derive(Debug, Default)]
pub(super) struct Opening {
    /// How many requests wait for it.
    waiters: Cell<usize>,
    wakers: RefCell<Vec<Waker>>,
    result: RefCell<Option<Result<Rc<Http2Connection>, ConnectError>>>,
    task: RefCell<Option<Waker>>,
}

impl Opening {
    /// Returns how many requests wait for it.
    pub fn waiters(&self) -> usize {
        self.waiters.get()
    }

    /// Whether one more request may wait for it, because the connection will have capacity.
    pub fn has_capacity(&self) -> bool {
        self.waiters.get() < STREAMS_MAX
    }

    /// Adds a request that waits for it.
    pub fn join(&self) {
        self.waiters.set(self.waiters.get() + 1);
    }

    /// Removes a request that waited for it. Wakes the task that opens it if no other waits.
    pub fn leave(&self) {
        self.waiters.set(self.waiters.get() - 1);
        if self.waiters.get() == 0
            && let Some(task) = self.task.borrow_mut().take()
        {
            task.wake();
        }
    }

    /// Polls whether no request waits for it now, so that opening it is useless.
    pub fn poll_unneeded(&self, cx: &Context<'_>) -> Poll<()> {
        if self.waiters.get() == 0 {
            return Poll::Ready(());
        }
        *self.task.borrow_mut() = Some(cx.waker().clone());
        Poll::Pending
    }

    /// Polls for the open connection, or for the error.
    pub fn poll_result(&self, cx: &Context<'_>) -> Poll<Result<Rc<Http2Connection>, ConnectError>> {
        if let Some(result) = &*self.result.borrow() {
            return Poll::Ready(result.clone());
        }
        let mut waiting = self.wakers.borrow_mut();
        if !waiting.iter().any(|known| known.will_wake(cx.waker())) {
            waiting.push(cx.waker().clone());
        }
        Poll::Pending
    }

    /// Returns the connection, if it was opened.
    pub fn connection(&self) -> Option<Rc<Http2Connection>> {
        self.result.borrow().as_ref().and_then(|result| result.as_ref().ok().cloned())
    }

    /// Stores the result and wakes the requests in order, so that the first one gets the first stream.
    pub fn finish(&self, result: Result<Rc<Http2Connection>, ConnectError>) {
        *self.result.borrow_mut() = Some(result);
        self.wakers.take().into_iter().for_each(Waker::wake);
    }
}
