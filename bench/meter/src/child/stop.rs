//! The list of everything that must not outlive the run: process groups, quotas, scratch folders. A signal
//! ends or removes all of it.

use crate::cgroup::{Placed, remove_group};
use crate::error::Error;
use crate::process::{start_time, stats};
use rustix::process::{Pid, Signal, kill_process, kill_process_group, test_kill_process_group};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// An entry of the list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Kept {
    /// A process group to end.
    Group(Pid),
    /// A cgroup to empty and remove.
    Quota(Placed),
    /// A folder to remove.
    Folder(PathBuf),
}

static ALIVE: Mutex<Vec<Kept>> = Mutex::new(Vec::new());

/// Whether a signal is ending the run. Set under the lock of [`ALIVE`], so that nothing starts afterwards.
static ENDING: AtomicBool = AtomicBool::new(false);

fn alive() -> MutexGuard<'static, Vec<Kept>> {
    // The list is complete after every operation on it, so a panic in another thread does no harm.
    ALIVE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Keeps an entry on the list; removes it when dropped.
#[derive(Debug)]
pub(crate) struct Registration(Kept);

impl Registration {
    /// Adds an entry, preferably before the thing exists: ending something that does not exist does no harm.
    pub(crate) fn of(kept: Kept) -> Result<Self, Error> {
        Self::of_new(|| Ok((kept.clone(), ()))).map(|(registration, ())| registration)
    }

    /// Creates something and adds it to the list, in one step that a signal cannot interrupt.
    pub(crate) fn of_new<T>(make: impl FnOnce() -> Result<(Kept, T), Error>) -> Result<(Self, T), Error> {
        let mut alive = alive();
        if ending() {
            return Err(Error::Ending);
        }
        let (kept, thing) = make()?;
        alive.push(kept.clone());
        Ok((Self(kept), thing))
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        let mut alive = alive();
        if let Some(at) = alive.iter().position(|kept| *kept == self.0) {
            alive.swap_remove(at);
        }
    }
}

/// Installs a handler for SIGINT (Ctrl-C), SIGTERM and SIGHUP that ends all children, removes quotas and scratch
/// folders, and then exits with status 130. Before that it calls `last_words`, which may print a message and end what
/// runs elsewhere. From then on no child starts, and the callers of [`wait_if_ending`] wait.
///
/// # Errors
/// If another handler was set before.
pub fn stop_all_on_signal(last_words: impl Fn() + Send + 'static) -> Result<(), Error> {
    ctrlc::set_handler(move || {
        let held = alive();
        ENDING.store(true, Ordering::SeqCst);
        drop(held);
        last_words();
        stop_all();
        std::process::exit(130);
    })
    .map_err(|error| Error::Lacking(format!("no signal handler could be set: {error}")))
}

/// Returns whether a signal is ending the run.
pub fn ending() -> bool {
    ENDING.load(Ordering::SeqCst)
}

/// Blocks until the exit if a signal is ending the run, so that no caller reports a trial as failed because
/// its children were stopped.
pub fn wait_if_ending() {
    while ending() {
        sleep(Duration::from_millis(50));
    }
}

fn stop_all() {
    let kept = alive().clone();
    let groups: Vec<Pid> =
        kept.iter().filter_map(|kept| if let Kept::Group(pid) = kept { Some(*pid) } else { None }).collect();
    end_groups(&groups, Duration::from_millis(300), || false);
    for kept in kept {
        match kept {
            Kept::Group(_) => {}
            Kept::Quota(group) => {
                remove_group(&group);
            }
            Kept::Folder(folder) => {
                let _ = std::fs::remove_dir_all(folder);
            }
        }
    }
}

/// Ends process groups with their descendants: sends SIGTERM, then, after `patience` or as soon as `gone`
/// returns `true`, SIGKILL to the rest, including descendants that left the group.
pub(super) fn end_groups(groups: &[Pid], patience: Duration, mut gone: impl FnMut() -> bool) {
    let family: Vec<(u32, u64)> = groups
        .iter()
        .filter_map(|group| u32::try_from(group.as_raw_nonzero().get()).ok())
        .flat_map(|root| stats(root.into()).into_iter().map(|(pid, stat)| (pid, stat.start)))
        .collect();
    for group in groups {
        let _ = kill_process_group(*group, Signal::TERM);
    }
    let deadline = Instant::now() + patience;
    while Instant::now() < deadline
        && !gone()
        && groups.iter().any(|group| test_kill_process_group(*group).is_ok())
    {
        sleep(Duration::from_millis(4));
    }
    for group in groups {
        let _ = kill_process_group(*group, Signal::KILL);
    }
    for (pid, start) in family {
        // The start time guards against an id that another process has got in the meantime.
        if start_time(pid) == Some(start)
            && let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw)
        {
            let _ = kill_process(pid, Signal::KILL);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listed(path: &str) -> usize {
        alive().iter().filter(|kept| **kept == Kept::Folder(path.into())).count()
    }

    #[test]
    fn a_registration_lasts_as_long_as_its_guard_and_takes_only_itself_off() {
        let folder = || Kept::Folder("/no/such/folder/of/a/test".into());
        let one = Registration::of(folder()).unwrap();
        let two = Registration::of(folder()).unwrap();
        assert_eq!(listed("/no/such/folder/of/a/test"), 2);
        drop(one);
        assert_eq!(listed("/no/such/folder/of/a/test"), 1);
        drop(two);
        assert_eq!(listed("/no/such/folder/of/a/test"), 0);
    }

    #[test]
    fn what_could_not_be_made_is_not_listed() {
        let made = Registration::of_new(|| Err::<(Kept, ()), _>(Error::Lacking("nothing".into())));
        assert_eq!(made.unwrap_err().to_string(), "nothing");
        assert!(!ending());
    }
}
