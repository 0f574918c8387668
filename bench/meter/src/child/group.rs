//! A running child process with its descendants. [`Group`] is the leader's process group: dropping it ends
//! every process in it, including descendants that left the group. [`Ended`] has the exact CPU time of a
//! child that was reaped.

use super::stop::{Registration, end_groups};
use crate::error::Error;
use nix::sys::resource::{Usage, UsageWho, getrusage};
use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};
use std::io;
use std::process::{Child, ExitStatus};
use std::sync::{Mutex, PoisonError};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// How long a group may take to end after SIGTERM.
const PATIENCE: Duration = Duration::from_secs(2);

/// A child that leads a process group. When dropped, it ends the whole group.
#[derive(Debug)]
pub struct Group {
    child: Child,
    ended: Option<Ended>,
    /// Takes the group off the list of what a signal ends.
    _registration: Registration,
}

/// How a child ended, and what it used in its life, including all children that it waited for.
///
/// This is exact for a tool that runs once (wrk, ab, siege): the kernel counts in microseconds here, and
/// includes processes that lived too briefly for a sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ended {
    /// Exit code or signal.
    pub status: ExitStatus,
    /// CPU time in user mode, in microseconds.
    pub user_us: u64,
    /// CPU time in the kernel, in microseconds.
    pub system_us: u64,
    /// How often it gave up its CPU to wait.
    pub voluntary_switches: u64,
    /// How often it was preempted.
    pub involuntary_switches: u64,
}

impl Group {
    pub(super) fn new(child: Child, registration: Registration) -> Self {
        Self { child, ended: None, _registration: registration }
    }

    /// Returns the process id of the program, which is also the id of its process group.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Returns how the program ended; `None` while it runs. Does not wait.
    ///
    /// # Errors
    /// If another part of this process waited for the child, so that its status is lost.
    pub fn ended(&mut self) -> Result<Option<Ended>, Error> {
        if self.ended.is_none() && self.is_zombie().map_err(|error| self.lost(error))? {
            let ended = self.reap().map_err(|error| self.lost(error))?;
            self.ended = Some(ended);
        }
        Ok(self.ended)
    }

    /// Waits until the program ends, at most for `limit`. Returns `None` if it still runs then.
    ///
    /// # Errors
    /// As [`Group::ended`].
    pub fn wait(&mut self, limit: Duration) -> Result<Option<Ended>, Error> {
        let deadline = Instant::now() + limit;
        loop {
            match self.ended()? {
                None if Instant::now() < deadline => sleep(Duration::from_millis(4)),
                answer => return Ok(answer),
            }
        }
    }

    /// Ends the group: SIGTERM, a wait of two seconds, SIGKILL. Descendants that left the group are ended as
    /// well.
    ///
    /// # Errors
    /// As [`Group::ended`].
    pub fn stop(&mut self) -> Result<Ended, Error> {
        let pid = Pid::from_child(&self.child);
        end_groups(&[pid], PATIENCE, || self.ended().is_ok_and(|ended| ended.is_some()));
        if let Some(ended) = self.ended {
            return Ok(ended);
        }
        let ended = self.reap().map_err(|error| self.lost(error))?;
        self.ended = Some(ended);
        Ok(ended)
    }

    /// Returns whether the program has exited, without reaping it.
    fn is_zombie(&self) -> io::Result<bool> {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        Ok(waitid(WaitId::Pid(Pid::from_child(&self.child)), options)?.is_some())
    }

    /// Reaps the child. The increase in the kernel's count of reaped children is what this child used.
    fn reap(&mut self) -> io::Result<Ended> {
        // A child that another group reaps at the same time would be included.
        static REAPING: Mutex<()> = Mutex::new(());
        let _only = REAPING.lock().unwrap_or_else(PoisonError::into_inner);
        let before = getrusage(UsageWho::RUSAGE_CHILDREN)?;
        let status = self.child.wait()?;
        let after = getrusage(UsageWho::RUSAGE_CHILDREN)?;
        let gained = |value: fn(&Usage) -> i64| u64::try_from(value(&after) - value(&before)).unwrap_or(0);
        Ok(Ended {
            status,
            user_us: gained(|usage| micros(usage.user_time())),
            system_us: gained(|usage| micros(usage.system_time())),
            voluntary_switches: gained(Usage::voluntary_context_switches),
            involuntary_switches: gained(Usage::involuntary_context_switches),
        })
    }

    fn lost(&self, error: io::Error) -> Error {
        Error::System(format!("waiting for the child process {}", self.id()), error)
    }
}

fn micros(time: nix::sys::time::TimeVal) -> i64 {
    time.tv_sec() * 1_000_000 + time.tv_usec()
}

impl Drop for Group {
    fn drop(&mut self) {
        // Also after the leader has exited, since other processes of its group may still run.
        let _ = self.stop();
    }
}

#[cfg(test)]
mod tests;
