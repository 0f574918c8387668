//! A gate at which an origin's threads wait until the test opens it.

use std::sync::{Arc, Condvar, Mutex};

use crate::DEADLINE;

/// A gate that is closed until a test opens it. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct Gate(Arc<(Mutex<bool>, Condvar)>);

impl Gate {
    /// Returns a closed gate.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Opens the gate and releases all waiting threads.
    ///
    /// # Panics
    /// Panics if a thread died while it held the gate.
    pub fn open(&self) {
        *self.0.0.lock().expect("gate") = true;
        self.0.1.notify_all();
    }

    /// Closes the gate again. Threads that call [`wait`](Self::wait) from now on block.
    ///
    /// # Panics
    /// Panics if a thread died while it held the gate.
    pub fn close(&self) {
        *self.0.0.lock().expect("gate") = false;
    }

    /// Waits until the gate is open, at most [`DEADLINE`].
    ///
    /// # Panics
    /// Panics if a thread died while it held the gate.
    pub fn wait(&self) {
        let open = self.0.0.lock().expect("gate");
        drop(self.0.1.wait_timeout_while(open, DEADLINE, |open| !*open).expect("gate"));
    }
}
