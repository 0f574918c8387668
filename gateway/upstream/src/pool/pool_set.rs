//! A worker's connections to one upstream, and the requests that wait for one.
//!
//! Below the limits, most of this is unused: a request takes an idle connection of its endpoint, or a
//! [permit](crate::Permit) for a new one. If there is no permit, the request joins the queue. In order of
//! arrival it gets one of these:
//!
//! - a connection of its endpoint that becomes free on this worker ([`Pool::put`]);
//! - a permit that was returned ([`PermitFreed`](crate::state::message::PermitFreed));
//! - an idle connection of its endpoint on another worker, which hands over the socket with its permit
//!   ([`ConnectionRequest`]);
//! - the permit of an idle connection to another endpoint, if only the limit of the whole upstream is
//!   reached. The oldest idle connection is closed.
//!
//! A worker that had nothing to give remembers that it was asked, and publishes it in `WaitTimes`. From then
//! on it looks for waiting requests whenever a connection becomes free. A worker with a queue of its own gives
//! a connection away only if a request elsewhere has waited [much longer](sharing::is_much_longer). So sockets
//! do not move without need, and no request starves.

mod sharing;

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::time::Instant;

use tollgate_net::{Address, BulkQueue, Timers, component};
use tollgate_observe::{Slot, WorkerStats};
use tollgate_plan::{Queue as QueueSettings, Upstream as Planned};
use tracing::{debug, trace};

use super::Pool;
use super::context::PoolContext;
use super::queue::{Grant, Queue, QueueWait, Ticket};
use crate::state::UpstreamLimits;
use crate::state::message::ConnectionRequest;
use crate::{ConnectError, EndpointState, Permit, UpstreamState};

/// A worker's connections to one upstream, and the requests that wait for one.
#[derive(Debug)]
pub(crate) struct PoolSet {
    context: Rc<PoolContext>,
    queue_settings: RefCell<QueueSettings>,
    /// By endpoint. A pool removes its entry when it is dropped.
    pools: RefCell<BTreeMap<Address, Weak<Pool>>>,
    queue: Queue,
    /// Tickets issued so far.
    tickets: Cell<u64>,
    /// Endpoints for which other workers asked and this worker had nothing to give.
    unmet_requests: RefCell<Vec<Arc<EndpointState>>>,
    /// There are more connections than a new plan allows.
    shrinking: Cell<bool>,
    /// When this worker last looked at the other workers' queues, in microseconds since the start.
    last_look_us: Cell<u64>,
}

impl PoolSet {
    pub fn new(
        worker: usize,
        planned: &Planned,
        (slot, idle): (Slot, Rc<Cell<usize>>),
        (timers, bulk_queue): (Timers, BulkQueue),
        stats: Arc<WorkerStats>,
        shared: Arc<UpstreamState>,
    ) -> Rc<Self> {
        shared.limits.set_limits(&planned.rules.caps);
        Rc::new(Self {
            context: PoolContext::new(worker, planned, (slot, idle), (timers, bulk_queue), stats, shared),
            queue_settings: RefCell::new(planned.rules.queue.clone()),
            pools: RefCell::default(),
            queue: Queue::default(),
            tickets: Cell::new(0),
            unmet_requests: RefCell::default(),
            shrinking: Cell::new(false),
            last_look_us: Cell::new(0),
        })
    }

    /// The settings and counters of the pools.
    pub fn context(&self) -> &PoolContext {
        &self.context
    }

    fn limits(&self) -> &UpstreamLimits {
        &self.context.shared.limits
    }

    /// Returns the pool of an endpoint if something holds it. Marks the endpoint as a member.
    pub fn reuse_pool(&self, address: &Address) -> Option<Rc<Pool>> {
        let pool = self.find(address)?;
        pool.unretire();
        Some(pool)
    }

    /// Creates the pool of an endpoint that has none.
    pub fn create_pool(self: &Rc<Self>, address: &Address) -> Rc<Pool> {
        let pool = Pool::new(address.clone(), self.context.clone(), self.clone());
        self.pools.borrow_mut().insert(address.clone(), Rc::downgrade(&pool));
        pool
    }

    fn find(&self, address: &Address) -> Option<Rc<Pool>> {
        self.pools.borrow().get(address).and_then(Weak::upgrade)
    }

