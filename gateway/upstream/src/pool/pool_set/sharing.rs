//! Decides which waiting request gets a connection that becomes free, on this worker or another.

use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::time::Instant;

use super::PoolSet;
use crate::pool::queue::Grant;
use crate::pool::{Connection, Pool, PooledConnection};
use crate::state::message::{ConnectionRequest, HandOver, Message, MessageKind, PermitFreed, PermitTransfer};

/// Microseconds between two looks at the other workers' queues, while this worker's queue is not empty.
const LOOK_INTERVAL_US: u64 = 1_000;
/// A request elsewhere takes precedence over this worker's only if it has waited at least this much longer,
/// in microseconds.
const PRECEDENCE_MARGIN_US: u64 = 10_000;

impl PoolSet {
    /// Processes a message from another worker, or from this one.
    pub fn receive(&self, message: MessageKind) {
        self.context.stats.message_sent();
        match message {
            MessageKind::PermitFreed(freed) => self.on_permit_freed(freed),
            MessageKind::ConnectionRequest(ask) => self.on_connection_request(ask),
            MessageKind::HandOver(handed) => self.on_hand_over(*handed),
            MessageKind::PermitTransfer(moved) => self.on_permit_transfer(moved),
        }
    }

    fn on_permit_freed(&self, freed: PermitFreed) {
        match self.grant_permits(freed.endpoint.as_ref()) {
            true => freed.mark_used(),
            false => drop(freed),
        }
        // Other workers may have taken the free permit first.
        self.free_permits_for_waiters();
    }

    /// Gives requests that only the limit of the whole upstream holds back the permits of idle connections to
    /// other endpoints. Closes such connections here, or asks other workers for them. Returns the pool for
    /// which it asked.
    pub(super) fn free_permits_for_waiters(&self) -> Option<Rc<Pool>> {
        let mut next = self.queue.first();
        while let Some(ticket) = next {
            next = self.queue.after(&ticket);
            let endpoint = ticket.pool.state();
            if self.limits().is_full_at(&endpoint.limits) {
                continue;
            }
            match self.permit_or_reclaim(endpoint) {
                Some(permit) => self.grant(&ticket, Grant::Permit(permit)),
                None => {
                    self.request_connections(&ticket.pool);
                    return Some(ticket.pool.clone());
                }
            }
        }
        None
    }

    /// Gives what another worker asks for, as far as this worker has it.
    fn on_connection_request(&self, mut ask: ConnectionRequest) {
        let now = tollgate_net::now();
        let pool = self.find(&ask.endpoint.address);
        while ask.want > 0 {
            if let Some(connection) = pool.as_ref().and_then(|pool| pool.take_idle(now)) {
                let more = ask.want > 1 && connection.pool().has_idle();
                self.hand_over(connection, ask.from, more);
            } else if let Some(permit) = self.permit_or_reclaim(&ask.endpoint) {
                let more = ask.want > 1 && self.has_idle();
                // If that worker is gone, the permit is returned.
                drop(self.context.shared.mailboxes.send(
                    ask.from,
                    Message(MessageKind::PermitTransfer(PermitTransfer { permit, more_follow: more })),
                ));
            } else {
                break;
            }
            ask.want -= 1;
        }
        let has_idle = match self.limits().has_connection_limit() {
            true => self.has_idle(),
            false => pool.is_some_and(|pool| pool.has_idle()),
        };
        if ask.want > 0 || !has_idle {
            let mut asked = self.unmet_requests.borrow_mut();
            if !asked.iter().any(|known| Arc::ptr_eq(known, &ask.endpoint)) {
                asked.push(ask.endpoint.clone());
            }
        }
        // A worker that still has something is asked again by the next request that waits.
        ask.endpoint.limits.waiting.set_exhausted(self.context.worker, !has_idle);
        self.update_must_offer();
        ask.forward();
    }

    /// Hands a connection over to another worker.
    fn hand_over(&self, connection: Connection, to: usize, more: bool) {
        let Connection { link, open } = connection;
        open.suspend();
        let PooledConnection { stream, opened, requests, permit, .. } = *link;
        let Ok(socket) = stream.detach() else {
            self.context.stats.upstream_closed(self.context.slot);
            return;
        };
        let handed = HandOver { socket, opened, requests, more_follow: more, permit };
        match self.context.shared.mailboxes.send(to, Message(MessageKind::HandOver(Box::new(handed)))) {
            Ok(()) => self.context.stats.upstream_handed_over(self.context.slot),
            // That worker is gone, and the socket is closed.
            Err(_) => self.context.stats.upstream_closed(self.context.slot),
        }
    }

    /// Takes a connection over from another worker.
    fn on_hand_over(&self, handed: HandOver) {
        let pool = self.find(&handed.permit.endpoint().address);
        let more = handed.more_follow;
        let connection = pool.as_ref().and_then(|pool| pool.adopt(handed));
        let Some(pool) = pool else {
            // No plan names the endpoint now, and the socket is closed.
            return self.context.stats.upstream_closed(self.context.slot);
        };
        match connection {
            Some(connection) => Pool::put(connection, tollgate_net::now()),
            None => self.context.stats.upstream_closed(self.context.slot),
        }
        if !more {
            self.request_more(&pool);
        }
    }

