//! The HTTP/2 connections of one pool, and the choice of the connection that takes a request.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Instant;

use super::connection::{Http2Connection, Place};
use super::opening::{Joined, Opening, start};
use crate::connection::InUse;
use crate::pool::Granted;
use crate::queue::Grant;
use crate::{ConnectError, Permit, Pool};

/// The HTTP/2 connections of one pool, open or being opened.
#[derive(Debug, Default)]
pub(crate) struct Lanes {
    /// The oldest first. Requests fill it first, so that connections beyond the demand become idle and are
    /// closed.
    connections: RefCell<Vec<Rc<Http2Connection>>>,
    openings: RefCell<Vec<Rc<Opening>>>,
}

impl Lanes {
    pub(super) fn add(&self, connection: Rc<Http2Connection>) {
        self.connections.borrow_mut().push(connection);
    }

    /// Removes a connection that accepts no further request.
    pub(super) fn remove(&self, connection: &Http2Connection) {
        self.connections.borrow_mut().retain(|known| !std::ptr::eq(&**known, connection));
    }

    pub(super) fn opens(&self, opening: Rc<Opening>) {
        self.openings.borrow_mut().push(opening);
    }

    pub(super) fn opened(&self, opening: &Rc<Opening>) {
        self.openings.borrow_mut().retain(|known| !Rc::ptr_eq(known, opening));
    }

    /// Returns the number of connections, open or being opened.
    pub fn len(&self) -> usize {
        self.connections.borrow().len() + self.openings.borrow().len()
    }

    /// Makes all connections accept no further request.
    pub fn leave(&self) {
        let all: Vec<_> = self.connections.borrow().clone();
        all.iter().for_each(|connection| connection.leave());
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
    pub fn take_place(self: &Rc<Self>, now: Instant) -> Option<Place> {
        loop {
            let found = {
                let connections = self.http2.connections.borrow();
                connections.iter().find(|connection| connection.has_room()).cloned()?
            };
            if !found.is_spent(self, &self.set().settings.borrow(), now) {
                return Some(found.begin(InUse::new(self), true));
            }
            found.leave();
        }
    }

    /// As [`turn`](Self::turn), for a stream on an HTTP/2 connection.
    ///
    /// # Errors
    /// Returns an error if a limit is reached and the queue is full, or if the queue timeout passes.
    pub async fn place_turn(self: &Rc<Self>) -> Result<Granted<Place, Joined>, ConnectError> {
        // Counted before there is a connection, as in `turn`.
        let in_use = InUse::new(self);
        loop {
            if self.queue.is_empty() {
                if let Some(place) = self.take_place(tollgate_net::now()) {
                    return Ok(Granted::Connection(place));
                }
                let opening = self.http2.openings.borrow().iter().find(|it| it.has_room()).cloned();
                if let Some(opening) = opening {
                    return Ok(Granted::Place(opening.join(in_use)));
                }
            }
            let permit = match self.set().permit(self) {
                Some(permit) => permit,
                None => match self.set().join(self, tollgate_net::now())?.await? {
                    Grant::Permit(permit) => permit,
                    Grant::Stream(place) => return Ok(Granted::Connection(place)),
                    Grant::Connection(_) => continue,
                },
            };
            return Ok(Granted::Place(start(self, permit, in_use)));
        }
    }

    /// Gives a connection's free stream to the request that has waited longest. Returns whether there was
    /// one.
    pub(super) fn has_place(self: &Rc<Self>, connection: &Rc<Http2Connection>) -> bool {
        let set = self.set();
        if let Some(ticket) = self.queue.first()
            && connection.has_room()
        {
            if connection.is_spent(self, &set.settings.borrow(), tollgate_net::now()) {
                // The waiting request needs the permit of this connection.
                connection.leave();
                return false;
            }
            set.grant(&ticket, Grant::Stream(connection.begin(InUse::new(self), true)));
            return true;
        }
        if set.is_sought() && set.is_to_go(self, connection.is_idle()) {
            connection.leave();
        }
        false
    }

    /// Whether one more idle connection is kept.
    pub(super) fn keeps_http2(&self) -> bool {
        !self.is_retired() && self.http2.idle() <= self.set().settings.borrow().max_idle as usize
    }
}
