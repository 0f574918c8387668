//! Work that can wait for what requests need.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use rustix::process::nice;
use tokio::sync::oneshot;

/// What the scheduler is to prefer requests by. A plan of 10,000 routes takes tens of milliseconds of a core; where there
/// is none to spare, requests are not to stand still for that long, and a change still gets a tenth of it (sched(7):
/// about 1.25 times less for each step).
const NICE: i32 = 10;

/// Does this on a thread of its own, which gives way to all others of the process; where there is no thread to be had (a
/// limit of processes), here, before it returns. It must start no process: that would give way as well. An error says
/// that it has panicked, as it does here if it waits for a runtime.
pub fn behind<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> oneshot::Receiver<T> {
    elsewhere(work, |run| thread::Builder::new().name("plans".to_owned()).spawn(run).map(drop))
}

/// As [`behind`], on what `spawn` gives.
fn elsewhere<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
    spawn: impl FnOnce(Box<dyn FnOnce() + Send>) -> io::Result<()>,
) -> oneshot::Receiver<T> {
    let (done, receiver) = oneshot::channel();
    // A thread that cannot be started takes along what it was to do.
    let job = Arc::new(Mutex::new(Some((work, done))));
    let there = job.clone();
    let started = spawn(Box::new(move || {
        // In Linux it is the thread's own. Refused, it is as quick as the others.
        let _ = nice(NICE);
        run(&there);
    }));
    if started.is_err() {
        // As on the thread, which a panic would have ended alone; whoever waits is told by what is dropped.
        let _ = catch_unwind(AssertUnwindSafe(|| run(&job)));
    }
    receiver
}

/// Does it, unless it was done.
fn run<T>(job: &Mutex<Option<(impl FnOnce() -> T, oneshot::Sender<T>)>>) {
    let taken = job.lock().unwrap_or_else(PoisonError::into_inner).take();
    if let Some((work, done)) = taken {
        // Nobody may be waiting any longer.
        let _ = done.send(work());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_done_without_a_thread_too() {
        let answer = elsewhere(|| 7, |_| Err(io::ErrorKind::WouldBlock.into()));
        assert_eq!(answer.blocking_recv(), Ok(7));
        assert_eq!(behind(|| 8).blocking_recv(), Ok(8));
        let panicked = elsewhere(|| panic!("on purpose"), |_| Err(io::ErrorKind::WouldBlock.into()));
        assert!(panicked.blocking_recv().is_err());
    }
}
