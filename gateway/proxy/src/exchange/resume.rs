//! An exchange that goes on where a race of attempts left its winner.

use std::io::ErrorKind;

use tollgate_http::h1::Length;

use super::{End, Exchange, Stage};
use crate::backlog::Backlog;
use crate::client_side::ClientSide;
use crate::upstream_side::UpstreamSide;

/// An attempt whose response's head is here, and of which the client has heard nothing.
#[derive(Debug)]
pub(crate) struct Underway {
    /// What the endpoint has not taken yet of the request.
    pub to_upstream: Backlog,
    /// Why the endpoint takes no more of it; `None`: it does, or has it all.
    pub deaf: Option<ErrorKind>,
    /// What came from the endpoint: the final head whole, what came before it, and what came with it.
    pub received: Vec<u8>,
}

impl<S: ClientSide, U: UpstreamSide> Exchange<'_, '_, S, U> {
    /// Takes over an attempt, and passes on what has come; where it has ended with that, how. Instead of the first poll.
    pub fn resume(&mut self, underway: Underway) -> Option<End> {
        let Underway { to_upstream, deaf, received } = underway;
        self.stage = Stage::Head;
        (self.wrote, self.replayable, self.heard) = (true, true, true);
        let scratch = &mut *self.parties.scratch;
        if let Length::Exactly(length) = scratch.request.length
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
            // Its heads are read again.
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
