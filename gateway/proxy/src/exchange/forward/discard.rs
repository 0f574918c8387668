//! Discards the rest of a response that the client does not get, so that the connection can be used again.

use std::time::Instant;

use tollgate_http::h1::BodyReader;
use tollgate_upstream::Outcome;

use super::Forwarding;
use crate::exchange::upstream_side::UpstreamSide;
use crate::state::client_side::ClientSide;

impl<S: ClientSide, U: UpstreamSide> Forwarding<'_, S, U> {
    /// Discards a response that was held back. `body` is its reader, or `None` if its connection cannot be
    /// used again.
    pub(super) fn discard(&self, connection: U, body: Option<BodyReader>, now: Instant) {
        self.upstream.report(connection.pool(), Outcome::Answered(self.held_back()));
        connection.discard(self.worker, body, now);
    }

    /// Like [`Self::answered`], for a response that the client does not get.
    fn held_back(&self) -> u16 {
        match self.state.record.grpc_status {
            Some(_) => self.answered(),
            None => self.state.response.status,
        }
    }
}