    /// Removes the entry of a pool that was dropped.
    pub fn remove_pool(&self, address: &Address) {
        let mut pools = self.pools.borrow_mut();
        if pools.get(address).is_some_and(|pool| pool.strong_count() == 0) {
            pools.remove(address);
        }
    }

    /// Adopts the settings of a plan.
    pub fn apply_plan(&self, planned: &Planned) {
        self.limits().set_limits(&planned.rules.caps);
        *self.queue_settings.borrow_mut() = planned.rules.queue.clone();
        let effect = self.context.apply_plan(planned);
        if effect.settings {
            self.for_each_pool(|pool| pool.settings_changed());
        }
        if effect.kind {
            self.for_each_pool(|pool| {
                pool.close_idle();
                pool.http2.retire();
            });
        }
        // If the limits fell, idle connections are closed now, others when they become free.
        while self.limits().is_above_limit() && self.close_oldest().is_some() {}
        self.for_each_pool(|pool| {
            while self.limits().is_above_limit_at(&pool.state().limits) && pool.close_oldest().is_some() {}
        });
        self.shrinking.set(true);
        self.update_must_offer();
        // If the limits rose, waiting requests can go on.
        self.grant_permits(None);
        self.free_permits_for_waiters();
    }

    fn for_each_pool(&self, act: impl Fn(&Rc<Pool>)) {
        let pools: Vec<_> = self.pools.borrow().values().filter_map(Weak::upgrade).collect();
        pools.iter().for_each(act);
    }

    fn update_must_offer(&self) {
        let is_asked = !self.unmet_requests.borrow().is_empty();
        self.context.set_must_offer(!self.queue.is_empty() || is_asked || self.shrinking.get());
    }

    /// Takes a permit for a new connection. Returns `None` if there is none, or if other requests wait for
    /// it.
    pub fn permit(&self, pool: &Pool) -> Option<Permit> {
        if !pool.queue.is_empty() {
            return None;
        }
        Permit::try_acquire(&pool.context.shared, pool.state()).or_else(|| self.reclaim(pool.state()))
    }

    /// Takes a permit for a connection to an endpoint. If none is free, closes an idle connection for it.
    fn permit_or_reclaim(&self, endpoint: &Arc<EndpointState>) -> Option<Permit> {
        Permit::try_acquire(&self.context.shared, endpoint).or_else(|| self.reclaim(endpoint))
    }

    /// Closes an idle connection, if that makes a connection to this endpoint possible. Returns its permit.
    fn reclaim(&self, endpoint: &Arc<EndpointState>) -> Option<Permit> {
        if self.limits().is_full_at(&endpoint.limits) {
            self.find(&endpoint.address)?.close_oldest()
        } else if self.is_blocked_by_upstream_limit(endpoint) {
            self.close_oldest()?.for_endpoint(endpoint)
        } else {
            None
        }
    }

    /// Whether no request waits for a connection to this upstream, on any worker.
    pub fn has_no_waiters(&self) -> bool {
        self.limits().queued.get() == 0
    }

    /// Adds a request to the queue.
    ///
    /// # Errors
    /// Returns [`ConnectError::QueueFull`] if the queue is full.
    pub fn enqueue(&self, pool: &Rc<Pool>, now: Instant) -> Result<QueueWait, ConnectError> {
        self.context.stats.upstream_limit_hit(self.context.slot);
        let (size, timeout) = {
            let queueing = self.queue_settings.borrow();
            (queueing.size, queueing.timeout)
        };
        let (upstream, endpoint) = (self.context.shared.name.as_str(), &pool.state().address);
        if !self.limits().queued.try_acquire(size) {
            debug!(
                target: component::UPSTREAM,
                upstream,
                %endpoint,
                size,
                "the queue for a connection is full"
            );
            return Err(ConnectError::QueueFull);
        }
        trace!(target: component::UPSTREAM, upstream, %endpoint, "a request waits for a connection");
        self.context.stats.upstream_queued(self.context.slot);
        let number = self.tickets.replace(self.tickets.get() + 1);
        let ticket = Ticket::new(number, self.context.shared.mailboxes.microseconds(now), pool);
        let [first, first_of_all] = [&pool.queue, &self.queue].map(|queue| queue.join(&ticket));
        self.publish(pool, first, first_of_all);
        if first {
            // Tries once more: from here on, a worker that returns a permit sees that this request waits.
            match Permit::try_acquire(&self.context.shared, pool.state()) {
                Some(permit) => self.grant(&ticket, Grant::Permit(permit)),
                None => self.request_connections(pool),
            }
        }
        let deadline = self.context.timers.deadline();
        deadline.set(now, Some(timeout));
        Ok(QueueWait::new(ticket, deadline))
    }

