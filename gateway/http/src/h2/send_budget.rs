//! Bounds the bytes that a connection to an HTTP/2 endpoint has accepted and not sent.
//!
//! The upstream crate wraps each piece of a request body in a [`BudgetedData`], which the h2 library drops
//! once the piece is written. A [`SendBudget`] sums the chunks of a connection, and pauses its streams at the
//! limit.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use bytes::Buf;

/// Most bytes of bodies that may wait for the socket of one connection, all streams together. The h2 library
/// limits only each stream.
const LIMIT_BYTES: usize = 128 * 1024;

/// Counts the bytes that a connection to an endpoint has accepted and not sent. Without this bound, an
/// endpoint that opens large windows and reads nothing could make the gateway buffer a full window for each
/// stream.
#[derive(Debug, Default)]
pub struct SendBudget {
    waiting_bytes: Cell<usize>,
    tasks: RefCell<Vec<Waker>>,
}

impl SendBudget {
    /// Bytes that the connection accepts now.
    #[must_use]
    pub fn available(&self) -> usize {
        LIMIT_BYTES.saturating_sub(self.waiting_bytes.get())
    }

    /// Waits until the connection accepts bytes. Returns how many.
    pub fn poll_available(&self, cx: &mut Context<'_>) -> Poll<usize> {
        let room = self.available();
        if room > 0 {
            return Poll::Ready(room);
        }
        let mut tasks = self.tasks.borrow_mut();
        if !tasks.iter().any(|known| known.will_wake(cx.waker())) {
            tasks.push(cx.waker().clone());
        }
        Poll::Pending
    }

    fn release(&self, bytes: usize) {
        self.waiting_bytes.set(self.waiting_bytes.get() - bytes);
        if self.available() > LIMIT_BYTES / 2 {
            self.tasks.borrow_mut().drain(..).for_each(Waker::wake);
        }
    }
}

/// Data in flight to an endpoint. It counts until it is dropped, after it was written or its stream was
/// closed.
#[derive(Debug)]
pub struct BudgetedData {
    bytes: Vec<u8>,
    at: usize,
    budget: Option<Rc<SendBudget>>,
}

impl BudgetedData {
    /// Creates a chunk without data, for an end of stream that follows all data.
    #[must_use]
    pub fn empty() -> Self {
        Self { bytes: Vec::new(), at: 0, budget: None }
    }

    /// Creates a chunk of `bytes`, for which the budget must have room.
    #[must_use]
    pub fn new(budget: &Rc<SendBudget>, bytes: Vec<u8>) -> Self {
        budget.waiting_bytes.set(budget.waiting_bytes.get() + bytes.len());
        Self { bytes, at: 0, budget: Some(budget.clone()) }
    }
}

impl Drop for BudgetedData {
    fn drop(&mut self) {
        if let Some(budget) = &self.budget {
            budget.release(self.bytes.len());
        }
    }
}

impl Buf for BudgetedData {
    fn remaining(&self) -> usize {
        self.bytes.len() - self.at
    }

    fn chunk(&self) -> &[u8] {
        &self.bytes[self.at..]
    }

    fn advance(&mut self, count: usize) {
        self.at = (self.at + count).min(self.bytes.len());
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::task::Wake;

    use super::*;

    struct Task;

    impl Wake for Task {
        fn wake(self: Arc<Self>) {}
    }

    #[test]
    fn it_opens_when_enough_is_sent() {
        let budget = Rc::new(SendBudget::default());
        let waker = Waker::from(Arc::new(Task));
        let mut cx = Context::from_waker(&waker);
        assert_eq!(budget.poll_available(&mut cx), Poll::Ready(LIMIT_BYTES));
        let mut first = BudgetedData::new(&budget, vec![1; LIMIT_BYTES - 1]);
        assert_eq!(budget.poll_available(&mut cx), Poll::Ready(1));
        let second = BudgetedData::new(&budget, vec![2]);
        assert!(budget.poll_available(&mut cx).is_pending());
        assert!(budget.poll_available(&mut cx).is_pending());
        assert_eq!(budget.tasks.borrow().len(), 1, "a task waits once");
        first.advance(LIMIT_BYTES - 2);
        assert_eq!((first.remaining(), first.chunk()), (1, &[1][..]));
        drop(second);
        assert_eq!((budget.available(), budget.tasks.borrow().len()), (1, 1));
        drop(first);
        assert_eq!((budget.available(), budget.tasks.borrow().len()), (LIMIT_BYTES, 0));
    }
}
