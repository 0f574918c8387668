//! Decides which waiting request gets a connection that becomes free, on this worker or another.

use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::time::Instant;

use crate::connection::Link;
use crate::message::{Ask, HandOver, Kind, Message, Place, Room};
use crate::queue::Grant;
use crate::{Connection, Pool};

use super::PoolSet;

/// Microseconds between two looks at the other workers' queues, while this worker's queue is not empty.
const LOOK: u64 = 1_000;
/// A request elsewhere takes precedence over this worker's only if it has waited at least this much longer,
/// in microseconds.
const MARGIN: u64 = 10_000;

impl PoolSet {
    /// Processes a message from another worker, or from this one.
    pub fn receive(&self, message: Kind) {
        self.stats.message_sent();
        match message {
            Kind::Room(room) => self.room(room),
            Kind::Ask(ask) => self.answer(ask),
            Kind::HandOver(handed) => self.take_over(*handed),
            Kind::Place(place) => self.take_place(place),
        }
    }

    fn room(&self, room: Room) {
        match self.serve(room.endpoint.as_ref()) {
            true => room.used(),
            false => drop(room),
        }
        // Other workers may have taken the free permit first.
        self.make_way();
    }

    /// Gives requests that only the limit of the whole upstream holds back the permits of idle connections to
    /// other endpoints. Closes such connections here, or asks other workers for them. Returns the pool for
    /// which it asked.
    pub(super) fn make_way(&self) -> Option<Rc<Pool>> {
        let mut next = self.queue.first();
        while let Some(ticket) = next {
            next = self.queue.after(&ticket);
            let endpoint = ticket.pool.state();
            if self.shared.usage.is_full_at(endpoint) {
                continue;
            }
            match self.place(endpoint) {
                Some(permit) => self.grant(&ticket, Grant::Permit(permit)),
                None => {
                    self.ask(&ticket.pool);
                    return Some(ticket.pool.clone());
                }
            }
        }
        None
    }

    /// Gives what another worker asks for, as far as this worker has it.
    fn answer(&self, mut ask: Ask) {
        let now = tollgate_net::now();
        let pool = self.find(&ask.endpoint.address);
        while ask.want > 0 {
            if let Some(connection) = pool.as_ref().and_then(|pool| pool.take_idle(now)) {
                let more = ask.want > 1 && connection.pool().has_idle();
                self.hand_over(connection, ask.from, more);
            } else if let Some(permit) = self.place(&ask.endpoint) {
                let more = ask.want > 1 && self.has_idle();
                // If that worker is gone, the permit is returned.
                drop(self.shared.usage.peers.post(ask.from, Message(Kind::Place(Place { permit, more }))));
            } else {
                break;
            }
            ask.want -= 1;
        }
        let has_idle = match self.shared.usage.has_cap() {
            true => self.has_idle(),
            false => pool.is_some_and(|pool| pool.has_idle()),
        };
        if ask.want > 0 || !has_idle {
            let mut asked = self.asked.borrow_mut();
            if !asked.iter().any(|known| Arc::ptr_eq(known, &ask.endpoint)) {
                asked.push(ask.endpoint.clone());
            }
        }
        // A worker that still has something is asked again by the next request that waits.
        ask.endpoint.usage.waiting.set_knows(self.worker, !has_idle);
        self.note();
        ask.pass_on();
    }

    /// Hands a connection over to another worker.
    fn hand_over(&self, connection: Connection, to: usize, more: bool) {
        let Connection { link, open } = connection;
        open.suspend();
        let Link { stream, opened, requests, permit, .. } = *link;
        let Ok(socket) = stream.detach() else {
            self.stats.upstream_closed(self.slot);
            return;
        };
        let handed = HandOver { socket, opened, requests, more, permit };
        match self.shared.usage.peers.post(to, Message(Kind::HandOver(Box::new(handed)))) {
            Ok(()) => self.stats.upstream_handed_over(self.slot),
            // That worker is gone, and the socket is closed.
            Err(_) => self.stats.upstream_closed(self.slot),
        }
    }

    /// Takes a connection over from another worker.
    fn take_over(&self, handed: HandOver) {
        let pool = self.find(&handed.permit.endpoint().address);
        let more = handed.more;
        let connection = pool.as_ref().and_then(|pool| pool.adopt(handed));
        let Some(pool) = pool else {
            // No plan names the endpoint now, and the socket is closed.
            return self.stats.upstream_closed(self.slot);
        };
        match connection {
            Some(connection) => Pool::put(connection, tollgate_net::now()),
            None => self.stats.upstream_closed(self.slot),
        }
        if !more {
            self.seek(&pool);
        }
    }

