//! The built binary, and runs of it that end by themselves.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rustix::process::{Pid, Resource, Rlimit, getrlimit, prlimit};

/// What a command printed and how it ended.
#[derive(Clone, Debug)]
pub struct Ran {
    /// Exit code; `None`: a signal ended it.
    pub code: Option<i32>,
    /// Standard output.
    pub out: String,
    /// Standard error.
    pub err: String,
}

impl Ran {
    /// Both outputs, for tests that do not care which one says something.
    #[must_use]
    pub fn all(&self) -> String {
        format!("{}{}", self.out, self.err)
    }
}

/// The binary: `TOLLGATE_BIN`, or else the one that cargo built beside this test.
///
/// # Panics
/// When there is none.
#[must_use]
pub fn binary() -> PathBuf {
    if let Some(path) = std::env::var_os("TOLLGATE_BIN") {
        return path.into();
    }
    beside("tollgate").expect(
        "no tollgate binary beside the tests: run `cargo build -p tollgate` first, or set TOLLGATE_BIN",
    )
}

/// The binary of `examples/plugin`: a gateway that has a plugin.
///
/// # Panics
/// When there is none.
#[must_use]
pub fn binary_with_plugin() -> PathBuf {
    beside("tollgate-with-plugin").expect(
        "no tollgate-with-plugin beside the tests: run `cargo build -p tollgate-example-plugin` first",
    )
}

/// A program that cargo built beside this test.
fn beside(name: &str) -> Option<PathBuf> {
    let exe = std::env::current_exe().expect("a test has a path");
    exe.ancestors().skip(1).map(|dir| dir.join(name)).find(|path| path.is_file())
}

/// Runs `tollgate` with these arguments to its end.
///
/// # Panics
/// When it cannot be started.
#[must_use]
pub fn tollgate(args: &[&str]) -> Ran {
    run(&binary(), args)
}

/// As [`tollgate`], with a binary of the test's own.
///
/// # Panics
/// When it cannot be started.
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
/// When it has gone.
pub fn limit_files(process: u32, limit: u64) {
    let id = i32::try_from(process).ok().and_then(Pid::from_raw);
    let before = getrlimit(Resource::Nofile);
    // The hard limit stays, so that it can be raised again.
    let new = Rlimit { current: Some(limit), maximum: before.maximum };
    prlimit(id, Resource::Nofile, new).expect("the process is there");
}
