//! A gate between a test and its origin's threads.

use std::sync::{Arc, Condvar, Mutex};

use crate::DEADLINE;

/// Closed until somebody opens it; clones share it.
#[derive(Clone, Debug, Default)]
pub struct Gate(Arc<(Mutex<bool>, Condvar)>);

impl Gate {
    /// A closed gate.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Opens it.
    ///
    /// # Panics
    /// When a thread died while it held the gate.
    pub fn open(&self) {
        *self.0.0.lock().expect("gate") = true;
        self.0.1.notify_all();
    }

    /// Closes it again, for those that come from now on.
    ///
    /// # Panics
    /// When a thread died while it held the gate.
    pub fn close(&self) {
        *self.0.0.lock().expect("gate") = false;
    }

    /// Waits until it is open, at most [`DEADLINE`].
    ///
    /// # Panics
    /// When a thread died while it held the gate.
    pub fn wait(&self) {
        let open = self.0.0.lock().expect("gate");
        drop(self.0.1.wait_timeout_while(open, DEADLINE, |open| !*open).expect("gate"));
    }
}
