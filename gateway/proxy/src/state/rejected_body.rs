//! Bodies at fault: the error for a body that must not be passed on, and the reasons for failed reads.
//!
//! Readers and transforms of bodies return a [`RejectedBody`] inside an `io::Error`, since the traits of both
//! sides carry such errors. The exchange takes the reason out again.

use std::io;

use tollgate_http::h1::BodyError;
use tollgate_observe::Reason;

/// Returns the reason for a failed read of a request's body.
#[cold]
pub(crate) fn unread(error: &io::Error) -> Reason {
    if let Some(RejectedBody(reason)) = rejected_body(error) {
        return *reason;
    }
    match error.kind() {
        io::ErrorKind::InvalidData => Reason::BadChunk,
        io::ErrorKind::UnexpectedEof => Reason::IncompleteRequest,
        _ => Reason::ClientClosed,
    }
}

/// Returns the reason for a request's body or trailers that violate the grammar or a limit.
#[cold]
pub(crate) fn body_error_reason(error: BodyError) -> Reason {
    match error {
        BodyError::Chunk => Reason::BadChunk,
        BodyError::Trailers => Reason::TrailersTooLarge,
    }
}

/// The error for a body that a policy cannot transform, or that must not be passed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RejectedBody(pub Reason);

/// Returns the [`RejectedBody`] in an error. If there is one, the body is at fault, not the connection.
pub(crate) fn rejected_body(error: &io::Error) -> Option<&RejectedBody> {
    error.get_ref()?.downcast_ref()
}

impl From<RejectedBody> for io::Error {
    fn from(rejected_body: RejectedBody) -> Self {
        io::Error::new(io::ErrorKind::InvalidData, rejected_body)
    }
}

impl std::fmt::Display for RejectedBody {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.0.as_str())
    }
}

impl std::error::Error for RejectedBody {}
