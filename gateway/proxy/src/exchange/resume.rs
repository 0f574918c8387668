//! Continues an exchange from the attempt that won a hedged race.

use std::io::ErrorKind;

use tollgate_http::h1::BodyLength;

use super::{End, Exchange, Stage};
use crate::backlog::Backlog;
use crate::client_side::ClientSide;
use crate::upstream_side::UpstreamSide;

/// An attempt whose response head has arrived, while the client has received nothing.
#[derive(Debug)]
pub(crate) struct Underway {
    /// The part of the request that the endpoint has not taken.
    pub to_upstream: Backlog,
    /// The error because of which the endpoint takes no more of the request; `None` if there is none.
    pub deaf: Option<ErrorKind>,
    /// The bytes received from the endpoint: interim heads, the whole final head, and what followed it.
    pub received: Vec<u8>,
}

impl<S: ClientSide, U: UpstreamSide> Exchange<'_, '_, S, U> {
    /// Takes over an attempt, and passes on what has arrived. Returns the end if the exchange is over with
    /// that. Called instead of the first poll.
    pub fn resume(&mut self, underway: Underway) -> Option<End> {
        let Underway { to_upstream, deaf, received } = underway;
        self.stage = Stage::Head;
        (self.wrote, self.replayable, self.heard) = (true, true, true);
        let scratch = &mut *self.parties.scratch;
        if let BodyLength::Exactly(length) = scratch.request.length
            && self.parties.collected.is_none()
        {
            let used = usize::try_from(length).unwrap_or(usize::MAX).min(scratch.inbox.len());
            let _ = self.request.read(&mut scratch.inbox[..used]);
            scratch.ledger.bytes_in = used as u64;
            self.held = used;
        }
        scratch.to_upstream = to_upstream;
        scratch.partial = received;
        self.sent = deaf.is_none() && scratch.to_upstream.is_empty();
        if let Some(error) = deaf {
            self.deafened(error);
        }
        if U::APART {
            // These heads are read again from the connection.
            self.wait();
            return None;
        }
        let end = match self.digest(&mut []) {
            Ok(None) => {
                self.wait();
                return None;
            }
            Ok(Some(end)) | Err(end) => end,
        };
        self.let_go(&end);
        Some(end)
    }
}
