//! Continues an exchange from the attempt that won a hedged race.

use tollgate_http::h1::BodyLength;

use super::{DownloadProgress, Exchange, ExchangeEnd, Repeatable, ResponseStage, Upload};
use crate::exchange::upstream_side::UpstreamSide;
use crate::state::backlog::Backlog;
use crate::state::client_side::ClientSide;

/// An attempt whose response head has arrived, while the client has received nothing.
#[derive(Debug)]
pub(crate) struct StartedResponse {
    /// The part of the request that the endpoint has not taken.
    pub(super) to_upstream: Backlog,
    pub(super) upload: Upload,
    /// The bytes received from the endpoint: interim heads, the whole final head, and what followed it.
    pub(super) received: Vec<u8>,
}

impl<S: ClientSide, U: UpstreamSide> Exchange<'_, '_, S, U> {
    /// Takes over an attempt, and passes on what has arrived. Returns the end if the exchange is over with
    /// that. Called instead of the first poll.
    pub fn resume(&mut self, started: StartedResponse) -> Option<ExchangeEnd> {
        let StartedResponse { to_upstream, upload, received } = started;
        self.stage = ResponseStage::Head;
        self.upload = upload;
        self.repeatable = Repeatable::Whole;
        self.response.reach(DownloadProgress::Started);
        let state = &mut *self.parties.state;
        if let BodyLength::Exactly(length) = state.request.length
            && self.parties.collected.is_none()
        {
            let used = usize::try_from(length).unwrap_or(usize::MAX).min(state.inbox.len());
            let _ = self.request.read(&mut state.inbox[..used]);
            state.record.bytes_in = used as u64;
            self.kept_in_inbox = used;
        }
        state.to_upstream = to_upstream;
        state.partial = received;
        if U::SEPARATE_HEADS {
            // These heads are read again from the connection.
            self.wait();
            return None;
        }
        let end = match self.process(&mut []) {
            Ok(None) => {
                self.wait();
                return None;
            }
            Ok(Some(end)) | Err(end) => end,
        };
        self.release_body(&end);
        Some(end)
    }
}
