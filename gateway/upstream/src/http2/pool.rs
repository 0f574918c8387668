//! The HTTP/2 connections of one pool, and the choice of the connection that takes a request.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Instant;

use super::connection::{Http2Connection, StreamPermit};
use super::opening::{Opening, OpeningWaiter, start};
use crate::connection::InUse;
use crate::pool::Acquired;
use crate::queue::Grant;
use crate::{ConnectError, Permit, Pool};

/// The HTTP/2 connections of one pool, open or being opened.
#[derive(Debug, Default)]
pub(crate) struct Http2Pool {
    /// The oldest first. Requests fill it first, so that connections beyond the demand become idle and are
    /// closed.
    connections: RefCell<Vec<Rc<Http2Connection>>>,
    openings: RefCell<Vec<Rc<Opening>>>,
}

impl Http2Pool {
    pub(super) fn add(&self, connection: Rc<Http2Connection>) {
        self.connections.borrow_mut().push(connection);
    }

    /// Removes a connection that accepts no further request.
    pub(super) fn remove(&self, connection: &Http2Connection) {
        self.connections.borrow_mut().retain(|known| !std::ptr::eq(&**known, connection));
    }

    pub(super) fn add_opening(&self, opening: Rc<Opening>) {
        self.openings.borrow_mut().push(opening);
    }

    pub(super) fn remove_opening(&self, opening: &Rc<Opening>) {
        self.openings.borrow_mut().retain(|known| !Rc::ptr_eq(known, opening));
    }

    /// Returns the number of connections, open or being opened.
    pub fn len(&self) -> usize {
        self.connections.borrow().len() + self.openings.borrow().len()
    }

    /// Makes all connections accept no further request.
    pub fn retire(&self) {
        let all: Vec<_> = self.connections.borrow().clone();
        all.iter().for_each(|connection| connection.retire());
    }

    /// Returns since when the connection that has been idle longest is idle.
    pub fn oldest_since(&self) -> Option<Instant> {
        self.oldest().map(|oldest| oldest.since())
    }

    fn oldest(&self) -> Option<Rc<Http2Connection>> {
        let connections = self.connections.borrow();
        connections.iter().filter(|it| it.is_idle()).min_by_key(|it| it.since()).cloned()
    }

    /// Closes the connection that has been idle longest, and returns its permit; `None` if there is none.
    pub fn close_oldest(&self) -> Option<Permit> {
        self.oldest()?.close()
    }

    fn idle(&self) -> usize {
        self.connections.borrow().iter().filter(|connection| connection.is_idle()).count()
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
            if !found.is_spent(self, &self.pool_set().settings.borrow(), now) {
                return Some(found.begin(InUse::new(self), true));
            }
            found.retire();
        }
    }

    /// As [`wait_for_connection`](Self::wait_for_connection), for a stream on an HTTP/2 connection.
    ///
    /// # Errors
    /// Returns an error if a limit is reached and the queue is full, or if the queue timeout passes.
    pub async fn wait_for_stream(
        self: &Rc<Self>,
    ) -> Result<Acquired<StreamPermit, OpeningWaiter>, ConnectError> {
        // Counted before there is a connection, as in `wait_for_connection`.
        let in_use = InUse::new(self);
        loop {
            if self.queue.is_empty() {
                if let Some(place) = self.take_stream(tollgate_net::now()) {
                    return Ok(Acquired::Connection(place));
                }
                let opening = self.http2.openings.borrow().iter().find(|it| it.has_capacity()).cloned();
                if let Some(opening) = opening {
                    return Ok(Acquired::Permit(opening.join(in_use)));
                }
            }
            let permit = match self.pool_set().permit(self) {
                Some(permit) => permit,
                None => match self.pool_set().enqueue(self, tollgate_net::now())?.await? {
                    Grant::Permit(permit) => permit,
                    Grant::Stream(place) => return Ok(Acquired::Connection(place)),
                    Grant::Connection(_) => continue,
                },
            };
            return Ok(Acquired::Permit(start(self, permit, in_use)));
        }
    }

    /// Gives a connection's free stream to the request that has waited longest. Returns whether there was
    /// one.
    pub(super) fn offer_stream(self: &Rc<Self>, connection: &Rc<Http2Connection>) -> bool {
        let set = self.pool_set();
        if let Some(ticket) = self.queue.first()
            && connection.has_capacity()
        {
            if connection.is_spent(self, &set.settings.borrow(), tollgate_net::now()) {
                // The waiting request needs the permit of this connection.
                connection.retire();
                return false;
            }
            set.grant(&ticket, Grant::Stream(connection.begin(InUse::new(self), true)));
            return true;
        }
        if set.must_offer_freed() && set.must_close(self, connection.is_idle()) {
            connection.retire();
        }
        false
    }

    /// Whether one more idle connection is kept.
    pub(super) fn keeps_http2(&self) -> bool {
        !self.is_retired() && self.http2.idle() <= self.pool_set().settings.borrow().max_idle as usize
    }
}
