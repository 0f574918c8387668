//! Listener handles: a listen address as one worker has it, open or closed.
//!
//! The control thread numbers listeners; a number that differs is another listener, even on the same address.
//! Each connection keeps its [`Door`], to learn that the listener has closed and to read the listener's
//! configuration. [`Doors`] holds the open ones of a worker.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;

use tollgate_plan::{ListenAddress, Plan, PlannedListener};

/// Identifies a listener across all workers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DoorId(pub u32);

/// The treatment of connections that wait in the kernel's queue when a listener closes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waiting {
    /// They are accepted: the kernel has completed their handshake, and would reset them.
    Take,
    /// They are left to another process that has the same socket.
    Leave,
}

/// One listener. Its connections keep it, to learn when it has closed.
#[derive(Debug)]
pub(crate) struct Door {
    pub id: DoorId,
    /// Its address as the plan names it. `None` if another worker accepted a connection here when this worker
    /// had closed the listener, or had not opened it yet.
    bind: RefCell<Option<ListenAddress>>,
    /// The configuration in the last plan that named it. A plan without it closes the listener, while
    /// connections may still wait in the queue.
    listener: RefCell<Option<Arc<PlannedListener>>>,
    closed: Cell<Option<Waiting>>,
}

impl Door {
    /// Returns what happens to waiting connections if the listener is closed; `None` while it is open.
    pub fn closed(&self) -> Option<Waiting> {
        self.closed.get()
    }

    /// Returns the configuration for a connection that arrives now.
    pub fn listener(&self, plan: &Plan) -> Option<Arc<PlannedListener>> {
        if let Some(found) = self.bind.borrow().as_ref().and_then(|bind| plan.listener(bind)) {
            *self.listener.borrow_mut() = Some(found.clone());
        }
        self.listener.borrow().clone()
    }

    fn new(id: DoorId, closed: Option<Waiting>) -> Rc<Self> {
        let (bind, listener) = (RefCell::default(), RefCell::default());
        Rc::new(Self { id, bind, listener, closed: Cell::new(closed) })
    }
}

/// The listeners of a worker.
#[derive(Debug, Default)]
pub(crate) struct Doors {
    open: RefCell<HashMap<DoorId, Rc<Door>>>,
    /// The lowest number that a new listener can have. Numbers are given in ascending order.
    next: Cell<u32>,
}

impl Doors {
    /// Opens the listener with this number, if it is not open here yet.
    pub fn open(&self, id: DoorId, bind: impl Into<ListenAddress>) -> Rc<Door> {
        let door = self.find_or_add(id);
        *door.bind.borrow_mut() = Some(bind.into());
        door
    }

    /// Returns the listener at which another worker accepted a connection. It may have closed since; or it is
    /// open there, and this worker is about to open it.
    pub fn find(&self, id: DoorId) -> Rc<Door> {
        if id.0 >= self.next.get() {
            return self.find_or_add(id);
        }
        let known = self.open.borrow().get(&id).cloned();
        known.unwrap_or_else(|| Door::new(id, Some(Waiting::Leave)))
    }

    fn find_or_add(&self, id: DoorId) -> Rc<Door> {
        self.next.set(self.next.get().max(id.0 + 1));
        self.open.borrow_mut().entry(id).or_insert_with(|| Door::new(id, None)).clone()
    }

    /// Closes a listener for good.
    pub fn close(&self, id: DoorId, waiting: Waiting) {
        if let Some(door) = self.open.borrow_mut().remove(&id) {
            door.closed.set(Some(waiting));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use super::*;

    #[test]
    fn whoever_came_in_learns_that_the_door_has_closed() {
        let doors = Doors::default();
        let (id, bind) = (DoorId(7), SocketAddr::from(([127, 0, 0, 1], 0)));
        let door = doors.open(id, bind);
        assert!(Rc::ptr_eq(&door, &doors.find(id)));
        assert_eq!(door.closed(), None);
        doors.close(id, Waiting::Take);
        assert_eq!(door.closed(), Some(Waiting::Take));
        assert!(doors.find(id).closed().is_some(), "who comes late finds it closed");
        assert_eq!(doors.open(id, bind).closed(), None, "the same number again is another door");
    }

    #[test]
    fn who_comes_in_before_this_worker_is_told_finds_it_open() {
        let doors = Doors::default();
        let bind = SocketAddr::from(([127, 0, 0, 1], 0));
        doors.open(DoorId(1), bind);
        let early = doors.find(DoorId(2));
        assert_eq!(early.closed(), None);
        assert!(Rc::ptr_eq(&early, &doors.open(DoorId(2), bind)));
        doors.close(DoorId(1), Waiting::Take);
        assert!(doors.find(DoorId(1)).closed().is_some());
        doors.close(DoorId(2), Waiting::Take);
        assert!(early.closed().is_some() && doors.find(DoorId(2)).closed().is_some());
    }
}
