//! The client's side of an exchange, whatever version of HTTP it speaks.

use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::sync::Arc;
use std::task::{Context, Poll};

use tollgate_http::h1::{BodyError, BodyReader};
use tollgate_net::{Negotiated, Stream};
use tollgate_observe::Reason;
use tollgate_plan::RouteStay;
use tollgate_policy::Transform;

use crate::backlog::{Backlog, Sink};
use crate::write_body::write_body;

/// Data up to this length is copied behind the head and goes out with a plain write; more goes with a gathering one.
const COPY: usize = 8 * 1024;

/// What can be read and written, and whose writing has an end of its own: all that a tunnel needs.
pub(crate) trait Duplex: Sink {
    /// Reads once into `buffer`; 0 is the end of the peer's direction.
    fn poll_read(&mut self, cx: &mut Context<'_>, buffer: &mut [u8]) -> Poll<io::Result<usize>>;

    /// Ends the gateway's direction; reading goes on.
    fn poll_shutdown(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>>;
}

/// The client's side of an exchange: whence the request's body comes, and where the response goes. An HTTP/1 connection
/// is one, and so is a stream of an HTTP/2 connection.
///
/// It is a type parameter of all that deals with a client, so that HTTP/1's code asks nowhere which version it is.
/// Heads come as the lines of HTTP/1, which is what the message model holds; what they may say is decided before.
pub(crate) trait ClientSide: ClientStream {
    /// Whether a request can be for its own stream to be switched to another protocol (RFC 8441).
    const EXTENDED: bool;

    /// Whether the request is carried for its [policies](crate::policy), and has met them.
    const POLICED: bool = false;
}

/// What can be asked of a client's side whichever it is.
pub(crate) trait ClientStream: Duplex {
    /// The trailer lines that came with the end of the client's direction, where they come apart from the body.
    fn take_trailers(&mut self) -> Vec<u8>;

    /// Waits until the client has left, so that it takes no answer. With `half_close` a client that ends its direction has not
    /// left. Reads nothing.
    fn poll_gone(&mut self, cx: &mut Context<'_>, half_close: bool) -> Poll<()>;

    /// Waits until it makes sense to read more of the response, and says how many bytes of it at most: what the client
    /// does not let through has to be kept.
    fn poll_room(&mut self, cx: &mut Context<'_>) -> Poll<usize>;

    /// Whether the client may send data now: not while the window of its connection is shut.
    fn may_send(&self) -> bool {
        true
    }

    /// Bytes of the response to read while [`poll_room`](Self::poll_room) is pending and the backlog is empty. 0 if the end of the
    /// response has no form without data before it.
    fn read_ahead(&self) -> usize {
        0
    }

    /// Sends an interim head; what is not taken goes into the backlog.
    ///
    /// # Errors
    /// When the client is gone.
    fn interim(&mut self, backlog: &mut Backlog, head: &[u8]) -> io::Result<()>;

    /// Sends the head of a response that switches protocols, and behind it the first bytes of the new one.
    ///
    /// # Errors
    /// When the client is gone.
    fn switch(&mut self, backlog: &mut Backlog, head: &[u8], bytes: &[u8]) -> io::Result<()>;

    /// Makes the head of a final response, an upstream's or the gateway's own, what the client understands.
    fn translate(&mut self, _: &mut Vec<u8>) {}

    /// Sends a part of the final response: its head, [translated](Self::translate), which may be added to, or nothing of it
    /// if that has gone; some data; and, when `body` is done, what ends it. `chunked`: data goes in chunks, in a version that
    /// has them. What is not taken goes into the backlog.
    ///
    /// # Errors
    /// When the client is gone, or the disk refuses a buffered body.
    fn respond(
        &mut self,
        backlog: &mut Backlog,
        head: &mut Vec<u8>,
        body: &BodyReader,
        chunked: bool,
        data: &[u8],
    ) -> io::Result<()>;

    /// The same with a whole response, which waits in the backlog until that is flushed.
    ///
    /// # Errors
    /// When the client is gone.
    fn answer(&mut self, backlog: &mut Backlog, head: &[u8], body: &[u8]) -> io::Result<()>;

    /// Its request is of a route that says how long the connection stays. HTTP/1 has one request at a time, whose link knows.
    fn stays(&mut self, _: &Arc<RouteStay>) {}

    /// What its TLS connection has agreed on; `None`: plain text.
    fn tls(&self) -> Option<&Negotiated>;

    /// The address that its connection was opened to, if that is known.
    fn local_address(&self) -> Option<SocketAddr>;

    /// Whether a request of it may be a gRPC call, so that [`Scratch::grpc`](crate::scratch::Scratch::grpc) says which it is.
    /// A constant, so that HTTP/1 is compiled as if there were no gRPC.
    fn may_be_grpc(&self) -> bool;

    /// Where that is put which makes another body of the response's; nothing: here it stays what it is.
    fn transform(&mut self) -> Option<&mut Option<Box<dyn Transform>>> {
        None
    }

    /// Which of its route's upstreams the request was found to go to by its policies, by number.
    fn share(&self) -> Option<usize> {
        None
    }
}

/// What it is called when a part of a request's body could not be read.
#[cold]
pub(crate) fn unread(error: &io::Error) -> Reason {
    if let Some(Unfit(reason)) = unfit(error) {
        return *reason;
    }
    match error.kind() {
        io::ErrorKind::InvalidData => Reason::BadChunk,
        io::ErrorKind::UnexpectedEof => Reason::IncompleteRequest,
        _ => Reason::ClientClosed,
    }
}

/// The reason for a request's body or trailers that break the grammar or a limit.
#[cold]
pub(crate) fn broken_body(error: BodyError) -> Reason {
    match error {
        BodyError::Chunk => Reason::BadChunk,
        BodyError::Trailers => Reason::TrailersTooLarge,
    }
}

/// A body that a policy cannot transform, or that must not be passed on, and the reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Unfit(pub Reason);

/// The body is at fault, not the connection.
pub(crate) fn unfit(error: &io::Error) -> Option<&Unfit> {
    error.get_ref()?.downcast_ref()
}

impl From<Unfit> for io::Error {
    fn from(unfit: Unfit) -> Self {
        io::Error::new(io::ErrorKind::InvalidData, unfit)
    }
}

impl std::fmt::Display for Unfit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.0.as_str())
    }
}

impl std::error::Error for Unfit {}

impl Duplex for Stream {
    #[inline]
    fn poll_read(&mut self, cx: &mut Context<'_>, buffer: &mut [u8]) -> Poll<io::Result<usize>> {
        Stream::poll_read(self, cx, buffer)
    }

