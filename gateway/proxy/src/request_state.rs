//! The state that one request needs while it is handled, borrowed from the worker.
//!
//! A connection takes a [`RequestStateGuard`] of a [`RequestState`] when a request starts, and returns it
//! when the connection is idle. A guard that is dropped also closes the request's record, so every request is
//! recorded, even after a panic.

use std::ops::{Deref, DerefMut};
use std::rc::Rc;

use tollgate_http::h1::BodyReader;
use tollgate_http::{RequestHead, ResponseHead};
use tollgate_policy::Context;

use crate::backlog::Backlog;
use crate::forward::{ErrorPage, FallingBack};
use crate::grpc::Grpc;
use crate::pace::Paces;
use crate::record::RequestRecord;
use crate::websocket::Frames;
use crate::worker::Worker;

/// A buffer that grew larger is shrunk to this size when the request state is returned.
const KEEP_BYTES: usize = 16 * 1024;

/// The heads, buffers and record of one request. It is reused, so that a request allocates nothing.
#[derive(Debug, Default)]
pub(crate) struct RequestState {
    pub request: RequestHead,
    pub response: ResponseHead,
    /// The path in normal form, if that differs from the path as sent; see [`crate::decide`].
    pub path: Vec<u8>,
    /// The path that goes upstream, if a rewrite has changed it.
    pub rewritten: Vec<u8>,
    /// Bytes from the client that are not used yet: a part of a head, of a body, or the next request.
    pub inbox: Vec<u8>,
    /// The reader for the rest of a body that the gateway skips; see [`crate::skip_body`]. Boxed, since few
    /// requests have one.
    pub unread: Option<Box<BodyReader>>,
    /// A response head that has arrived in part.
    pub partial: Vec<u8>,
    /// The line that gives the client its sticky cookie; empty if there is none.
    pub set_cookie: Vec<u8>,
    /// The state that the request's policies need later. Boxed: a request without policies pays for a null
    /// pointer.
    pub policy_context: Option<Box<Context>>,
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
    pub record: RequestRecord,
}

impl RequestState {
    /// Returns the page that is requested in place of an error, if there is one.
    #[inline]
    pub fn page(&self) -> Option<&ErrorPage> {
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
        self.policy_context = None;
        self.unread = None;
        self.fallback = None;
        self.to_upstream.clear();
        self.to_client.clear();
    }
}

/// A borrowed request state. However the exchange ends, also by a panic or the end of its task, dropping the
/// guard closes the record and returns the state.
#[derive(Debug)]
pub(crate) struct RequestStateGuard {
    worker: Rc<Worker>,
    state: Option<Box<RequestState>>,
}

impl RequestStateGuard {
    pub fn new(worker: &Rc<Worker>) -> Self {
        let kept = worker.request_states.take();
        Self { worker: worker.clone(), state: Some(kept.unwrap_or_default()) }
    }
}

impl Deref for RequestStateGuard {
    type Target = RequestState;

    fn deref(&self) -> &RequestState {
        self.state.as_deref().expect("a guard has its state until it is dropped")
    }
}

impl DerefMut for RequestStateGuard {
    fn deref_mut(&mut self) -> &mut RequestState {
        self.state.as_deref_mut().expect("a guard has its state until it is dropped")
    }
}

impl Drop for RequestStateGuard {
    fn drop(&mut self) {
        let Some(mut state) = self.state.take() else { return };
        crate::record::close_abandoned(&self.worker, &mut state);
        state.next_request();
        state.inbox.clear();
        for buffer in [&mut state.inbox, &mut state.partial, &mut state.path, &mut state.rewritten] {
            buffer.shrink_to(KEEP_BYTES);
        }
        state.request.shrink_to(KEEP_BYTES);
        state.response.shrink_to(KEEP_BYTES);
        if !std::thread::panicking() && self.worker.request_states.put(state) {
            self.worker.shrink_later();
        }
    }
}
