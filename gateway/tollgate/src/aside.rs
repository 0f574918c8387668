//! File operations of the control thread: they run on other threads, and have a time bound.

use std::io;

use tokio::sync::oneshot;
use tollgate_config::file_access::{self, PATIENCE, Stalled};

/// Does something with files on a thread that may wait for them. The control thread goes on with signals and the admin
/// listener meanwhile.
///
/// # Errors
/// What the operation gives, or that it does not end in time.
pub async fn aside<T: Send + 'static>(job: impl FnOnce() -> io::Result<T> + Send + 'static) -> io::Result<T> {
    let (done, answer) = oneshot::channel();
    let stalled = |stalled: Stalled| io::Error::other(stalled.to_string());
    file_access::start(move || drop(done.send(job()))).map_err(stalled)?;
    match tokio::time::timeout(PATIENCE, answer).await {
        Ok(Ok(result)) => result,
        Ok(Err(_)) => Err(stalled(Stalled::Broken)),
        Err(_) => Err(stalled(Stalled::Silent)),
    }
}
