//! A stream of a connection to an endpoint as the [endpoint's side](crate::exchange::upstream_side) of an exchange.
//!
//! [`EndpointStream`] sends a request through the `h2` crate and reads the response. It translates between
//! that crate's types and HTTP/1 lines. It occupies a [`StreamPermit`] on a shared connection, which also
//! reports what `h2` does not: malformed responses and dropped trailer fields.

mod fields;
mod send_half;

use std::collections::VecDeque;
use std::future::Future;
use std::io::IoSlice;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::Instant;

use bytes::{Buf, Bytes};
use h2::client::ResponseFuture;
use h2::{Reason as Code, RecvStream};
use http::{HeaderMap, Response};
use tollgate_http::h1::{BodyLength, BodyReader};
use tollgate_http::h2::{decode_response, decode_switched, decode_trailers};
use tollgate_http::{HeadError, HeadLimits, Method, ResponseHead, websocket};
use tollgate_net::ProxyHeader;
use tollgate_observe::Reason;
use tollgate_upstream::http2::{OpeningWaiter, StreamPermit};
use tollgate_upstream::{Acquired, ConnectError, Pool};

use self::fields::Switch;
use self::send_half::{SendHalf, stream_closed};
use crate::exchange::upstream_side::{NoHead, UpstreamSide};
use crate::state::backlog::{Backlog, Sink};
use crate::state::client_side::Duplex;
use crate::state::peer_error::PeerError;
use crate::state::worker::Worker;

/// A stream to an endpoint as the endpoint's side of an exchange. Dropping it resets the stream if that has
/// not ended.
#[derive(Debug)]
pub(crate) struct EndpointStream {
    /// The final head, until it has arrived.
    response: Option<ResponseFuture>,
    body: Option<RecvStream>,
    /// The stream's number; 0 until the request's head is sent.
    id: u32,
    /// Data that has arrived and was not read.
    data: Bytes,
    /// Bytes of the body still to come, if the head gives its length.
    left: Option<u64>,
    trailers: Vec<u8>,
    /// The sending half, once the request's head is sent.
    send_half: Option<SendHalf>,
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
    /// The whole body is in the backlog. These trailers follow, or the plain end.
    Due(Option<HeaderMap>),
    /// The end was sent.
    Sent,
}

impl EndpointStream {
    fn new(place: StreamPermit) -> Self {
        Self {
            response: None,
            body: None,
            id: 0,
            data: Bytes::new(),
            left: None,
            trailers: Vec::new(),
            send_half: None,
            end: RequestEnd::Open,
            sent: tollgate_net::now(),
            ahead: VecDeque::new(),
            switch: None,
            limits: HeadLimits { line: 0, head: 0, fields: 0 },
            place,
        }
    }

    /// Sends data, or appends it to the backlog if that is not empty. `last`: ends the stream if all of it
    /// was sent.
    fn data(&mut self, backlog: &mut Backlog, data: &[u8], last: bool) -> Result<(), PeerError> {
        let send_half = self.send_half.as_mut().ok_or_else(stream_closed)?;
        let mut taken = 0;
        if backlog.is_empty() {
            taken = send_half.write(&[IoSlice::new(data)], last)?;
            if last && taken == data.len() {
                self.end = RequestEnd::Sent;
            }
        }
        backlog.keep(&data[taken..])
    }

    /// Decodes a head into `response`. `ended`: the stream has no body. `request_method` is the method of the
    /// request.
    fn decode(
        &mut self,
        head: &Response<()>,
        response: &mut ResponseHead,
        ended: bool,
        request_method: Method,
        limits: &HeadLimits,
    ) -> Result<(), NoHead> {
        let status = (head.status().as_u16(), head.status().canonical_reason().unwrap_or_default());
        let fields = head.headers().iter().map(|(name, value)| (name.as_str().as_bytes(), value.as_bytes()));
        // If a gRPC call ends before its first message, its head is also its trailers.
        let is_end = ended && head.headers().contains_key("grpc-status");
        let bad = |error| {
            NoHead::Bad(match error {
                HeadError::TooLarge | HeadError::TooMany if is_end => Reason::ResponseTrailersTooLarge,
                HeadError::TooLarge | HeadError::TooMany => Reason::ResponseHeadersTooLarge,
                _ => Reason::HttpProtocolError,
            })
        };
        if let Some(Switch { protocol, key }) = self.switch.as_ref().filter(|_| head.status().is_success()) {
            let accept = key.as_ref().map(|key| websocket::accept(key.as_bytes()));
            let accept = accept.as_ref().map(|accept| accept.as_bytes());
            // An interim head before it had no body; the data of the new protocol has no length.
            self.left = None;
            return decode_switched(response, fields, protocol.as_bytes(), accept, limits).map_err(bad);
        }
        decode_response(response, status, fields, ended, request_method, limits).map_err(bad)?;
        self.left = match response.length {
            BodyLength::None => Some(0),
            BodyLength::Exactly(length) => Some(length),
            BodyLength::Chunked | BodyLength::UntilClose => None,
        };
        Ok(())
    }
}

