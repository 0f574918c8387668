//! A connection to an endpoint, the guards that count it, and the errors of opening one.

use std::ops::{Deref, DerefMut};
use std::rc::Rc;
use std::time::Instant;

use tollgate_net::{Stream, TlsFault, TlsFaultClass};
use tollgate_observe::Reason;

use crate::{Permit, Pool};

/// A connection to an endpoint that a request uses. Dropping it closes the socket; [`Pool::put`] returns it
/// to the pool.
#[derive(Debug)]
pub struct Connection {
    pub(crate) link: Box<PooledConnection>,
    pub(crate) open: OpenGuard,
}

/// A connection, in use or idle. It is boxed because it moves from the pool to a request and back for each
/// request; only the pointer moves.
#[derive(Debug)]
pub struct PooledConnection {
    /// The byte stream.
    pub stream: Stream,
    pub(crate) opened: Instant,
    /// When it last became idle.
    pub(crate) since: Instant,
    /// How many requests it has carried, including the current one.
    pub(crate) requests: u64,
    pub(crate) reused: bool,
    // Below the stream, because fields are dropped in order: the socket is closed before the permit is
    // returned.
    pub(crate) permit: Permit,
}

impl Deref for Connection {
    type Target = PooledConnection;

    fn deref(&self) -> &PooledConnection {
        &self.link
    }
}

impl DerefMut for Connection {
    fn deref_mut(&mut self) -> &mut PooledConnection {
        &mut self.link
    }
}

impl Connection {
    /// Whether the connection was idle before, on this or another worker. If so, the endpoint may have closed
    /// it since, which is not a failure of the endpoint.
    #[must_use]
    pub fn is_reused(&self) -> bool {
        self.link.reused
    }

    /// The pool that the connection belongs to.
    #[must_use]
    pub fn pool(&self) -> &Rc<Pool> {
        self.open.pool()
    }
}

/// Counts a request as using this pool until it is dropped: it has a connection of the pool or waits for one.
#[derive(Debug)]
pub(crate) struct InUse(Rc<Pool>);

impl InUse {
    pub(crate) fn new(pool: &Rc<Pool>) -> Self {
        pool.add_in_use(1);
        Self(pool.clone())
    }

    pub(crate) fn pool(&self) -> &Rc<Pool> {
        &self.0
    }
}

impl Drop for InUse {
    fn drop(&mut self) {
        self.0.add_in_use(-1);
    }
}

/// Counts a connection as open until it is dropped, unless the pool continues to count it.
#[derive(Debug)]
pub(crate) struct OpenGuard {
    in_use: InUse,
    counted: bool,
}

impl OpenGuard {
    /// Starts to count a connection that was just opened.
    pub(crate) fn new(in_use: InUse) -> Self {
        in_use.0.stats().upstream_opened(in_use.0.slot());
        Self { in_use, counted: true }
    }

    /// Continues the count of a connection that the pool kept.
    pub(crate) fn resume(pool: &Rc<Pool>) -> Self {
        Self { in_use: InUse::new(pool), counted: true }
    }

    /// Leaves the count to the pool, or to another worker.
    pub(crate) fn suspend(mut self) {
        self.counted = false;
    }

    pub(crate) fn pool(&self) -> &Rc<Pool> {
        &self.in_use.0
    }
}

impl Drop for OpenGuard {
    fn drop(&mut self) {
        if self.counted {
            self.pool().stats().upstream_closed(self.pool().slot());
        }
    }
}

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
