//! How a request ends that its policies do not let go on.

use tollgate_observe::Reason;
use tollgate_policy::{PolicyResponse, Refusal};

use crate::state::request_state::RequestState;

/// How a request ends that its policies do not let go on.
pub(crate) enum PolicyEnd {
    /// A policy refuses it, with a status that replaces the reason's, and with these additional field lines.
    Refused(Reason, Option<u16>, Vec<u8>),
    /// A policy answers it.
    Answered(PolicyResponse),
    /// The client has left in the meantime.
    Gone,
}

impl PolicyEnd {
    /// Converts a refusal, and records its detail.
    pub fn refused(refusal: Refusal, state: &mut RequestState) -> Self {
        if let Some(detail) = refusal.detail {
            state.record.remarks().detail = Some(detail.into());
        }
        Self::Refused(refusal.reason, refusal.status, refusal.lines)
    }

    /// Returns it in words, for the trace of the request.
    pub fn in_words(&self) -> String {
        match self {
            Self::Refused(reason, status, _) => {
                format!("refuse with {}: {}", status.unwrap_or(reason.status()), reason.as_str())
            }
            Self::Answered(answer) => format!("answer with {}", answer.status),
            Self::Gone => "the client has left".to_owned(),
        }
    }
}
