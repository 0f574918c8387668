//! gRPC-Web: a browser's call, translated to gRPC and back.
//!
//! [`Web`] stands between an exchange and its client, whichever version of HTTP that speaks. The exchange sees a gRPC
//! call; the client sees a body that has the trailers in it, in base64 if it asked in that.

use std::io::{self, IoSlice};
use std::mem;
use std::net::SocketAddr;
use std::task::{Context, Poll, ready};

use tollgate_http::grpc::{Kind, web};
use tollgate_http::h1::{BodyReader, Length};
use tollgate_http::{HeadLimits, Name, RequestHead};
use tollgate_net::Negotiated;
use tollgate_policy::Transform;

use super::Grpc;
use crate::backlog::{Backlog, Sink};
use crate::client_side::{ClientSide, ClientStream, Duplex, Unfit, broken_body};
use crate::scratch::Scratch;

/// A client whose call is translated.
pub(crate) struct Web<'a, S> {
    client: &'a mut S,
    /// A request's body in base64 that was not here as a whole.
    request: Option<Decoding>,
    /// What the response becomes.
    kind: Kind,
    /// Whether the response is gRPC, so that there is something to translate.
    translates: bool,
    /// Whether it is a head alone, which has the status in it.
    bare: bool,
    /// A part of the response as the client gets it.
    out: Vec<u8>,
}

/// A body in base64, on its way.
#[derive(Debug)]
struct Decoding {
    /// Where the body ends, in the client's version of HTTP.
    reader: BodyReader,
    decoder: web::Decoder,
    /// What was decoded and not asked for yet.
    ready: Vec<u8>,
    /// What came behind the body.
    behind: Vec<u8>,
}

/// The kind of a gRPC-Web request; `None`: it is none.
pub(super) fn kind_of(request: &RequestHead) -> Option<Kind> {
    let kind = request.head.get(Name::ContentType).and_then(Kind::of)?;
    matches!(kind, Kind::Web | Kind::WebText).then_some(kind)
}

fn invalid() -> io::Error {
    io::ErrorKind::InvalidData.into()
}

impl Decoding {
    /// Takes bytes from the client; says how many of them belonged to the body.
    fn take(&mut self, input: &mut [u8]) -> io::Result<usize> {
        let step = self.reader.read(input).map_err(|error| Unfit(broken_body(error)))?;
        self.decoder.decode(&input[step.data], &mut self.ready).map_err(|_| invalid())?;
        if self.reader.is_done() && !self.decoder.is_whole() {
            return Err(invalid());
        }
        Ok(step.used)
    }
}

impl<'a, S: ClientSide> Web<'a, S> {
    /// Makes a gRPC call of the request in `scratch`, which is of this kind.
    ///
    /// # Errors
    /// When its body is not what it says.
    pub fn translate(
        client: &'a mut S,
        kind: Kind,
        scratch: &mut Scratch,
        limits: &HeadLimits,
    ) -> io::Result<Self> {
        let Scratch { request, inbox, .. } = scratch;
        let translated = |value: &[u8]| Kind::Native.translated(value);
        if let Some(native) = request.head.get(Name::ContentType).and_then(translated) {
            request.set_value(b"content-type", &native);
        }
        request.wants_trailers = true;
        scratch.grpc = Some(Grpc::new(request));
        // Who accepts one of the two gets that; else it is answered as it asked.
        let wanted = request.head.get(Name::Accept).and_then(Kind::of);
        let answer = wanted.filter(|kind| matches!(kind, Kind::Web | Kind::WebText)).unwrap_or(kind);
        let mut web =
            Self { client, request: None, kind: answer, translates: false, bare: false, out: Vec::new() };
        if kind == Kind::WebText && !request.length.is_empty() {
            let mut decoding = Decoding {
                reader: BodyReader::new(request.length).within(limits),
                decoder: web::Decoder::default(),
                ready: Vec::new(),
                behind: Vec::new(),
            };
            // Not what it will be.
            request.remove(b"content-length");
            let used = decoding.take(inbox)?;
            let decoded = decoding.ready.len();
            inbox.splice(..used, decoding.ready.drain(..));
            if decoding.reader.is_done() {
                // All of it is here, and can be sent again.
                request.length = Length::Exactly(decoded as u64);
            } else {
                request.length = Length::UntilClose;
                web.request = Some(decoding);
            }
        }
        Ok(web)
    }

