//! The client's side of an exchange, independent of the version of HTTP.
//!
//! The exchange is generic over [`ClientSide`]. It is implemented by an HTTP/1 connection (`Stream`), a
//! stream of an HTTP/2 connection ([`Http2Stream`](crate::front::http2)), the wrapper of [`policy`](crate::policy),
//! and others that translate bodies.

use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::task::{Context, Poll};

use tollgate_http::h1::BodyReader;
use tollgate_http::{RequestHead, ResponseHead};
use tollgate_net::{Negotiated, Stream};
use tollgate_plan::RouteStay;
use tollgate_policy::Transform;

use crate::state::backlog::{Backlog, Sink};
use crate::state::peer_error::PeerError;
use crate::state::write_body::write_body;

/// Data up to this length is copied behind the head and sent with a plain write; more is sent with a vectored
/// write.
const COPY: usize = 8 * 1024;

/// A peer that can be read and written, and whose directions end separately: what a tunnel needs.
pub(crate) trait Duplex: Sink {
    /// Reads once into `buffer`; 0 is the end of the peer's direction.
    fn poll_read(&mut self, cx: &mut Context<'_>, buffer: &mut [u8]) -> Poll<Result<usize, PeerError>>;

    /// Ends the gateway's direction. Reading goes on.
    fn poll_shutdown(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), PeerError>>;

    /// Makes the peer see a reset instead of an orderly end, because the bytes for it were cut. A connection is reset
    /// when it is closed, a stream of HTTP/2 at once. Nothing is read or written after this.
    fn reset(&mut self);
}

/// The client's side of an exchange: the source of the request's body, and the destination of the response.
/// An HTTP/1 connection is one, and so is a stream of an HTTP/2 connection.
///
/// It is a type parameter of the code that handles a client, so HTTP/1 code never checks the version at run
/// time. Heads are passed as HTTP/1 lines, the form that the message model holds; they are validated before.
pub(crate) trait ClientSide: ClientStream {
    /// Whether a request can ask to switch its own stream to another protocol (RFC 8441).
    const EXTENDED: bool;

    /// Whether this client wraps another one for its [policies](crate::policy), which the request has then
    /// passed.
    const WRAPS_CLIENT: bool = false;
}

/// The operations of a client's side. Unlike [`ClientSide`], this trait is usable as a trait object.
pub(crate) trait ClientStream: Duplex {
    /// Takes the trailer lines that followed the request body, if they arrive separately from it.
    fn take_trailers(&mut self) -> Vec<u8>;

