//! Why a request has no connection.

use tollgate_net::{TlsFault, TlsFaultClass};
use tollgate_observe::Reason;

/// Why a request has no connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConnectError {
    /// A limit is reached, and the queue is full.
    QueueFull,
    /// A limit is reached, and no connection or permit became free before the queue timeout.
    QueueTimeout,
    /// The endpoint's host name does not resolve.
    Dns,
    /// The endpoint refused the connection, or it is unreachable.
    Refused,
    /// The process has no file descriptor or memory for another socket.
    Shortage,
    /// The TLS handshake failed.
    Tls(TlsFault),
    /// The endpoint does not speak HTTP/2, although its upstream is configured for it.
    NoHttp2,
}

impl ConnectError {
    /// Returns the reason that the response, the log and the metrics show.
    #[must_use]
    pub fn reason(&self) -> Reason {
        match self {
            Self::QueueFull => Reason::ConnectionLimitReached,
            Self::QueueTimeout => Reason::QueueTimeout,
            Self::Dns => Reason::DnsError,
            Self::Refused => Reason::ConnectionRefused,
            Self::Shortage => Reason::Overload,
            Self::Tls(fault) => match fault.kind.class() {
                TlsFaultClass::Protocol => Reason::TlsProtocolError,
                TlsFaultClass::Certificate => Reason::TlsCertificateError,
                TlsFaultClass::Alert => Reason::TlsAlertReceived,
            },
            Self::NoHttp2 => Reason::HttpProtocolError,
        }
    }

    /// Returns details for the log, if there are any: the text of the TLS failure.
    #[must_use]
    pub fn detail(&self) -> Option<String> {
        match self {
            Self::Tls(fault) => Some(fault.text().to_owned()),
            _ => None,
        }
    }
}
