//! The client's side of an exchange that fetches for the cache.
//!
//! [`fetch`](super::fetch) puts a [`Tap`] between the exchange and the client of a miss, and
//! [`background`](super::background) puts one before a client that takes everything. The tap passes the response on as
//! it arrives and copies it to the [`Fill`], so the client gets exactly what it would get without a cache. It withholds
//! a response that the client must not see: a 304 to the gateway's own condition, and an error that a stale response
//! replaces. The caller then answers from the store, or sends the client's own request if the response is not stored. If the
//! client asked for a range, the tap passes on that [part](ClientsPart) alone.
//!
//! While others may wait for the response and it may be stored, a client that leaves or is slow stops nothing: the exchange
//! goes on, and the backlog keeps what the client has not taken. That counts against the bound of all fetches. Otherwise
//! the exchange waits for the client, as without a cache.

use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use tollgate_cache::{Fill, Pushed, Stored, Unsent, Updated};
use tollgate_http::h1::{BodyLength, BodyReader};
use tollgate_http::{RequestHead, ResponseHead};
use tollgate_net::Negotiated;
use tollgate_policy::{CacheOutcome, Transform};

use super::admission::{Admitted, Fetch, Wanted};
use super::clients_part::ClientsPart;
use crate::state::backlog::{Backlog, Sink};
use crate::state::client_side::{ClientSide, ClientStream, Duplex};
use crate::state::peer_error::PeerError;

/// How much is read at once for a client that takes nothing at the moment, while other requests may follow the fetch.
const READ_AHEAD_BYTES: usize = 64 * 1024;
/// A useless response of at most this length is read to its end, so that the connection can be reused.
const USELESS_BYTES_MAX: u64 = 64 * 1024;

/// The client's side of an exchange that fetches for the cache.
pub(super) struct Tap<'a> {
    client: &'a mut dyn ClientStream,
    fetch: Fetch<'a>,
    fill: Option<Fill>,
    /// Whether the head of the endpoint's response has arrived.
    has_head: bool,
    /// Whether the body goes to the fill.
    is_filling: bool,
    /// Whether the response may still be stored, as far as is known.
    is_kept: bool,
    /// Bytes that went there.
    copied: u64,
    /// What the client has yet to take of a response that it must not delay; `None` as long as it is not slow.
    unsent: Option<Unsent>,
    /// Whether the backlog accumulates bytes for that reason.
    accumulates: bool,
    withheld: Option<Withheld>,
    /// The part that the client gets in place of the whole.
    part: Option<ClientsPart>,
    /// How many bytes of a useless response were skipped.
    skipped: u64,
    /// Whether the client has left, so that nothing more is written to it.
    is_gone: bool,
    stored: Option<Arc<Stored>>,
    /// The status of the endpoint's response, once there is one.
    status: Option<u16>,
}

/// Why a response is withheld from the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Withheld {
    /// It is a 304: the stored response is still valid.
    NotModified,
    /// It is an error that a stale response replaces.
    Error,
    /// It is whole, and the client asked for something else, which the store answers.
    Whole,
    /// It answers the gateway's request, not the client's, and is not stored.
    Useless,
}

/// How an exchange with a tap ended.
#[derive(Debug)]
pub(super) enum Fetched {
    /// The client has the response.
    Delivered,
    /// The client has left.
    Gone,
    /// The client got the part that it asked for, as far as that arrived.
    Part(ClientsPart),
    /// The client got nothing: the caller answers it with this response, which was validated or fetched.
    Stored(Arc<Stored>, Option<CacheOutcome>),
    /// The client has nothing yet, and is to be answered with the stale response in place of an error: the endpoint's, with
    /// its status, or one of the gateway.
    Stale(Option<u16>),
    /// The client has nothing yet, and its own request is to be sent.
    Again,
    /// The client got nothing, and nothing is stored: the caller answers with an error.
    Nothing,
}

impl<'a> Tap<'a> {
    pub fn new(client: &'a mut dyn ClientStream, fetch: Fetch<'a>, fill: Fill) -> Self {
        Self {
            client,
            fetch,
            fill: Some(fill),
            has_head: false,
            is_filling: false,
            is_kept: true,
            copied: 0,
            unsent: None,
            accumulates: false,
            withheld: None,
            part: None,
            skipped: 0,
            is_gone: false,
            stored: None,
            status: None,
        }
    }

