//! Finds the built binary, and runs commands of it that end on their own.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rustix::process::{Pid, Resource, Rlimit, Signal, getrlimit, kill_process, prlimit};

use crate::eventually;

/// The output of a command and its exit code.
#[derive(Clone, Debug)]
pub struct Ran {
    /// The exit code; `None` if a signal ended the process.
    pub code: Option<i32>,
    /// Standard output.
    pub out: String,
    /// Standard error.
    pub err: String,
}

impl Ran {
    /// Returns both outputs joined, for tests that accept a message on either.
    #[must_use]
    pub fn all(&self) -> String {
        format!("{}{}", self.out, self.err)
    }
}

/// Returns the path of the binary: `TOLLGATE_BIN`, or else the binary that cargo built next to this test.
///
/// # Panics
/// Panics if there is no binary.
#[must_use]
pub fn binary() -> PathBuf {
    if let Some(path) = std::env::var_os("TOLLGATE_BIN") {
        return path.into();
    }
    beside("tollgate").expect(
        "no tollgate binary beside the tests: run `cargo build -p tollgate` first, or set TOLLGATE_BIN",
    )
}

/// Returns the path of the binary of `examples/plugin`: a gateway with a plugin.
///
/// # Panics
/// Panics if there is no binary.
#[must_use]
pub fn binary_with_plugin() -> PathBuf {
    beside("tollgate-with-plugin").expect(
        "no tollgate-with-plugin beside the tests: run `cargo build -p tollgate-example-plugin` first",
    )
}

/// Returns the path of a program that cargo built next to this test.
fn beside(name: &str) -> Option<PathBuf> {
    let exe = std::env::current_exe().expect("a test has a path");
    exe.ancestors().skip(1).map(|dir| dir.join(name)).find(|path| path.is_file())
}

/// Sends a signal to a process. After SIGSTOP, waits until all its threads have stopped: `kill` returns while
/// those on other cores still run.
///
/// # Panics
/// Panics if the process does not run.
pub(crate) fn send_signal(process: Pid, signal: Signal) {
    kill_process(process, signal).expect("the process is there");
    if signal == Signal::STOP {
        eventually("the process to stop", || threads_stopped(process));
    }
}

fn threads_stopped(process: Pid) -> bool {
    let tasks = format!("/proc/{}/task", process.as_raw_nonzero());
    let mut tasks = fs::read_dir(tasks).expect("the process is there").flatten();
    tasks.all(|task| state(&task.path()).is_none_or(|state| matches!(state, 'T' | 't')))
}

/// Returns the state of the process or thread with this folder in `/proc` (proc_pid_stat(5)); `None` if it has ended.
pub(crate) fn state(folder: &Path) -> Option<char> {
    let stat = fs::read_to_string(folder.join("stat")).ok()?;
    // The state follows the name, which is in parentheses and may contain spaces.
    stat.rsplit_once(") ").and_then(|(_, rest)| rest.chars().next())
}

/// Runs `tollgate` with these arguments until it ends.
///
/// # Panics
/// Panics if the process cannot be started.
#[must_use]
pub fn tollgate(args: &[&str]) -> Ran {
    run(&binary(), args)
}

/// Runs a binary as [`tollgate`] does, chosen by the test.
///
/// # Panics
/// Panics if the process cannot be started.
#[must_use]
pub fn run(program: &Path, args: &[&str]) -> Ran {
    let output = Command::new(program).args(args).stdin(Stdio::null()).output().expect("tollgate starts");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let ran = Ran { code: output.status.code(), out: text(&output.stdout), err: text(&output.stderr) };
    assert!(!ran.err.contains("panicked"), "tollgate {args:?} panicked:\n{}", ran.err);
    ran
}

/// Sets how many files a process may have open.
///
/// # Panics
/// Panics if the process no longer runs.
pub fn limit_files(process: u32, limit: u64) {
    let id = i32::try_from(process).ok().and_then(Pid::from_raw);
    let before = getrlimit(Resource::Nofile);
    // The hard limit stays, so that the soft limit can be raised again.
    let new = Rlimit { current: Some(limit), maximum: before.maximum };
    prlimit(id, Resource::Nofile, new).expect("the process is there");
}