    /// Takes a permit over from another worker.
    fn on_permit_transfer(&self, moved: PermitTransfer) {
        let PermitTransfer { permit, more_follow: more } = moved;
        let Some(pool) = self.find(&permit.endpoint().address) else { return };
        match pool.queue.first() {
            Some(ticket) => self.grant(&ticket, Grant::Permit(permit)),
            None => drop(permit),
        }
        if !more {
            self.request_more(&pool);
        }
    }

    /// Everything that was asked for has arrived. Asks again for requests that joined the queue since.
    fn request_more(&self, pool: &Pool) {
        let asked = self.free_permits_for_waiters();
        if !pool.queue.is_empty() && asked.is_none_or(|asked| !std::ptr::eq(&*asked, pool)) {
            self.request_connections(pool);
        }
    }

    /// Offers a connection that became free while freed connections [must be
    /// offered](crate::pool::PoolContext::must_offer_freed). It goes to the request that has waited longest, here or on another
    /// worker, or it is kept.
    pub fn offer(&self, pool: &Rc<Pool>, connection: Connection, now: Instant) {
        if self.shrinking.get() {
            if self.limits().is_above_limit() || self.limits().is_above_limit_at(&pool.state().limits) {
                return;
            }
            self.shrinking.set(self.is_above_limit_anywhere());
            self.update_must_offer();
        }
        let Some(ticket) = pool.queue.first() else {
            pool.put_idle(connection, now);
            return self.give_to_waiters();
        };
        match self.find_longer_wait(pool, ticket.since, self.context.shared.mailboxes.microseconds(now)) {
            None => self.grant(&ticket, Grant::Connection(connection)),
            Some(LongerWait::Worker(worker)) => self.hand_over(connection, worker, false),
            // The connection is closed, and its permit goes to that request.
            Some(LongerWait::Endpoint) => {}
        }
    }

    /// Whether to give up an HTTP/2 connection while freed connections [must be
    /// offered](crate::pool::PoolContext::must_offer_freed): there are too many, or a request elsewhere has waited long and needs
    /// its permit. HTTP/2 connections never move to another worker.
    pub fn must_close(&self, pool: &Rc<Pool>, idle: bool) -> bool {
        if self.shrinking.get() {
            if self.limits().is_above_limit() || self.limits().is_above_limit_at(&pool.state().limits) {
                return true;
            }
            self.shrinking.set(self.is_above_limit_anywhere());
            self.update_must_offer();
        }
        let now = self.context.shared.mailboxes.microseconds(tollgate_net::now());
        if self.find_longer_wait(pool, now, now).is_some() {
            return true;
        }
        if idle {
            self.give_to_waiters();
        }
        false
    }

    /// Looks for a request elsewhere that has waited much longer than the first one here.
    fn find_longer_wait(&self, pool: &Pool, since: u64, now: u64) -> Option<LongerWait> {
        if now.saturating_sub(self.last_look_us.get()) < LOOK_INTERVAL_US {
            return None;
        }
        self.last_look_us.set(now);
        let much_longer = |other: u64| is_much_longer(now.saturating_sub(other), now.saturating_sub(since));
        if let Some((worker, other)) = pool.state().limits.waiting.longest(Some(self.context.worker))
            && much_longer(other)
        {
            return Some(LongerWait::Worker(worker));
        }
        let pools: Vec<_> = self.pools.borrow().values().filter_map(Weak::upgrade).collect();
        let others = pools.iter().filter(|other| !std::ptr::eq(&***other, pool));
        let blocked = others.filter(|other| self.is_blocked_by_upstream_limit(other.state()));
        let longest = blocked
            .filter_map(|other| other.state().limits.waiting.longest(None))
            .map(|(_, since)| since)
            .min();
        longest.filter(|other| much_longer(*other)).map(|_| LongerWait::Endpoint)
    }

    /// Called when a connection became idle while other workers sought one. Gives it to them if they still
    /// need it.
    fn give_to_waiters(&self) {
        for endpoint in self.unmet_requests.take() {
            endpoint.limits.waiting.set_exhausted(self.context.worker, false);
            // A request that starts to wait from now on asks again; earlier ones are seen here.
            for from in endpoint.limits.waiting.longest_first(self.context.worker) {
                self.on_connection_request(ConnectionRequest::for_current_worker(
                    &self.context.shared,
                    &endpoint,
                    from,
                ));
            }
        }
        // Requests of this worker that wait for another endpoint.
        if self.has_idle() {
            self.free_permits_for_waiters();
        }
        self.update_must_offer();
    }
}

/// A request elsewhere that has waited much longer.
enum LongerWait {
    /// On this worker, for the same endpoint.
    Worker(usize),
    /// On any worker, for another endpoint of the upstream.
    Endpoint,
}

/// Whether a request that has waited for `there` elsewhere takes precedence over a request that has waited
/// for `here`. Handing over a connection costs about 20 us on each of two workers, so it is done only if it
/// matters. A request waits at most twice the time of a request on another worker, plus a margin.
pub(super) fn is_much_longer(there: u64, here: u64) -> bool {
    there > 2 * here + PRECEDENCE_MARGIN_US
}