    /// Returns how the exchange ended.
    pub fn end(self) -> Fetched {
        match (self.withheld, self.stored) {
            (None, _) if self.is_gone => Fetched::Gone,
            (None, _) => self.part.map_or(Fetched::Delivered, Fetched::Part),
            (Some(Withheld::NotModified), Some(stored)) => {
                Fetched::Stored(stored, Some(CacheOutcome::Revalidated))
            }
            (Some(Withheld::Useless), _) => Fetched::Again,
            (Some(_), Some(stored)) => Fetched::Stored(stored, None),
            (Some(Withheld::Error), None) => Fetched::Stale(self.status),
            (Some(Withheld::NotModified | Withheld::Whole), None) => Fetched::Nothing,
        }
    }

    /// Returns whether other requests may follow the fetch, so that the client must not end it.
    fn is_for_others(&self) -> bool {
        self.fill.is_some()
    }

    /// Returns whether the exchange must not wait for the client.
    fn may_run_ahead(&self) -> bool {
        self.fill.is_some() && self.is_kept
    }

    /// Bounds what the client has not taken.
    fn bound(&mut self, backlog: &mut Backlog) {
        if self.may_run_ahead() && !backlog.is_empty() {
            self.accumulates |= backlog.accumulate(self.fetch.rules().max_object);
            if let Some(fill) = &self.fill {
                self.unsent.get_or_insert_with(|| fill.unsent()).set(backlog.len());
            }
        } else if let Some(unsent) = &mut self.unsent {
            unsent.set(backlog.len());
            if std::mem::take(&mut self.accumulates) {
                backlog.stop_accumulating();
            }
        }
    }

    /// Has the client's own request sent if the client waits for a response that is not stored after all.
    fn do_without_whole(&mut self) {
        if self.withheld == Some(Withheld::Whole) {
            self.withheld = Some(Withheld::Useless);
        }
    }

    /// Whether the client has got all that it asked for, though the whole has not arrived.
    fn has_sent_part(&self) -> bool {
        self.part.as_ref().is_some_and(|part| part.is_complete)
    }

    /// Passes on what belongs to the part that the client asked for.
    fn send_part(
        &mut self,
        backlog: &mut Backlog,
        head: &mut Vec<u8>,
        body: &BodyReader,
        data: &[u8],
    ) -> Result<(), PeerError> {
        if self.has_sent_part() {
            self.bound(backlog);
            let is_long = body.remaining().is_none_or(|rest| rest > USELESS_BYTES_MAX);
            // The rest is for the store. If it is not stored, and no other request follows, it is of no use.
            return match !self.is_for_others() && backlog.is_empty() && !body.is_done() && is_long {
                true => Err(io::ErrorKind::ConnectionAborted.into()),
                false => Ok(()),
            };
        }
        let Some(part) = &mut self.part else { return Ok(()) };
        let wanted = part.take(data);
        part.is_complete = part.has_arrived();
        let reader =
            BodyReader::new(if part.is_complete { BodyLength::None } else { BodyLength::Exactly(1) });
        if head.is_empty() && wanted.is_empty() && !part.is_complete {
            return Ok(());
        }
        let sent = self.client.respond(backlog, head, &reader, false, wanted);
        self.bound(backlog);
        self.written(backlog, sent)
    }

    fn writes_nothing(&self) -> bool {
        self.is_gone || self.withheld.is_some()
    }

    /// Handles a response that the gateway made itself. It is never stored.
    fn own_response(&mut self, status: u16) {
        let Some(fill) = self.fill.take() else { return };
        self.fetch.end_without_response(status >= 500);
        if self.fetch.serves_stale(status) {
            self.withheld = Some(Withheld::Error);
            fill.fail();
        } else if status >= 500 {
            self.fail(fill);
        } else {
            fill.refuse();
        }
    }

    /// Ends a fetch without a usable response.
    fn fail(&self, fill: Fill) {
        if self.fetch.may_be_repeated() { fill.fail_over() } else { fill.fail() }
    }

