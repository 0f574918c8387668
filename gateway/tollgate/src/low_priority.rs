//! Runs work at a lower priority than requests.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use rustix::process::nice;
use tokio::sync::oneshot;

/// The nice value of that work. A plan of 10,000 routes takes tens of milliseconds of a core. On a saturated
/// machine, requests must not stall that long, while a change still gets a tenth of the core (sched(7): each
/// step gives about 1.25 times less).
const NICE: i32 = 10;

/// Runs work on its own thread with a lower scheduling priority than the rest of the process. If no thread
/// can be started, runs it here before returning. The work must not start a process, which would inherit the
/// priority. The receiver gets an error if the work panics, as it does here if it blocks on a runtime.
pub fn spawn_low_priority<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> oneshot::Receiver<T> {
    spawn_with(work, |run| thread::Builder::new().name("plans".to_owned()).spawn(run).map(drop))
}

/// Like [`spawn_low_priority`], with the function that starts the thread.
fn spawn_with<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
    spawn: impl FnOnce(Box<dyn FnOnce() + Send>) -> io::Result<()>,
) -> oneshot::Receiver<T> {
    let (done, receiver) = oneshot::channel();
    // If the thread cannot be started, its closure is dropped. The job is shared so that it survives.
    let job = Arc::new(Mutex::new(Some((work, done))));
    let shared_job = job.clone();
    let started = spawn(Box::new(move || {
        // On Linux the nice value belongs to the thread. If it is refused, the thread keeps the normal
        // priority.
        let _ = nice(NICE);
        run_once(&shared_job);
    }));
    if started.is_err() {
        // A panic on the thread would end only that thread. The dropped sender reports it.
        let _ = catch_unwind(AssertUnwindSafe(|| run_once(&job)));
    }
    receiver
}

/// Runs the job, unless it has already run.
fn run_once<T>(job: &Mutex<Option<(impl FnOnce() -> T, oneshot::Sender<T>)>>) {
    let taken = job.lock().unwrap_or_else(PoisonError::into_inner).take();
    if let Some((work, done)) = taken {
        // The receiver may be gone.
        let _ = done.send(work());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_is_done_even_without_a_thread() {
        let answer = spawn_with(|| 7, |_| Err(io::ErrorKind::WouldBlock.into()));
        assert_eq!(answer.blocking_recv(), Ok(7));
        assert_eq!(spawn_low_priority(|| 8).blocking_recv(), Ok(8));
        let panicked = spawn_with(|| panic!("on purpose"), |_| Err(io::ErrorKind::WouldBlock.into()));
        assert!(panicked.blocking_recv().is_err());
    }
}
