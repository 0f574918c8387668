//! The client's side of an exchange whose bodies the policies change or copy.
//!
//! [`carry`](super) wraps the real client in a [`TransformingClient`]. It decodes the request body, feeds
//! copies of it to mirrors, transforms the response body, and delays both if a policy limits their rates. All else is
//! passed through.
//!
//! A delayed response waits in the exchange's backlog, as the response for a slow client does, and is bounded like it.

use std::io::IoSlice;
use std::net::SocketAddr;
use std::task::{Context as Task, Poll, ready};

use tollgate_http::Version;
use tollgate_http::h1::{BodyLength, BodyReader};
use tollgate_net::{Negotiated, Timers};
use tollgate_policy::{Bandwidth, Transform};

use super::body_transform::BodyTransform;
use super::pacer::Pacer;
use super::pending_copy::PendingCopy;
use crate::state::backlog::{Backlog, Sink};
use crate::state::client_side::{ClientSide, ClientStream, Duplex};
use crate::state::peer_error::PeerError;

/// A client whose request or response body the policies use. It is one type for every version of HTTP, so the
/// code of the exchange is compiled once more in total, not once more per version.
pub(crate) struct TransformingClient<'a> {
    client: &'a mut dyn ClientStream,
    version: Version,
    transform: Option<Box<dyn Transform>>,
    /// The transformed part of the response that is sent next.
    out: Vec<u8>,
    /// The transform of the request's body.
    body_transform: Option<BodyTransform>,
    /// Copies of the request that wait for its body.
    copies: Vec<PendingCopy>,
    /// Delays the response's body, if its rate is limited.
    response_pacer: Option<Pacer>,
    /// Bytes at the front of the backlog that the pacer has let through. They are offered to the client until it has
    /// taken them all: over TLS they may be encrypted already.
    let_through: usize,
    /// Delays the request's body, if its rate is limited.
    request_pacer: Option<Pacer>,
    /// Whether the response and the request's body were delayed at the last call of
    /// [`pacing_changed`](ClientStream::pacing_changed).
    were_paced: (bool, bool),
}

impl<'a> TransformingClient<'a> {
    /// Wraps a client whose request has this version.
    pub fn new(client: &'a mut dyn ClientStream, version: Version) -> Self {
        Self {
            client,
            version,
            transform: None,
            out: Vec::new(),
            body_transform: None,
            copies: Vec::new(),
            response_pacer: None,
            let_through: 0,
            request_pacer: None,
            were_paced: (false, false),
        }
    }

    /// Limits the rates of the bodies from now on.
    pub fn limit_bandwidth(&mut self, Bandwidth { response, request }: Bandwidth, timers: &Timers) {
        self.response_pacer = response.map(|limit| Pacer::new(limit, timers.deadline()));
        self.request_pacer = request.map(|limit| Pacer::new(limit, timers.deadline()));
    }

    /// Sets the transform of the request's body.
    pub fn decode(&mut self, body_transform: Option<BodyTransform>) {
        self.body_transform = body_transform;
    }

    /// Returns the bytes after a request whose body was transformed.
    pub fn rest(&mut self) -> Vec<u8> {
        self.body_transform.take().map(BodyTransform::into_rest).unwrap_or_default()
    }

    /// Reads the request's body as the exchange must see it.
    fn poll_body(&mut self, cx: &mut Task<'_>, buffer: &mut [u8]) -> Poll<Result<usize, PeerError>> {
        let (client, mut pacer) = (&mut *self.client, self.request_pacer.as_mut());
        let Some(body_transform) = &mut self.body_transform else {
            return poll_client(client, pacer, cx, buffer);
        };
        while !body_transform.is_ready() {
            let count = ready!(poll_client(client, pacer.as_deref_mut(), cx, buffer))?;
            body_transform.take(&mut buffer[..count]);
        }
        Poll::Ready(body_transform.read(buffer))
    }

    /// Passes a part of the response on, or leaves it to the backlog if its rate is limited.
    fn pass_on(
        &mut self,
        backlog: &mut Backlog,
        head: &mut Vec<u8>,
        body: &BodyReader,
        chunked: bool,
        data: &[u8],
    ) -> Result<(), PeerError> {
        let Some(pacer) = &mut self.response_pacer else {
            return self.client.respond(backlog, head, body, chunked, data);
        };
        let before = backlog.len();
        self.client.hold(backlog, head, body, chunked, data)?;
        // Neither the head nor the framing is a part of the body.
        let kept = backlog.len().saturating_sub(before);
        pacer.exempt(kept.saturating_sub(data.len() as u64));
        Ok(())
    }

    /// Adds a copy of the request that waits for its body.
    pub fn copy(&mut self, copy: Option<PendingCopy>) {
        self.copies.extend(copy);
    }
}

/// Reads from the client, at most as much as the pacer lets through.
fn poll_client(
    client: &mut dyn ClientStream,
    pacer: Option<&mut Pacer>,
    cx: &mut Task<'_>,
    buffer: &mut [u8],
) -> Poll<Result<usize, PeerError>> {
    let Some(pacer) = pacer else { return client.poll_read(cx, buffer) };
    let most = ready!(pacer.poll_piece(cx)).min(buffer.len());
    let count = ready!(client.poll_read(cx, &mut buffer[..most]))?;
    pacer.count(count);
    Poll::Ready(Ok(count))
}

