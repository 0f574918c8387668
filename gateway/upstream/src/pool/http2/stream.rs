//! The streams of HTTP/2 connections, which a pool gives to requests.

use std::rc::Rc;
use std::time::Instant;

use h2::SendStream;
use h2::client::ResponseFuture;
use http::Request;
use tollgate_http::h2::{BudgetedData, SendBudget};

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
        self.connection.sender.is_extended_connect_protocol_enabled()
    }

    /// The budget that bounds the bytes that the connection was given and has not sent.
    #[must_use]
    pub fn budget(&self) -> &Rc<SendBudget> {
        &self.connection.budget
    }

    /// Sends the head of a request. With `ended`, the request has no body.
    ///
    /// # Errors
    /// Returns an error if the connection is gone or the head is invalid.
    pub fn send(
        &self,
        request: Request<()>,
        ended: bool,
    ) -> Result<(ResponseFuture, SendStream<BudgetedData>), h2::Error> {
        self.connection.sender.clone().send_request(request, ended)
    }

    /// Whether a field section of this stream was too long. `Some(true)` if the stream ended with it.
    #[must_use]
    pub fn is_too_long(&self, stream: u32) -> Option<bool> {
        self.connection.inspector.borrow().is_too_long(stream)
    }

    /// Whether pseudo-fields make the response on this stream malformed (RFC 9113, 8.3).
    #[must_use]
    pub fn is_malformed(&self, stream: u32) -> bool {
        self.connection.inspector.borrow().is_malformed(stream)
    }

    /// Drops the state of a stream that has no reader.
    pub fn forget(&self, stream: u32) {
        self.connection.inspector.borrow_mut().forget(stream);
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
