//! The assignment of HTTP/2 streams to requests.
//!
//! A request [takes](Pool::take_stream) a stream on an open connection, or waits in the pool's queue. A stream that
//! ends, or that the endpoint's SETTINGS add, goes to the request that has waited longest. A connection that may serve
//! no more requests is retired here, at the moment when its next stream would be assigned.

use std::future::poll_fn;
use std::rc::{Rc, Weak};
use std::time::Instant;

use super::StreamPermit;
use super::connection::Http2Connection;
use crate::pool::Pool;
use crate::pool::connection::InUse;
use crate::pool::queue::Grant;

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
    pub(super) fn return_stream(self: &Rc<Self>, connection: &Rc<Http2Connection>) {
        if !connection.end_stream() {
            return;
        }
        if connection.is_idle() && (connection.is_retired() || !self.keeps_http2()) {
            connection.close();
        } else {
            self.offer_stream(connection);
        }
    }

    /// Gives a connection's free stream to the request that has waited longest, on this worker or by closing the
    /// connection for one on another worker.
    pub(super) fn offer_stream(self: &Rc<Self>, connection: &Rc<Http2Connection>) {
        if !self.grant_stream(connection)
            && !connection.is_retired()
            && self.context.must_offer_freed()
            && self.pool_set.must_close(self, connection.is_idle())
        {
            connection.retire();
        }
    }

    /// Gives a connection's free stream to the request that has waited longest on this worker. Returns whether
    /// there was one.
    pub(super) fn grant_stream(self: &Rc<Self>, connection: &Rc<Http2Connection>) -> bool {
        let Some(ticket) = self.queue.first().filter(|_| connection.has_capacity()) else { return false };
        if connection.is_spent(tollgate_net::now()) {
            // The waiting request needs the permit of this connection.
            connection.retire();
            return false;
        }
        let stream = StreamPermit::new(connection.clone(), InUse::new(self), true);
        self.pool_set.grant(&ticket, Grant::Stream(stream));
        true
    }

    /// Moves a connection's frames until it is closed. When its endpoint raises the limit of streams, gives the new
    /// streams to waiting requests.
    pub(super) async fn run_connection(pool: Weak<Self>, connection: Rc<Http2Connection>) {
        let mut places = connection.places();
        poll_fn(|cx| {
            let end = connection.poll(cx);
            let before = std::mem::replace(&mut places, connection.places());
            if places > before
                && let Some(pool) = pool.upgrade()
            {
                while pool.grant_stream(&connection) {}
            }
            end
        })
        .await;
    }

    /// Whether one more idle connection is kept.
    fn keeps_http2(&self) -> bool {
        !self.is_retired() && self.http2.idle_count() <= self.context.settings.borrow().max_idle as usize
    }
}
