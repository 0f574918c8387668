//! A worker's runtime: one thread, and tasks that never leave it. In a simulation, [`spawn`] and
//! [`yield_now`] go to the simulated executor instead.

use std::future::Future;
use std::io;

use tokio::runtime::{Builder, LocalOptions, LocalRuntime};

/// A single-threaded runtime. Its tasks never leave their thread and need not be `Send`.
#[derive(Debug)]
pub struct Runtime(Option<LocalRuntime>);

/// Threads that resolve names. The system's resolver blocks, up to half a minute if no server answers.
/// Without this bound, each connect in that time would start a thread.
const RESOLVER_THREADS: usize = 8;

impl Runtime {
    /// Creates a runtime for this thread.
    ///
    /// # Errors
    /// If the kernel provides no poller.
    pub fn new() -> io::Result<Self> {
        // tokio's timer stays off: see `tick_timer.rs`.
        let mut builder = Builder::new_current_thread();
        builder.enable_io().max_blocking_threads(RESOLVER_THREADS);
        builder.build_local(LocalOptions::default()).map(|runtime| Self(Some(runtime)))
    }

    /// Runs a future to completion, together with the tasks that it spawns.
    pub fn run<F: Future>(&self, future: F) -> F::Output {
        self.0.as_ref().expect("a runtime until it is dropped").block_on(future)
    }
}

impl Drop for Runtime {
    fn drop(&mut self) {
        // A plain drop would wait for a resolver thread that waits for a name server.
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

/// Spawns a task on this thread's runtime. A panic in it ends only that task.
pub fn spawn<F: Future<Output = ()> + 'static>(future: F) {
    #[cfg(feature = "simulate")]
    if crate::simulated::is_active() {
        return crate::simulated::spawn(future);
    }
    tokio::task::spawn_local(future);
}

/// Lets the other ready tasks of this thread run first.
pub async fn yield_now() {
    #[cfg(feature = "simulate")]
    if crate::simulated::is_active() {
        return crate::simulated::yield_now().await;
    }
    tokio::task::yield_now().await;
}
