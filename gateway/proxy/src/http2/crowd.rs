//! Streams of all connections of a worker: past a bound, who may begin further ones, and who waits.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::{Rc, Weak};

use super::shared::Shared;

/// Streams of all connections of a worker, past which a connection begins no more of them than its `SHARE`, and one for
/// every so many `PIECES` of responses that it has taken: who opens windows of nothing takes none, nor does whoever leaves
/// unread what was sent, past what the kernel takes. What it asks for beyond that waits: a stream under way keeps 9 KiB,
/// one whose response is not taken 17, one that waits 0.9.
const CROWD: usize = 1024;
pub(super) const SHARE: usize = 2;
pub(super) const PIECES: usize = 8;

/// The streams of a worker that live, and the connections whose further ones wait until there are fewer.
#[derive(Debug, Default)]
pub(crate) struct Crowd {
    streams: Cell<usize>,
    /// In the order in which they are to have their turn, each once. Some have gone, or wait no longer.
    waiting: RefCell<VecDeque<Weak<Shared>>>,
}

impl Crowd {
    pub(super) fn stream_began(&self) {
        self.streams.set(self.streams.get() + 1);
    }

    pub(super) fn stream_ended(&self) {
        self.streams.set(self.streams.get() - 1);
        self.pass_on();
    }

    pub(super) fn has_room(&self) -> bool {
        self.streams.get() < CROWD
    }

    /// A connection waits that has not waited yet.
    pub(super) fn wait(&self, connection: &Rc<Shared>) {
        self.waiting.borrow_mut().push_back(Rc::downgrade(connection));
    }

    /// If there is room, the next one is told. It comes back to the end of the queue with what it still has.
    pub(super) fn pass_on(&self) {
        while self.has_room()
            && let Some(next) = self.waiting.borrow_mut().pop_front()
        {
            if next.upgrade().is_some_and(|next| next.has_its_turn()) {
                return;
            }
        }
    }
}
