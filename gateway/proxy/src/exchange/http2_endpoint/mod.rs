//! A stream of a connection to an endpoint as the [endpoint's side](crate::exchange::upstream_side) of an exchange.
//!
//! [`EndpointStream`] sends a request on a stream of [`tollgate_http2`] and reads the response. It translates
//! between fields and HTTP/1 lines. It occupies a [`StreamPermit`] on a shared connection. Nothing is queued
//! here: what the windows do not let through stays in the exchange's [`Backlog`].

mod fields;

use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::Instant;

use tollgate_http::h1::{BodyLength, BodyReader};
use tollgate_http::h2::{decode_response, decode_switched, decode_trailers, fields as lines};
use tollgate_http::{HeadError, HeadLimits, Method, ResponseHead, reason_phrase, websocket};
use tollgate_http2::{
    ErrorCode, FieldIter, FieldSection, MalformedResponse, RequestPseudo, ResponseFailure, ResponseStream,
    StreamClosed,
};
use tollgate_net::ProxyHeader;
use tollgate_observe::Reason;
use tollgate_upstream::http2::{OpeningWaiter, StreamPermit};
use tollgate_upstream::{Acquired, ConnectError, Pool};

use self::fields::{Http2Request, Switch};
use crate::exchange::upstream_side::{NoHead, OpenedConnection, UpstreamSide};
use crate::state::backlog::{Backlog, Sink};
use crate::state::client_side::Duplex;
use crate::state::peer_error::PeerError;
use crate::state::worker::Worker;

/// A stream to an endpoint as the endpoint's side of an exchange. Dropping it resets the stream if that has
/// not ended.
#[derive(Debug)]
pub(crate) struct EndpointStream {
    /// The stream, once the request's head is sent.
    stream: Option<ResponseStream>,
    /// Whether data of the body was read before the exchange had a reader for it.
    has_read_body: bool,
    /// Bytes of the body still to come, if the head gives its length.
    left: Option<u64>,
    trailers: Vec<u8>,
    /// Whether the endpoint sent one of the trailers as never indexed.
    has_secret_trailers: bool,
    end: RequestEnd,
    sent: Instant,
    /// Heads that were put back, to be read again.
    ahead: VecDeque<ResponseHead>,
    /// The protocol that the stream asks to switch to.
    switch: Option<Switch>,
    /// The limits on its heads and trailers.
    limits: HeadLimits,
    // Dropped after the stream, so that the next request finds the place free.
    place: StreamPermit,
}

/// How the request ends.
#[derive(Debug)]
enum RequestEnd {
    /// Not known yet.
    Open,
    /// The whole body is in the backlog. These trailer lines follow, or the plain end if they are empty.
    Due(Vec<u8>),
    /// The end was sent.
    Sent,
}

/// Returns the error for a stream that no longer exists.
fn stream_closed() -> PeerError {
    io::ErrorKind::BrokenPipe.into()
}

impl From<StreamClosed> for PeerError {
    fn from(_: StreamClosed) -> Self {
        stream_closed()
    }
}

impl EndpointStream {
    fn new(place: StreamPermit) -> Self {
        Self {
            stream: None,
            has_read_body: false,
            left: None,
            trailers: Vec::new(),
            has_secret_trailers: false,
            end: RequestEnd::Open,
            sent: tollgate_net::now(),
            ahead: VecDeque::new(),
            switch: None,
            limits: HeadLimits { line: 0, head: 0, fields: 0 },
            place,
        }
    }

    fn stream(&self) -> Result<&ResponseStream, PeerError> {
        self.stream.as_ref().ok_or_else(stream_closed)
    }

    /// Sends data, or appends it to the backlog if that is not empty. `last`: ends the stream if all of it
    /// was sent.
    fn data(&mut self, backlog: &mut Backlog, data: &[u8], last: bool) -> Result<(), PeerError> {
        let mut taken = 0;
        if backlog.is_empty() {
            taken = self.stream()?.send(&[IoSlice::new(data)], last)?;
            if last && taken == data.len() {
                self.end = RequestEnd::Sent;
            }
        }
        backlog.keep(&data[taken..])
    }