    /// Copies a part of the body to the fill.
    fn copy(&mut self, body: &BodyReader, data: &[u8]) {
        let Some(fill) = self.fill.as_mut().filter(|_| self.is_filling) else { return };
        let (before, most) = (self.copied, self.fetch.rules().max_object);
        self.copied += data.len() as u64;
        if self.copied > most {
            fill.give_up();
            if before <= most {
                self.fetch.remember_too_long();
            }
        }
        let pushed = if data.is_empty() { Pushed::Stored } else { fill.push(data) };
        self.is_kept &= pushed == Pushed::Stored;
        if pushed == Pushed::Unused {
            self.fill = None;
            self.do_without_whole();
        } else if body.is_done()
            && let Some(fill) = self.fill.take()
        {
            self.stored = fill.finish();
            if self.stored.is_none() {
                self.do_without_whole();
            }
        }
    }

    /// Returns the result of a write to the client. While other requests may follow, a client that left is no failure.
    fn written(&mut self, backlog: &mut Backlog, result: Result<(), PeerError>) -> Result<(), PeerError> {
        match result {
            Err(_) if self.is_for_others() => {
                self.is_gone = true;
                self.unsent = None;
                backlog.clear();
                Ok(())
            }
            result => result,
        }
    }
}

impl Sink for Tap<'_> {
    fn write(&mut self, pieces: &[IoSlice<'_>]) -> Result<usize, PeerError> {
        let all = || pieces.iter().map(|piece| piece.len()).sum();
        if self.writes_nothing() {
            return Ok(all());
        }
        match self.client.write(pieces) {
            Err(_) if self.is_for_others() => {
                self.is_gone = true;
                Ok(all())
            }
            written => written,
        }
    }

    fn poll_write(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<Result<usize, PeerError>> {
        if self.writes_nothing() {
            return Poll::Ready(Ok(bytes.len()));
        }
        match ready!(self.client.poll_write(cx, bytes)) {
            Err(_) if self.is_for_others() => {
                self.is_gone = true;
                Poll::Ready(Ok(bytes.len()))
            }
            written => Poll::Ready(written),
        }
    }
}

impl Duplex for Tap<'_> {
    fn poll_read(&mut self, cx: &mut Context<'_>, buffer: &mut [u8]) -> Poll<Result<usize, PeerError>> {
        self.client.poll_read(cx, buffer)
    }

    fn poll_shutdown(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), PeerError>> {
        self.client.poll_shutdown(cx)
    }

    /// A client that has got its part must not see that the rest has failed.
    fn reset(&mut self) {
        if !self.has_sent_part() {
            self.client.reset();
        }
    }
}

impl ClientSide for Tap<'_> {
    const EXTENDED: bool = true;
    const WRAPS_CLIENT: bool = true;
}

