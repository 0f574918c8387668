//! A worker's runtime: one thread, tasks that never leave it.

use std::future::Future;
use std::io;

use tokio::runtime::{Builder, LocalOptions, LocalRuntime};

/// A single-threaded runtime: its tasks need not be `Send` and never leave their thread.
#[derive(Debug)]
pub struct Runtime(Option<LocalRuntime>);

/// Threads that resolve names. The system's resolver blocks, up to half a minute when no server answers: without a
/// bound of its own, each connect meanwhile would start a thread.
const RESOLVERS: usize = 8;

impl Runtime {
    /// A runtime for this thread.
    ///
    /// # Errors
    /// When the kernel gives no poller.
    pub fn new() -> io::Result<Self> {
        // No timer of tokio's: see `alarm.rs`.
        let mut builder = Builder::new_current_thread();
        builder.enable_io().max_blocking_threads(RESOLVERS);
        builder.build_local(LocalOptions::default()).map(|runtime| Self(Some(runtime)))
    }

    /// Runs a future to its end, and all that is spawned meanwhile.
    pub fn run<F: Future>(&self, future: F) -> F::Output {
        self.0.as_ref().expect("a runtime until it is dropped").block_on(future)
    }
}

impl Drop for Runtime {
    fn drop(&mut self) {
        // A plain drop would wait for a resolver that waits for a name server.
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

/// Starts a task on this thread's runtime. A panic in it ends that task only.
pub fn spawn<F: Future<Output = ()> + 'static>(future: F) {
    #[cfg(feature = "simulate")]
    if crate::simulated::is_active() {
        return crate::simulated::spawn(future);
    }
    tokio::task::spawn_local(future);
}

/// Lets the other tasks of this thread run first.
pub async fn yield_now() {
    #[cfg(feature = "simulate")]
    if crate::simulated::is_active() {
        return crate::simulated::yield_now().await;
    }
    tokio::task::yield_now().await;
}
