//! The state that one request needs while it is handled, borrowed from the worker.
//!
//! A connection takes a [`RequestState`] in a [guard](crate::state::request_guard) when a request starts, and
//! returns it when the connection is idle.

use std::time::Duration;

use tollgate_http::h1::BodyReader;
use tollgate_http::{RequestHead, ResponseHead};
use tollgate_policy::Context;

use crate::state::backlog::Backlog;
use crate::state::client_side::ClientStream;
use crate::state::fallback_state::{ErrorPage, FallbackState};
use crate::state::grpc_call::GrpcCall;
use crate::state::pace::Paces;
use crate::state::record::RequestRecord;
use crate::state::websocket::Frames;

/// The heads, buffers and record of one request. It is reused, so that a request allocates nothing.
#[derive(Debug, Default)]
pub(crate) struct RequestState {
    pub request: RequestHead,
    /// The number of the router that finds its route, in the plan that it is served by.
    pub router: u32,
    pub response: ResponseHead,
    /// The path in normal form, if that differs from the path as sent; see [`crate::front::decide`].
    pub path: Vec<u8>,
    /// The path that goes upstream, if a rewrite has changed it.
    pub rewritten: Vec<u8>,
    /// Bytes from the client that are not used yet: a part of a head, of a body, or the next request.
    pub inbox: Vec<u8>,
    /// The reader for the rest of a body that the gateway skips; see [`crate::exchange::skip_body`]. Boxed, since few
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
    /// [`ClientStream::may_be_grpc`]: crate::state::client_side::ClientStream::may_be_grpc
    pub grpc: Option<GrpcCall>,
    /// The parser's position in WebSocket frames that followed the head of the 101 at once.
    pub early_frames: Frames,
    /// The transfer rates of the client in the current exchange. They are here because an exchange is moved
    /// and this is not.
    pub paces: Paces,
    /// The fallback that replaces an error. Boxed: a request without one pays for a null pointer.
    pub fallback: Option<Box<FallbackState>>,
    pub to_client: Backlog,
    pub to_upstream: Backlog,
    pub record: RequestRecord,
}

impl RequestState {
    /// Returns whether the client's own deadline ends the request before `total`, the route's limit. Such an end
    /// says nothing about the endpoint or its connection.
    pub fn is_deadline_clients(&self, stream: &impl ClientStream, total: Option<Duration>) -> bool {
        stream.may_be_grpc() && self.grpc.is_some_and(|grpc| grpc.is_sooner(total))
    }

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
