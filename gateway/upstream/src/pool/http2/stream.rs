//! The streams of HTTP/2 connections, which a pool gives to requests.

use std::rc::Rc;
use std::time::Instant;

use tollgate_http2::ClientConnection;

use super::connection::Http2Connection;
use crate::pool::Pool;
use crate::pool::connection::InUse;

/// The right to one stream on a connection. Dropping it gives the stream to the next request.
#[derive(Debug)]
pub struct StreamPermit {
    connection: Rc<Http2Connection>,
    in_use: InUse,
    reused: bool,
}

impl StreamPermit {
    /// Starts a request on a connection. `reused` says that the connection was already open.
    pub(super) fn new(connection: Rc<Http2Connection>, in_use: InUse, reused: bool) -> Self {
        connection.begin_stream(reused);
        Self { connection, in_use, reused }
    }

    /// The pool that its connection belongs to.
    #[must_use]
    pub fn pool(&self) -> &Rc<Pool> {
        self.in_use.pool()
    }

    /// Whether the connection was already open when the request took it. If so, the endpoint may have closed
    /// it since, which is not a failure of the endpoint.
    #[must_use]
    pub fn is_reused(&self) -> bool {
        self.reused
    }

    /// Whether the connection uses TLS.
    #[must_use]
    pub fn is_secure(&self) -> bool {
        self.pool().context.tls.borrow().is_some()
    }

    /// Whether the endpoint supports extended CONNECT, by which a stream switches to another protocol (RFC
    /// 8441, 3).
    #[must_use]
    pub fn can_switch(&self) -> bool {
        self.connection.client.allows_connect_protocol()
    }

    /// The connection, on which the request opens its stream.
    #[must_use]
    pub fn connection(&self) -> &ClientConnection {
        &self.connection.client
    }

    /// Records that the request was cancelled and its stream reset. After `RESETS_MAX` of these, the
    /// connection accepts no further request, so that clients that cancel do not make the gateway look like
    /// an attacker.
    pub fn count_cancelled(&self) {
        self.connection.count_cancelled();
    }

    /// Reports that no response arrived in time. If no bytes at all arrived since the request was sent, the
    /// connection may be dead without notice, so it accepts no further request.
    pub fn on_timeout(&self, sent: Instant) {
        self.connection.retire_if_silent(sent);
    }
}

impl Drop for StreamPermit {
    fn drop(&mut self) {
        self.in_use.pool().return_stream(&self.connection);
    }
}
