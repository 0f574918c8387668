//! Child processes that never outlive the run.
//!
//! Each is a process group of its own, ended as a whole when its guard is dropped: at the end, on an error, in a
//! panic. Ctrl-C and SIGTERM end all groups from the signal's thread. If this program is killed outright, the
//! kernel sends SIGTERM to the children (`setpriv --pdeathsig`, where installed).

use crate::failure::Failure;
use crate::machine::which;
use rustix::process::{Pid, Signal, kill_process_group};
use std::fs::File;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// How long a group may take to end after SIGTERM.
const PATIENCE: Duration = Duration::from_secs(2);

/// Groups alive now.
static ALIVE: Mutex<Vec<Pid>> = Mutex::new(Vec::new());

/// A signal is ending the run. Set under the lock of [`ALIVE`], so that no group starts behind its back.
static ENDING: AtomicBool = AtomicBool::new(false);

/// The folder to remove when a signal ends the run.
static SCRATCH: Mutex<Option<PathBuf>> = Mutex::new(None);

/// Ends every child and exits with 130 on SIGINT, SIGTERM or SIGHUP.
pub fn end_all_on_signal(scratch: &Path) -> Result<(), Failure> {
    if let Ok(mut slot) = SCRATCH.lock() {
        *slot = Some(scratch.to_owned());
    }
    ctrlc::set_handler(|| {
        // A run that ends early must not look like one that had nothing to say.
        eprintln!("tollgate-bench: ended by a signal; nothing more is measured");
        let groups: Vec<Pid> = ALIVE
            .lock()
            .map(|alive| {
                ENDING.store(true, Ordering::SeqCst);
                alive.clone()
            })
            .unwrap_or_default();
        signal(&groups, Signal::TERM);
        sleep(Duration::from_millis(300));
        signal(&groups, Signal::KILL);
        if let Some(folder) = SCRATCH.lock().ok().and_then(|mut slot| slot.take()) {
            let _ = std::fs::remove_dir_all(folder);
        }
        std::process::exit(130);
    })
    .map_err(|error| Failure::Lacking(format!("a signal handler: {error}")))
}

/// Waits for the end if a signal is ending the run, so that its exit status is the signal's and not that of a trial
/// whose children vanished.
pub fn wait_if_ending() {
    while ENDING.load(Ordering::SeqCst) {
        sleep(Duration::from_millis(50));
    }
}

fn signal(groups: &[Pid], which: Signal) {
    for group in groups {
        let _ = kill_process_group(*group, which);
    }
}

/// A running group; dropped, it ends.
#[derive(Debug)]
pub struct Group {
    child: Child,
    group: Pid,
}

impl Group {
    /// Starts `program` on one core; its standard output and error go to (the ends of) the files given.
    pub fn start(
        core: usize,
        program: &Path,
        arguments: &[String],
        stdout: &Path,
        stderr: &Path,
    ) -> Result<Self, Failure> {
        let open = |path: &Path| {
            File::options().create(true).append(true).open(path).map_err(|error| Failure::file(path, error))
        };
        let mut words: Vec<String> = Vec::new();
        if which("setpriv").is_some() {
            words.extend(["setpriv", "--pdeathsig", "TERM"].map(String::from));
        }
        words.extend(["taskset".into(), "-c".into(), core.to_string(), program.display().to_string()]);
        let (stdout, stderr) = (open(stdout)?, open(stderr)?);
        let Ok(mut alive) = ALIVE.lock() else {
            return Err(Failure::Lacking("the list of children: a thread panicked".into()));
        };
        if ENDING.load(Ordering::SeqCst) {
            drop(alive);
            wait_if_ending();
            return Err(Failure::Lacking("time: the run is ending".into()));
        }
        let child = Command::new(&words[0])
            .args(&words[1..])
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(stdout)
            .stderr(stderr)
            .process_group(0)
            .spawn()
            .map_err(|error| Failure::System(words.join(" "), error))?;
        let group = Pid::from_child(&child);
        alive.push(group);
        Ok(Self { child, group })
    }

    /// The process id; the wrappers replace themselves, so it is the program's own.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// The exit status, if the process ended by itself.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().ok().flatten()
    }

    /// Waits for the process to end by itself, at most so long.
    pub fn wait(&mut self, limit: Duration) -> Option<ExitStatus> {
        let deadline = Instant::now() + limit;
        loop {
            match self.ended() {
                Some(status) => return Some(status),
                None if Instant::now() >= deadline => return None,
                None => sleep(Duration::from_millis(4)),
            }
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        signal(&[self.group], Signal::TERM);
        if self.wait(PATIENCE).is_none() {
            signal(&[self.group], Signal::KILL);
            let _ = self.child.wait();
        }
        // The leader is gone; whatever it left behind in its group goes as well.
        signal(&[self.group], Signal::KILL);
        if let Ok(mut alive) = ALIVE.lock() {
            alive.retain(|group| *group != self.group);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::{Cores, Scratch};

    #[test]
    fn a_dropped_group_ends_with_its_grandchildren() {
        let Ok(cores) = Cores::choose() else { return };
        let scratch = Scratch::create("child-test").unwrap();
        let log = scratch.path().join("log");
        let script = ["-c".to_owned(), "sleep 60 & echo $!; wait".to_owned()];
        let group = Group::start(cores.load, Path::new("/bin/sh"), &script, &log, &log).unwrap();
        let deadline = Instant::now() + Duration::from_secs(5);
        let grandchild = loop {
            match std::fs::read_to_string(&log).unwrap_or_default().trim().parse::<u32>() {
                Ok(pid) => break pid,
                Err(_) if Instant::now() < deadline => sleep(Duration::from_millis(5)),
                Err(error) => panic!("the script did not start: {error}"),
            }
        };
        drop(group);
        sleep(Duration::from_millis(50));
        let state = std::fs::read_to_string(format!("/proc/{grandchild}/stat")).unwrap_or_default();
        assert!(state.is_empty() || state.contains(") Z"), "{state}");
    }
}
