//! The endpoint's side of an exchange, independent of the version of HTTP.
//!
//! The exchange is generic over [`UpstreamSide`]. It is implemented by an HTTP/1 [`Connection`] here, and by
//! a stream of an HTTP/2 connection in `http2`. A side is taken from a [`Pool`], sends one request, reads the
//! response, and returns its connection to the pool.

use std::future::Future;
use std::io::IoSlice;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Instant;

use tollgate_http::h1::{BodyLength, BodyReader};
use tollgate_http::{HeadLimits, Method, ResponseHead};
use tollgate_net::ProxyHeader;
use tollgate_observe::Reason;
use tollgate_upstream::{Acquired, ConnectError, ConnectPermit, Connection, Pool};

use crate::exchange::drain_response::return_to_pool;
use crate::state::backlog::{Backlog, Sink};
use crate::state::client_side::Duplex;
use crate::state::peer_error::PeerError;
use crate::state::worker::Worker;
use crate::state::write_body::write_body;

/// The reason why there is no response head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoHead {
    /// The connection broke.
    Broken,
    /// The endpoint reset the request. The connection goes on, so it was not stale.
    Reset,
    /// The endpoint closed the connection without processing the request, which may be sent on another one.
    Unseen,
    /// The endpoint did not process the request and accepts none now.
    Refused,
    /// The head is not valid, or exceeds a limit.
    Bad(Reason),
}

/// A connection to an endpoint that is free, becomes free, or is opened.
pub(crate) trait OpenedConnection: Sized {
    /// A granted permit to open a connection.
    type ConnectPermit;

    /// Takes a free connection or stream that can carry a request now.
    fn take(pool: &Rc<Pool>, now: Instant) -> Option<Self>;

    /// Waits for a free connection, or for a permit to open one.
    fn wait_for_connection(
        pool: &Rc<Pool>,
    ) -> impl Future<Output = Result<Acquired<Self, Self::ConnectPermit>, ConnectError>>;

    /// Opens a connection. Returns `None` if other requests have taken all its streams, so that the caller
    /// must look for another. `client_header` names the client to the endpoint if the pool [requires
    /// that](Pool::uses_proxy_protocol).
    fn open(
        opening: Self::ConnectPermit,
        client_header: ProxyHeader,
    ) -> impl Future<Output = Result<Option<Self>, ConnectError>>;
}

/// The endpoint's side of an exchange: the destination of the request, and the source of the response. An
/// HTTP/1 connection is one, and so is a stream of an HTTP/2 connection.
///
/// It is a type parameter of the code that handles an endpoint, as
/// [`ClientSide`](crate::state::client_side::ClientSide) is for clients. The version of HTTP is decided once per
/// request, when its upstream is known.
pub(crate) trait UpstreamSide: Duplex + OpenedConnection {
    /// Whether the head, the body and the end of a response arrive separately, as in HTTP/2.
    const SEPARATE_HEADS: bool;

    /// Returns the pool that it belongs to.
    fn pool(&self) -> &Rc<Pool>;

    /// Returns whether its connection existed before the request, so that the endpoint may have closed it.
    fn is_reused(&self) -> bool;

    /// Returns whether its endpoint can switch a stream to another protocol. HTTP/1 always can.
    fn can_switch(&self) -> bool;

    /// Sends the request's head, followed by `data`, the first part of its body. The backlog keeps what is
    /// not taken. `spooled`: the backlog already holds the body, to be sent after the head. `secrets`: no
    /// field may enter a compression table. Returns whether something was sent.
    ///
    /// # Errors
    /// When the endpoint is gone, or if the request [cannot be expressed](PeerError::Unrepresentable) in
    /// its version of HTTP.
    fn send_head(
        &mut self,
        backlog: &mut Backlog,
        head: &mut Vec<u8>,
        body: &BodyReader,
        data: &[u8],
        spooled: bool,
        secrets: bool,
    ) -> Result<bool, PeerError>;

    /// Sends a part of the body and, when `body` is done, its end.
    ///
    /// # Errors
    /// When the endpoint is gone.
    fn send(
        &mut self,
        backlog: &mut Backlog,
        body: &BodyReader,
        chunked: bool,
        data: &[u8],
    ) -> Result<(), PeerError>;

