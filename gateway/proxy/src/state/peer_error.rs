//! The error of both sides of an exchange: why nothing more can be read from a client or an endpoint, or
//! written to it.
//!
//! Every implementation of [`Sink`](crate::state::backlog::Sink) and
//! [`Duplex`](crate::state::client_side::Duplex) returns it. The exchange maps it to a [`Reason`].

use std::io;

use tollgate_http::h1::BodyError;
use tollgate_observe::Reason;

/// Why nothing more can be read from a peer, or written to it.
#[derive(Debug)]
pub(crate) enum PeerError {
    /// The connection or stream failed, or is closed.
    Io(io::Error),
    /// The framing of a body is malformed.
    Malformed,
    /// A body ended before its announced end.
    Incomplete,
    /// The body is at fault, not the connection: a policy cannot transform it, or it must not be passed on.
    Rejected(Reason),
    /// The request cannot be expressed in the endpoint's version of HTTP. Another connection would not help.
    Unrepresentable(Reason),
    /// The gateway's own disk refused a buffered body.
    OwnDisk,
}

/// How a peer stopped taking bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PeerStop {
    /// Its orderly end came first.
    Ended,
    /// It reset the connection.
    Reset,
}

impl PeerError {
    /// Returns the reason for a failed read of a request's body.
    #[cold]
    pub fn read_reason(&self) -> Reason {
        match self {
            Self::Rejected(reason) | Self::Unrepresentable(reason) => *reason,
            Self::Malformed => Reason::BadChunk,
            Self::Incomplete => Reason::IncompleteRequest,
            Self::Io(error) if error.kind() == io::ErrorKind::UnexpectedEof => Reason::IncompleteRequest,
            Self::Io(_) => Reason::ClientClosed,
            Self::OwnDisk => Reason::ProxyInternalError,
        }
    }

    /// Returns the reason for a failed write to a client.
    #[cold]
    pub fn write_reason(&self) -> Reason {
        match self {
            Self::Rejected(reason) => *reason,
            Self::OwnDisk => Reason::ProxyInternalError,
            Self::Io(_) | Self::Malformed | Self::Incomplete | Self::Unrepresentable(_) => {
                Reason::ClientClosed
            }
        }
    }

    /// Returns how the peer stopped taking bytes. The kernel reports a reset once; a later read sees an
    /// orderly end (`sock_error()` clears `sk_err`). After a FIN the kernel reports a broken pipe instead
    /// (`tcp_reset()`), and there the orderly end is real.
    pub fn stop(&self) -> PeerStop {
        match self {
            Self::Io(error) if error.kind() == io::ErrorKind::BrokenPipe => PeerStop::Ended,
            _ => PeerStop::Reset,
        }
    }
}

impl From<io::Error> for PeerError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl From<io::ErrorKind> for PeerError {
    fn from(kind: io::ErrorKind) -> Self {
        Self::Io(kind.into())
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
