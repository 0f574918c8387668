//! Requests that wait for a connection, in the order in which they came.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use tollgate_net::Deadline;

use crate::http2::Place;
use crate::{ConnectError, Connection, Permit, Pool};

/// What a request has waited for.
#[derive(Debug)]
pub(crate) enum Grant {
    /// A connection that came free.
    Connection(Connection),
    /// A place for a new one.
    Permit(Permit),
    /// A place on an HTTP/2 connection.
    Stream(Place),
}

/// A request that waits, or has just been granted what it waits for.
#[derive(Debug)]
pub(crate) struct Ticket {
    number: u64,
    /// Since when it waits, in microseconds from the start.
    pub since: u64,
    pub pool: Rc<Pool>,
    grant: RefCell<Option<Grant>>,
    waker: RefCell<Option<Waker>>,
}

impl Ticket {
    pub fn new(number: u64, since: u64, pool: &Rc<Pool>) -> Rc<Self> {
        let (grant, waker) = (RefCell::default(), RefCell::default());
        Rc::new(Self { number, since, pool: pool.clone(), grant, waker })
    }

    /// Gives it what it waits for. It has left the queue.
    pub fn grant(&self, grant: Grant) {
        *self.grant.borrow_mut() = Some(grant);
        if let Some(waker) = self.waker.borrow_mut().take() {
            waker.wake();
        }
    }
}

/// Requests in order of their coming; any can leave.
#[derive(Debug, Default)]
pub(crate) struct Queue(RefCell<BTreeMap<u64, Rc<Ticket>>>);

impl Queue {
    pub fn is_empty(&self) -> bool {
        self.0.borrow().is_empty()
    }

    pub fn len(&self) -> usize {
        self.0.borrow().len()
    }

    /// The one that waits the longest.
    pub fn first(&self) -> Option<Rc<Ticket>> {
        self.0.borrow().first_key_value().map(|(_, ticket)| ticket.clone())
    }

    /// The first that came after another one.
    pub fn after(&self, ticket: &Ticket) -> Option<Rc<Ticket>> {
        self.0.borrow().range(ticket.number + 1..).next().map(|(_, ticket)| ticket.clone())
    }

    /// Since when the first waits.
    pub fn since(&self) -> Option<u64> {
        self.0.borrow().first_key_value().map(|(_, ticket)| ticket.since)
    }

    pub fn join(&self, ticket: &Rc<Ticket>) {
        self.0.borrow_mut().insert(ticket.number, ticket.clone());
    }

    /// Whether it was there.
    pub fn leave(&self, ticket: &Ticket) -> bool {
        self.0.borrow_mut().remove(&ticket.number).is_some()
    }
}

/// Waits for a ticket's turn. Dropping it leaves the queue, and passes on what was granted and not taken.
#[derive(Debug)]
pub(crate) struct Turn {
    ticket: Rc<Ticket>,
    deadline: Deadline,
}

impl Turn {
    pub fn new(ticket: Rc<Ticket>, deadline: Deadline) -> Self {
        Self { ticket, deadline }
    }
}

impl Future for Turn {
    type Output = Result<Grant, ConnectError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        // What was granted in time counts, however late this task is polled.
        if let Some(grant) = self.ticket.grant.borrow_mut().take() {
            return Poll::Ready(Ok(grant));
        }
        let mut waker = self.ticket.waker.borrow_mut();
        if !waker.as_ref().is_some_and(|known| known.will_wake(cx.waker())) {
            *waker = Some(cx.waker().clone());
        }
        self.deadline.poll_passed(cx).map(|()| Err(ConnectError::QueueTimeout))
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.ticket.pool.set().leave(&self.ticket);
        let left = self.ticket.grant.borrow_mut().take();
        // Places are given back by being dropped.
        if let Some(Grant::Connection(connection)) = left {
            Pool::put(connection, tollgate_net::now());
        }
    }
}
