//! One connection to an endpoint.

use std::rc::Rc;
use std::time::Instant;

use tollgate_net::Stream;
use tollgate_observe::Reason;

use crate::Pool;

/// One connection to an endpoint, in use. Dropping it closes it; [`Pool::put`] keeps it.
#[derive(Debug)]
pub struct Connection {
    /// The byte stream.
    pub stream: Stream,
    pub(crate) opened: Instant,
    /// Requests that it has carried, the present one included.
    pub(crate) requests: u64,
    pub(crate) guard: OpenGuard,
}

impl Connection {
    /// Whether it carried a request before this one: then the endpoint may have closed it meanwhile, without anyone
    /// being at fault.
    #[must_use]
    pub fn is_reused(&self) -> bool {
        self.requests > 1
    }

    /// The pool that it belongs to.
    #[must_use]
    pub fn pool(&self) -> &Rc<Pool> {
        self.guard.pool()
    }
}

/// Counts a connection as open for as long as it lives, unless the pool goes on counting it.
#[derive(Debug)]
pub(crate) struct OpenGuard(Rc<Pool>, bool);

impl OpenGuard {
    pub(crate) fn new(pool: &Rc<Pool>) -> Self {
        pool.stats().upstream_opened(pool.slot());
        Self(pool.clone(), true)
    }

    /// Takes over the count from the pool.
    pub(crate) fn resume(pool: &Rc<Pool>) -> Self {
        Self(pool.clone(), true)
    }

    /// Leaves the count to the pool.
    pub(crate) fn suspend(mut self) {
        self.1 = false;
    }

    pub(crate) fn pool(&self) -> &Rc<Pool> {
        &self.0
    }
}

impl Drop for OpenGuard {
    fn drop(&mut self) {
        if self.1 {
            self.0.stats().upstream_closed(self.0.slot());
        }
    }
}

/// Why no connection could be opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnectError {
    /// The name does not resolve.
    Dns,
    /// The endpoint refused, or cannot be reached.
    Refused,
}

impl ConnectError {
    /// The reason that the client is told.
    #[must_use]
    pub const fn reason(self) -> Reason {
        match self {
            Self::Dns => Reason::DnsError,
            Self::Refused => Reason::ConnectionRefused,
        }
    }
}
