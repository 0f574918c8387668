//! A gate at which an origin's threads wait until the test opens it.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use crate::DEADLINE;

/// A gate that is closed until a test opens it. Clones share it.
///
/// A thread that waits longer than [`DEADLINE`] panics. Threads of an origin cannot fail a test, so the test fails
/// when it opens or drops the gate.
#[derive(Clone, Debug, Default)]
pub struct Gate(Arc<(Mutex<GateState>, Condvar)>);

#[derive(Debug, Default)]
struct GateState {
    is_open: bool,
    /// Whether a thread has waited too long.
    has_expired: bool,
}

impl Gate {
    /// Returns a closed gate.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Opens the gate and releases all waiting threads.
    ///
    /// # Panics
    /// Panics if a thread has waited too long.
    pub fn open(&self) {
        self.state().is_open = true;
        self.0.1.notify_all();
        self.check();
    }

    /// Closes the gate again. Threads that call [`wait`](Self::wait) from now on block.
    ///
    pub fn close(&self) {
        self.state().is_open = false;
    }

    /// Waits until the gate is open.
    ///
    /// # Panics
    /// Panics if the gate is still closed after [`DEADLINE`].
    pub fn wait(&self) {
        self.wait_at_most(DEADLINE);
    }

    fn wait_at_most(&self, limit: Duration) {
        let waited = self.0.1.wait_timeout_while(self.state(), limit, |state| !state.is_open);
        let (mut state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        if !state.is_open {
            state.has_expired = true;
            drop(state);
            panic!("waited {limit:?} at a gate that was not opened");
        }
    }

    fn check(&self) {
        let has_expired = self.state().has_expired;
        assert!(!has_expired, "a thread waited too long at a gate, and went on without it");
    }

    fn state(&self) -> MutexGuard<'_, GateState> {
        self.0.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Gate {
    fn drop(&mut self) {
        if !thread::panicking() {
            self.check();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use super::*;

    #[test]
    fn a_wait_that_ends_without_the_gate_fails_the_test() {
        let ends: [fn(Gate); 2] = [|gate| gate.open(), drop];
        for end in ends {
            let gate = Gate::new();
            let waiting = gate.clone();
            let waited = thread::spawn(move || waiting.wait_at_most(Duration::from_millis(1))).join();
            assert!(waited.is_err(), "the wait ended without a panic");
            assert!(catch_unwind(AssertUnwindSafe(|| end(gate))).is_err(), "the test did not fail");
        }
        let gate = Gate::new();
        let waiting = gate.clone();
        let waited = thread::spawn(move || waiting.wait());
        gate.open();
        assert!(waited.join().is_ok());
    }
}
