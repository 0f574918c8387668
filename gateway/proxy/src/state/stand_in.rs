//! Takes the place of a client for requests that the gateway makes itself: calls of policies, and background fetches of
//! the cache.
//!
//! To an exchange, a [`StandIn`] looks like a client that has sent its whole request, never closes the connection, and
//! accepts every byte at once. It passes the response to its [`ResponseTaker`].

use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::task::{Context, Poll};

use tollgate_http::h1::BodyReader;
use tollgate_net::Negotiated;

use crate::state::backlog::{Backlog, Sink};
use crate::state::client_side::{ClientStream, Duplex};
use crate::state::peer_error::PeerError;

/// Receives the response to a request that the gateway made itself.
pub(crate) trait ResponseTaker {
    /// Takes a part of the response. `head` is empty if it was taken before; `body` is done after the last part.
    ///
    /// # Errors
    /// If no more of the response is wanted.
    fn take(&mut self, head: &mut Vec<u8>, body: &BodyReader, data: &[u8]) -> Result<(), PeerError>;

    /// Called if the gateway answers instead of an endpoint.
    fn answered_by_gateway(&mut self);
}

/// Discards the response.
impl ResponseTaker for () {
    fn take(&mut self, _: &mut Vec<u8>, _: &BodyReader, _: &[u8]) -> Result<(), PeerError> {
        Ok(())
    }

    fn answered_by_gateway(&mut self) {}
}

/// The client's side of a request that the gateway makes itself.
#[derive(Debug)]
pub(crate) struct StandIn<T> {
    /// The TLS connection of the client that caused the request.
    pub tls: Option<Negotiated>,
    /// The address that this client has connected to.
    pub local: Option<SocketAddr>,
    /// Whether the request may be a gRPC call.
    pub may_be_grpc: bool,
    pub taker: T,
}

impl<T> Sink for StandIn<T> {
    fn write(&mut self, pieces: &[IoSlice<'_>]) -> Result<usize, PeerError> {
        Ok(pieces.iter().map(|piece| piece.len()).sum())
    }

    fn poll_write(&mut self, _: &mut Context<'_>, bytes: &[u8]) -> Poll<Result<usize, PeerError>> {
        Poll::Ready(Ok(bytes.len()))
    }
}

impl<T> Duplex for StandIn<T> {
    /// The whole body was there from the start.
    fn poll_read(&mut self, _: &mut Context<'_>, _: &mut [u8]) -> Poll<Result<usize, PeerError>> {
        Poll::Ready(Ok(0))
    }

    fn poll_shutdown(&mut self, _: &mut Context<'_>) -> Poll<Result<(), PeerError>> {
        Poll::Ready(Ok(()))
    }

    fn reset(&mut self) {}
}

impl<T: ResponseTaker> ClientStream for StandIn<T> {
    fn take_trailers(&mut self) -> Vec<u8> {
        Vec::new()
    }

    /// Never: the gateway drops the exchange.
    fn poll_peer_closed(&mut self, _: &mut Context<'_>, _: bool) -> Poll<()> {
        Poll::Pending
    }

    fn poll_room(&mut self, _: &mut Context<'_>) -> Poll<usize> {
        Poll::Ready(usize::MAX)
    }

    fn interim(&mut self, _: &mut Backlog, _: &[u8]) -> Result<(), PeerError> {
        Ok(())
    }

    fn switch(&mut self, _: &mut Backlog, _: &[u8], _: &[u8]) -> Result<(), PeerError> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn respond(
        &mut self,
        _: &mut Backlog,
        head: &mut Vec<u8>,
        body: &BodyReader,
        _: bool,
        data: &[u8],
    ) -> Result<(), PeerError> {
        self.taker.take(head, body, data)
    }

    fn answer(&mut self, _: &mut Backlog, _: &[u8], _: &[u8]) -> Result<(), PeerError> {
        self.taker.answered_by_gateway();
        Ok(())
    }

    fn tls(&self) -> Option<&Negotiated> {
        self.tls.as_ref()
    }

    fn local_address(&self) -> Option<SocketAddr> {
        self.local
    }

    fn may_be_grpc(&self) -> bool {
        self.may_be_grpc
    }
}
