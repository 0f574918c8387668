//! A listen address as a worker has it: open, or closed while connections that came through it still live.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;

/// Names a listen address for all workers. What has another number is another listener, also on the same address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DoorId(pub u32);

/// What becomes of the connections that wait in the kernel's queue when a door closes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waiting {
    /// They are taken: the kernel has told these clients that they are connected, and would reset them.
    Take,
    /// They are left to another process that has the same socket.
    Leave,
}

/// One listen address. Its connections hold on to it, to know when it has closed.
#[derive(Debug)]
pub(crate) struct Door {
    pub id: DoorId,
    closed: Cell<Option<Waiting>>,
}

impl Door {
    /// What is to become of those that wait, once it has closed.
    pub fn closed(&self) -> Option<Waiting> {
        self.closed.get()
    }
}

/// The doors of a worker.
#[derive(Debug, Default)]
pub(crate) struct Doors(RefCell<HashMap<DoorId, Rc<Door>>>);

impl Doors {
    /// The door of that number. One that was never open here is open now.
    pub fn open(&self, id: DoorId) -> Rc<Door> {
        let mut doors = self.0.borrow_mut();
        doors.entry(id).or_insert_with(|| Rc::new(Door { id, closed: Cell::new(None) })).clone()
    }

    /// The door through which another worker let a connection in. It may have closed meanwhile.
    pub fn find(&self, id: DoorId) -> Rc<Door> {
        let known = self.0.borrow().get(&id).cloned();
        known.unwrap_or_else(|| Rc::new(Door { id, closed: Cell::new(Some(Waiting::Leave)) }))
    }

    /// Closes a door, for good.
    pub fn close(&self, id: DoorId, waiting: Waiting) {
        if let Some(door) = self.0.borrow_mut().remove(&id) {
            door.closed.set(Some(waiting));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_came_in_learns_that_the_door_has_closed() {
        let doors = Doors::default();
        let (door, id) = (doors.open(DoorId(7)), DoorId(7));
        assert!(Rc::ptr_eq(&door, &doors.find(id)));
        assert_eq!(door.closed(), None);
        doors.close(id, Waiting::Take);
        assert_eq!(door.closed(), Some(Waiting::Take));
        assert!(doors.find(id).closed().is_some(), "who comes late finds it closed");
        assert_eq!(doors.open(id).closed(), None, "the same number again is another door");
    }
}