    /// Sends the end, with trailers if there are any.
    fn send_end(&self, trailers: &[u8]) -> Result<(), PeerError> {
        let stream = self.stream()?;
        match trailers {
            [] => stream.end()?,
            _ => stream.send_trailers(lines(trailers))?,
        }
        Ok(())
    }

    /// Decodes a head into `response`. `ended`: the stream has no body. `request_method` is the method of the
    /// request.
    fn decode(
        &mut self,
        (status, fields): (u16, FieldIter<'_>),
        response: &mut ResponseHead,
        ended: bool,
        request_method: Method,
        limits: &HeadLimits,
    ) -> Result<(), NoHead> {
        let bad = |error| match error {
            HeadError::TooLarge | HeadError::TooMany => too_large(ended, fields),
            _ => NoHead::Bad(Reason::HttpProtocolError),
        };
        if let Some(Switch { protocol, key }) = self.switch.as_ref().filter(|_| (200..300).contains(&status))
        {
            let accept = key.as_ref().map(|key| websocket::accept(key));
            let accept = accept.as_ref().map(|accept| accept.as_bytes());
            // An interim head before it had no body; the data of the new protocol has no length.
            self.left = None;
            return decode_switched(response, fields, protocol, accept, limits).map_err(bad);
        }
        decode_response(response, (status, reason_phrase(status)), fields, ended, request_method, limits)
            .map_err(bad)?;
        self.left = match response.length {
            BodyLength::None => Some(0),
            BodyLength::Exactly(length) => Some(length),
            BodyLength::Chunked | BodyLength::UntilClose => None,
        };
        Ok(())
    }

    /// Returns a head's fields for reuse. A malformed response resets its stream.
    fn after_head(&self, head: FieldSection, is_malformed: bool) {
        if let Some(stream) = &self.stream {
            stream.recycle_fields(head);
            if is_malformed {
                stream.reset(ErrorCode::PROTOCOL_ERROR);
            }
        }
    }

    /// Decodes the trailers that followed the body, if there are any.
    fn decode_trailers(&mut self) -> Result<(), PeerError> {
        let stream = self.stream.as_ref().ok_or_else(stream_closed)?;
        let Some(trailers) = stream.take_trailers() else { return Ok(()) };
        self.has_secret_trailers = trailers.has_never_indexed();
        let decoded = match trailers.is_cut() {
            true => Err(HeadError::TooLarge),
            false => decode_trailers(trailers.iter(), &self.limits),
        };
        stream.recycle_fields(trailers);
        self.trailers = decoded.map_err(|error| match error {
            HeadError::TooLarge => PeerError::Rejected(Reason::ResponseTrailersTooLarge),
            _ => PeerError::Malformed,
        })?;
        Ok(())
    }
}

/// Returns the failure for a head that exceeds a limit. If a gRPC call ends before its first message, its head
/// is also its trailers.
#[cold]
fn too_large(ended: bool, mut fields: FieldIter<'_>) -> NoHead {
    let is_end = ended && fields.any(|(name, _)| name == b"grpc-status");
    NoHead::Bad(if is_end { Reason::ResponseTrailersTooLarge } else { Reason::ResponseHeadersTooLarge })
}

/// Returns the error for a failed read from a stream.
fn unread(failure: ResponseFailure) -> PeerError {
    match failure {
        ResponseFailure::HeadTooLarge | ResponseFailure::TrailersTooLarge => {
            PeerError::Rejected(Reason::ResponseTrailersTooLarge)
        }
        ResponseFailure::Malformed => PeerError::Malformed,
        ResponseFailure::NotProcessed
        | ResponseFailure::Refused
        | ResponseFailure::Http11Required
        | ResponseFailure::Reset
        | ResponseFailure::Closed => stream_closed(),
    }
}

/// Returns why there is no head.
fn no_head(failure: ResponseFailure) -> NoHead {
    match failure {
        ResponseFailure::NotProcessed => NoHead::Unseen,
        ResponseFailure::Refused => NoHead::Refused,
        ResponseFailure::HeadTooLarge => NoHead::Bad(Reason::ResponseHeadersTooLarge),
        ResponseFailure::TrailersTooLarge => NoHead::Bad(Reason::ResponseTrailersTooLarge),
        ResponseFailure::Malformed | ResponseFailure::Http11Required => {
            NoHead::Bad(Reason::HttpProtocolError)
        }
        ResponseFailure::Reset => NoHead::Reset,
        ResponseFailure::Closed => NoHead::Broken,
    }
}

impl OpenedConnection for EndpointStream {
    type ConnectPermit = OpeningWaiter;

