//! The causes for which a service gave no usable response.

use std::fmt::{self, Display};
use std::io;

use tollgate_http::HeadError;
use tollgate_http::h1::BodyError;

/// The cause for which a service gave no usable response.
#[derive(Debug)]
pub(crate) enum ServiceError {
    /// No connection could be opened.
    Unreachable(io::Error),
    /// The TLS handshake failed because of the certificate or the protocol.
    Tls(io::Error),
    /// The connection ended before the first byte of the response.
    Closed,
    /// The connection ended in the middle of the response.
    Cut,
    /// The response violates HTTP. The data path refuses the same response from an endpoint.
    Malformed(&'static str),
    /// The response exceeds the size limit.
    TooLarge,
    /// No response arrived in time.
    Late,
}

impl ServiceError {
    /// Returns a text for the `detail` of the log when an authorization service fails.
    pub const fn of_authorisation(&self) -> &'static str {
        match self {
            Self::Unreachable(_) => "the authorisation service cannot be reached",
            Self::Tls(_) => "the authorisation service cannot be spoken to by TLS",
            Self::Closed => "the authorisation service gave no answer",
            Self::Cut => "the authorisation service's answer broke off",
            Self::Malformed(what) => what,
            Self::TooLarge => "the authorisation service's answer is too large",
            Self::Late => "the authorisation service was too slow",
        }
    }
}

impl From<HeadError> for ServiceError {
    fn from(error: HeadError) -> Self {
        Self::Malformed(match error {
            HeadError::StartLine | HeadError::Version => {
                "the answer of the service has no status line of HTTP/1"
            }
            HeadError::Length | HeadError::Coding => "the answer of the service does not say where it ends",
            HeadError::TooLarge | HeadError::LineTooLong => return Self::TooLarge,
            HeadError::TooMany => "the answer of the service has too many fields",
            _ => "the answer of the service has a malformed field",
        })
    }
}

impl From<BodyError> for ServiceError {
    fn from(_: BodyError) -> Self {
        Self::Malformed("the answer of the service has a malformed chunk")
    }
}

impl Display for ServiceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreachable(error) | Self::Tls(error) => write!(f, "{error}"),
            Self::Closed => f.write_str("the connection was closed without an answer"),
            Self::Cut => f.write_str("the answer broke off"),
            Self::Malformed(what) => f.write_str(what),
            Self::TooLarge => f.write_str("the answer is too large"),
            Self::Late => f.write_str("no answer in time"),
        }
    }
}
