//! The state that one request needs while it is handled, borrowed from the worker.
//!
//! A connection takes a [`Loan`] of a [`Scratch`] when a request starts, and returns it when the connection
//! is idle. A loan that is dropped also closes the request's record, so every request is recorded, even after
//! a panic.

use std::ops::{Deref, DerefMut};
use std::rc::Rc;

use tollgate_http::h1::BodyReader;
use tollgate_http::{RequestHead, ResponseHead};
use tollgate_policy::Context;

use crate::backlog::Backlog;
use crate::forward::{FallingBack, Page};
use crate::grpc::Grpc;
use crate::ledger::Ledger;
use crate::pace::Paces;
use crate::websocket::Frames;
use crate::worker::Worker;

/// A buffer that grew larger is shrunk to this size when the scratch is returned.
const KEEP_BYTES: usize = 16 * 1024;

/// The heads, buffers and record of one request. It is reused, so that a request allocates nothing.
#[derive(Debug, Default)]
pub(crate) struct Scratch {
    pub request: RequestHead,
    pub response: ResponseHead,
    /// The path in normal form, if that differs from the path as sent; see [`crate::decide`].
    pub path: Vec<u8>,
    /// The path that goes upstream, if a rewrite has changed it.
    pub rewritten: Vec<u8>,
    /// Bytes from the client that are not used yet: a part of a head, of a body, or the next request.
    pub inbox: Vec<u8>,
    /// The reader for the rest of a body that the gateway skips; see [`crate::pass_over`]. Boxed, since few
    /// requests have one.
    pub unread: Option<Box<BodyReader>>,
    /// A response head that has arrived in part.
    pub partial: Vec<u8>,
    /// The line that gives the client its sticky cookie; empty if there is none.
    pub set_cookie: Vec<u8>,
    /// The state that the request's policies need later. Boxed: a request without policies pays for a null
    /// pointer.
    pub met: Option<Box<Context>>,
    /// The gRPC call, if the request is one. Only client sides that may carry calls read or set it: see
    /// [`ClientStream::may_be_grpc`].
    ///
    /// [`ClientStream::may_be_grpc`]: crate::client_side::ClientStream::may_be_grpc
    pub grpc: Option<Grpc>,
    /// The parser's position in WebSocket frames that followed the head of the 101 at once.
    pub early_frames: Frames,
    /// The transfer rates of the client in the current exchange. They are here because an exchange is moved
    /// and this is not.
    pub paces: Paces,
    /// The fallback that replaces an error. Boxed: a request without one pays for a null pointer.
    pub fallback: Option<Box<FallingBack>>,
    pub to_client: Backlog,
    pub to_upstream: Backlog,
    pub ledger: Ledger,
}

impl Scratch {
    /// Returns the page that is requested in place of an error, if there is one.
    #[inline]
    pub fn page(&self) -> Option<&Page> {
        self.fallback.as_ref().and_then(|falling| falling.page())
    }

    /// Prepares it for the next request of the same connection.
    pub fn next_request(&mut self) {
        self.request.clear();
        self.response.clear();
        self.path.clear();
        self.rewritten.clear();
        self.partial.clear();
        self.set_cookie.clear();
        self.met = None;
        self.unread = None;
        self.fallback = None;
        self.to_upstream.clear();
        self.to_client.clear();
    }
}

/// A borrowed scratch. However the exchange ends, also by a panic or the end of its task, dropping the loan
/// closes the record and returns the scratch.
#[derive(Debug)]
pub(crate) struct Loan {
    worker: Rc<Worker>,
    scratch: Option<Box<Scratch>>,
}

impl Loan {
    pub fn new(worker: &Rc<Worker>) -> Self {
        let kept = worker.scratches.take();
        Self { worker: worker.clone(), scratch: Some(kept.unwrap_or_default()) }
    }
}

impl Deref for Loan {
    type Target = Scratch;

    fn deref(&self) -> &Scratch {
        self.scratch.as_deref().expect("a loan has its scratch until it is dropped")
    }
}

impl DerefMut for Loan {
    fn deref_mut(&mut self) -> &mut Scratch {
        self.scratch.as_deref_mut().expect("a loan has its scratch until it is dropped")
    }
}

impl Drop for Loan {
    fn drop(&mut self) {
        let Some(mut scratch) = self.scratch.take() else { return };
        crate::ledger::close_abandoned(&self.worker, &mut scratch);
        scratch.next_request();
        scratch.inbox.clear();
        for buffer in [&mut scratch.inbox, &mut scratch.partial, &mut scratch.path, &mut scratch.rewritten] {
            buffer.shrink_to(KEEP_BYTES);
        }
        scratch.request.shrink_to(KEEP_BYTES);
        scratch.response.shrink_to(KEEP_BYTES);
        if !std::thread::panicking() && self.worker.scratches.put(scratch) {
            self.worker.tidy_later();
        }
    }
}
