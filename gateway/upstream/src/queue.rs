//! Requests that wait for a connection, in the order in which they came.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
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
    /// It is in its queues.
    waits: Cell<bool>,
    grant: RefCell<Option<Grant>>,
    waker: RefCell<Option<Waker>>,
}

impl Ticket {
    pub fn new(number: u64, since: u64, pool: &Rc<Pool>) -> Rc<Self> {
        let (grant, waker) = (RefCell::default(), RefCell::default());
        Rc::new(Self { number, since, pool: pool.clone(), waits: Cell::new(true), grant, waker })
    }

    /// It is to leave its queues: each [forgets](Queue::forget) it after this. Whether it was there.
    pub fn leave(&self) -> bool {
        self.waits.replace(false)
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
///
/// Nearly all leave from the front, in their turn, so they are in one piece of memory. Who leaves from further behind is
/// taken out later, together with others: when all before it have left, or when half of them are such.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    /// By number. The first waits.
    tickets: RefCell<VecDeque<Rc<Ticket>>>,
    /// How many of them have left.
    gone: Cell<usize>,
}

impl Queue {
    pub fn is_empty(&self) -> bool {
        self.tickets.borrow().is_empty()
    }

    pub fn len(&self) -> usize {
        self.tickets.borrow().len() - self.gone.get()
    }

    /// Tickets that it holds, those that have left among them.
    #[cfg(test)]
    pub fn held(&self) -> usize {
        self.tickets.borrow().len()
    }

    /// The one that waits the longest.
    pub fn first(&self) -> Option<Rc<Ticket>> {
        self.tickets.borrow().front().cloned()
    }

    /// The first that came after another one, which may have left.
    pub fn after(&self, ticket: &Ticket) -> Option<Rc<Ticket>> {
        let tickets = self.tickets.borrow();
        let next = tickets.partition_point(|other| other.number <= ticket.number);
        tickets.range(next..).find(|other| other.waits.get()).cloned()
    }

    /// Since when the first waits.
    pub fn since(&self) -> Option<u64> {
        self.tickets.borrow().front().map(|ticket| ticket.since)
    }

    /// Says whether it is the first now. Its number is higher than that of all that joined before.
    pub fn join(&self, ticket: &Rc<Ticket>) -> bool {
        let mut tickets = self.tickets.borrow_mut();
        tickets.push_back(ticket.clone());
        tickets.len() == 1
    }

    /// Takes out one that has [left](Ticket::leave), sooner or later. Says whether it was the first.
    pub fn forget(&self, ticket: &Ticket) -> bool {
        let mut tickets = self.tickets.borrow_mut();
        let is_first = tickets.front().is_some_and(|first| std::ptr::eq(&**first, ticket));
        self.gone.set(self.gone.get() + 1);
        if is_first {
            while tickets.pop_front_if(|first| !first.waits.get()).is_some() {
                self.gone.set(self.gone.get() - 1);
            }
        } else if self.gone.get() * 2 > tickets.len() {
            tickets.retain(|ticket| ticket.waits.get());
            self.gone.set(0);
        }
        is_first
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
