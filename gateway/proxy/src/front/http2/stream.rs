//! A stream of a client connection as the [client's side](crate::state::client_side) of an exchange.
//!
//! [`Http2Stream`] reads the request body and sends the response as far as the windows allow. Bytes that do not
//! fit stay in the exchange's [`Backlog`], so nothing is queued here. When it is dropped, the stream is
//! closed and no longer counts in [`ConnectionState`].

use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use tollgate_http::h1::{BodyLength, BodyReader};
use tollgate_http::h2::{decode_trailers, fields};
use tollgate_http::{HeadError, Name};
use tollgate_http2::{ErrorCode, FieldSection, RequestStream, StreamClosed};
use tollgate_net::Negotiated;
use tollgate_observe::Reason;
use tollgate_plan::RouteStay;

use super::connection_state::ConnectionState;

use crate::state::backlog::{Backlog, Sink};
use crate::state::client_side::{ClientSide, ClientStream, Duplex};
use crate::state::peer_error::PeerError;

/// Bytes of a response that are read at once: the least, the first, and the most. The size doubles each time
/// the client takes everything, and halves each time it does not. So a client that takes nothing makes the
/// gateway keep little.
const READ_SIZES: (usize, usize, usize) = (4 * 1024, 8 * 1024, 64 * 1024);
/// Bytes of a request body that are read before its head goes upstream, so that both go together and can be
/// sent again.
const EARLY_BODY_MAX_BYTES: usize = 64 * 1024;

/// A stream of a client connection as the client's side of an exchange.
#[derive(Debug)]
pub(crate) struct Http2Stream {
    stream: RequestStream,
    trailers: Vec<u8>,
    /// Whether the head of the response was sent.
    has_head: bool,
    /// Whether the request's head violates the protocol.
    is_malformed: bool,
    end: ResponseEnd,
    /// How many bytes of the response are read next, between the bounds of `READ_SIZES`.
    read_size: usize,
    /// Whether some of the response's body was sent.
    has_begun: bool,
    /// How long the route keeps the connection, if it sets that.
    stay: Option<Arc<RouteStay>>,
    shared: Rc<ConnectionState>,
}

/// How the response ends.
#[derive(Debug)]
enum ResponseEnd {
    /// Not known yet.
    Open,
    /// The whole body is in the backlog. These trailers follow, or the plain end if they are empty.
    Due(Vec<u8>),
    /// The end was sent.
    Sent,
}

/// Returns the error for a stream that no longer exists.
fn stream_closed(_: StreamClosed) -> PeerError {
    io::ErrorKind::BrokenPipe.into()
}

impl Http2Stream {
    pub(super) fn new(stream: RequestStream, shared: Rc<ConnectionState>) -> Self {
        shared.stream_began();
        Self {
            stream,
            trailers: Vec::new(),
            has_head: false,
            is_malformed: false,
            end: ResponseEnd::Open,
            read_size: READ_SIZES.1,
            has_begun: false,
            stay: None,
            shared,
        }
    }

    /// Returns whether the request has no body, or all of it was read.
    pub(super) fn is_ended(&self) -> bool {
        self.stream.is_ended()
    }

    /// Called when the head is decoded: announces the length of the body. Returns whether the stream still
    /// exists, since the client may have reset it already.
    pub(super) fn accept_head(&self, fields: FieldSection, length: BodyLength) -> bool {
        self.stream.recycle_fields(fields);
        match length {
            BodyLength::Exactly(length) => self.stream.set_content_length(length),
            _ => true,
        }
    }

    /// Called when the head cannot be decoded: the exchange answers with an error. If the head violates the
    /// protocol, a reset follows that response.
    pub(super) fn refuse(&mut self, fields: FieldSection) {
        self.is_malformed = fields.violates_protocol();
        self.stream.recycle_fields(fields);
    }

    /// Reads into `inbox` what has arrived of the body.
    pub(super) fn take_early(&mut self, inbox: &mut Vec<u8>) {
        self.stream.take_received(inbox, EARLY_BODY_MAX_BYTES);
    }

    /// Ends the stream after the exchange. `whole`: no part of the response is left in the backlog. Dropping
    /// the stream refuses the unread rest of the request body (RFC 9113, 8.1).
    pub(super) fn finish(mut self, whole: bool) {
        match std::mem::replace(&mut self.end, ResponseEnd::Sent) {
            ResponseEnd::Sent => {}
            ResponseEnd::Due(trailers) if whole => {
                // A stream that no longer exists needs no end.
                let _ = self.send_end(&trailers);
            }
            _ => self.stream.reset(ErrorCode::INTERNAL_ERROR),
        }
        if self.is_malformed {
            // RFC 9113, 8.1.1 allows a response before the reset.
            self.stream.reset(ErrorCode::PROTOCOL_ERROR);
        }
    }

