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
use crate::pool::queue::Grant;

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

impl Pool {
    /// Takes a stream on an open connection, if one has capacity.
    pub fn take_stream(self: &Rc<Self>, now: Instant) -> Option<StreamPermit> {
        loop {
            let found = {
                let connections = self.http2.connections.borrow();
                connections.iter().find(|connection| connection.has_capacity()).cloned()?
            };
            if !found.is_spent(now) {
                return Some(StreamPermit::new(found, InUse::new(self), true));
            }
            found.retire();
        }
    }

    /// Takes back the stream of a request that ended. It goes to the next waiting request, if the connection
    /// stays.
    fn return_stream(self: &Rc<Self>, connection: &Rc<Http2Connection>) {
        if !connection.end_stream() {
            return;
        }
        if connection.is_idle() && (connection.is_retired() || !self.keeps_http2()) {
            connection.close();
        } else {
            self.offer_stream(connection);
        }
    }

    /// Gives a connection's free stream to the request that has waited longest. Returns whether there was
    /// one.
    pub(super) fn offer_stream(self: &Rc<Self>, connection: &Rc<Http2Connection>) -> bool {
        if let Some(ticket) = self.queue.first()
            && connection.has_capacity()
        {
            if connection.is_spent(tollgate_net::now()) {
                // The waiting request needs the permit of this connection.
                connection.retire();
                return false;
            }
            let stream = StreamPermit::new(connection.clone(), InUse::new(self), true);
            self.pool_set.grant(&ticket, Grant::Stream(stream));
            return true;
        }
        if self.context.must_offer_freed() && self.pool_set.must_close(self, connection.is_idle()) {
            connection.retire();
        }
        false
    }

    /// Whether one more idle connection is kept.
    fn keeps_http2(&self) -> bool {
        !self.is_retired() && self.http2.idle_count() <= self.context.settings.borrow().max_idle as usize
    }
}
