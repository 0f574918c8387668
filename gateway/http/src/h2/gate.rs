//! What a connection has been given to send and has not sent.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use bytes::Buf;

/// Bytes of bodies that one connection may have waiting for its socket, all streams together. The library's own bound is
/// one of each stream.
const MOST: usize = 128 * 1024;
/// Bytes that all connections of a worker may have waiting before each may have no more than `FEW`: thousands whose peers
/// read nothing are thousands of times what one may have.
const CROWD: usize = 8 * 1024 * 1024;
const FEW: usize = 16 * 1024;

/// Counts what a connection has been given to send and has not sent. A client that opens its windows wide and reads
/// nothing could else have the gateway keep a window's worth for each of its streams.
#[derive(Debug, Default)]
pub struct Gate {
    waiting_bytes: Cell<usize>,
    /// Of all connections that share it.
    all: Rc<Cell<usize>>,
    tasks: RefCell<Vec<Waker>>,
}

impl Gate {
    /// Of a connection among others: `all` counts what waits for any of them.
    #[must_use]
    pub fn among(all: Rc<Cell<usize>>) -> Self {
        Self { all, ..Self::default() }
    }

    /// Bytes that may be given to it now.
    #[must_use]
    pub fn room(&self) -> usize {
        self.most().saturating_sub(self.waiting_bytes.get())
    }

    fn most(&self) -> usize {
        if self.all.get() < CROWD { MOST } else { FEW }
    }

    /// Whether the peer has left much of what was sent unread.
    #[must_use]
    pub fn is_behind(&self) -> bool {
        self.waiting_bytes.get() > FEW / 2
    }

    /// Waits until there is room.
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
        self.all.set(self.all.get() - bytes);
        if self.room() > self.most() / 2 {
            self.tasks.borrow_mut().drain(..).for_each(Waker::wake);
        }
    }
}

/// Some data on its way, counted for as long as it lives: until it is written, or its stream is gone.
#[derive(Debug)]
pub struct Chunk {
    bytes: Vec<u8>,
    at: usize,
    gate: Option<Rc<Gate>>,
}

impl Chunk {
    /// Of no bytes: for an end that comes after all data.
    #[must_use]
    pub fn empty() -> Self {
        Self { bytes: Vec::new(), at: 0, gate: None }
    }

    /// Of bytes for which there is room.
    #[must_use]
    pub fn new(gate: &Rc<Gate>, bytes: Vec<u8>) -> Self {
        gate.waiting_bytes.set(gate.waiting_bytes.get() + bytes.len());
        gate.all.set(gate.all.get() + bytes.len());
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

    #[test]
    fn in_a_crowd_each_has_less() {
        let all = Rc::<Cell<usize>>::default();
        let gates: Vec<_> = (0..CROWD / MOST).map(|_| Rc::new(Gate::among(all.clone()))).collect();
        let waiting: Vec<_> = gates.iter().map(|gate| Chunk::new(gate, vec![1; gate.room()])).collect();
        let late = Rc::new(Gate::among(all.clone()));
        assert_eq!((all.get(), late.room()), (CROWD, FEW));
        let waker = Waker::from(Arc::new(Task));
        let mut cx = Context::from_waker(&waker);
        assert!(gates[0].poll_room(&mut cx).is_pending());
        let few = Chunk::new(&late, vec![1; FEW]);
        assert!(late.poll_room(&mut cx).is_pending());
        drop(few);
        assert_eq!((late.room(), late.tasks.borrow().len()), (FEW, 0));
        drop(waiting);
        assert_eq!((all.get(), late.room(), gates[0].room()), (0, MOST, MOST));
    }
}
