//! The threads that run file operations.
//!
//! An operation that hangs occupies its thread. The number of threads is bounded, so a file system that does
//! not answer costs a known amount of memory. If all threads hang, further operations fail at once.

use std::collections::{HashSet, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use std::{fmt, thread};

/// How long a caller waits for one file operation.
pub const OPERATION_TIMEOUT: Duration = Duration::from_secs(5);
/// Maximum number of threads.
const THREADS_MAX: usize = 32;
/// How long an idle thread waits for the next operation before it ends.
const IDLE_TIMEOUT: Duration = Duration::from_secs(10);

/// The reason why a file operation gave no result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stalled {
    /// The file system did not answer in time.
    Silent,
    /// Every thread waits for a file system that does not answer, or no thread can be started.
    Busy,
    /// The operation panicked.
    Broken,
}

impl fmt::Display for Stalled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Silent => {
                write!(f, "the file system does not answer within {} s", OPERATION_TIMEOUT.as_secs())
            }
            Self::Busy => f.write_str("too many file operations wait for file systems that do not answer"),
            Self::Broken => f.write_str("the file could not be read"),
        }
    }
}

type FileJob = Box<dyn FnOnce() + Send>;

#[derive(Default)]
struct ThreadPool {
    waiting: VecDeque<FileJob>,
    idle: usize,
    all: usize,
    /// Files whose operation outlasted its caller's wait and is still running.
    silent: HashSet<PathBuf>,
}

static POOL: Mutex<Option<ThreadPool>> = Mutex::new(None);
static WAKE: Condvar = Condvar::new();

fn lock() -> MutexGuard<'static, Option<ThreadPool>> {
    POOL.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Starts an operation on a thread of this module. The operation itself must report its result.
///
/// # Errors
/// Fails if no thread is available.
pub fn start(job: impl FnOnce() + Send + 'static) -> Result<(), Stalled> {
    let mut guard = lock();
    let threads = guard.get_or_insert_default();
    if threads.idle <= threads.waiting.len() {
        if threads.all >= THREADS_MAX {
            return Err(Stalled::Busy);
        }
        let started = thread::Builder::new().name("files".to_owned()).spawn(run_jobs);
        started.map_err(|_| Stalled::Busy)?;
        threads.all += 1;
        threads.idle += 1;
    }
    threads.waiting.push_back(Box::new(job));
    drop(guard);
    WAKE.notify_one();
    Ok(())
}

/// Runs an operation and waits at most [`OPERATION_TIMEOUT`] for its result.
///
/// # Errors
/// Fails if there is no result in time.
pub fn run_with_timeout<T: Send + 'static>(job: impl FnOnce() -> T + Send + 'static) -> Result<T, Stalled> {
    let (done, answer) = sync_channel(1);
    start(move || {
        // The caller may no longer be waiting.
        let _ = done.send(job());
    })?;
    answer.recv_timeout(OPERATION_TIMEOUT).map_err(|error| match error {
        RecvTimeoutError::Timeout => Stalled::Silent,
        RecvTimeoutError::Disconnected => Stalled::Broken,
    })
}

/// Works like [`run_with_timeout`], for one file: while an operation on the file hangs, further ones fail at once.
pub(crate) fn run_with_timeout_for_path<T: Send + 'static>(
    path: &Path,
    job: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Stalled> {
    if lock().as_ref().is_some_and(|threads| threads.silent.contains(path)) {
        return Err(Stalled::Silent);
    }
    let has_ended = Arc::new(Mutex::new(false));
    let (ended, of) = (has_ended.clone(), path.to_owned());
    let result = run_with_timeout(move || {
        let result = job();
        *ended.lock().unwrap_or_else(PoisonError::into_inner) = true;
        if let Some(threads) = lock().as_mut() {
            threads.silent.remove(&of);
        }
        result
    });
    if let Err(Stalled::Silent) = &result {
        let mut guard = lock();
        // The operation records its end before it takes this lock, so a finished one is never recorded as
        // silent.
        if !*has_ended.lock().unwrap_or_else(PoisonError::into_inner) {
            guard.get_or_insert_default().silent.insert(path.to_owned());
        }
    }
    result
}

/// Runs operations on one thread until none arrives for [`IDLE_TIMEOUT`].
fn run_jobs() {
    let mut guard = lock();
    loop {
        let Some(threads) = guard.as_mut() else { return };
        if let Some(job) = threads.waiting.pop_front() {
            threads.idle -= 1;
            drop(guard);
            // A panic drops the operation's sender, which reports the failure.
            let _ = catch_unwind(AssertUnwindSafe(job));
            guard = lock();
            if let Some(threads) = guard.as_mut() {
                threads.idle += 1;
            }
            continue;
        }
        let (next, waited) = WAKE.wait_timeout(guard, IDLE_TIMEOUT).unwrap_or_else(PoisonError::into_inner);
        guard = next;
        if let Some(threads) = guard.as_mut().filter(|_| waited.timed_out())
            && threads.waiting.is_empty()
        {
            threads.idle -= 1;
            threads.all -= 1;
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;
    use std::time::Instant;

    use super::*;

    #[test]
    fn a_hung_operation_blocks_no_other() {
        let (release, hold) = channel::<()>();
        let began = Instant::now();
        let path = Path::new("/of/this/test");
        let first = run_with_timeout_for_path(path, move || hold.recv().is_err());
        assert_eq!(first, Err(Stalled::Silent));
        assert!(began.elapsed() >= OPERATION_TIMEOUT);
        let again = Instant::now();
        assert_eq!(run_with_timeout_for_path(path, || 1), Err(Stalled::Silent), "it still hangs");
        assert!(again.elapsed() < Duration::from_secs(1), "that is known");
        assert_eq!(run_with_timeout_for_path(Path::new("/another"), || 2), Ok(2));
        drop(release);
        let mut known = true;
        while known && again.elapsed() < Duration::from_secs(10) {
            known = run_with_timeout_for_path(path, || 3) != Ok(3);
            thread::yield_now();
        }
        assert!(!known, "it has ended");
        assert_eq!(run_with_timeout(|| panic!("on purpose")), Err::<(), _>(Stalled::Broken));
    }
}
