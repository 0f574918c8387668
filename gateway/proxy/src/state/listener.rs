//! Listener handles: a listen address as one worker has it, open or closed.
//!
//! The control thread numbers listeners; a number that differs is another listener, even on the same address.
//! Each connection keeps its [`ListenerHandle`], to learn that the listener has closed and to read the
//! listener's configuration. [`Listeners`] holds the open ones of a worker.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;

use tollgate_net::Datagrams;
use tollgate_plan::{ListenAddress, Plan, PlannedListener};

/// Identifies a listener across all workers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ListenerId(pub u32);

/// The treatment of connections that wait in the kernel's queue when a listener closes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Queued {
    /// They are accepted: the kernel has completed their handshake, and would reset them.
    Accept,
    /// They are left to another process that has the same socket.
    Leave,
}

/// One listener. Its connections keep it, to learn when it has closed.
#[derive(Debug)]
pub(crate) struct ListenerHandle {
    pub id: ListenerId,
    /// Its address as the plan names it. `None` if another worker accepted a connection here when this worker
    /// had closed the listener, or had not opened it yet.
    bind: RefCell<Option<ListenAddress>>,
    /// The configuration in the last plan that named it. A plan without it closes the listener, while
    /// connections may still wait in the queue.
    listener: RefCell<Option<Arc<PlannedListener>>>,
    closed: Cell<Option<Queued>>,
}

impl ListenerHandle {
    /// Returns what happens to waiting connections if the listener is closed; `None` while it is open.
    pub fn closed(&self) -> Option<Queued> {
        self.closed.get()
    }

    /// Returns the configuration for a connection that arrives now.
    pub fn listener(&self, plan: &Plan) -> Option<Arc<PlannedListener>> {
        if let Some(found) = self.bind.borrow().as_ref().and_then(|bind| plan.listener(bind)) {
            *self.listener.borrow_mut() = Some(found.clone());
        }
        self.listener.borrow().clone()
    }

    /// Returns the listener that datagrams at this address are for after the listener has closed, while its last sessions
    /// keep the socket: one of the plan at the same address, or at all addresses of the port.
    pub fn successor(&self, plan: &Plan) -> Option<Arc<PlannedListener>> {
        let ListenAddress::Udp(own) = *self.bind.borrow().as_ref()? else { return None };
        let covers = |address: &SocketAddr| {
            let is_wide = address.ip().is_unspecified() && (address.is_ipv6() || own.is_ipv4());
            address.port() == own.port() && own.port() != 0 && (address.ip() == own.ip() || is_wide)
        };
        let mut all = plan.listeners.iter();
        all.find(|it| matches!(&it.bind, ListenAddress::Udp(address) if covers(address))).cloned()
    }

    /// Whether what a session sends arrives at this listener again.
    pub fn is_reached_by(&self, socket: &Datagrams) -> bool {
        let own = self.bind.borrow().as_ref().and_then(ListenAddress::ip);
        own.is_some_and(|own| socket.leads_to(own))
    }

    fn new(id: ListenerId, closed: Option<Queued>) -> Rc<Self> {
        let (bind, listener) = (RefCell::default(), RefCell::default());
        Rc::new(Self { id, bind, listener, closed: Cell::new(closed) })
    }
}

/// The listeners of a worker.
#[derive(Debug, Default)]
pub(crate) struct Listeners {
    open: RefCell<HashMap<ListenerId, Rc<ListenerHandle>>>,
    /// The lowest number that a new listener can have. Numbers are given in ascending order.
    next: Cell<u32>,
}

impl Listeners {
    /// Opens the listener with this number, if it is not open here yet.
    pub fn open(&self, id: ListenerId, bind: impl Into<ListenAddress>) -> Rc<ListenerHandle> {
        let handle = self.find_or_add(id);
        *handle.bind.borrow_mut() = Some(bind.into());
        handle
    }

    /// Returns the listener at which another worker accepted a connection. It may have closed since; or it is
    /// open there, and this worker is about to open it.
    pub fn find(&self, id: ListenerId) -> Rc<ListenerHandle> {
        if id.0 >= self.next.get() {
            return self.find_or_add(id);
        }
        let known = self.open.borrow().get(&id).cloned();
        known.unwrap_or_else(|| ListenerHandle::new(id, Some(Queued::Leave)))
    }

    fn find_or_add(&self, id: ListenerId) -> Rc<ListenerHandle> {
        self.next.set(self.next.get().max(id.0 + 1));
        self.open.borrow_mut().entry(id).or_insert_with(|| ListenerHandle::new(id, None)).clone()
    }

    /// Closes a listener for good.
    pub fn close(&self, id: ListenerId, waiting: Queued) {
        if let Some(handle) = self.open.borrow_mut().remove(&id) {
            handle.closed.set(Some(waiting));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use super::*;

    #[test]
    fn connections_learn_that_their_listener_closed() {
        let listeners = Listeners::default();
        let (id, bind) = (ListenerId(7), SocketAddr::from(([127, 0, 0, 1], 0)));
        let handle = listeners.open(id, bind);
        assert!(Rc::ptr_eq(&handle, &listeners.find(id)));
        assert_eq!(handle.closed(), None);
        listeners.close(id, Queued::Accept);
        assert_eq!(handle.closed(), Some(Queued::Accept));
        assert!(listeners.find(id).closed().is_some(), "who comes late finds it closed");
        assert_eq!(listeners.open(id, bind).closed(), None, "the same number again is another listener");
    }

    #[test]
    fn a_connection_that_arrives_before_the_command_finds_the_listener_open() {
        let listeners = Listeners::default();
        let bind = SocketAddr::from(([127, 0, 0, 1], 0));
        listeners.open(ListenerId(1), bind);
        let early = listeners.find(ListenerId(2));
        assert_eq!(early.closed(), None);
        assert!(Rc::ptr_eq(&early, &listeners.open(ListenerId(2), bind)));
        listeners.close(ListenerId(1), Queued::Accept);
        assert!(listeners.find(ListenerId(1)).closed().is_some());
        listeners.close(ListenerId(2), Queued::Accept);
        assert!(early.closed().is_some() && listeners.find(ListenerId(2)).closed().is_some());
    }
}