    /// Takes a permit over from another worker.
    fn take_place(&self, place: Place) {
        let Place { permit, more } = place;
        let Some(pool) = self.find(&permit.endpoint().address) else { return };
        match pool.queue.first() {
            Some(ticket) => self.grant(&ticket, Grant::Permit(permit)),
            None => drop(permit),
        }
        if !more {
            self.seek(&pool);
        }
    }

    /// Everything that was asked for has arrived. Asks again for requests that joined the queue since.
    fn seek(&self, pool: &Pool) {
        let asked = self.make_way();
        if !pool.queue.is_empty() && asked.is_none_or(|asked| !std::ptr::eq(&*asked, pool)) {
            self.ask(pool);
        }
    }

    /// Offers a connection that became free while connections are [sought](Self::is_sought). It goes to the
    /// request that has waited longest, here or on another worker, or it is kept.
    pub fn offer(&self, pool: &Rc<Pool>, connection: Connection, now: Instant) {
        if self.shrinking.get() {
            if self.shared.usage.is_over() || self.shared.usage.is_over_at(pool.state()) {
                return;
            }
            self.shrinking.set(self.is_over_anywhere());
            self.note();
        }
        let Some(ticket) = pool.queue.first() else {
            pool.keep(connection, now);
            return self.settle();
        };
        match self.longer_elsewhere(pool, ticket.since, self.shared.usage.peers.microseconds(now)) {
            None => self.grant(&ticket, Grant::Connection(connection)),
            Some(Elsewhere::Worker(worker)) => self.hand_over(connection, worker, false),
            // The connection is closed, and its permit goes to that request.
            Some(Elsewhere::Endpoint) => {}
        }
    }

    /// Whether to give up an HTTP/2 connection while connections are [sought](Self::is_sought): there are too
    /// many, or a request elsewhere has waited long and needs its permit. HTTP/2 connections never move to
    /// another worker.
    pub fn is_to_go(&self, pool: &Rc<Pool>, idle: bool) -> bool {
        if self.shrinking.get() {
            if self.shared.usage.is_over() || self.shared.usage.is_over_at(pool.state()) {
                return true;
            }
            self.shrinking.set(self.is_over_anywhere());
            self.note();
        }
        let now = self.shared.usage.peers.microseconds(tollgate_net::now());
        if self.longer_elsewhere(pool, now, now).is_some() {
            return true;
        }
        if idle {
            self.settle();
        }
        false
    }

    /// Looks for a request elsewhere that has waited much longer than the first one here.
    fn longer_elsewhere(&self, pool: &Pool, since: u64, now: u64) -> Option<Elsewhere> {
        if now.saturating_sub(self.looked.get()) < LOOK {
            return None;
        }
        self.looked.set(now);
        let much_longer = |other: u64| is_much_longer(now.saturating_sub(other), now.saturating_sub(since));
        if let Some((worker, other)) = pool.state().usage.waiting.longest(Some(self.worker))
            && much_longer(other)
        {
            return Some(Elsewhere::Worker(worker));
        }
        let pools: Vec<_> = self.pools.borrow().values().filter_map(Weak::upgrade).collect();
        let others = pools.iter().filter(|other| !std::ptr::eq(&***other, pool));
        let blocked = others.filter(|other| self.is_in_the_way(other.state()));
        let longest = blocked
            .filter_map(|other| other.state().usage.waiting.longest(None))
            .map(|(_, since)| since)
            .min();
        longest.filter(|other| much_longer(*other)).map(|_| Elsewhere::Endpoint)
    }

    /// Called when a connection became idle while other workers sought one. Gives it to them if they still
    /// need it.
    fn settle(&self) {
        for endpoint in self.asked.take() {
            endpoint.usage.waiting.set_knows(self.worker, false);
            // A request that starts to wait from now on asks again; earlier ones are seen here.
            for from in endpoint.usage.waiting.in_order(self.worker) {
                self.answer(Ask::here(&self.shared, &endpoint, from));
            }
        }
        // Requests of this worker that wait for another endpoint.
        if self.has_idle() {
            self.make_way();
        }
        self.note();
    }
}

/// The place at which a request has waited much longer.
enum Elsewhere {
    /// On this worker, for the same endpoint.
    Worker(usize),
    /// On any worker, for another endpoint of the upstream.
    Endpoint,
}

/// Whether a request that has waited for `there` elsewhere takes precedence over a request that has waited
/// for `here`. Handing over a connection costs about 20 us on each of two workers, so it is done only if it
/// matters. A request waits at most twice the time of a request on another worker, plus a margin.
pub(super) fn is_much_longer(there: u64, here: u64) -> bool {
    there > 2 * here + MARGIN
}
