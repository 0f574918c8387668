//! The limit on streams of all HTTP/2 connections of a worker.
//!
//! Below `UNRESTRICTED_STREAMS` streams any connection may start another one. Above it, each connection has a
//! share, and further requests wait in a queue. The connection's task asks
//! `ConnectionState::may_start_stream` before it starts a stream.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::{Rc, Weak};

use super::ConnectionState;

/// How many streams the worker serves before each connection is restricted to `SHARE_STREAMS` streams, plus
/// one for every `PIECES_PER_STREAM` pieces of responses that its client has taken. A client that keeps its
/// windows at zero takes none. A client that does not read takes none either, beyond what the kernel buffers.
/// Requests beyond the share wait. A stream in progress occupies 9 KiB, one whose response is not taken 17
/// KiB, and a waiting one 0.9 KiB.
const UNRESTRICTED_STREAMS: usize = 1024;
pub(super) const SHARE_STREAMS: usize = 2;
pub(super) const PIECES_PER_STREAM: usize = 8;

/// Counts the open streams of a worker, and queues the connections that wait until there are fewer.
#[derive(Debug, Default)]
pub(crate) struct StreamLimit {
    streams: Cell<usize>,
    /// In queue order, each connection once. Some may have closed or have nothing waiting any more.
    waiting: RefCell<VecDeque<Weak<ConnectionState>>>,
}

impl StreamLimit {
    pub(super) fn stream_began(&self) {
        self.streams.set(self.streams.get() + 1);
    }

    pub(super) fn stream_ended(&self) {
        self.streams.set(self.streams.get() - 1);
        self.wake_next();
    }

    pub(super) fn has_room(&self) -> bool {
        self.streams.get() < UNRESTRICTED_STREAMS
    }

    /// Queues a connection that is not in the queue yet.
    pub(super) fn wait(&self, connection: &Rc<ConnectionState>) {
        self.waiting.borrow_mut().push_back(Rc::downgrade(connection));
    }

    /// Wakes the next waiting connection if there is room. If that has more requests than it may start, it
    /// joins the queue again at the end.
    pub(super) fn wake_next(&self) {
        while self.has_room()
            && let Some(next) = self.waiting.borrow_mut().pop_front()
        {
            if next.upgrade().is_some_and(|next| next.leave_queue()) {
                return;
            }
        }
    }
}
