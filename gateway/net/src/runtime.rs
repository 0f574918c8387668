//! A worker's runtime: one thread, tasks that never leave it.

use std::future::Future;
use std::io;

use tokio::runtime::{Builder, LocalOptions, LocalRuntime};

/// A single-threaded runtime: its tasks need not be `Send` and never leave their thread.
#[derive(Debug)]
pub struct Runtime(LocalRuntime);

impl Runtime {
    /// A runtime for this thread.
    ///
    /// # Errors
    /// When the kernel gives no poller.
    pub fn new() -> io::Result<Self> {
        // No timer of tokio's: see `alarm.rs`.
        Builder::new_current_thread().enable_io().build_local(LocalOptions::default()).map(Self)
    }

    /// Runs a future to its end, and all that is spawned meanwhile.
    pub fn run<F: Future>(&self, future: F) -> F::Output {
        self.0.block_on(future)
    }
}

/// Starts a task on this thread's runtime. A panic in it ends that task only.
pub fn spawn<F: Future<Output = ()> + 'static>(future: F) {
    tokio::task::spawn_local(future);
}

/// Lets the other tasks of this thread run first.
pub async fn yield_now() {
    tokio::task::yield_now().await;
}
