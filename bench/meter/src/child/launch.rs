//! Describes and starts a child process.

use super::group::Group;
use super::program::find_program;
use super::starter;
use super::stop::{Kept, Registration};
use crate::cgroup::Quota;
use crate::error::Error;
use rustix::process::Pid;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Enters the groups before `--`, then replaces itself by the program after it. Every instruction of the
/// program thus counts in the groups, and about a millisecond of the shell's as well.
const ENTER: &str = r#"while [ "$1" != -- ]; do echo 0 > "$1" || exit 126; shift; done; shift; exec "$@""#;

/// A child to start: the program, its arguments, and the cores, quota and folder that it gets.
#[derive(Debug)]
pub struct Launch<'a> {
    program: PathBuf,
    arguments: Vec<OsString>,
    variables: Vec<(OsString, OsString)>,
    folder: Option<PathBuf>,
    cores: Vec<usize>,
    quota: Option<&'a Quota>,
    output: Option<(PathBuf, PathBuf)>,
}

impl<'a> Launch<'a> {
    /// Creates a launch of a program: a path, or a name that is looked up as in [`find_program`].
    pub fn new(program: impl AsRef<Path>) -> Self {
        Self {
            program: program.as_ref().to_owned(),
            arguments: Vec::new(),
            variables: Vec::new(),
            folder: None,
            cores: Vec::new(),
            quota: None,
            output: None,
        }
    }

    /// Adds arguments.
    pub fn arguments(mut self, arguments: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Self {
        self.arguments.extend(arguments.into_iter().map(|argument| argument.as_ref().to_owned()));
        self
    }

    /// Sets an environment variable; the others are inherited.
    pub fn variable(mut self, name: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> Self {
        self.variables.push((name.as_ref().to_owned(), value.as_ref().to_owned()));
        self
    }

    /// Sets the working directory.
    pub fn folder(mut self, folder: impl Into<PathBuf>) -> Self {
        self.folder = Some(folder.into());
        self
    }

    /// Pins the child and all its threads and children to these cores before its first instruction. Without
    /// this, it inherits the affinity of the calling thread.
    pub fn cores(mut self, cores: &[usize]) -> Self {
        self.cores = cores.to_owned();
        self
    }

    /// Puts the child under a quota before its first instruction.
    pub fn quota(mut self, quota: &'a Quota) -> Self {
        self.quota = Some(quota);
        self
    }

    /// Appends standard output and standard error to files, which may be the same. Without this, both are
    /// discarded.
    pub fn output(mut self, stdout: impl Into<PathBuf>, stderr: impl Into<PathBuf>) -> Self {
        self.output = Some((stdout.into(), stderr.into()));
        self
    }

    /// Starts the child as the leader of its own process group, with empty standard input.
    ///
    /// If this program is killed with SIGKILL, the kernel sends the child SIGTERM (where `setpriv`, of
    /// util-linux, is installed).
    ///
    /// # Errors
    /// If the program is not found, an output file cannot be written, a core may not be used, or a signal is
    /// ending the run.
    pub fn start(self) -> Result<Group, Error> {
        let program = find_program(&self.program).ok_or_else(|| {
            Error::Lacking(format!(
                "the program {} is not installed, neither on PATH nor in the system's folders",
                self.program.display()
            ))
        })?;
        let mut command = self.command(&program);
        command.args(&self.arguments).envs(self.variables).stdin(Stdio::null()).process_group(0);
        if let Some(folder) = &self.folder {
            command.current_dir(folder);
        }
        if let Some((stdout, stderr)) = &self.output {
            command.stdout(append(stdout)?).stderr(append(stderr)?);
        } else {
            command.stdout(Stdio::null()).stderr(Stdio::null());
        }
        let cores = self.cores;
        let (registration, child) = Registration::of_new(|| {
            let child = starter::spawn(command, &cores).map_err(|error| {
                let place = if cores.is_empty() { String::new() } else { format!(" on cores {cores:?}") };
                Error::System(format!("starting {}{place}", program.display()), error)
            })?;
            Ok((Kept::Group(Pid::from_child(&child)), child))
        })?;
        Ok(Group::new(child, registration))
    }

    /// Returns the command with its wrapper programs (`setpriv`, the shell). Each replaces itself by the
    /// next, so the process id is the program's own.
    fn command(&self, program: &Path) -> Command {
        let mut words: Vec<OsString> = Vec::new();
        if let Some(setpriv) = find_program("setpriv") {
            words.push(setpriv.into());
            words.extend(["--pdeathsig", "TERM", "--"].map(OsString::from));
        }
        if let Some(quota) = self.quota {
            words.extend(["/bin/sh", "-c", ENTER, "sh"].map(OsString::from));
            words.extend(quota.entrances().map(OsString::from));
            words.push("--".into());
        }
        words.push(program.into());
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]);
        command
    }
}

fn append(path: &Path) -> Result<File, Error> {
    File::options().create(true).append(true).open(path).map_err(|error| Error::file(path, error))
}
