//! Ends the runs of this process early, for example after a signal.

use std::sync::atomic::{AtomicBool, Ordering};

/// Whether runs of this process end early.
static INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// Ends every run of this process within a second or so. Its result then covers what was measured up to that moment;
/// requests that are not answered within a second after it are left out. May be called from a signal handler's thread.
pub fn interrupt() {
    INTERRUPTED.store(true, Ordering::Relaxed);
}

/// Returns whether [`interrupt`] was called.
pub fn interrupted() -> bool {
    INTERRUPTED.load(Ordering::Relaxed)
}
