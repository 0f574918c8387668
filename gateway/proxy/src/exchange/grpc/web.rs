//! Translates a browser's gRPC-Web call to gRPC and back.
//!
//! [`Web`] wraps the client's side of an exchange, for any version of HTTP. The exchange sees a gRPC call;
//! the client receives a body that contains the trailers, in base64 if it asked for that.

use std::io::IoSlice;
use std::mem;
use std::net::SocketAddr;
use std::task::{Context, Poll, ready};

use tollgate_http::grpc::{GrpcKind, web};
use tollgate_http::h1::{BodyLength, BodyReader};
use tollgate_http::{HeadLimits, Name, RequestHead};
use tollgate_net::Negotiated;
use tollgate_policy::Transform;

use crate::state::backlog::{Backlog, Sink};
use crate::state::client_side::{ClientSide, ClientStream, Duplex};
use crate::state::grpc_call::GrpcCall;
use crate::state::peer_error::{PeerError, body_error_reason};
use crate::state::request_state::RequestState;

/// A client whose call is translated.
pub(crate) struct Web<'a, S> {
    client: &'a mut S,
    /// The decoder of a base64 body that was not here completely.
    request: Option<Decoding>,
    /// The kind of the response that the client gets.
    kind: GrpcKind,
    /// Whether the response is gRPC, so that it must be translated.
    translates: bool,
    /// Whether the response is a head alone, which contains the status.
    bare: bool,
    /// The translated part of the response that is sent next.
    out: Vec<u8>,
}

/// A base64 body while it arrives.
#[derive(Debug)]
struct Decoding {
    /// Finds the end of the body in the framing of the client's version of HTTP.
    reader: BodyReader,
    decoder: web::Base64Decoder,
    /// Decoded bytes that were not read yet.
    ready: Vec<u8>,
    /// Bytes after the body.
    behind: Vec<u8>,
}

/// Returns the kind of a gRPC-Web request; `None` for any other.
pub(super) fn kind_of(request: &RequestHead) -> Option<GrpcKind> {
    let kind = request.head.get(Name::ContentType).and_then(GrpcKind::of)?;
    matches!(kind, GrpcKind::Web | GrpcKind::WebText).then_some(kind)
}

impl Decoding {
    /// Takes bytes from the client. Returns how many of them belong to the body.
    fn take(&mut self, input: &mut [u8]) -> Result<usize, PeerError> {
        let step = self.reader.read(input).map_err(|error| PeerError::Rejected(body_error_reason(error)))?;
        self.decoder.decode(&input[step.data], &mut self.ready).map_err(|_| PeerError::Malformed)?;
        if self.reader.is_done() && !self.decoder.is_whole() {
            return Err(PeerError::Malformed);
        }
        Ok(step.used)
    }
}

impl<'a, S: ClientSide> Web<'a, S> {
    /// Turns the request in `state`, which is of this kind, into a gRPC call.
    ///
    /// # Errors
    /// If its body is not valid.
    pub fn translate(
        client: &'a mut S,
        kind: GrpcKind,
        state: &mut RequestState,
        limits: &HeadLimits,
    ) -> Result<Self, PeerError> {
        let RequestState { request, inbox, .. } = state;
        let translated = |value: &[u8]| GrpcKind::Native.translated(value);
        if let Some(native) = request.head.get(Name::ContentType).and_then(translated) {
            request.set_value(b"content-type", &native);
        }
        request.wants_trailers = true;
        state.grpc = Some(GrpcCall::new(request));
        // If the client accepts a kind of gRPC-Web, it gets that one; otherwise the kind of its request.
        let wanted = request.head.get(Name::Accept).and_then(GrpcKind::of);
        let answer = wanted.filter(|kind| matches!(kind, GrpcKind::Web | GrpcKind::WebText)).unwrap_or(kind);
        let mut web =
            Self { client, request: None, kind: answer, translates: false, bare: false, out: Vec::new() };
        if kind == GrpcKind::WebText && !request.length.is_empty() {
            let mut decoding = Decoding {
                reader: BodyReader::new(request.length).with_trailer_limits(limits),
                decoder: web::Base64Decoder::default(),
                ready: Vec::new(),
                behind: Vec::new(),
            };
            // The length of the decoded body is not known yet.
            request.remove(b"content-length");
            let used = decoding.take(inbox)?;
            let decoded = decoding.ready.len();
            inbox.splice(..used, decoding.ready.drain(..));
            if decoding.reader.is_done() {
                // The whole body is here, and can be sent again.
                request.length = BodyLength::Exactly(decoded as u64);
            } else {
                request.length = BodyLength::UntilClose;
                web.request = Some(decoding);
            }
        }
        Ok(web)
    }

    /// Returns the bytes after the request.
    pub fn into_rest(self) -> Vec<u8> {
        self.request.map(|decoding| decoding.behind).unwrap_or_default()
    }

    /// Translates the content type in a response's head, and decides what of the response must be translated.
    fn head(&mut self, head: &mut Vec<u8>) {
        self.bare = false;
        let mut value = None;
        let mut at = 0;
        for line in head.split_inclusive(|byte| *byte == b'\n') {
            let name = line.iter().position(|byte| *byte == b':').map_or(&line[..0], |colon| &line[..colon]);
            if name.eq_ignore_ascii_case(b"content-type") {
                let text = line[name.len() + 1..].trim_ascii();
                value = self.kind.translated(text).map(|new| (at + name.len() + 1..at + line.len(), new));
            }
            self.bare |= name.eq_ignore_ascii_case(b"grpc-status");
            at += line.len();
        }
        // `HTTP/1.1 204 ...`: these have no body (RFC 9110, 6.4.1), and so no part with trailers.
        let is_bodiless = head.get(9..12).is_some_and(|status| status == b"204" || status == b"304");
        let value = value.filter(|_| !is_bodiless);
        self.translates = value.is_some();
        if let Some((place, new)) = value {
            head.splice(place, [b" ", new.as_slice(), b"\r\n"].concat());
        }
    }
}

