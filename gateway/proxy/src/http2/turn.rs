//! How much a connection may do before others have their turn.

use std::cell::Cell;
use std::future::Future;
use std::pin::pin;
use std::task::Context;

/// Requests that are taken up: a hundred of them can come in one read.
const REQUESTS: usize = 16;
/// Bytes that are read: heads of many fields cost as much as many requests.
const BYTES: usize = 64 * 1024;

/// How much a connection has done since others had their turn. A worker's tasks run one after the other, and hundreds of
/// connections that each have much to say make a good one wait for all of them.
#[derive(Debug, Default)]
pub(super) struct Turn {
    requests: Cell<usize>,
    bytes: Cell<usize>,
    has_begun: Cell<bool>,
}

impl Turn {
    /// It is this connection's again.
    pub fn begin(&self) {
        self.requests.set(0);
        self.bytes.set(0);
    }

    /// A request of the connection is begun.
    pub fn request_begins(&self) {
        self.has_begun.set(true);
    }

    /// Whether a request of the connection was ever begun.
    pub fn has_begun(&self) -> bool {
        self.has_begun.get()
    }

    /// A request was taken up.
    pub fn request(&self) {
        self.requests.set(self.requests.get() + 1);
    }

    /// Bytes were read.
    pub fn read(&self, count: usize) {
        self.bytes.set(self.bytes.get() + count);
    }

    /// Whether it is over: so, the task is woken when the others have had theirs.
    pub fn is_over(&self, cx: &mut Context<'_>) -> bool {
        let over = self.requests.get() >= REQUESTS || self.bytes.get() >= BYTES;
        if over {
            after_others(cx);
        }
        over
    }
}

/// Has the task woken when the others have had their turn, and the kernel was asked what has come meanwhile.
pub(super) fn after_others(cx: &mut Context<'_>) {
    let _ = pin!(tollgate_net::yield_now()).poll(cx);
}
