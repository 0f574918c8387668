//! The limit on streams of all HTTP/2 connections of a worker.
//!
//! Below `CROWD` streams any connection may start another one. Above it, each connection has a share, and
//! further requests wait in a queue. The connection's task asks `Shared::may_begin` before it starts a
//! stream.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::{Rc, Weak};

use super::shared::Shared;

/// How many streams the worker serves before each connection is restricted to `SHARE` streams, plus one for
/// every `PIECES` pieces of responses that its client has taken. A client that keeps its windows at zero
/// takes none. A client that does not read takes none either, beyond what the kernel buffers. Requests beyond
/// the share wait. A stream in progress occupies 9 KiB, one whose response is not taken 17 KiB, and a waiting
/// one 0.9 KiB.
const CROWD: usize = 1024;
pub(super) const SHARE: usize = 2;
pub(super) const PIECES: usize = 8;

/// Counts the open streams of a worker, and queues the connections that wait until there are fewer.
#[derive(Debug, Default)]
pub(crate) struct Crowd {
    streams: Cell<usize>,
    /// In queue order, each connection once. Some may have closed or have nothing waiting any more.
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

    /// Queues a connection that is not in the queue yet.
    pub(super) fn wait(&self, connection: &Rc<Shared>) {
        self.waiting.borrow_mut().push_back(Rc::downgrade(connection));
    }

    /// Wakes the next waiting connection if there is room. If that has more requests than it may start, it
    /// joins the queue again at the end.
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