    /// Sends what the backlog holds, and then the end that may follow it.
    fn poll_flush(&mut self, cx: &mut Context<'_>, backlog: &mut Backlog) -> Poll<Result<(), PeerError>>;

    /// Waits for a response head, if heads arrive separately.
    fn poll_head(
        &mut self,
        cx: &mut Context<'_>,
        response: &mut ResponseHead,
        request_method: Method,
        limits: &HeadLimits,
    ) -> Poll<Result<(), NoHead>>;

    /// Puts back a head. [`poll_head`](Self::poll_head) returns it again, after heads that were put back
    /// before.
    fn put_back(&mut self, head: ResponseHead);

    /// Returns the reader for a body with the length that the final head gives, and with trailers within
    /// these limits.
    fn reader(&self, length: BodyLength, limits: &HeadLimits) -> BodyReader;

    /// Takes the trailer lines that followed the response, if they arrive separately from the body.
    fn take_trailers(&mut self) -> Vec<u8>;

    /// Returns whether the endpoint forbade that one of the trailers enters a compression table. HTTP/1 has no table.
    #[inline]
    fn trailers_forbid_indexing(&self) -> bool {
        false
    }

    /// Reports that the response did not arrive in time.
    fn timed_out(&self);

    /// Called at the end of the response. `reusable`: the connection can carry another request.
    fn done(self, reusable: bool, now: Instant);

    /// Gives up the rest of the response. `body` is its reader, or `None` if the connection cannot be used
    /// again.
    fn discard(self, worker: &Rc<Worker>, body: Option<BodyReader>, now: Instant);
}

/// HTTP/1: the connection carries one exchange at a time, and each message marks its own end.
impl OpenedConnection for Connection {
    type ConnectPermit = ConnectPermit;

    #[inline]
    fn take(pool: &Rc<Pool>, now: Instant) -> Option<Self> {
        pool.take(now)
    }

    #[inline]
    async fn wait_for_connection(
        pool: &Rc<Pool>,
    ) -> Result<Acquired<Self, Self::ConnectPermit>, ConnectError> {
        pool.wait_for_connection().await
    }

    #[inline]
    async fn open(opening: ConnectPermit, client_header: ProxyHeader) -> Result<Option<Self>, ConnectError> {
        opening.connect(client_header).await.map(Some)
    }
}

impl UpstreamSide for Connection {
    const SEPARATE_HEADS: bool = false;

    #[inline]
    fn pool(&self) -> &Rc<Pool> {
        Connection::pool(self)
    }

    #[inline]
    fn is_reused(&self) -> bool {
        Connection::is_reused(self)
    }

    fn can_switch(&self) -> bool {
        true
    }

    #[inline]
    fn send_head(
        &mut self,
        backlog: &mut Backlog,
        head: &mut Vec<u8>,
        _: &BodyReader,
        data: &[u8],
        spooled: bool,
        _: bool,
    ) -> Result<bool, PeerError> {
        head.extend_from_slice(data);
        if spooled {
            // The head must precede the content of the spool, and so must not enter it.
            backlog.append(&[IoSlice::new(head)]);
            return Ok(false);
        }
        backlog.send(&mut self.stream, &[IoSlice::new(head)]).map(|()| true)
    }

    #[inline]
    fn send(
        &mut self,
        backlog: &mut Backlog,
        body: &BodyReader,
        chunked: bool,
        data: &[u8],
    ) -> Result<(), PeerError> {
        write_body(body, chunked, data, b"", |pieces| backlog.send(&mut self.stream, pieces)).map(drop)
    }

    #[inline]
    fn poll_flush(&mut self, cx: &mut Context<'_>, backlog: &mut Backlog) -> Poll<Result<(), PeerError>> {
        backlog.poll_flush(cx, &mut self.stream)
    }

    fn poll_head(
        &mut self,
        _: &mut Context<'_>,
        _: &mut ResponseHead,
        _: Method,
        _: &HeadLimits,
    ) -> Poll<Result<(), NoHead>> {
        // The head is among the bytes that `poll_read` returns.
        Poll::Ready(Err(NoHead::Broken))
    }

    fn put_back(&mut self, _: ResponseHead) {}

    #[inline]
    fn reader(&self, length: BodyLength, limits: &HeadLimits) -> BodyReader {
        BodyReader::for_response(length).with_trailer_limits(limits)
    }

    fn take_trailers(&mut self) -> Vec<u8> {
        Vec::new()
    }

    #[inline]
    fn timed_out(&self) {}

    #[inline]
    fn done(self, reusable: bool, now: Instant) {
        if reusable {
            Pool::put(self, now);
        }
    }

    fn discard(self, worker: &Rc<Worker>, body: Option<BodyReader>, now: Instant) {
        return_to_pool(worker, self, body, now);
    }
}

impl Sink for Connection {
    #[inline]
    fn write(&mut self, pieces: &[IoSlice<'_>]) -> Result<usize, PeerError> {
        self.stream.write(pieces).map_err(PeerError::Io)
    }

    #[inline]
    fn poll_write(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<Result<usize, PeerError>> {
        self.stream.poll_write(cx, bytes).map_err(PeerError::Io)
    }
}

impl Duplex for Connection {
    #[inline]
    fn poll_read(&mut self, cx: &mut Context<'_>, buffer: &mut [u8]) -> Poll<Result<usize, PeerError>> {
        self.stream.poll_read(cx, buffer).map_err(PeerError::Io)
    }

    fn poll_shutdown(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), PeerError>> {
        self.stream.poll_shutdown(cx).map_err(PeerError::Io)
    }

    fn reset(&mut self) {
        self.stream.reset_on_close();
    }
}
