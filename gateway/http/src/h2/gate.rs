//! Bounds the bytes that a connection to an HTTP/2 endpoint has accepted and not sent.
//!
//! The upstream crate wraps each piece of a request body in a [`Chunk`], which the h2 library drops once the
//! piece is written. A [`Gate`] sums the chunks of a connection, and pauses its streams at the limit.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use bytes::Buf;

/// Most bytes of bodies that may wait for the socket of one connection, all streams together. The h2 library
/// limits only each stream.
const MOST: usize = 128 * 1024;

/// Counts the bytes that a connection to an endpoint has accepted and not sent. Without this bound, an
/// endpoint that opens large windows and reads nothing could make the gateway buffer a full window for each
/// stream.
#[derive(Debug, Default)]
pub struct Gate {
    waiting_bytes: Cell<usize>,
    tasks: RefCell<Vec<Waker>>,
}

impl Gate {
    /// Bytes that the connection accepts now.
    #[must_use]
    pub fn room(&self) -> usize {
        MOST.saturating_sub(self.waiting_bytes.get())
    }

    /// Waits until the connection accepts bytes. Returns how many.
    pub fn poll_room(&self, cx: &mut Context<'_>) -> Poll<usize> {
        let room = self.room();
        if room > 0 {
            return Poll::Ready(room);
        }
        let mut tasks = self.tasks.borrow_mut();
        if !tasks.iter().any(|known| known.will_wake(cx.waker())) {
            tasks.push(cx.waker().clone());
        }
        Poll::Pending
    }

    fn sent(&self, bytes: usize) {
        self.waiting_bytes.set(self.waiting_bytes.get() - bytes);
        if self.room() > MOST / 2 {
            self.tasks.borrow_mut().drain(..).for_each(Waker::wake);
        }
    }
}

/// Data in flight to an endpoint. It counts until it is dropped, after it was written or its stream was
/// closed.
#[derive(Debug)]
pub struct Chunk {
    bytes: Vec<u8>,
    at: usize,
    gate: Option<Rc<Gate>>,
}

impl Chunk {
    /// Creates a chunk without data, for an end of stream that follows all data.
    #[must_use]
    pub fn empty() -> Self {
        Self { bytes: Vec::new(), at: 0, gate: None }
    }

    /// Creates a chunk of `bytes`, for which the gate must have room.
    #[must_use]
    pub fn new(gate: &Rc<Gate>, bytes: Vec<u8>) -> Self {
        gate.waiting_bytes.set(gate.waiting_bytes.get() + bytes.len());
        Self { bytes, at: 0, gate: Some(gate.clone()) }
    }
}

impl Drop for Chunk {
    fn drop(&mut self) {
        if let Some(gate) = &self.gate {
            gate.sent(self.bytes.len());
        }
    }
}

impl Buf for Chunk {
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
        let gate = Rc::new(Gate::default());
        let waker = Waker::from(Arc::new(Task));
        let mut cx = Context::from_waker(&waker);
        assert_eq!(gate.poll_room(&mut cx), Poll::Ready(MOST));
        let mut first = Chunk::new(&gate, vec![1; MOST - 1]);
        assert_eq!(gate.poll_room(&mut cx), Poll::Ready(1));
        let second = Chunk::new(&gate, vec![2]);
        assert!(gate.poll_room(&mut cx).is_pending());
        assert!(gate.poll_room(&mut cx).is_pending());
        assert_eq!(gate.tasks.borrow().len(), 1, "a task waits once");
        first.advance(MOST - 2);
        assert_eq!((first.remaining(), first.chunk()), (1, &[1][..]));
        drop(second);
        assert_eq!((gate.room(), gate.tasks.borrow().len()), (1, 1));
        drop(first);
        assert_eq!((gate.room(), gate.tasks.borrow().len()), (MOST, 0));
    }
}
