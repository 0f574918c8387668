//! The queue of requests that wait for a connection, in order of arrival.
//!
//! [`PoolSet::enqueue`](super::PoolSet::enqueue) adds a [`Ticket`] to two queues: the endpoint's
//! and the worker's. The request awaits a [`QueueWait`] until the ticket has a [`Grant`] or the queue timeout
//! passes.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use tollgate_net::{Deadline, component};
use tracing::debug;

use super::http2::StreamPermit;
use super::{Connection, Pool};
use crate::{ConnectError, Permit};

/// The object that ends the wait of a request.
#[derive(Debug)]
pub(crate) enum Grant {
    /// An open connection that another request returned.
    Connection(Connection),
    /// A permit to open a new connection.
    Permit(Permit),
    /// Capacity for one stream on an open HTTP/2 connection.
    Stream(StreamPermit),
}

/// A request that waits, or that has its grant and was not polled since.
#[derive(Debug)]
pub(crate) struct Ticket {
    number: u64,
    /// When the wait began, in microseconds since the start.
    pub since: u64,
    pub pool: Rc<Pool>,
    /// Whether the ticket is in its queues.
    is_waiting: Cell<bool>,
    grant: RefCell<Option<Grant>>,
    waker: RefCell<Option<Waker>>,
}

impl Ticket {
    pub fn new(number: u64, since: u64, pool: &Rc<Pool>) -> Rc<Self> {
        let (grant, waker) = (RefCell::default(), RefCell::default());
        Rc::new(Self { number, since, pool: pool.clone(), is_waiting: Cell::new(true), grant, waker })
    }

    /// Marks the ticket as gone. Afterwards each queue must [remove](Queue::remove) it. Returns whether it
    /// was still waiting.
    pub fn mark_left(&self) -> bool {
        self.is_waiting.replace(false)
    }

    /// Gives the ticket its grant and wakes its request. The ticket must have left its queues.
    pub fn grant(&self, grant: Grant) {
        *self.grant.borrow_mut() = Some(grant);
        if let Some(waker) = self.waker.borrow_mut().take() {
            waker.wake();
        }
    }
}

/// A FIFO queue of requests, any of which can leave early.
///
/// Nearly all requests leave from the front, so the tickets are in one block of memory. A ticket that leaves
/// from further back is removed later, together with others: when all tickets before it have left, or when
/// more than half of all tickets are gone.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    /// Ordered by number. The first is still waiting.
    tickets: RefCell<VecDeque<Rc<Ticket>>>,
    /// How many of these tickets have left.
    left_count: Cell<usize>,
}

impl Queue {
    pub fn is_empty(&self) -> bool {
        self.tickets.borrow().is_empty()
    }

    pub fn len(&self) -> usize {
        self.tickets.borrow().len() - self.left_count.get()
    }

    /// The number of tickets in memory, including tickets that have left.
    #[cfg(test)]
    pub fn held(&self) -> usize {
        self.tickets.borrow().len()
    }

    /// Returns the ticket that has waited longest.
    pub fn first(&self) -> Option<Rc<Ticket>> {
        self.tickets.borrow().front().cloned()
    }

    /// Returns the first waiting ticket that joined after `ticket`, which may have left.
    pub fn after(&self, ticket: &Ticket) -> Option<Rc<Ticket>> {
        let tickets = self.tickets.borrow();
        let next = tickets.partition_point(|other| other.number <= ticket.number);
        tickets.range(next..).find(|other| other.is_waiting.get()).cloned()
    }

    /// Returns when the first ticket began to wait.
    pub fn since(&self) -> Option<u64> {
        self.tickets.borrow().front().map(|ticket| ticket.since)
    }

    /// Appends a ticket, whose number must exceed all earlier ones. Returns whether it is the first now.
    pub fn join(&self, ticket: &Rc<Ticket>) -> bool {
        let mut tickets = self.tickets.borrow_mut();
        tickets.push_back(ticket.clone());
        tickets.len() == 1
    }

    /// Removes a ticket that has [left](Ticket::mark_left), now or later. Returns whether it was the first.
    pub fn remove(&self, ticket: &Ticket) -> bool {
        let mut tickets = self.tickets.borrow_mut();
        let is_first = tickets.front().is_some_and(|first| std::ptr::eq(&**first, ticket));
        self.left_count.set(self.left_count.get() + 1);
        if is_first {
            while tickets.pop_front_if(|first| !first.is_waiting.get()).is_some() {
                self.left_count.set(self.left_count.get() - 1);
            }
        } else if self.left_count.get() * 2 > tickets.len() {
            tickets.retain(|ticket| ticket.is_waiting.get());
            self.left_count.set(0);
        }
        is_first
    }
}

/// The future of a ticket's grant. If it is dropped, the ticket leaves its queues, and a grant that no task
/// took is passed on.
#[derive(Debug)]
pub(crate) struct QueueWait {
    ticket: Rc<Ticket>,
    deadline: Deadline,
}

impl QueueWait {
    pub fn new(ticket: Rc<Ticket>, deadline: Deadline) -> Self {
        Self { ticket, deadline }
    }
}

impl Future for QueueWait {
    type Output = Result<Grant, ConnectError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        // A grant that was made in time counts, even if the task is polled after the deadline.
        if let Some(grant) = self.ticket.grant.borrow_mut().take() {
            return Poll::Ready(Ok(grant));
        }
        let mut waker = self.ticket.waker.borrow_mut();
        if !waker.as_ref().is_some_and(|known| known.will_wake(cx.waker())) {
            *waker = Some(cx.waker().clone());
        }
        self.deadline.poll_passed(cx).map(|()| {
            let pool = &self.ticket.pool;
            let (upstream, endpoint) = (pool.upstream_state().name.as_str(), &pool.state().address);
            debug!(
                target: component::UPSTREAM,
                upstream,
                %endpoint,
                "a request waited too long for a connection"
            );
            Err(ConnectError::QueueTimeout)
        })
    }
}

impl Drop for QueueWait {
    fn drop(&mut self) {
        self.ticket.pool.pool_set.dequeue(&self.ticket);
        let left = self.ticket.grant.borrow_mut().take();
        // A permit, or capacity on an HTTP/2 connection, is returned when it is dropped.
        if let Some(Grant::Connection(connection)) = left {
            Pool::put(connection, tollgate_net::now());
        }
    }
}
