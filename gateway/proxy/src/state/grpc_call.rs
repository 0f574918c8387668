//! The gRPC call that a request is.

use std::time::Duration;

use tollgate_http::grpc::{GrpcKind, timeout};
use tollgate_http::{Name, RequestHead};

/// A gRPC call: an HTTP/2 request whose `content-type` is gRPC's.
#[derive(Clone, Copy, Debug)]
pub(crate) struct GrpcCall {
    /// The time that the client waits, from the start of the request.
    pub timeout: Option<Duration>,
}

impl GrpcCall {
    /// Returns the call if the request is one.
    pub fn of(request: &RequestHead) -> Option<Self> {
        let kind = request.head.get(Name::ContentType).and_then(GrpcKind::of);
        (kind == Some(GrpcKind::Native)).then(|| Self::new(request))
    }

    /// Returns the call of a request that is known to be one.
    pub fn new(request: &RequestHead) -> Self {
        // A malformed timeout goes on: the endpoint refuses it.
        Self { timeout: request.head.get_by_text(b"grpc-timeout").and_then(timeout::parse) }
    }

    /// Returns whether the client's deadline comes before this time limit of the gateway.
    pub fn is_sooner(&self, total: Option<Duration>) -> bool {
        self.timeout.is_some_and(|timeout| total.is_none_or(|total| timeout < total))
    }
}
