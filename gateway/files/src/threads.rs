//! The threads that call the file system for the workers: some for static files, others for the disk tier of the cache, so
//! that a disk that hangs harms only its own users.
//!
//! A file system may take long, or not answer at all: a sleeping disk, a server of NFS that is gone. Such a call
//! occupies a thread here, and no worker. Threads and waiting calls are bounded, so a file system that hangs costs a
//! known amount of memory; then further calls fail at once.

use std::collections::VecDeque;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::sync_channel;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use tokio::sync::oneshot;

/// Maximum number of threads.
const THREADS_MAX: usize = 16;
/// Maximum number of calls that wait for a thread.
const WAITING_MAX: usize = 4096;
/// How long an idle thread waits for the next call before it ends.
const IDLE_TIME: Duration = Duration::from_secs(10);

/// No thread can take the call, or it has panicked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unavailable;

impl fmt::Display for Unavailable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("too many calls wait for file systems that do not answer")
    }
}

type Job = Box<dyn FnOnce() + Send>;

#[derive(Default)]
struct Pool {
    waiting: VecDeque<Job>,
    idle: usize,
    all: usize,
}

/// The threads of one kind of files.
pub struct Threads {
    name: &'static str,
    pool: Mutex<Option<Pool>>,
    wake: Condvar,
}

/// The threads for static files.
static FILES: Threads = Threads::new("static-files");
/// The threads that read from the disk tier of the cache.
pub static CACHE: Threads = Threads::new("cache-reads");

impl fmt::Debug for Threads {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Threads").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Threads {
    const fn new(name: &'static str) -> Self {
        Self { name, pool: Mutex::new(None), wake: Condvar::new() }
    }

    fn lock(&self) -> MutexGuard<'_, Option<Pool>> {
        self.pool.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs a call on a thread, and waits for its result. If the future is dropped, the call still runs to its end.
    ///
    /// # Errors
    /// If no thread can take it.
    pub async fn run<T: Send + 'static>(
        &'static self,
        job: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Unavailable> {
        let (done, result) = oneshot::channel();
        self.start(Box::new(move || {
            // The caller may no longer be waiting.
            let _ = done.send(job());
        }))?;
        result.await.map_err(|_| Unavailable)
    }

    fn start(&'static self, job: Job) -> Result<(), Unavailable> {
        let mut guard = self.lock();
        let pool = guard.get_or_insert_default();
        if pool.waiting.len() >= WAITING_MAX {
            return Err(Unavailable);
        }
        if pool.idle <= pool.waiting.len() && pool.all < THREADS_MAX {
            match thread::Builder::new().name(self.name.to_owned()).spawn(|| self.work()) {
                Ok(_) => {
                    pool.all += 1;
                    pool.idle += 1;
                }
                Err(_) if pool.all == 0 => return Err(Unavailable),
                Err(_) => {}
            }
        }
        pool.waiting.push_back(job);
        drop(guard);
        self.wake.notify_one();
        Ok(())
    }

    /// Runs calls until none arrives for [`IDLE_TIME`].
    fn work(&self) {
        let mut guard = self.lock();
        loop {
            let Some(pool) = guard.as_mut() else { return };
            if let Some(job) = pool.waiting.pop_front() {
                pool.idle -= 1;
                drop(guard);
                // A panic drops the sender, which reports the failure.
                let _ = catch_unwind(AssertUnwindSafe(job));
                guard = self.lock();
                if let Some(pool) = guard.as_mut() {
                    pool.idle += 1;
                }
                continue;
            }
            let (next, waited) =
                self.wake.wait_timeout(guard, IDLE_TIME).unwrap_or_else(PoisonError::into_inner);
            guard = next;
            if let Some(pool) = guard.as_mut().filter(|_| waited.timed_out())
                && pool.waiting.is_empty()
            {
                pool.idle -= 1;
                pool.all -= 1;
                return;
            }
        }
    }
}

/// Runs a call for static files on a thread, and waits for its result: see [`Threads::run`].
///
/// # Errors
/// If no thread can take it.
pub async fn run<T: Send + 'static>(job: impl FnOnce() -> T + Send + 'static) -> Result<T, Unavailable> {
    FILES.run(job).await
}

/// Does the same for a caller that may block, for at most `wait`.
///
/// # Errors
/// If no thread can take it, or if it takes longer.
pub fn run_blocking<T: Send + 'static>(
    wait: Duration,
    job: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Unavailable> {
    let (done, result) = sync_channel(1);
    FILES.start(Box::new(move || {
        let _ = done.send(job());
    }))?;
    result.recv_timeout(wait).map_err(|_| Unavailable)
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    #[test]
    fn calls_that_hang_do_not_stop_others_until_all_threads_hang() {
        let wait = Duration::from_millis(50);
        let (release, hold) = channel::<()>();
        assert_eq!(run_blocking(wait, move || hold.recv().is_err()), Err(Unavailable));
        assert_eq!(run_blocking(Duration::from_secs(10), || 2), Ok(2));
        assert_eq!(run_blocking(Duration::from_secs(10), || panic!("on purpose")), Err::<(), _>(Unavailable));
        drop(release);
    }
}