/// Returns whether the library closed the connection because a field section exceeds its own limit.
fn is_calmed(error: &h2::Error) -> bool {
    error.is_library()
        && error.is_go_away()
        && matches!(error.reason(), Some(Code::ENHANCE_YOUR_CALM | Code::COMPRESSION_ERROR))
}

/// Returns the error for a failed read from a stream.
fn unread(error: &h2::Error) -> PeerError {
    if is_calmed(error) { PeerError::Rejected(Reason::ResponseTrailersTooLarge) } else { stream_closed() }
}

/// Returns why there is no head, from the library's error.
fn no_head(error: &h2::Error) -> NoHead {
    match error.reason() {
        // RFC 9113, 6.8: a GOAWAY ends only streams that the endpoint has not processed.
        Some(_) if error.is_go_away() && error.is_remote() => NoHead::Unseen,
        // RFC 9113, 8.7.
        Some(Code::REFUSED_STREAM) if error.is_remote() => NoHead::Refused,
        _ if is_calmed(error) => NoHead::Bad(Reason::ResponseHeadersTooLarge),
        Some(Code::HTTP_1_1_REQUIRED) if error.is_remote() => NoHead::Bad(Reason::HttpProtocolError),
        Some(_) if error.is_library() => NoHead::Bad(Reason::HttpProtocolError),
        _ => NoHead::Broken,
    }
}

impl UpstreamSide for EndpointStream {
    const SEPARATE_HEADS: bool = true;
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
        let (request, switch) = fields::request(head, self.place.is_secure(), secrets)?;
        self.switch = switch;
        let ends = self.switch.is_none() && body.is_done() && data.is_empty() && backlog.is_empty();
        let (response, stream) = self.place.send(request, ends).map_err(|_| stream_closed())?;
        self.id = response.stream_id().as_u32();
        self.response = Some(response);
        self.send_half = Some(SendHalf::new(stream, self.place.budget().clone()));
        if ends {
            self.end = RequestEnd::Sent;
        } else if self.switch.is_some() {
            // The bytes that follow are not a body.
        } else if spooled {
            self.end = RequestEnd::Due(None);
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
        // It is not known here which trailers are secret, and trailers hardly repeat: all are marked as
        // secret.
        let trailers = if trailers.is_empty() { None } else { Some(fields::map(trailers, true)?) };
        match &mut self.send_half {
            Some(send_half) if backlog.is_empty() => {
                send_half.end(trailers)?;
                self.end = RequestEnd::Sent;
            }
            _ => self.end = RequestEnd::Due(trailers),
        }
        Ok(())
    }

    fn poll_flush(&mut self, cx: &mut Context<'_>, backlog: &mut Backlog) -> Poll<Result<(), PeerError>> {
        ready!(backlog.poll_flush(cx, self))?;
        if let RequestEnd::Due(trailers) = &mut self.end {
            let trailers = trailers.take();
            self.end = RequestEnd::Sent;
            self.send_half.as_mut().ok_or_else(stream_closed)?.end(trailers)?;
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
        let Some(future) = &mut self.response else { return Poll::Ready(Err(NoHead::Broken)) };
        let head = match ready!(future.poll_informational(cx)) {
            Some(head) => head,
            None => ready!(Pin::new(future).poll(cx)).map(|head| {
                let (parts, body) = head.into_parts();
                self.body = Some(body);
                Response::from_parts(parts, ())
            }),
        };
        let too_long =
            || self.send_half.as_ref().and_then(|send_half| self.place.is_too_long(send_half.stream_id()));
        let head = head.map_err(|error| match (no_head(&error), too_long()) {
            (NoHead::Bad(_), Some(true)) => NoHead::Bad(Reason::ResponseTrailersTooLarge),
            (NoHead::Bad(_), Some(false)) => NoHead::Bad(Reason::ResponseHeadersTooLarge),
            (no_head, _) => no_head,
        })?;
        self.limits = *limits;
        if self.place.is_malformed(self.id) {
            return Poll::Ready(Err(NoHead::Bad(Reason::HttpProtocolError)));
        }
        let ended = self.body.as_ref().is_some_and(RecvStream::is_end_stream);
        Poll::Ready(self.decode(&head, response, ended, request_method, limits))
    }

    fn put_back(&mut self, head: ResponseHead) {
        self.ahead.push_back(head);
    }

    /// The stream itself marks the end of the body, and `poll_read` checks the announced length. Only a
    /// response without a body has nothing to wait for.
    fn reader(&self, length: BodyLength, _: &HeadLimits) -> BodyReader {
        let ended = self.body.as_ref().is_none_or(RecvStream::is_end_stream);
        BodyReader::new(if ended || length == BodyLength::None {
            BodyLength::None
        } else {
            BodyLength::UntilClose
        })
    }

    fn take_trailers(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.trailers)
    }

