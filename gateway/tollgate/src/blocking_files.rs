//! Runs file operations for the control thread on other threads, with a time limit.

use std::io;

use tokio::sync::oneshot;
use tollgate_config::file_access::{self, OPERATION_TIMEOUT, Stalled};

/// Runs a file operation on a thread that may block, and waits at most [`OPERATION_TIMEOUT`] for it. The control
/// thread continues to handle signals and the admin listener.
///
/// # Errors
/// The error of the operation, or a timeout.
pub async fn run_file_job<T: Send + 'static>(
    job: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    let (done, answer) = oneshot::channel();
    let stalled = |stalled: Stalled| io::Error::other(stalled.to_string());
    file_access::start(move || drop(done.send(job()))).map_err(stalled)?;
    match tokio::time::timeout(OPERATION_TIMEOUT, answer).await {
        Ok(Ok(result)) => result,
        Ok(Err(_)) => Err(stalled(Stalled::Broken)),
        Err(_) => Err(stalled(Stalled::Silent)),
    }
}
