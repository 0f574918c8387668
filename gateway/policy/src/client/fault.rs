//! Why a service gave no answer that can be used.

use std::fmt::{self, Display};
use std::io;

use tollgate_http::HeadError;
use tollgate_http::h1::BodyError;

/// Why a service gave no answer that can be used.
#[derive(Debug)]
pub(crate) enum Fault {
    /// No connection could be opened.
    Unreachable(io::Error),
    /// TLS could not be agreed on: the certificate, or the protocol.
    Tls(io::Error),
    /// The connection ended before a byte of the answer was there.
    Closed,
    /// The connection ended within the answer.
    Cut,
    /// The answer breaks HTTP. The data path refuses such an answer of an endpoint too.
    Malformed(&'static str),
    /// The answer is larger than is taken.
    TooLarge,
    /// No answer came in time.
    Late,
}

impl Fault {
    /// In words, for the log's `detail` of a request that an authorisation service was asked about.
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

impl From<HeadError> for Fault {
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

impl From<BodyError> for Fault {
    fn from(_: BodyError) -> Self {
        Self::Malformed("the answer of the service has a malformed chunk")
    }
}

impl Display for Fault {
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
