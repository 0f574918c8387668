//! The client's side of a fetch in the background, which no client waits for.

use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::task::{Context, Poll};

use tollgate_http::h1::BodyReader;
use tollgate_net::Negotiated;

use crate::state::backlog::{Backlog, Sink};
use crate::state::client_side::{ClientStream, Duplex};
use crate::state::peer_error::PeerError;

/// A client that has sent a request without a body and takes nothing.
#[derive(Debug, Default)]
pub(super) struct AbsentClient {
    /// The TLS connection of the client that caused the fetch.
    pub tls: Option<Negotiated>,
    pub local: Option<SocketAddr>,
}

impl Sink for AbsentClient {
    fn write(&mut self, pieces: &[IoSlice<'_>]) -> Result<usize, PeerError> {
        Ok(pieces.iter().map(|piece| piece.len()).sum())
    }

    fn poll_write(&mut self, _: &mut Context<'_>, bytes: &[u8]) -> Poll<Result<usize, PeerError>> {
        Poll::Ready(Ok(bytes.len()))
    }
}

impl Duplex for AbsentClient {
    fn poll_read(&mut self, _: &mut Context<'_>, _: &mut [u8]) -> Poll<Result<usize, PeerError>> {
        Poll::Ready(Ok(0))
    }

    fn poll_shutdown(&mut self, _: &mut Context<'_>) -> Poll<Result<(), PeerError>> {
        Poll::Ready(Ok(()))
    }

    fn reset(&mut self) {}
}

impl ClientStream for AbsentClient {
    fn take_trailers(&mut self) -> Vec<u8> {
        Vec::new()
    }

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
        _: &mut Vec<u8>,
        _: &BodyReader,
        _: bool,
        _: &[u8],
    ) -> Result<(), PeerError> {
        Ok(())
    }

    fn answer(&mut self, _: &mut Backlog, _: &[u8], _: &[u8]) -> Result<(), PeerError> {
        Ok(())
    }

    fn tls(&self) -> Option<&Negotiated> {
        self.tls.as_ref()
    }

    fn local_address(&self) -> Option<SocketAddr> {
        self.local
    }

    fn may_be_grpc(&self) -> bool {
        false
    }
}
