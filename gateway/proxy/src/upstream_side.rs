//! The endpoint's side of an exchange, whatever version of HTTP it speaks.

use std::future::Future;
use std::io::{self, ErrorKind, IoSlice};
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Instant;

use tollgate_http::h1::{BodyReader, Length};
use tollgate_http::{HeadLimits, Method, ResponseHead};
use tollgate_net::ProxyHeader;
use tollgate_observe::Reason;
use tollgate_upstream::{ConnectError, Connection, Granted, Opening, Pool};

use crate::backlog::{Backlog, Sink};
use crate::client_side::Duplex;
use crate::forward::keep;
use crate::worker::Worker;
use crate::write_body::write_body;

/// Why there is no head of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoHead {
    /// The connection broke, or the endpoint gave the request up.
    Broken,
    /// The endpoint has not looked at the request, since it closes the connection: on another one it may go again.
    Unseen,
    /// The endpoint has not looked at the request, and wants none now.
    Refused,
    /// What came is no head that may go on.
    Bad(Reason),
}

/// The endpoint's side of an exchange: where the request goes, and whence the response comes. An HTTP/1 connection is
/// one, and so is a stream of an HTTP/2 connection.
///
/// It is a type parameter of all that deals with an endpoint, as [`ClientSide`](crate::client_side::ClientSide) is of
/// what deals with a client. Which of the two an upstream speaks is asked once a request, when it is known where that
/// goes.
pub(crate) trait UpstreamSide: Duplex + Sized {
    /// Whether a response's head comes apart from its body, and its end too, as in HTTP/2.
    const APART: bool;
    /// What leads to a connection that is opened.
    type Opening;

    /// One that can carry a request now.
    fn take(pool: &Rc<Pool>, now: Instant) -> Option<Self>;

    /// What a request gets when its turn has come, where there is none to take.
    fn turn(pool: &Rc<Pool>) -> impl Future<Output = Result<Granted<Self, Self::Opening>, ConnectError>>;

    /// Opens a connection; `None`: others have taken all that it carries, and another one is to be looked for. `whose` it is
    /// the endpoint is told where its pool [says so](Pool::names_clients).
    fn open(
        opening: Self::Opening,
        whose: ProxyHeader,
    ) -> impl Future<Output = Result<Option<Self>, ConnectError>>;

    /// The pool that it is of.
    fn pool(&self) -> &Rc<Pool>;

    /// Whether its connection was there before the request, so that the endpoint may have closed it meanwhile.
    fn is_reused(&self) -> bool;

    /// Whether its endpoint can switch a stream to another protocol, where those come apart from connections.
    fn can_switch(&self) -> bool;

    /// Sends the request's head, and behind it the first `data` of its body; what is not taken goes into the backlog.
    /// `chunked`: data is to go in chunks, in a version that has them. `spooled`: the backlog holds a body already, to go
    /// behind it. `secrets`: nobody may keep the fields in a table. Says whether something has gone.
    ///
    /// # Errors
    /// When the endpoint is gone, or the request [cannot be said](unsayable) in its version of HTTP.
    fn begin(
        &mut self,
        backlog: &mut Backlog,
        head: &mut Vec<u8>,
        body: &BodyReader,
        data: &[u8],
        spooled: bool,
        secrets: bool,
    ) -> io::Result<bool>;

    /// Sends some of the body; when `body` is done, what ends it too.
    ///
    /// # Errors
    /// When the endpoint is gone.
    fn send(
        &mut self,
        backlog: &mut Backlog,
        body: &BodyReader,
        chunked: bool,
        data: &[u8],
    ) -> io::Result<()>;