impl Sink for TransformingClient<'_> {
    fn write(&mut self, pieces: &[IoSlice<'_>]) -> Result<usize, PeerError> {
        self.client.write(pieces)
    }

    fn poll_write(&mut self, cx: &mut Task<'_>, bytes: &[u8]) -> Poll<Result<usize, PeerError>> {
        let Some(pacer) = &mut self.response_pacer else { return self.client.poll_write(cx, bytes) };
        if self.let_through == 0 {
            self.let_through = ready!(pacer.poll_piece(cx)).min(bytes.len());
            pacer.count(self.let_through);
        }
        let offered = &bytes[..self.let_through.min(bytes.len())];
        let count = ready!(self.client.poll_write(cx, offered))?;
        self.let_through = self.let_through.saturating_sub(count);
        Poll::Ready(Ok(count))
    }
}

impl Duplex for TransformingClient<'_> {
    fn poll_read(&mut self, cx: &mut Task<'_>, buffer: &mut [u8]) -> Poll<Result<usize, PeerError>> {
        let polled = self.poll_body(cx, buffer);
        if !self.copies.is_empty()
            && let Poll::Ready(Ok(count)) = &polled
        {
            let copies = std::mem::take(&mut self.copies);
            self.copies = copies.into_iter().filter_map(|copy| copy.take(&buffer[..*count])).collect();
        }
        polled
    }

    fn poll_shutdown(&mut self, cx: &mut Task<'_>) -> Poll<Result<(), PeerError>> {
        self.client.poll_shutdown(cx)
    }

    fn reset(&mut self) {
        self.client.reset();
    }
}

impl ClientSide for TransformingClient<'_> {
    /// Only a request of HTTP/2 can turn out to be an extended CONNECT.
    const EXTENDED: bool = true;
    const WRAPS_CLIENT: bool = true;
}

impl ClientStream for TransformingClient<'_> {
    fn take_trailers(&mut self) -> Vec<u8> {
        let trailers = self.client.take_trailers();
        match &self.body_transform {
            Some(body_transform) if trailers.is_empty() => body_transform.trailers().to_vec(),
            _ => trailers,
        }
    }

    fn poll_peer_closed(&mut self, cx: &mut Task<'_>, half_close: bool) -> Poll<()> {
        self.client.poll_peer_closed(cx, half_close)
    }

    fn poll_room(&mut self, cx: &mut Task<'_>) -> Poll<usize> {
        self.client.poll_room(cx)
    }

    fn may_send(&self) -> bool {
        self.client.may_send()
    }

    fn read_ahead(&self) -> usize {
        self.client.read_ahead()
    }

    fn forbid_indexing(&mut self) {
        self.client.forbid_indexing();
    }

    fn interim(&mut self, backlog: &mut Backlog, head: &[u8]) -> Result<(), PeerError> {
        self.client.interim(backlog, head)
    }

    /// The bytes of another protocol are no bodies.
    fn switch(&mut self, backlog: &mut Backlog, head: &[u8], bytes: &[u8]) -> Result<(), PeerError> {
        (self.response_pacer, self.request_pacer) = (None, None);
        self.client.switch(backlog, head, bytes)
    }

    fn respond(
        &mut self,
        backlog: &mut Backlog,
        head: &mut Vec<u8>,
        body: &BodyReader,
        chunked: bool,
        data: &[u8],
    ) -> Result<(), PeerError> {
        let Some(transform) = &mut self.transform else {
            return self.pass_on(backlog, head, body, chunked, data);
        };
        let mut out = std::mem::take(&mut self.out);
        out.clear();
        if !data.is_empty() {
            transform.push(data, &mut out).map_err(PeerError::Rejected)?;
        }
        // The transformed body ends differently from the endpoint's, so it needs its own reader.
        let mut reader = BodyReader::new(BodyLength::UntilClose);
        if body.is_done() {
            transform.finish(&mut out).map_err(PeerError::Rejected)?;
            reader.end_with_trailers(body.trailers().to_vec());
        }
        let sent = self.pass_on(backlog, head, &reader, self.version == Version::Http11, &out);
        self.out = out;
        sent
    }

    fn answer(&mut self, backlog: &mut Backlog, head: &[u8], body: &[u8]) -> Result<(), PeerError> {
        if self.response_pacer.is_none() {
            return self.client.answer(backlog, head, body);
        }
        self.pass_on(backlog, &mut head.to_vec(), &BodyReader::new(BodyLength::None), false, body)
    }

    fn is_response_paced(&self) -> bool {
        self.response_pacer.as_ref().is_some_and(Pacer::is_waiting)
    }

    fn is_request_paced(&self) -> bool {
        self.request_pacer.as_ref().is_some_and(Pacer::is_waiting)
    }

    fn pacing_changed(&mut self) -> bool {
        let are_paced = (self.is_response_paced(), self.is_request_paced());
        std::mem::replace(&mut self.were_paced, are_paced) != are_paced
    }

    fn tls(&self) -> Option<&Negotiated> {
        self.client.tls()
    }

    fn may_be_grpc(&self) -> bool {
        self.client.may_be_grpc()
    }

    fn local_address(&self) -> Option<SocketAddr> {
        self.client.local_address()
    }

    fn transform(&mut self) -> Option<&mut Option<Box<dyn Transform>>> {
        Some(&mut self.transform)
    }
}
