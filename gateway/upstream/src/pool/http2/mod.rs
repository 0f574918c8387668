//! HTTP/2 connections to endpoints: a worker has few to each endpoint, and each carries many concurrent
//! requests.
//!
//! [`tollgate_http2`] handles frames, HPACK and flow control. This module decides when a connection is opened
//! (`connecting`), which connection takes a request (`assignment`), and how a connection ends (`connection`). A
//! request gets a [`StreamPermit`]: the right to one stream. A connection knows only the other connections to
//! its endpoint; `assignment` and `connecting` join them to the [`Pool`](super::Pool) and its queue.
//!
//! Unlike HTTP/1 connections, these are shared by requests and never move to another worker. The same limits
//! apply. A request that finds all connections full joins the same queue, and gets a free stream or a permit
//! to open another connection.

mod assignment;
mod connecting;
mod connection;
mod opening;
mod stream;

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Instant;

use crate::Permit;

pub use connecting::OpeningWaiter;
pub(super) use connecting::start;
use connection::Http2Connection;
use opening::Opening;
pub use stream::StreamPermit;

/// Upper bound of the concurrent requests on a connection; the endpoint may allow fewer. RFC 9113, 6.5.2
/// recommends that a peer allows at least 100. With more, the requests on one connection wait for each
/// other's bytes.
const STREAMS_MAX: usize = 100;
/// Number of reset streams after which a connection accepts no further request. Servers treat resets as an
/// attack: Envoy ends a connection on which more than half of 500 streams were reset, nghttp2 one with 1,000
/// at once.
const RESETS_MAX: u32 = 200;
/// Bytes of a response that an endpoint may send before the client has taken them.
const STREAM_WINDOW_BYTES: u32 = 64 * 1024;
/// The same for all responses of a connection together. It is so large that streams whose clients read
/// nothing leave enough for the others.
const CONNECTION_WINDOW_BYTES: u32 = STREAM_WINDOW_BYTES * STREAMS_MAX as u32;
/// The HTTP/2 connections of one pool, open or being opened.
#[derive(Debug, Default)]
pub(crate) struct Http2Pool {
    /// The oldest first. Requests fill it first, so that connections beyond the demand become idle and are
    /// closed.
    connections: RefCell<Vec<Rc<Http2Connection>>>,
    openings: RefCell<Vec<Rc<Opening>>>,
}

impl Http2Pool {
    fn add(&self, connection: Rc<Http2Connection>) {
        self.connections.borrow_mut().push(connection);
    }

    /// Removes a connection that accepts no further request.
    fn remove(&self, connection: &Http2Connection) {
        self.connections.borrow_mut().retain(|known| !std::ptr::eq(&**known, connection));
    }

    fn add_opening(&self, opening: Rc<Opening>) {
        self.openings.borrow_mut().push(opening);
    }

    fn remove_opening(&self, opening: &Rc<Opening>) {
        self.openings.borrow_mut().retain(|known| !Rc::ptr_eq(known, opening));
    }

    /// Returns the number of connections, open or being opened.
    pub(super) fn len(&self) -> usize {
        self.connections.borrow().len() + self.openings.borrow().len()
    }

    /// Makes all connections accept no further request.
    pub(super) fn retire(&self) {
        let all: Vec<_> = self.connections.borrow().clone();
        all.iter().for_each(|connection| connection.retire());
    }

    /// Returns since when the connection that has been idle longest is idle.
    pub(super) fn oldest_since(&self) -> Option<Instant> {
        self.oldest().map(|oldest| oldest.since())
    }

    fn oldest(&self) -> Option<Rc<Http2Connection>> {
        let connections = self.connections.borrow();
        connections.iter().filter(|it| it.is_idle()).min_by_key(|it| it.since()).cloned()
    }

    /// Closes the connection that has been idle longest, and returns its permit; `None` if there is none.
    pub(super) fn close_oldest(&self) -> Option<Permit> {
        self.oldest()?.close()
    }

    /// Returns how many connections carry no request.
    fn idle_count(&self) -> usize {
        self.connections.borrow().iter().filter(|connection| connection.is_idle()).count()
    }
}