    /// Sends what waits in the backlog, and then what is to follow it.
    fn poll_flush(&mut self, cx: &mut Context<'_>, backlog: &mut Backlog) -> Poll<io::Result<()>>;

    /// Waits for a head, where those come apart.
    fn poll_head(
        &mut self,
        cx: &mut Context<'_>,
        response: &mut ResponseHead,
        asked: Method,
        limits: &HeadLimits,
    ) -> Poll<Result<(), NoHead>>;

    /// Gives back a head, to be [read](Self::poll_head) again after those that were given back before.
    fn put_back(&mut self, head: ResponseHead);

    /// The reader of a body of the length in the final head, with trailers within these limits.
    fn reader(&self, length: Length, limits: &HeadLimits) -> BodyReader;

    /// The trailer lines that came with the end of the response, where they come apart from the body.
    fn take_trailers(&mut self) -> Vec<u8>;

    /// Nothing came for the request in time.
    fn timed_out(&self);

    /// The response has ended. `reusable`: with it all that its connection has carried.
    fn done(self, reusable: bool, now: Instant);

    /// The rest of the response is wanted by nobody; `body`: `None` if its connection can carry nothing more.
    fn discard(self, worker: &Rc<Worker>, body: Option<BodyReader>, now: Instant);
}

/// Why a request cannot be said in the endpoint's version of HTTP, if that is what the error of [`begin`](UpstreamSide::begin) tells.
/// It is the request's fault, and it would be no better on any other connection. Only HTTP/2 has less room than HTTP/1: the library
/// takes targets and names of fields of less than 64 KiB.
pub(crate) fn unsayable<U: UpstreamSide>(error: &io::Error) -> Option<Reason> {
    match error.kind() {
        ErrorKind::InvalidInput if U::APART => Some(Reason::RequestLineTooLong),
        ErrorKind::InvalidData if U::APART => Some(Reason::BadHeader),
        _ => None,
    }
}

/// HTTP/1: the connection carries one exchange at a time, and a message says itself where it ends.
impl UpstreamSide for Connection {
    const APART: bool = false;
    type Opening = Opening;

    #[inline]
    fn take(pool: &Rc<Pool>, now: Instant) -> Option<Self> {
        pool.take(now)
    }

    #[inline]
    async fn turn(pool: &Rc<Pool>) -> Result<Granted<Self, Self::Opening>, ConnectError> {
        pool.turn().await
    }

    #[inline]
    async fn open(opening: Opening, whose: ProxyHeader) -> Result<Option<Self>, ConnectError> {
        opening.connect(whose).await.map(Some)
    }

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
    fn begin(
        &mut self,
        backlog: &mut Backlog,
        head: &mut Vec<u8>,
        _: &BodyReader,
        data: &[u8],
        spooled: bool,
        _: bool,
    ) -> io::Result<bool> {
        head.extend_from_slice(data);
        if spooled {
            // The head must go before what the spool holds, and not into it.
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
    ) -> io::Result<()> {
        write_body(body, chunked, data, b"", |pieces| backlog.send(&mut self.stream, pieces)).map(drop)
    }

    #[inline]
    fn poll_flush(&mut self, cx: &mut Context<'_>, backlog: &mut Backlog) -> Poll<io::Result<()>> {
        backlog.poll_flush(cx, &mut self.stream)
    }

    fn poll_head(
        &mut self,
        _: &mut Context<'_>,
        _: &mut ResponseHead,
        _: Method,
        _: &HeadLimits,
    ) -> Poll<Result<(), NoHead>> {
        // It is among the bytes that are read.
        Poll::Ready(Err(NoHead::Broken))
    }

    fn put_back(&mut self, _: ResponseHead) {}

    #[inline]
    fn reader(&self, length: Length, limits: &HeadLimits) -> BodyReader {
        BodyReader::of_response(length).within(limits)
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
        keep(worker, self, body, now);
    }
}

impl Sink for Connection {
    #[inline]
    fn write(&mut self, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        self.stream.write(pieces)
    }

    #[inline]
    fn poll_write(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.stream.poll_write(cx, bytes)
    }
}

impl Duplex for Connection {
    #[inline]
    fn poll_read(&mut self, cx: &mut Context<'_>, buffer: &mut [u8]) -> Poll<io::Result<usize>> {
        self.stream.poll_read(cx, buffer)
    }

    fn poll_shutdown(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stream.poll_shutdown(cx)
    }
}
