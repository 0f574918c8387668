//! Work that can wait for what requests need.

use std::thread;

use rustix::process::nice;
use tokio::sync::oneshot;

/// What the scheduler is to prefer requests by. A plan of 10,000 routes takes tens of milliseconds of a core; where there
/// is none to spare, requests are not to stand still for that long, and a change still gets a tenth of it (sched(7):
/// about 1.25 times less for each step).
const NICE: i32 = 10;

/// Does this on a thread of its own, which gives way to all others of the process. It must start no process: that would
/// give way as well. An error says that it has panicked.
pub fn behind<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> oneshot::Receiver<T> {
    let (done, receiver) = oneshot::channel();
    let run = move || {
        // In Linux it is the thread's own. Refused, it is as quick as the others.
        let _ = nice(NICE);
        // Nobody may be waiting any longer.
        let _ = done.send(work());
    };
    // Where there is no thread to be had, whoever waits learns that nothing came of it.
    let _ = thread::Builder::new().name("plans".to_owned()).spawn(run);
    receiver
}
