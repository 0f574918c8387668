//! A started server that stands still when it is not its turn.

use crate::failure::Failure;
use rustix::process::{Pid, Signal, kill_process_group};
use tollgate_lab_meter::child::Group;

/// A process group.
#[derive(Debug)]
pub struct Server {
    group: Group,
    paused: bool,
}

impl Server {
    /// Takes a group over.
    pub fn new(group: Group) -> Self {
        Self { group, paused: false }
    }

    /// The leader's process id.
    pub fn id(&self) -> u32 {
        self.group.id()
    }

    /// Stops the group's processes in their tracks, so that timers, collectors and compilers of those who wait cost
    /// nothing of the others' time.
    pub fn pause(&mut self) {
        if !self.paused {
            self.signal(Signal::STOP);
            self.paused = true;
        }
    }

    /// Lets them go on.
    pub fn resume(&mut self) {
        if self.paused {
            self.signal(Signal::CONT);
            self.paused = false;
        }
    }

    /// How it ended, if it did.
    ///
    /// # Errors
    /// When its end cannot be learnt.
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
        // A process that stands still would not hear the request to end.
        self.resume();
    }
}