    fn poll_shutdown(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Stream::poll_shutdown(self, cx)
    }
}

impl ClientSide for Stream {
    const EXTENDED: bool = false;
}

/// HTTP/1: the connection carries one exchange at a time, and a message says itself where it ends.
impl ClientStream for Stream {
    fn switch(&mut self, backlog: &mut Backlog, head: &[u8], bytes: &[u8]) -> io::Result<()> {
        backlog.send(self, &[IoSlice::new(head), IoSlice::new(bytes)])
    }

    fn take_trailers(&mut self) -> Vec<u8> {
        Vec::new()
    }

    #[inline]
    fn poll_gone(&mut self, cx: &mut Context<'_>, half_close: bool) -> Poll<()> {
        Stream::poll_gone(self, cx, half_close)
    }

    #[inline]
    fn poll_room(&mut self, _: &mut Context<'_>) -> Poll<usize> {
        Poll::Ready(usize::MAX)
    }

    fn interim(&mut self, backlog: &mut Backlog, head: &[u8]) -> io::Result<()> {
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
    ) -> io::Result<()> {
        let plain_copy = !chunked && !head.is_empty() && data.len() <= COPY;
        if plain_copy {
            head.extend_from_slice(data);
        }
        let data = if plain_copy { b"" } else { data };
        write_body(body, chunked, data, head, |pieces| backlog.send(self, pieces)).map(drop)
    }

    fn answer(&mut self, backlog: &mut Backlog, head: &[u8], body: &[u8]) -> io::Result<()> {
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
