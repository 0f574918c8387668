//! The thread that starts all children.
//!
//! A child gets two things from the thread that forks it: it inherits the CPU affinity, and its signal at its
//! parent's death (`PR_SET_PDEATHSIG`) is sent when that *thread* ends. So one thread, which lives as long as
//! the program, pins itself and forks. No other thread's affinity changes, and no external tool is needed.

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use std::io;
use std::process::{Child, Command};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Mutex, OnceLock, PoisonError};

/// A child to start.
struct Job {
    command: Command,
    cores: CpuSet,
    answer: Sender<io::Result<Child>>,
}

/// Starts a child on the given cores. If there are none, uses the cores of the calling thread.
pub(super) fn spawn(command: Command, cores: &[usize]) -> io::Result<Child> {
    static STARTER: OnceLock<Mutex<Sender<Job>>> = OnceLock::new();
    let cores = if cores.is_empty() {
        sched_getaffinity(None)?
    } else {
        let mut set = CpuSet::new();
        for core in cores {
            if *core >= CpuSet::MAX_CPU {
                return Err(io::Error::new(io::ErrorKind::InvalidInput, format!("there is no core {core}")));
            }
            set.set(*core);
        }
        set
    };
    let starter = STARTER.get_or_init(|| {
        let (sender, jobs) = channel::<Job>();
        std::thread::spawn(move || {
            for job in jobs {
                let child = start(job.command, &job.cores);
                // Cannot fail: the caller waits for the answer.
                let _ = job.answer.send(child);
            }
        });
        Mutex::new(sender)
    });
    let (answer, child) = channel();
    starter
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .send(Job { command, cores, answer })
        .map_err(|_| io::Error::other("the thread that starts children has ended"))?;
    child.recv().map_err(|_| io::Error::other("the thread that starts children has ended"))?
}

fn start(mut command: Command, cores: &CpuSet) -> io::Result<Child> {
    // Each job pins the thread again, so there is no affinity to restore.
    sched_setaffinity(None, cores)?;
    command.spawn()
}