impl ClientStream for Tap<'_> {
    fn take_trailers(&mut self) -> Vec<u8> {
        self.client.take_trailers()
    }

    fn poll_peer_closed(&mut self, cx: &mut Context<'_>, half_close: bool) -> Poll<()> {
        match self.is_for_others() {
            true => Poll::Pending,
            false if self.is_gone => Poll::Ready(()),
            false => self.client.poll_peer_closed(cx, half_close),
        }
    }

    fn poll_room(&mut self, cx: &mut Context<'_>) -> Poll<usize> {
        if let Some(fill) = &mut self.fill {
            ready!(fill.poll_room(cx));
        }
        if self.writes_nothing() || self.has_sent_part() {
            return Poll::Ready(usize::MAX);
        }
        match self.client.poll_room(cx) {
            Poll::Pending if self.may_run_ahead() => Poll::Ready(READ_AHEAD_BYTES),
            room => room,
        }
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

    fn endpoint_responds(&mut self, request: &RequestHead, response: &ResponseHead) {
        self.has_head = true;
        self.status = Some(response.status);
        let Some(mut fill) = self.fill.take() else { return };
        match self.fetch.admit(request, response) {
            Admitted::NotModified(valid, updated) => {
                self.withheld = Some(Withheld::NotModified);
                // Even if the updated response may not be stored, it answers this request.
                let answer = match updated {
                    Some(Updated { head, may_be_stored: true }) => fill.freshen(&valid, head),
                    Some(Updated { head, .. }) => Some(fill.use_once(&valid, head)),
                    None => {
                        fill.refuse();
                        None
                    }
                };
                self.stored = answer.or(Some(valid));
            }
            Admitted::AskAgain => {
                self.withheld = Some(Withheld::Useless);
                fill.refuse();
            }
            Admitted::StaleOnError => {
                self.withheld = Some(Withheld::Error);
                fill.fail();
            }
            Admitted::Stored { head, length, wanted } => {
                if fill.start(head, length) {
                    self.is_filling = true;
                    self.fill = Some(fill);
                    match wanted {
                        Wanted::Whole => {}
                        Wanted::Part(part) => self.part = Some(part),
                        Wanted::Stored => self.withheld = Some(Withheld::Whole),
                    }
                } else if !matches!(wanted, Wanted::Whole) {
                    self.fetch.remember_too_long();
                    self.withheld = Some(Withheld::Useless);
                }
            }
            // An endpoint in trouble must not get the requests of all followers at once.
            Admitted::Refused if response.status >= 500 => self.fail(fill),
            Admitted::Refused => fill.refuse(),
        }
    }

    fn status_for_client(&self, status: u16) -> u16 {
        self.part.as_ref().map_or(status, |part| part.status)
    }

    fn is_withheld(&self) -> bool {
        self.withheld.is_some()
    }

    fn interim(&mut self, backlog: &mut Backlog, head: &[u8]) -> Result<(), PeerError> {
        if self.writes_nothing() {
            return Ok(());
        }
        let sent = self.client.interim(backlog, head);
        self.written(backlog, sent)
    }

    fn switch(&mut self, backlog: &mut Backlog, head: &[u8], bytes: &[u8]) -> Result<(), PeerError> {
        self.fill = None;
        self.client.switch(backlog, head, bytes)
    }

    fn translate(&mut self, head: &mut Vec<u8>) {
        if !self.has_head {
            self.own_response(status_of(head));
        }
        if self.withheld.is_none() {
            // RFC 9211, 2: not for a response that the gateway made itself.
            if self.has_head {
                if let Some(part) = &self.part {
                    part.change_head(head);
                }
                self.fetch.write_status(head, self.is_filling);
            }
            self.client.translate(head);
        }
    }

    fn respond(
        &mut self,
        backlog: &mut Backlog,
        head: &mut Vec<u8>,
        body: &BodyReader,
        chunked: bool,
        data: &[u8],
    ) -> Result<(), PeerError> {
        // Copy first: a client that has received the whole response may rely on it being stored.
        self.copy(body, data);
        if self.withheld == Some(Withheld::Useless) {
            self.skipped = self.skipped.saturating_add(data.len() as u64);
            let length = self.skipped.saturating_add(body.remaining().unwrap_or(0));
            if !self.is_for_others() && !body.is_done() && length > USELESS_BYTES_MAX {
                return Err(io::ErrorKind::ConnectionAborted.into());
            }
        }
        if self.writes_nothing() {
            return Ok(());
        }
        if self.part.is_some() {
            return self.send_part(backlog, head, body, data);
        }
        let sent = self.client.respond(backlog, head, body, chunked, data);
        self.bound(backlog);
        self.written(backlog, sent)
    }

    fn close_follows(&mut self) {
        if self.withheld.is_none() && self.part.is_none() {
            self.client.close_follows();
        }
    }

    fn answer(&mut self, backlog: &mut Backlog, head: &[u8], body: &[u8]) -> Result<(), PeerError> {
        match self.writes_nothing() {
            true => Ok(()),
            false => self.client.answer(backlog, head, body),
        }
    }

    fn forbid_indexing(&mut self) {
        self.client.forbid_indexing();
    }

    fn tls(&self) -> Option<&Negotiated> {
        self.client.tls()
    }

    fn local_address(&self) -> Option<SocketAddr> {
        self.client.local_address()
    }

    fn may_be_grpc(&self) -> bool {
        self.client.may_be_grpc()
    }

    fn transform(&mut self) -> Option<&mut Option<Box<dyn Transform>>> {
        self.client.transform()
    }
}

/// Returns the status of a response head: `HTTP/1.1 200 OK`.
fn status_of(head: &[u8]) -> u16 {
    let digits = head.get(9..12).unwrap_or_default();
    digits.iter().fold(0, |status, digit| status * 10 + u16::from(digit & 0x0f))
}
