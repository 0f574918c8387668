//! A stream as the client's side of an exchange.

use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes};
use h2::server::SendResponse;
use h2::{Reason, RecvStream, SendStream};
use http::HeaderMap;
use tollgate_http::h1::BodyReader;
use tollgate_http::h2::{Chunk, decode_trailers};
use tollgate_net::{Negotiated, Peek};

use super::fields;
use super::outlet::{Outlet, gone};
use super::shared::Shared;

use crate::backlog::{Backlog, Sink};
use crate::client_side::{ClientSide, ClientStream, Duplex};

/// How much of a response is read before the client has taken any of it, and how much at most: twice as much each time
/// it takes all, half as much when it does not. So a client that takes nothing makes the gateway keep little.
const ROOM: (usize, usize, usize) = (4 * 1024, 8 * 1024, 64 * 1024);
/// Bytes of a request's body that are taken before its head goes upstream, so that both go at once and can be sent again.
const EARLY: usize = 64 * 1024;

/// A stream as the client's side of an exchange.
#[derive(Debug)]
pub(crate) struct Http2Stream {
    body: RecvStream,
    /// Data that has come and was not read.
    data: Bytes,
    trailers: Vec<u8>,
    respond: SendResponse<Chunk>,
    /// The way for the response's body, once its head has gone.
    sender: Option<Outlet>,
    end: End,
    room: usize,
    shared: Rc<Shared>,
}

/// How the response ends.
#[derive(Debug)]
enum End {
    /// That is not known yet.
    Open,
    /// All of it is in the backlog; these trailers, or an end without any, are to follow.
    Due(Option<HeaderMap>),
    /// Its end has gone.
    Sent,
}

impl Http2Stream {
    pub(super) fn new(body: RecvStream, respond: SendResponse<Chunk>, shared: Rc<Shared>) -> Self {
        shared.stream_began();
        Self {
            body,
            data: Bytes::new(),
            trailers: Vec::new(),
            respond,
            sender: None,
            end: End::Open,
            room: ROOM.1,
            shared,
        }
    }

    /// Whether the request has no body, or all of it was read.
    pub(super) fn is_ended(&self) -> bool {
        self.body.is_end_stream()
    }

    /// Takes what has come of the body already.
    pub(super) fn take_early(&mut self, cx: &mut Context<'_>, inbox: &mut Vec<u8>) {
        while inbox.len() < EARLY
            && let Poll::Ready(Some(Ok(data))) = self.body.poll_data(cx)
        {
            inbox.extend_from_slice(&data);
            // An error means that the stream is gone, which whoever goes on with it finds out.
            let _ = self.body.flow_control().release_capacity(data.len());
        }
    }

    /// The exchange has ended. `whole`: nothing of its response waits any longer. What of the request's body nobody wants
    /// is refused by the library when the stream is dropped (RFC 9113, 8.1).
    pub(super) fn finish(mut self, whole: bool) {
        let end = std::mem::replace(&mut self.end, End::Sent);
        match (end, &mut self.sender) {
            (End::Sent, _) => {}
            (End::Due(trailers), Some(sender)) if whole => {
                // A stream that is gone needs no end.
                let _ = sender.end(trailers);
            }
            (end, Some(sender)) => {
                self.end = end;
                sender.reset(Reason::INTERNAL_ERROR);
            }
            (end, None) => {
                self.end = end;
                self.respond.send_reset(Reason::INTERNAL_ERROR);
            }
        }
    }

    fn head(&mut self, head: &[u8], ends: bool) -> io::Result<()> {
        let sender = self.respond.send_response(fields::response(head)?, ends).map_err(|_| gone())?;
        self.answer_by(sender);
        if ends {
            self.end = End::Sent;
            self.shared.piece_taken();
        }
        Ok(())
    }

    /// The head of the response has gone; its body goes this way.
    fn answer_by(&mut self, sender: SendStream<Chunk>) {
        self.sender = Some(Outlet::new(sender, self.shared.gate.clone()));
    }

    /// The client has taken so much of so much.
    fn took(&mut self, count: usize, wanted: usize) {
        if count > 0 {
            self.shared.piece_taken();
        }
        let (least, _, most) = ROOM;
        self.room = if count == wanted { (self.room * 2).min(most) } else { (self.room / 2).max(least) };
    }

    /// Sends what the windows let through, with the end if that was all and it is the `last`.
    fn data(&mut self, pieces: &[IoSlice<'_>], last: bool) -> io::Result<usize> {
        let wanted = pieces.iter().map(|piece| piece.len()).sum::<usize>();
        let sender = self.sender.as_mut().ok_or_else(gone)?;
        let count = sender.write(pieces, last)?;
        self.took(count, wanted);
        if last && count == wanted && count > 0 {
            self.end = End::Sent;
        }
        Ok(count)
    }

    /// Sends data behind what waits already; `last`: the end goes with it, if all of it goes.
    fn send(&mut self, backlog: &mut Backlog, data: &[u8], last: bool) -> io::Result<()> {
        let taken = if backlog.is_empty() { self.data(&[IoSlice::new(data)], last)? } else { 0 };
        backlog.keep(&data[taken..])
    }
}

impl Sink for Http2Stream {
    fn write(&mut self, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        self.data(pieces, false)
    }