impl<S: ClientSide> Sink for Web<'_, S> {
    fn write(&mut self, pieces: &[IoSlice<'_>]) -> Result<usize, PeerError> {
        self.client.write(pieces)
    }

    fn poll_write(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<Result<usize, PeerError>> {
        self.client.poll_write(cx, bytes)
    }
}

impl<S: ClientSide> Duplex for Web<'_, S> {
    fn poll_read(&mut self, cx: &mut Context<'_>, buffer: &mut [u8]) -> Poll<Result<usize, PeerError>> {
        let Some(decoding) = &mut self.request else { return self.client.poll_read(cx, buffer) };
        while decoding.ready.is_empty() && !decoding.reader.is_done() {
            let count = ready!(self.client.poll_read(cx, buffer))?;
            if count > 0 {
                let used = decoding.take(&mut buffer[..count])?;
                decoding.behind.extend_from_slice(&buffer[used..count]);
            } else if !decoding.reader.end_of_stream() {
                return Poll::Ready(Err(PeerError::Incomplete));
            } else if !decoding.decoder.is_whole() {
                return Poll::Ready(Err(PeerError::Malformed));
            }
        }
        let count = decoding.ready.len().min(buffer.len());
        buffer[..count].copy_from_slice(&decoding.ready[..count]);
        decoding.ready.drain(..count);
        Poll::Ready(Ok(count))
    }

    fn poll_shutdown(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), PeerError>> {
        self.client.poll_shutdown(cx)
    }

    fn reset(&mut self) {
        self.client.reset();
    }
}

impl<S: ClientSide> ClientSide for Web<'_, S> {
    const EXTENDED: bool = false;
}

impl<S: ClientSide> ClientStream for Web<'_, S> {
    /// A call has none; trailers of the client are dropped.
    fn take_trailers(&mut self) -> Vec<u8> {
        drop(self.client.take_trailers());
        Vec::new()
    }

    fn poll_peer_closed(&mut self, cx: &mut Context<'_>, half_close: bool) -> Poll<()> {
        self.client.poll_peer_closed(cx, half_close)
    }

    fn poll_room(&mut self, cx: &mut Context<'_>) -> Poll<usize> {
        self.client.poll_room(cx)
    }

    fn may_send(&self) -> bool {
        self.client.may_send()
    }

    fn read_ahead(&self) -> usize {
        self.client.read_ahead()
    }

    fn is_response_paced(&self) -> bool {
        self.client.is_response_paced()
    }

    fn is_request_paced(&self) -> bool {
        self.client.is_request_paced()
    }

    fn pacing_changed(&mut self) -> bool {
        self.client.pacing_changed()
    }

    fn forbid_indexing(&mut self) {
        self.client.forbid_indexing();
    }

    fn interim(&mut self, backlog: &mut Backlog, head: &[u8]) -> Result<(), PeerError> {
        self.client.interim(backlog, head)
    }

    fn translate(&mut self, head: &mut Vec<u8>) {
        self.head(head);
    }

    fn respond(
        &mut self,
        backlog: &mut Backlog,
        head: &mut Vec<u8>,
        body: &BodyReader,
        chunked: bool,
        data: &[u8],
    ) -> Result<(), PeerError> {
        if !self.translates {
            return self.client.respond(backlog, head, body, chunked, data);
        }
        let mut out = mem::take(&mut self.out);
        out.clear();
        match self.kind {
            GrpcKind::WebText => web::encode(data, &mut out),
            GrpcKind::Native | GrpcKind::Web => out.extend_from_slice(data),
        }
        // The translated body ends differently from the endpoint's, so it needs its own reader.
        let mut reader = BodyReader::new(BodyLength::UntilClose);
        if body.is_done() {
            reader.end_of_stream();
            if !self.bare {
                let mut part = Vec::new();
                web::trailers(body.trailers(), &mut part);
                match self.kind {
                    GrpcKind::WebText => web::encode(&part, &mut out),
                    GrpcKind::Native | GrpcKind::Web => out.extend_from_slice(&part),
                }
            }
        }
        let sent = self.client.respond(backlog, head, &reader, chunked, &out);
        self.out = out;
        sent
    }

    fn answer(&mut self, backlog: &mut Backlog, head: &[u8], body: &[u8]) -> Result<(), PeerError> {
        self.client.answer(backlog, head, body)
    }

    fn switch(&mut self, backlog: &mut Backlog, head: &[u8], bytes: &[u8]) -> Result<(), PeerError> {
        self.client.switch(backlog, head, bytes)
    }

    fn tls(&self) -> Option<&Negotiated> {
        self.client.tls()
    }

    fn local_address(&self) -> Option<SocketAddr> {
        self.client.local_address()
    }

    fn may_be_grpc(&self) -> bool {
        true
    }

    fn transform(&mut self) -> Option<&mut Option<Box<dyn Transform>>> {
        self.client.transform()
    }
}
