//! A copy of a request that waits for its body. [`mirrors`](super::mirrors) creates it; the client's side
//! feeds it the body's bytes as they are read.

use super::tee::{Tee, TeeProgress};

/// A copy that waits for the rest of its body.
pub(super) struct PendingCopy {
    pub tee: Tee,
    pub send: Box<dyn FnOnce(Vec<u8>)>,
}

impl PendingCopy {
    /// Takes bytes that were read. Returns the copy again if more are needed.
    pub fn take(self, read: &[u8]) -> Option<Self> {
        let Self { mut tee, send } = self;
        match tee.take(read) {
            TeeProgress::More => return Some(Self { tee, send }),
            TeeProgress::Whole(body) => send(body),
            TeeProgress::Begin(_) | TeeProgress::GivenUp(_) => {}
        }
        None
    }
}
