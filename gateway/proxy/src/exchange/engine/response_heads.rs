//! The response heads of one exchange: parses the bytes of HTTP/1, and counts interim responses.
//!
//! `receiving` passes each head on to the client; `hedged` only looks for the final one. Both read through
//! [`ResponseHeads`], so they reject the same responses.

use tollgate_http::h1::{Progress, ResponseParser};
use tollgate_http::{HeadError, HeadLimits, Method, ResponseHead};
use tollgate_observe::Reason;

/// The most interim responses of one exchange. Endpoints send only a few, and an endless sequence would keep
/// an exchange alive for ever.
const MAX_INTERIM: u32 = 32;

/// The content of an endpoint's bytes. The number is the length of the head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HeadStep {
    /// The head is not complete yet.
    Partial,
    /// An interim response (1xx, except 101).
    Interim(usize),
    /// The final response.
    Final(usize),
}

/// Reads the heads of one exchange, up to the final one.
#[derive(Default)]
pub(super) struct ResponseHeads {
    parser: ResponseParser,
    interim: u32,
}

impl ResponseHeads {
    /// Parses the next head. If it is not complete, the caller passes its bytes again, followed by more.
    ///
    /// # Errors
    /// If the head is malformed or exceeds a limit. [`rejection`](Self::rejection) has the reason.
    #[inline]
    pub fn advance(
        &mut self,
        input: &[u8],
        request_method: Method,
        response: &mut ResponseHead,
        limits: &HeadLimits,
    ) -> Result<HeadStep, HeadError> {
        Ok(match self.parser.advance(input, request_method, response, limits)? {
            Progress::Partial => HeadStep::Partial,
            Progress::Complete(end) if !response.is_interim() => HeadStep::Final(end),
            Progress::Complete(end) => {
                self.parser = ResponseParser::default();
                HeadStep::Interim(end)
            }
        })
    }

    /// Counts an interim response.
    ///
    /// # Errors
    /// If there were too many.
    pub fn count_interim(&mut self) -> Result<(), Reason> {
        self.interim += 1;
        if self.interim > MAX_INTERIM { Err(Reason::HttpProtocolError) } else { Ok(()) }
    }

    /// Returns the reason for an error that [`advance`](Self::advance) has just returned for `input`, and the
    /// rejected bytes if the response is malformed.
    #[cold]
    pub fn rejection(
        &self,
        input: &[u8],
        error: HeadError,
        response: &ResponseHead,
    ) -> (Reason, Option<Vec<u8>>) {
        match error {
            HeadError::TooLarge | HeadError::TooMany => (Reason::ResponseHeadersTooLarge, None),
            _ => (Reason::HttpProtocolError, self.parser.rejected_bytes(input, error, response)),
        }
    }
}
