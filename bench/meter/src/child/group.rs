//! A running child with all that it starts.

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

/// A child that leads a process group; dropped, the whole group ends.
#[derive(Debug)]
pub struct Group {
    child: Child,
    ended: Option<Ended>,
    /// Taken off the list once the group is gone.
    _registration: Registration,
}

/// How a child ended, and what it used in its life, with all children that it waited for.
///
/// This is exact for a tool that runs once (wrk, ab, siege): the kernel counts in microseconds here, and nothing that
/// lived too short for a sample is missed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ended {
    /// Exit code or signal.
    pub status: ExitStatus,
    /// CPU time in user mode, us.
    pub user_us: u64,
    /// CPU time in the kernel, us.
    pub system_us: u64,
    /// Times that it gave up its CPU to wait.
    pub voluntary_switches: u64,
    /// Times that it lost its CPU to another.
    pub involuntary_switches: u64,
}

impl Group {
    pub(super) fn new(child: Child, registration: Registration) -> Self {
        Self { child, ended: None, _registration: registration }
    }

    /// The process id of the program, which is also that of its process group.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// How the program ended, if it did; does not wait.
    ///
    /// # Errors
    /// When somebody else waited for this child, so that its end is not known.
    pub fn ended(&mut self) -> Result<Option<Ended>, Error> {
        if self.ended.is_none() && self.is_zombie().map_err(|error| self.lost(error))? {
            let ended = self.reap().map_err(|error| self.lost(error))?;
            self.ended = Some(ended);
        }
        Ok(self.ended)
    }

    /// Waits for the program to end by itself, at most so long; `None` when it still runs then.
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

    /// Ends the group: SIGTERM, two seconds of patience, SIGKILL. Descendants that left the group end as well.
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

    /// Whether the program has ended, without taking its remains away.
    fn is_zombie(&self) -> io::Result<bool> {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        Ok(waitid(WaitId::Pid(Pid::from_child(&self.child)), options)?.is_some())
    }

    /// Takes the remains away. What the kernel then adds to our count of reaped children is what this one used.
    fn reap(&mut self) -> io::Result<Ended> {
        // A child reaped by another group at the same time would be added too.
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
        // Also after the leader's end: what it left behind in its group must go.
        let _ = self.stop();
    }
}

#[cfg(test)]
mod tests;