    fn timed_out(&self) {
        self.place.on_timeout(self.sent);
    }

    fn done(self, _: bool, _: Instant) {}

    fn discard(self, _: &Rc<Worker>, _: Option<BodyReader>, _: Instant) {}
}

impl Sink for EndpointStream {
    fn write(&mut self, pieces: &[IoSlice<'_>]) -> Result<usize, PeerError> {
        self.send_half.as_mut().ok_or_else(stream_closed)?.write(pieces, false)
    }

    fn poll_write(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<Result<usize, PeerError>> {
        match &mut self.send_half {
            Some(send_half) => send_half.poll_write(cx, bytes),
            None => Poll::Ready(Err(stream_closed())),
        }
    }
}

impl Duplex for EndpointStream {
    fn poll_read(&mut self, cx: &mut Context<'_>, buffer: &mut [u8]) -> Poll<Result<usize, PeerError>> {
        let body = self.body.as_mut().ok_or_else(stream_closed)?;
        while self.data.is_empty() {
            match ready!(body.poll_data(cx)) {
                Some(data) => self.data = data.map_err(|error| unread(&error))?,
                None => {
                    let trailers = ready!(body.poll_trailers(cx)).map_err(|error| unread(&error))?;
                    if self.place.is_malformed(self.id) {
                        return Poll::Ready(Err(PeerError::Malformed));
                    }
                    if let Some(trailers) = trailers {
                        let fields =
                            trailers.iter().map(|(name, value)| (name.as_str().as_bytes(), value.as_bytes()));
                        let decoded = match self.place.is_too_long(body.stream_id().as_u32()) {
                            // The library has dropped some fields.
                            Some(_) => Err(HeadError::TooLarge),
                            None => decode_trailers(fields, &self.limits),
                        };
                        self.trailers = decoded.map_err(|error| match error {
                            HeadError::TooLarge => PeerError::Rejected(Reason::ResponseTrailersTooLarge),
                            _ => PeerError::Malformed,
                        })?;
                    }
                    // RFC 9113, 8.1.1: the length must equal the sum of the DATA. The library checks that
                    // too; but a client of HTTP/1 finds its next response by the length, so it is checked
                    // here as well.
                    let short = self.left.is_some_and(|left| left > 0);
                    return Poll::Ready(if short { Err(PeerError::Malformed) } else { Ok(0) });
                }
            }
        }
        let count = self.data.len().min(buffer.len());
        if let Some(left) = &mut self.left {
            *left = left.checked_sub(count as u64).ok_or(PeerError::Malformed)?;
        }
        buffer[..count].copy_from_slice(&self.data[..count]);
        self.data.advance(count);
        // The reader has room for these bytes only now, so only now may the endpoint send more.
        let _ = body.flow_control().release_capacity(count);
        Poll::Ready(Ok(count))
    }

    fn poll_shutdown(&mut self, _: &mut Context<'_>) -> Poll<Result<(), PeerError>> {
        if let (RequestEnd::Open, Some(send_half)) = (&self.end, &mut self.send_half) {
            self.end = RequestEnd::Sent;
            send_half.end(None)?;
        }
        Poll::Ready(Ok(()))
    }
}

impl Drop for EndpointStream {
    fn drop(&mut self) {
        if self.id > 0 {
            self.place.forget(self.id);
        }
        let answered = self.body.as_ref().is_some_and(RecvStream::is_end_stream);
        // The library resets a stream that has not ended.
        if self.send_half.is_some() && !(answered && matches!(self.end, RequestEnd::Sent)) {
            self.place.count_cancelled();
        }
    }
}