    /// Removes a ticket from the queue, if it is still there.
    pub fn dequeue(&self, ticket: &Ticket) {
        if ticket.mark_left() {
            let [first, first_of_all] = [&ticket.pool.queue, &self.queue].map(|queue| queue.remove(ticket));
            self.publish(&ticket.pool, first, first_of_all);
            self.limits().queued.release();
            self.context.stats.upstream_dequeued(self.context.slot);
        }
    }

    /// Publishes since when requests wait here, for this endpoint and for the whole upstream, if the first
    /// ticket changed.
    fn publish(&self, pool: &Pool, first: bool, first_of_all: bool) {
        let workers = self.context.shared.mailboxes.workers();
        if first {
            pool.state().limits.waiting.publish(workers, self.context.worker, pool.queue.since());
        }
        if first_of_all {
            self.limits().waiting.publish(workers, self.context.worker, self.queue.since());
        }
        self.update_must_offer();
    }

    pub(crate) fn grant(&self, ticket: &Rc<Ticket>, grant: Grant) {
        self.dequeue(ticket);
        ticket.grant(grant);
    }

    /// Asks the other workers for one connection per waiting request.
    fn request_connections(&self, pool: &Pool) {
        ConnectionRequest::send_to_others(
            &self.context.shared,
            pool.state(),
            self.context.worker,
            pool.queue.len(),
        );
    }

    /// Gives permits to waiting requests, in order, as long as there are any. Returns whether a request got
    /// one.
    fn grant_permits(&self, endpoint: Option<&Arc<EndpointState>>) -> bool {
        let mut served = false;
        let mut next = self.queue.first();
        // Endpoints without a free permit.
        let mut full: Vec<Rc<Pool>> = Vec::new();
        while let Some(ticket) = next {
            let pool = &ticket.pool;
            next = self.queue.after(&ticket);
            if endpoint.is_some_and(|endpoint| !Arc::ptr_eq(endpoint, pool.state()))
                || full.iter().any(|full| Rc::ptr_eq(full, pool))
            {
                continue;
            }
            match Permit::try_acquire(&self.context.shared, pool.state()) {
                Some(permit) => {
                    self.grant(&ticket, Grant::Permit(permit));
                    served = true;
                }
                None if self.limits().is_full() || endpoint.is_some() => break,
                None => full.push(pool.clone()),
            }
        }
        served
    }

    /// Whether only the limit of the whole upstream prevents a connection to this endpoint. If so, closing a
    /// connection to another endpoint helps.
    fn is_blocked_by_upstream_limit(&self, endpoint: &EndpointState) -> bool {
        let limits = self.limits();
        limits.has_connection_limit() && limits.is_full() && !limits.is_full_at(&endpoint.limits)
    }

    fn has_idle(&self) -> bool {
        self.pools.borrow().values().filter_map(Weak::upgrade).any(|pool| pool.has_idle())
    }

    /// Closes the connection that has been idle longest, and returns its permit; `None` if there is none.
    fn close_oldest(&self) -> Option<Permit> {
        let pools: Vec<_> = self.pools.borrow().values().filter_map(Weak::upgrade).collect();
        let oldest = pools
            .iter()
            .filter_map(|pool| Some((pool.oldest_since()?, pool)))
            .min_by_key(|(since, _)| *since);
        oldest.and_then(|(_, pool)| pool.close_oldest())
    }

    fn is_above_limit_anywhere(&self) -> bool {
        let limits = self.limits();
        let pools = self.pools.borrow();
        limits.is_above_limit()
            || pools
                .values()
                .filter_map(Weak::upgrade)
                .any(|pool| limits.is_above_limit_at(&pool.state().limits))
    }
}

impl Drop for PoolSet {
    fn drop(&mut self) {
        self.unmet_requests
            .get_mut()
            .iter()
            .for_each(|endpoint| endpoint.limits.waiting.set_exhausted(self.context.worker, false));
    }
}

#[cfg(test)]
mod tests;