    fn poll_write(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let sender = self.sender.as_mut().ok_or_else(gone)?;
        let count = ready!(sender.poll_write(cx, bytes))?;
        self.took(count, bytes.len());
        Poll::Ready(Ok(count))
    }
}

impl Duplex for Http2Stream {
    fn poll_read(&mut self, cx: &mut Context<'_>, buffer: &mut [u8]) -> Poll<io::Result<usize>> {
        while self.data.is_empty() {
            match ready!(self.body.poll_data(cx)) {
                Some(data) => self.data = data.map_err(|_| gone())?,
                None => {
                    let trailers = ready!(self.body.poll_trailers(cx)).map_err(|_| gone())?;
                    if let Some(trailers) = trailers {
                        let fields =
                            trailers.iter().map(|(name, value)| (name.as_str().as_bytes(), value.as_bytes()));
                        self.trailers = decode_trailers(fields)
                            .map_err(|_| io::Error::from(io::ErrorKind::InvalidData))?;
                    }
                    return Poll::Ready(Ok(0));
                }
            }
        }
        let count = self.data.len().min(buffer.len());
        buffer[..count].copy_from_slice(&self.data[..count]);
        self.data.advance(count);
        // Only now may the client send as much again: whoever reads has room for it.
        let _ = self.body.flow_control().release_capacity(count);
        Poll::Ready(Ok(count))
    }

    fn poll_shutdown(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        if let (End::Open, Some(sender)) = (&self.end, &mut self.sender) {
            sender.end(None)?;
            self.end = End::Sent;
        }
        Poll::Ready(Ok(()))
    }
}

impl ClientSide for Http2Stream {
    const EXTENDED: bool = true;
}

impl ClientStream for Http2Stream {
    fn switch(&mut self, backlog: &mut Backlog, head: &[u8], bytes: &[u8]) -> io::Result<()> {
        let sender = self.respond.send_response(fields::switched(head)?, false).map_err(|_| gone())?;
        self.answer_by(sender);
        if bytes.is_empty() { Ok(()) } else { self.send(backlog, bytes, false) }
    }

    fn take_trailers(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.trailers)
    }

    /// A stream has nothing but its body, so all that can be there is its reset.
    fn poll_peek(&mut self, cx: &mut Context<'_>) -> Poll<Peek> {
        let reset = match &mut self.sender {
            Some(sender) => sender.poll_reset(cx),
            None => self.respond.poll_reset(cx).map(drop),
        };
        reset.map(|()| Peek::Reset)
    }

    fn poll_room(&mut self, cx: &mut Context<'_>) -> Poll<usize> {
        let Some(sender) = &mut self.sender else { return Poll::Ready(self.room) };
        let gate = ready!(sender.poll_room(cx));
        Poll::Ready(self.room.min(gate.max(ROOM.0)))
    }

    fn interim(&mut self, _: &mut Backlog, head: &[u8]) -> io::Result<()> {
        self.respond.send_informational(fields::response(head)?).map_err(|_| gone())
    }

    fn respond(
        &mut self,
        backlog: &mut Backlog,
        head: &mut Vec<u8>,
        body: &BodyReader,
        _: bool,
        data: &[u8],
    ) -> io::Result<()> {
        let trailers = if body.is_done() { body.trailers() } else { b"" };
        let last = body.is_done() && trailers.is_empty();
        if !head.is_empty() {
            self.head(head, last && data.is_empty())?;
        }
        if !data.is_empty() {
            self.send(backlog, data, last)?;
        }
        if !body.is_done() || matches!(self.end, End::Sent) {
            return Ok(());
        }
        let trailers = if trailers.is_empty() { None } else { Some(fields::map(trailers)?) };
        match &mut self.sender {
            Some(sender) if backlog.is_empty() => {
                sender.end(trailers)?;
                self.end = End::Sent;
            }
            _ => self.end = End::Due(trailers),
        }
        Ok(())
    }

    fn answer(&mut self, backlog: &mut Backlog, head: &[u8], body: &[u8]) -> io::Result<()> {
        self.head(head, body.is_empty())?;
        if !body.is_empty() {
            self.send(backlog, body, true)?;
            if !matches!(self.end, End::Sent) {
                self.end = End::Due(None);
            }
        }
        Ok(())
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
        self.shared.stream_ended();
    }
}
