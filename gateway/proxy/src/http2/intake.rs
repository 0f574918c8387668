//! How much of what a connection sends is taken in, and when others have their turn.

use std::cell::Cell;
use std::future::Future;
use std::pin::pin;
use std::task::Context;

/// Requests that are taken up: a hundred of them can come in one read.
const REQUESTS: usize = 16;
/// Bytes that are read: heads of many fields cost as much as many requests.
pub(super) const BYTES: usize = 64 * 1024;
/// Bytes of heads that may wait, as they are in memory: those of some hundred requests of browsers.
pub(super) const HELD: usize = 128 * 1024;

/// What the socket of a connection and its task have to know of each other: how much was taken in since others had their
/// turn, whether a request was ever begun, and whether the meter has had enough. A worker's tasks run one after the other,
/// and hundreds of connections that each have much to say make a good one wait for all of them.
#[derive(Debug, Default)]
pub(super) struct Intake {
    requests: Cell<usize>,
    bytes: Cell<usize>,
    has_begun: Cell<bool>,
    exhausted: Cell<bool>,
}

impl Intake {
    /// It is this connection's turn again.
    pub fn turn(&self) {
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

    /// The connection costs more than it is worth: nothing more is taken in.
    pub fn exhaust(&self) {
        self.exhausted.set(true);
    }

    /// Whether the connection is to be ended.
    pub fn is_exhausted(&self) -> bool {
        self.exhausted.get()
    }

    /// A request was taken up.
    pub fn request(&self) {
        self.requests.set(self.requests.get() + 1);
    }

    /// Bytes were read.
    pub fn read(&self, count: usize) {
        self.bytes.set(self.bytes.get() + count);
    }

    /// Whether its turn is over: so, the task is woken when the others have had theirs.
    pub fn is_turn_over(&self, cx: &mut Context<'_>) -> bool {
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
