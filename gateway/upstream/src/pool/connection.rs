//! A connection to an endpoint, and the guards that count it.

use std::ops::{Deref, DerefMut};
use std::rc::Rc;
use std::time::Instant;

use tollgate_net::Stream;

use super::Pool;
use crate::Permit;

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
        let context = &in_use.pool().context;
        context.stats.upstream_opened(context.slot);
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
            let context = &self.pool().context;
            context.stats.upstream_closed(context.slot);
        }
    }
}
