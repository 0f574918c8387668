//! One connection to an endpoint.

use std::ops::{Deref, DerefMut};
use std::rc::Rc;
use std::time::Instant;

use tollgate_net::{Stream, TlsFault, TlsFaultClass};
use tollgate_observe::Reason;

use crate::{Permit, Pool};

/// One connection to an endpoint, in use. Dropping it closes it; [`Pool::put`] keeps it.
#[derive(Debug)]
pub struct Connection {
    pub(crate) link: Box<Link>,
    pub(crate) open: OpenGuard,
}

/// A connection, in use or idle. In a box of its own: with each request it goes from the pool to the request and back,
/// and only a pointer is to move.
#[derive(Debug)]
pub struct Link {
    /// The byte stream.
    pub stream: Stream,
    pub(crate) opened: Instant,
    /// When it became idle last.
    pub(crate) since: Instant,
    /// Requests that it has carried, the present one included.
    pub(crate) requests: u64,
    pub(crate) reused: bool,
    // Below the stream: where the whole is dropped, the socket is closed before its place is given back.
    pub(crate) permit: Permit,
}

impl Deref for Connection {
    type Target = Link;

    fn deref(&self) -> &Link {
        &self.link
    }
}

impl DerefMut for Connection {
    fn deref_mut(&mut self) -> &mut Link {
        &mut self.link
    }
}

impl Connection {
    /// Whether it was idle before, here or at another worker: then the endpoint may have closed it meanwhile, without
    /// anyone being at fault.
    #[must_use]
    pub fn is_reused(&self) -> bool {
        self.link.reused
    }

    /// The pool that it belongs to.
    #[must_use]
    pub fn pool(&self) -> &Rc<Pool> {
        self.open.pool()
    }
}

/// Counts as in use for as long as it lives: a request that has a connection of this pool, or waits for one.
#[derive(Debug)]
pub(crate) struct InUse(Rc<Pool>);

impl InUse {
    pub(crate) fn new(pool: &Rc<Pool>) -> Self {
        pool.used(1);
        Self(pool.clone())
    }

    pub(crate) fn pool(&self) -> &Rc<Pool> {
        &self.0
    }
}

impl Drop for InUse {
    fn drop(&mut self) {
        self.0.used(-1);
    }
}

/// Counts a connection as open for as long as it lives, unless the pool goes on counting it.
#[derive(Debug)]
pub(crate) struct OpenGuard {
    in_use: InUse,
    counted: bool,
}

impl OpenGuard {
    /// Of a connection that was just opened.
    pub(crate) fn new(in_use: InUse) -> Self {
        in_use.0.stats().upstream_opened(in_use.0.slot());
        Self { in_use, counted: true }
    }

    /// Takes over the count from the pool.
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

/// Why there is no connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConnectError {
    /// A cap is reached, and the queue is full.
    QueueFull,
    /// A cap is reached, and no connection came free in time.
    QueueTimeout,
    /// The name does not resolve.
    Dns,
    /// The endpoint refused, or cannot be reached.
    Refused,
    /// The process has no file descriptor or no memory left for it.
    Shortage,
    /// Its TLS has failed.
    Tls(TlsFault),
    /// It does not speak HTTP/2, as its upstream says.
    NoHttp2,
}

impl ConnectError {
    /// The reason that the client is told.
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

    /// Further details, for the log.
    #[must_use]
    pub fn detail(&self) -> Option<String> {
        match self {
            Self::Tls(fault) => Some(fault.text().to_owned()),
            _ => None,
        }
    }
}
