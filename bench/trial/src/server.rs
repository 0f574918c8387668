//! A server process group that is paused while other systems are measured.

use crate::failure::Failure;
use rustix::process::{Pid, Signal, kill_process_group};
use tollgate_lab_meter::child::Group;

/// A process group of a server, ended when dropped.
#[derive(Debug)]
pub struct Server {
    group: Group,
    paused: bool,
}

impl Server {
    /// Takes over a started group.
    pub fn new(group: Group) -> Self {
        Self { group, paused: false }
    }

    /// Returns the leader's process id.
    pub fn id(&self) -> u32 {
        self.group.id()
    }

    /// Pauses the group's processes (SIGSTOP), so that their timers, garbage collectors and compilers take no
    /// CPU time from the measured system.
    pub fn pause(&mut self) {
        if !self.paused {
            self.signal(Signal::STOP);
            self.paused = true;
        }
    }

    /// Resumes the processes.
    pub fn resume(&mut self) {
        if self.paused {
            self.signal(Signal::CONT);
            self.paused = false;
        }
    }

    /// Returns how the leader ended; `None` while it runs.
    ///
    /// # Errors
    /// If the state of the process cannot be read.
    pub fn ended(&mut self) -> Result<Option<String>, Failure> {
        Ok(self.group.ended()?.map(|ended| ended.status.to_string()))
    }

    fn signal(&self, signal: Signal) {
        if let Some(pid) = i32::try_from(self.group.id()).ok().and_then(Pid::from_raw) {
            let _ = kill_process_group(pid, signal);
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // A paused process would not handle the signal to end.
        self.resume();
    }
}