    fn send_end(&self, trailers: &[u8]) -> Result<(), PeerError> {
        let sent =
            if trailers.is_empty() { self.stream.end() } else { self.stream.send_trailers(fields(trailers)) };
        sent.map_err(stream_closed)
    }

    fn head(&mut self, head: &[u8], ends: bool) -> Result<(), PeerError> {
        let (status, lines) = split(head)?;
        self.stream.send_head(status, fields(lines), ends).map_err(stream_closed)?;
        self.has_head = true;
        if ends {
            self.end = ResponseEnd::Sent;
            self.shared.piece_taken();
        }
        Ok(())
    }

    /// Records that the client took `count` of `wanted` bytes, and adjusts how much is read next.
    fn adjust_read_size(&mut self, count: usize, wanted: usize) {
        if count > 0 {
            self.shared.piece_taken();
            if std::mem::replace(&mut self.has_begun, true) && count == wanted {
                self.shared.piece_sent();
            }
        }
        if count == 0 && wanted > 0 {
            // Data that is read ahead of the windows does not show the client's pace.
            return;
        }
        let (least, _, most) = READ_SIZES;
        self.read_size =
            if count == wanted { (self.read_size * 2).min(most) } else { (self.read_size / 2).max(least) };
    }

    /// Sends what the windows let through. If that was everything and `last` is set, ends the stream.
    fn data(&mut self, pieces: &[IoSlice<'_>], last: bool) -> Result<usize, PeerError> {
        let wanted = pieces.iter().map(|piece| piece.len()).sum::<usize>();
        let count = self.stream.send(pieces, last && wanted > 0).map_err(stream_closed)?;
        self.adjust_read_size(count, wanted);
        if last && count == wanted && count > 0 {
            self.end = ResponseEnd::Sent;
        }
        Ok(count)
    }

    /// Sends a part of the response. `send` sends data, or leaves it to the backlog, and ends the stream if its flag is
    /// set and all of the data was sent.
    #[inline]
    fn respond_with(
        &mut self,
        backlog: &mut Backlog,
        head: &[u8],
        body: &BodyReader,
        data: &[u8],
        send: impl FnOnce(&mut Self, &mut Backlog, &[u8], bool) -> Result<(), PeerError>,
    ) -> Result<(), PeerError> {
        let trailers = if body.is_done() { body.trailers() } else { b"" };
        let last = body.is_done() && trailers.is_empty();
        if !head.is_empty() {
            self.head(head, last && data.is_empty())?;
        }
        if !data.is_empty() {
            send(self, backlog, data, last)?;
        }
        if !body.is_done() || matches!(self.end, ResponseEnd::Sent) {
            return Ok(());
        }
        if backlog.is_empty() && self.has_head {
            self.send_end(trailers)?;
            self.end = ResponseEnd::Sent;
        } else {
            self.end = ResponseEnd::Due(trailers.to_vec());
        }
        Ok(())
    }

    /// Sends data, or appends it to the backlog if that is not empty. `last`: ends the stream if all of it
    /// was sent.
    fn send(&mut self, backlog: &mut Backlog, data: &[u8], last: bool) -> Result<(), PeerError> {
        let taken = if backlog.is_empty() { self.data(&[IoSlice::new(data)], last)? } else { 0 };
        backlog.keep(&data[taken..])
    }
}

/// Returns the status and the field lines of a response head.
fn split(head: &[u8]) -> Result<(&[u8], &[u8]), PeerError> {
    // `HTTP/1.1 200 OK`
    let end = head.iter().position(|byte| *byte == b'\n');
    let status = head.get(9..12).filter(|digits| digits.iter().all(u8::is_ascii_digit));
    end.zip(status).map(|(end, status)| (status, &head[end + 1..])).ok_or(PeerError::Malformed)
}

impl Sink for Http2Stream {
    fn write(&mut self, pieces: &[IoSlice<'_>]) -> Result<usize, PeerError> {
        self.data(pieces, false)
    }

    fn poll_write(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<Result<usize, PeerError>> {
        ready!(self.stream.poll_capacity(cx)).map_err(stream_closed)?;
        Poll::Ready(self.data(&[IoSlice::new(bytes)], false))
    }
}

impl Duplex for Http2Stream {
    fn poll_read(&mut self, cx: &mut Context<'_>, buffer: &mut [u8]) -> Poll<Result<usize, PeerError>> {
        let count = ready!(self.stream.poll_read(cx, buffer)).map_err(stream_closed)?;
        if count == 0
            && let Some(trailers) = self.stream.take_trailers()
        {
            let limits = self.shared.worker().active.borrow().plan.settings.head_limits;
            let decoded = match trailers.is_cut() {
                true => Err(HeadError::TooLarge),
                false => decode_trailers(trailers.iter(), &limits),
            };
            self.stream.recycle_fields(trailers);
            self.trailers = decoded.map_err(|error| match error {
                HeadError::TooLarge => PeerError::Rejected(Reason::TrailersTooLarge),
                _ => PeerError::Malformed,
            })?;
        }
        Poll::Ready(Ok(count))
    }

    fn poll_shutdown(&mut self, _: &mut Context<'_>) -> Poll<Result<(), PeerError>> {
        if matches!(self.end, ResponseEnd::Open) && self.has_head {
            self.stream.end().map_err(stream_closed)?;
            self.end = ResponseEnd::Sent;
        }
        Poll::Ready(Ok(()))
    }

    /// RFC 8441, 5: a reset of a connection becomes RST_STREAM with CANCEL.
    fn reset(&mut self) {
        self.stream.reset(ErrorCode::CANCEL);
        self.end = ResponseEnd::Sent;
    }
}

impl ClientSide for Http2Stream {
    const EXTENDED: bool = true;
}

impl ClientStream for Http2Stream {
    fn switch(&mut self, backlog: &mut Backlog, head: &[u8], bytes: &[u8]) -> Result<(), PeerError> {
        let (_, lines) = split(head)?;
        // HTTP/2 answers with a 200 instead, and without these fields (RFC 8441, 5).
        let is_asked = |name: &[u8]| {
            matches!(Name::of(name), Name::Connection | Name::Upgrade)
                || name.eq_ignore_ascii_case(b"sec-websocket-accept")
        };
        let lines = fields(lines).filter(|(name, _)| !is_asked(name));
        self.stream.become_tunnel();
        self.stream.send_head(b"200", lines, false).map_err(stream_closed)?;
        self.has_head = true;
        if bytes.is_empty() { Ok(()) } else { self.send(backlog, bytes, false) }
    }

    fn take_trailers(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.trailers)
    }

    /// A stream's direction ends with its request, so that says nothing. A client leaves by a reset, or with
    /// its connection.
    fn poll_peer_closed(&mut self, cx: &mut Context<'_>, _: bool) -> Poll<()> {
        self.stream.poll_reset(cx)
    }

    fn poll_room(&mut self, cx: &mut Context<'_>) -> Poll<usize> {
        if !self.has_head {
            return Poll::Ready(self.read_size);
        }
        // If the stream no longer exists, the next write reports that.
        let capacity = ready!(self.stream.poll_capacity(cx)).unwrap_or(READ_SIZES.0);
        Poll::Ready(self.read_size.min(capacity.max(READ_SIZES.0)))
    }

    fn may_send(&self) -> bool {
        self.stream.can_receive()
    }

    fn read_ahead(&self) -> usize {
        if self.stream.is_send_blocked() { READ_SIZES.0 } else { 0 }
    }

    fn interim(&mut self, _: &mut Backlog, head: &[u8]) -> Result<(), PeerError> {
        let (status, lines) = split(head)?;
        self.stream.send_head(status, fields(lines), false).map_err(stream_closed)
    }

    fn respond(
        &mut self,
        backlog: &mut Backlog,
        head: &mut Vec<u8>,
        body: &BodyReader,
        _: bool,
        data: &[u8],
    ) -> Result<(), PeerError> {
        self.respond_with(backlog, head, body, data, Self::send)
    }

    fn hold(
        &mut self,
        backlog: &mut Backlog,
        head: &mut Vec<u8>,
        body: &BodyReader,
        _: bool,
        data: &[u8],
    ) -> Result<(), PeerError> {
        self.respond_with(backlog, head, body, data, |_, backlog, data, _| backlog.keep(data))
    }

    fn answer(&mut self, backlog: &mut Backlog, head: &[u8], body: &[u8]) -> Result<(), PeerError> {
        self.head(head, body.is_empty())?;
        if !body.is_empty() {
            self.send(backlog, body, true)?;
            if !matches!(self.end, ResponseEnd::Sent) {
                self.end = ResponseEnd::Due(Vec::new());
            }
        }
        Ok(())
    }

    fn forbid_indexing(&mut self) {
        self.stream.forbid_indexing();
    }

    fn limit_connection_age(&mut self, stay: &Arc<RouteStay>) {
        self.shared.shorten_age_limit(stay);
        self.stay = Some(stay.clone());
    }

    fn tls(&self) -> Option<&Negotiated> {
        self.shared.tls.as_ref()
    }

    fn local_address(&self) -> Option<SocketAddr> {
        self.shared.local_address
    }

    #[inline(always)]
    fn may_be_grpc(&self) -> bool {
        true
    }
}

impl Drop for Http2Stream {
    fn drop(&mut self) {
        self.shared.set_idle_from(self.stay.take());
        self.shared.stream_ended();
    }
}