    /// What came behind the request.
    pub fn into_rest(self) -> Vec<u8> {
        self.request.map(|decoding| decoding.behind).unwrap_or_default()
    }

    /// Rewrites a response's head, and sees what of it is to be translated.
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
        // `HTTP/1.1 204 ...`: behind these is nothing (RFC 9110, 6.4.1), so neither is a part with trailers.
        let is_bodiless = head.get(9..12).is_some_and(|status| status == b"204" || status == b"304");
        let value = value.filter(|_| !is_bodiless);
        self.translates = value.is_some();
        if let Some((place, new)) = value {
            head.splice(place, [b" ", new.as_slice(), b"\r\n"].concat());
        }
    }
}

impl<S: ClientSide> Sink for Web<'_, S> {
    fn write(&mut self, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        self.client.write(pieces)
    }

    fn poll_write(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.client.poll_write(cx, bytes)
    }
}

impl<S: ClientSide> Duplex for Web<'_, S> {
    fn poll_read(&mut self, cx: &mut Context<'_>, buffer: &mut [u8]) -> Poll<io::Result<usize>> {
        let Some(decoding) = &mut self.request else { return self.client.poll_read(cx, buffer) };
        while decoding.ready.is_empty() && !decoding.reader.is_done() {
            let count = ready!(self.client.poll_read(cx, buffer))?;
            if count > 0 {
                let used = decoding.take(&mut buffer[..count])?;
                decoding.behind.extend_from_slice(&buffer[used..count]);
            } else if !decoding.reader.end_of_stream() {
                return Poll::Ready(Err(io::ErrorKind::UnexpectedEof.into()));
            } else if !decoding.decoder.is_whole() {
                return Poll::Ready(Err(invalid()));
            }
        }
        let count = decoding.ready.len().min(buffer.len());
        buffer[..count].copy_from_slice(&decoding.ready[..count]);
        decoding.ready.drain(..count);
        Poll::Ready(Ok(count))
    }

    fn poll_shutdown(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.client.poll_shutdown(cx)
    }
}

impl<S: ClientSide> ClientSide for Web<'_, S> {
    const EXTENDED: bool = false;
}

impl<S: ClientSide> ClientStream for Web<'_, S> {
    /// A call has none.
    fn take_trailers(&mut self) -> Vec<u8> {
        drop(self.client.take_trailers());
        Vec::new()
    }

    fn poll_gone(&mut self, cx: &mut Context<'_>, half_close: bool) -> Poll<()> {
        self.client.poll_gone(cx, half_close)
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

    fn interim(&mut self, backlog: &mut Backlog, head: &[u8]) -> io::Result<()> {
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
    ) -> io::Result<()> {
        if !self.translates {
            return self.client.respond(backlog, head, body, chunked, data);
        }
        let mut out = mem::take(&mut self.out);
        out.clear();
        match self.kind {
            Kind::WebText => web::encode(data, &mut out),
            Kind::Native | Kind::Web => out.extend_from_slice(data),
        }
        // What ends the client's copy is no longer what ended the endpoint's.
        let mut reader = BodyReader::new(Length::UntilClose);
        if body.is_done() {
            reader.end_of_stream();
            if !self.bare {
                let mut part = Vec::new();
                web::trailers(body.trailers(), &mut part);
                match self.kind {
                    Kind::WebText => web::encode(&part, &mut out),
                    Kind::Native | Kind::Web => out.extend_from_slice(&part),
                }
            }
        }
        let sent = self.client.respond(backlog, head, &reader, chunked, &out);
        self.out = out;
        sent
    }

    fn answer(&mut self, backlog: &mut Backlog, head: &[u8], body: &[u8]) -> io::Result<()> {
        self.client.answer(backlog, head, body)
    }

    fn switch(&mut self, backlog: &mut Backlog, head: &[u8], bytes: &[u8]) -> io::Result<()> {
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