    fn take(pool: &Rc<Pool>, now: Instant) -> Option<Self> {
        pool.take_stream(now).map(Self::new)
    }

    async fn wait_for_connection(pool: &Rc<Pool>) -> Result<Acquired<Self, OpeningWaiter>, ConnectError> {
        Ok(match pool.wait_for_stream().await? {
            Acquired::Connection(place) => Acquired::Connection(Self::new(place)),
            Acquired::Permit(opening) => Acquired::Permit(opening),
        })
    }

    async fn open(opening: OpeningWaiter, _: ProxyHeader) -> Result<Option<Self>, ConnectError> {
        Ok(opening.connect().await?.map(Self::new))
    }
}

impl UpstreamSide for EndpointStream {
    const SEPARATE_HEADS: bool = true;

    fn pool(&self) -> &Rc<Pool> {
        self.place.pool()
    }

    fn is_reused(&self) -> bool {
        self.place.is_reused()
    }

    fn can_switch(&self) -> bool {
        self.place.can_switch()
    }

    fn send_head(
        &mut self,
        backlog: &mut Backlog,
        head: &mut Vec<u8>,
        body: &BodyReader,
        data: &[u8],
        spooled: bool,
        secrets: bool,
    ) -> Result<bool, PeerError> {
        let mut request = Http2Request::of(head)?;
        self.switch = request.switch.take();
        let ends = self.switch.is_none() && body.is_done() && data.is_empty() && backlog.is_empty();
        let pseudo = RequestPseudo {
            method: request.method,
            is_secure: self.place.is_secure(),
            authority: request.host,
            path: &request.target,
            protocol: self.switch.as_ref().map(|switch| switch.protocol.as_slice()),
        };
        let fields = request.fields(self.switch.is_some());
        self.stream = Some(self.place.connection().send_request(pseudo, fields, secrets, ends)?);
        if ends {
            self.end = RequestEnd::Sent;
        } else if self.switch.is_some() {
            // The bytes that follow are not a body.
        } else if spooled {
            self.end = RequestEnd::Due(Vec::new());
        } else if !data.is_empty() {
            self.send(backlog, body, false, data)?;
        }
        Ok(true)
    }

    fn send(
        &mut self,
        backlog: &mut Backlog,
        body: &BodyReader,
        _: bool,
        data: &[u8],
    ) -> Result<(), PeerError> {
        let trailers = if body.is_done() { body.trailers() } else { b"" };
        if !data.is_empty() {
            self.data(backlog, data, body.is_done() && trailers.is_empty())?;
        }
        if !body.is_done() || matches!(self.end, RequestEnd::Sent) {
            return Ok(());
        }
        if backlog.is_empty() {
            self.send_end(trailers)?;
            self.end = RequestEnd::Sent;
        } else {
            self.end = RequestEnd::Due(trailers.to_vec());
        }
        Ok(())
    }

    fn poll_flush(&mut self, cx: &mut Context<'_>, backlog: &mut Backlog) -> Poll<Result<(), PeerError>> {
        ready!(backlog.poll_flush(cx, self))?;
        if let RequestEnd::Due(trailers) = &mut self.end {
            let trailers = std::mem::take(trailers);
            self.end = RequestEnd::Sent;
            self.send_end(&trailers)?;
        }
        Poll::Ready(Ok(()))
    }

