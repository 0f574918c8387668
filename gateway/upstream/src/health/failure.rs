//! Why a probe failed.

use std::fmt;

use tollgate_net::TlsFault;

/// Why a probe failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProbeFailure {
    /// The endpoint's host name does not resolve.
    Dns,
    /// No connection could be opened.
    Refused,
    /// The probe took longer than `health.timeout`.
    Timeout,
    /// The connection ended before the answer was complete.
    Closed,
    /// The answer was not HTTP, or its head was longer than a probe reads.
    Protocol,
    /// The answer had this status, which is not an expected one.
    Status(u16),
    /// The expected text is not in the body.
    Body,
    /// The health service reports another state than SERVING.
    NotServing,
    /// The health service answered with this `grpc-status`.
    Grpc(u8),
    /// TLS to the endpoint failed.
    Tls(TlsFault),
}

impl ProbeFailure {
    /// The number of kinds.
    pub const KINDS: usize = 10;

    /// The name of each kind in metrics and on the admin listener, indexed by its number. The names are those
    /// of [`Reason`](tollgate_observe::Reason), if one fits.
    pub const NAMES: [&str; Self::KINDS] = [
        "dns_error",
        "connection_refused",
        "probe_timeout",
        "connection_terminated",
        "http_protocol_error",
        "unexpected_status",
        "unexpected_body",
        "tls_failure",
        "not_serving",
        "unexpected_grpc_status",
    ];

    /// Returns the number of its kind, below [`KINDS`](Self::KINDS).
    #[must_use]
    pub const fn kind(&self) -> usize {
        match self {
            Self::Dns => 0,
            Self::Refused => 1,
            Self::Timeout => 2,
            Self::Closed => 3,
            Self::Protocol => 4,
            Self::Status(_) => 5,
            Self::Body => 6,
            Self::Tls(_) => 7,
            Self::NotServing => 8,
            Self::Grpc(_) => 9,
        }
    }

    /// Returns the name of its kind.
    #[must_use]
    pub const fn as_str(&self) -> &'static str {
        Self::NAMES[self.kind()]
    }
}

impl fmt::Display for ProbeFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Dns => f.write_str("its name does not resolve"),
            Self::Refused => f.write_str("no connection"),
            Self::Timeout => f.write_str("no answer in time"),
            Self::Closed => f.write_str("the connection ended before the answer did"),
            Self::Protocol => f.write_str("the answer is not HTTP, or its head is too long"),
            Self::Status(status) => write!(f, "status {status}"),
            Self::Body => f.write_str("the expected text is not in the body"),
            Self::Tls(fault) => write!(f, "no TLS connection: {fault}"),
            Self::NotServing => f.write_str("it says that it is not serving"),
            Self::Grpc(status) => write!(f, "grpc-status {status}"),
        }
    }
}