    /// Waits until the client has left, so that it takes no response. With `half_close`, a client that ends
    /// its direction has not left. Reads nothing.
    fn poll_peer_closed(&mut self, cx: &mut Context<'_>, half_close: bool) -> Poll<()>;

    /// Waits until it makes sense to read more of the response. Returns the most bytes to read, because the
    /// backlog must keep what the client does not take.
    fn poll_room(&mut self, cx: &mut Context<'_>) -> Poll<usize>;

    /// Returns whether the client may send data now. It may not while the window of its connection is shut.
    fn may_send(&self) -> bool {
        true
    }

    /// Returns how many bytes of the response to read while [`poll_room`](Self::poll_room) is pending and the
    /// backlog is empty. 0 if this version of HTTP cannot end a response without further data.
    fn read_ahead(&self) -> usize {
        0
    }

    /// Sends an interim head. The backlog keeps what is not taken.
    ///
    /// # Errors
    /// When the client is gone.
    fn interim(&mut self, backlog: &mut Backlog, head: &[u8]) -> Result<(), PeerError>;

    /// Sends the head of a response that switches protocols, followed by the first bytes of the new protocol.
    ///
    /// # Errors
    /// When the client is gone.
    fn switch(&mut self, backlog: &mut Backlog, head: &[u8], bytes: &[u8]) -> Result<(), PeerError>;

    /// Called with the endpoint's final response before anything of it is sent, unless it replaces an error.
    fn endpoint_responds(&mut self, _: &RequestHead, _: &ResponseHead) {}

    /// Returns the status of the response that the client gets of an endpoint's response with this status.
    #[inline(always)]
    fn status_for_client(&self, status: u16) -> u16 {
        status
    }

    /// Returns whether the client gets nothing of this response, so that its policies must not act on it.
    #[inline(always)]
    fn is_withheld(&self) -> bool {
        false
    }

    /// Adapts the head of a final response to the client. The response may be an upstream's or the gateway's
    /// own.
    fn translate(&mut self, _: &mut Vec<u8>) {}

    /// Sends a part of the final response: its head, some data and, when `body` is done, its end. The head is
    /// [translated](Self::translate), may be appended to, and is empty if it was sent before. `chunked`: data
    /// is sent in chunks, if the version has them. The backlog keeps what is not taken.
    ///
    /// # Errors
    /// When the client is gone, or if the disk refuses a buffered body.
    fn respond(
        &mut self,
        backlog: &mut Backlog,
        head: &mut Vec<u8>,
        body: &BodyReader,
        chunked: bool,
        data: &[u8],
    ) -> Result<(), PeerError>;

    /// As [`respond`](Self::respond), but leaves all that can wait to the backlog, which the caller flushes: the rate of
    /// the response is limited.
    ///
    /// # Errors
    /// As `respond`.
    fn hold(
        &mut self,
        backlog: &mut Backlog,
        head: &mut Vec<u8>,
        body: &BodyReader,
        chunked: bool,
        data: &[u8],
    ) -> Result<(), PeerError> {
        self.respond(backlog, head, body, chunked, data)
    }

    /// Returns whether the limit of its rate delays the response now, so that the client is not waited for.
    #[inline(always)]
    fn is_response_paced(&self) -> bool {
        false
    }

    /// Returns whether the limit of its rate delays the request's body now, so that the client is not waited for.
    #[inline(always)]
    fn is_request_paced(&self) -> bool {
        false
    }

    /// Returns whether such a delay has started or ended since the last call, so that the timeout of the wait must be
    /// set again.
    #[inline(always)]
    fn pacing_changed(&mut self) -> bool {
        false
    }

    /// Announces that the next [`respond`](Self::respond) ends the response, and that the connection is closed right
    /// after it.
    fn close_follows(&mut self) {}

    /// Returns whether [`Self::poll_send_file`] works: the body must reach the client as the bytes of the file.
    fn can_send_file(&self) -> bool {
        false
    }

    /// Sends a part of the response's body from a file, after the backlog is empty. Sends fewer bytes if the client
    /// takes no more, and 0 at the end of the file.
    ///
    /// # Errors
    /// When the client is gone, if the file cannot be read, or if this side cannot do it.
    fn poll_send_file(
        &mut self,
        _: &mut Context<'_>,
        _: BorrowedFd<'_>,
        _offset: u64,
        _count: usize,
    ) -> Poll<Result<usize, PeerError>> {
        Poll::Ready(Err(io::ErrorKind::Unsupported.into()))
    }

    /// Queues a whole response in the backlog, which the caller flushes.
    ///
    /// # Errors
    /// When the client is gone.
    fn answer(&mut self, backlog: &mut Backlog, head: &[u8], body: &[u8]) -> Result<(), PeerError>;

    /// Called for a request whose route bounds the connection's life. HTTP/1 needs nothing here: it has one
    /// request at a time, and its [`ConnectionContext`](crate::state::client::ConnectionContext) is updated.
    fn limit_connection_age(&mut self, _: &Arc<RouteStay>) {}

    /// Sends no field of the response in a form that enters a compression table, because the endpoint forbade
    /// it for one field. HTTP/1 has no table.
    fn forbid_indexing(&mut self) {}

    /// Returns the result of its connection's TLS handshake; `None` for plain text.
    fn tls(&self) -> Option<&Negotiated>;

    /// Returns the address that its connection was opened to, if that is known.
    fn local_address(&self) -> Option<SocketAddr>;

    /// Returns whether its requests may be gRPC calls, so that
    /// [`RequestState::grpc`](crate::state::request_state::RequestState::grpc) is valid. A constant for each type,
    /// so HTTP/1 is compiled without any gRPC code.
    fn may_be_grpc(&self) -> bool;

    /// Returns the slot for a transform of the response's body; `None` if this client's side cannot transform
    /// it.
    fn transform(&mut self) -> Option<&mut Option<Box<dyn Transform>>> {
        None
    }
}

impl Duplex for Stream {
    #[inline]
    fn poll_read(&mut self, cx: &mut Context<'_>, buffer: &mut [u8]) -> Poll<Result<usize, PeerError>> {
        Stream::poll_read(self, cx, buffer).map_err(PeerError::Io)
    }

    fn poll_shutdown(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), PeerError>> {
        Stream::poll_shutdown(self, cx).map_err(PeerError::Io)
    }

    fn reset(&mut self) {
        self.reset_on_close();
    }
}

impl ClientSide for Stream {
    const EXTENDED: bool = false;
}

/// HTTP/1: the connection carries one exchange at a time, and each message marks its own end.
impl ClientStream for Stream {
    fn switch(&mut self, backlog: &mut Backlog, head: &[u8], bytes: &[u8]) -> Result<(), PeerError> {
        backlog.send(self, &[IoSlice::new(head), IoSlice::new(bytes)])
    }

    fn take_trailers(&mut self) -> Vec<u8> {
        Vec::new()
    }

    #[inline]
    fn poll_peer_closed(&mut self, cx: &mut Context<'_>, half_close: bool) -> Poll<()> {
        Stream::poll_peer_closed(self, cx, half_close)
    }

    #[inline]
    fn poll_room(&mut self, _: &mut Context<'_>) -> Poll<usize> {
        Poll::Ready(usize::MAX)
    }

    fn interim(&mut self, backlog: &mut Backlog, head: &[u8]) -> Result<(), PeerError> {
        backlog.send(self, &[IoSlice::new(head)])
    }

    #[inline]
    fn respond(
        &mut self,
        backlog: &mut Backlog,
        head: &mut Vec<u8>,
        body: &BodyReader,
        chunked: bool,
        data: &[u8],
    ) -> Result<(), PeerError> {
        let plain_copy = !chunked && !head.is_empty() && data.len() <= COPY;
        if plain_copy {
            head.extend_from_slice(data);
        }
        let data = if plain_copy { b"" } else { data };
        write_body(body, chunked, data, head, |pieces| backlog.send(self, pieces)).map(drop)
    }

    fn hold(
        &mut self,
        backlog: &mut Backlog,
        head: &mut Vec<u8>,
        body: &BodyReader,
        chunked: bool,
        data: &[u8],
    ) -> Result<(), PeerError> {
        let keep = |pieces: &[IoSlice<'_>]| pieces.iter().try_for_each(|piece| backlog.keep(piece));
        write_body(body, chunked, data, head, keep).map(drop)
    }

    #[inline]
    fn close_follows(&mut self) {
        Stream::close_follows(self);
    }

    fn can_send_file(&self) -> bool {
        Stream::can_send_file(self)
    }

    fn poll_send_file(
        &mut self,
        cx: &mut Context<'_>,
        file: BorrowedFd<'_>,
        offset: u64,
        count: usize,
    ) -> Poll<Result<usize, PeerError>> {
        Stream::poll_send_file(self, cx, file, offset, count).map_err(PeerError::Io)
    }

    fn answer(&mut self, backlog: &mut Backlog, head: &[u8], body: &[u8]) -> Result<(), PeerError> {
        backlog.append(&[IoSlice::new(head), IoSlice::new(body)]);
        Ok(())
    }

    #[inline]
    fn tls(&self) -> Option<&Negotiated> {
        Stream::tls(self)
    }

    fn local_address(&self) -> Option<SocketAddr> {
        Stream::local_address(self)
    }

    #[inline(always)]
    fn may_be_grpc(&self) -> bool {
        false
    }
}