    fn poll_head(
        &mut self,
        cx: &mut Context<'_>,
        response: &mut ResponseHead,
        request_method: Method,
        limits: &HeadLimits,
    ) -> Poll<Result<(), NoHead>> {
        if let Some(head) = self.ahead.pop_front() {
            *response = head;
            return Poll::Ready(Ok(()));
        }
        let Some(stream) = &self.stream else { return Poll::Ready(Err(NoHead::Broken)) };
        let head = ready!(stream.poll_head(cx)).map_err(no_head)?;
        self.limits = *limits;
        let ended = stream.is_ended();
        let decoded = match head.response() {
            Ok(parts) => self.decode(parts, response, ended, request_method, limits),
            Err(MalformedResponse::Cut) => Err(too_large(ended, head.iter())),
            Err(MalformedResponse::Pseudo) => Err(NoHead::Bad(Reason::HttpProtocolError)),
        };
        response.has_never_indexed = head.has_never_indexed();
        self.after_head(head, decoded.is_err());
        Poll::Ready(decoded)
    }

    fn put_back(&mut self, head: ResponseHead) {
        self.ahead.push_back(head);
    }

    /// The stream itself marks the end of the body, and `poll_read` checks the announced length. Only a
    /// response without a body has nothing to wait for.
    fn reader(&self, length: BodyLength, _: &HeadLimits) -> BodyReader {
        let ended = !self.has_read_body && self.stream.as_ref().is_none_or(ResponseStream::is_ended);
        BodyReader::new(if ended || length == BodyLength::None {
            BodyLength::None
        } else {
            BodyLength::UntilClose
        })
    }

    fn take_trailers(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.trailers)
    }

    fn trailers_forbid_indexing(&self) -> bool {
        self.has_secret_trailers
    }

    fn timed_out(&self) {
        self.place.on_timeout(self.sent);
    }

    fn done(self, _: bool, _: Instant) {}

    fn discard(self, _: &Rc<Worker>, _: Option<BodyReader>, _: Instant) {}
}

impl Sink for EndpointStream {
    fn write(&mut self, pieces: &[IoSlice<'_>]) -> Result<usize, PeerError> {
        Ok(self.stream()?.send(pieces, false)?)
    }

    fn poll_write(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<Result<usize, PeerError>> {
        let stream = self.stream()?;
        ready!(stream.poll_capacity(cx))?;
        Poll::Ready(Ok(stream.send(&[IoSlice::new(bytes)], false)?))
    }
}

impl Duplex for EndpointStream {
    fn poll_read(&mut self, cx: &mut Context<'_>, buffer: &mut [u8]) -> Poll<Result<usize, PeerError>> {
        let count = ready!(self.stream()?.poll_read(cx, buffer)).map_err(unread)?;
        if count > 0 {
            self.has_read_body = true;
            if let Some(left) = &mut self.left {
                *left = left.checked_sub(count as u64).ok_or(PeerError::Malformed)?;
            }
            return Poll::Ready(Ok(count));
        }
        self.decode_trailers()?;
        // RFC 9113, 8.1.1: the length must equal the sum of the DATA. A client of HTTP/1 finds its next
        // response by the length.
        let short = self.left.is_some_and(|left| left > 0);
        Poll::Ready(if short { Err(PeerError::Malformed) } else { Ok(0) })
    }

    fn poll_shutdown(&mut self, _: &mut Context<'_>) -> Poll<Result<(), PeerError>> {
        if matches!(self.end, RequestEnd::Open) && self.stream.is_some() {
            self.end = RequestEnd::Sent;
            self.send_end(b"")?;
        }
        Poll::Ready(Ok(()))
    }

    /// RFC 8441, 5: a reset of a connection becomes RST_STREAM with CANCEL.
    fn reset(&mut self) {
        if let Some(stream) = &self.stream {
            stream.reset(ErrorCode::CANCEL);
        }
    }
}

impl Drop for EndpointStream {
    fn drop(&mut self) {
        // The codec resets a stream that has not ended.
        if self.stream.as_ref().is_some_and(|stream| !(stream.is_received() && stream.has_sent_end())) {
            self.place.count_cancelled();
        }
    }
}
