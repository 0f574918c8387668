//! A command line with its files, and running it within a time limit. An adapter builds the [`Invocation`].
//! The laboratory starts the command through its own meter, which pins it; the tests use
//! [`Invocation::start`], which ends the tool with all its children at a time limit.

use crate::find::Program;
use crate::output::Output;
use rustix::process::{Pid, Signal, kill_process_group};
use std::fmt;
use std::fs::{self, File};
use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// How a tool is called. It runs in its own directory; file names are relative to it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Invocation {
    /// The tool's name, for the record.
    pub tool: &'static str,
    /// Arguments.
    pub args: Vec<String>,
    /// Environment variables to set.
    pub env: Vec<(String, String)>,
    /// Files to write before the start: name and content.
    pub files: Vec<(String, Vec<u8>)>,
    /// Its standard input.
    pub stdin: Vec<u8>,
    /// Arguments of a second call that converts the output of the first (vegeta); empty for none. It runs
    /// after the load, so it takes no time of the load.
    pub then: Vec<String>,
}

/// Why a tool could not be run.
#[derive(Debug)]
pub enum RunError {
    /// A file of the run could not be written or read.
    File(PathBuf, io::Error),
    /// The program did not start.
    Start(PathBuf, io::Error),
    /// It was killed because it still ran at the time limit.
    TooLong(&'static str, Duration),
}

impl fmt::Display for RunError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path, error) => write!(f, "{}: {error}", path.display()),
            Self::Start(path, error) => write!(f, "{} does not start: {error}", path.display()),
            Self::TooLong(tool, limit) => write!(f, "{tool} had not ended after {limit:?} and was stopped"),
        }
    }
}

impl std::error::Error for RunError {}

impl Invocation {
    pub(crate) fn new(tool: &'static str) -> Self {
        Self { tool, ..Self::default() }
    }

    /// Adds arguments.
    pub(crate) fn args<S: Into<String>>(&mut self, args: impl IntoIterator<Item = S>) -> &mut Self {
        self.args.extend(args.into_iter().map(Into::into));
        self
    }

    /// Adds `flag value` for each value.
    pub(crate) fn each(&mut self, flag: &str, values: impl IntoIterator<Item = String>) -> &mut Self {
        for value in values {
            self.args([flag.to_owned(), value]);
        }
        self
    }

    /// Adds a file.
    pub(crate) fn file(&mut self, name: &str, content: impl Into<Vec<u8>>) -> &mut Self {
        self.files.push((name.into(), content.into()));
        self
    }

    /// Returns the command line for the record, with the tool's name instead of its path.
    pub fn line(&self) -> Vec<String> {
        std::iter::once(self.tool.to_owned()).chain(self.args.iter().cloned()).collect()
    }

    /// Starts the tool in a directory, which must exist and should be empty. `before` is prepended to the
    /// command line, such as `taskset --cpu-list 1`.
    ///
    /// # Errors
    /// If a file cannot be written or the program does not start.
    pub fn start(&self, program: &Program, before: &[String], dir: &Path) -> Result<Running, RunError> {
        let write = |name: &str, content: &[u8]| {
            let path = dir.join(name);
            fs::write(&path, content).map_err(|error| RunError::File(path, error))
        };
        for (name, content) in &self.files {
            write(name, content)?;
        }
        write("stdin", &self.stdin)?;
        let child = self.spawn(program, before, dir, &self.args, "stdin")?;
        Ok(Running {
            invocation: self.clone(),
            program: program.clone(),
            before: before.to_vec(),
            dir: dir.to_path_buf(),
            child,
        })
    }

    /// Spawns the process. Output goes to files: a pipe that is not read would block the tool while the load
    /// runs.
    fn spawn(
        &self,
        program: &Program,
        before: &[String],
        dir: &Path,
        args: &[String],
        stdin: &str,
    ) -> Result<Child, RunError> {
        let file = |name: &str, open: fn(&Path) -> io::Result<File>| {
            let path = dir.join(name);
            open(&path).map(Stdio::from).map_err(|error| RunError::File(path, error))
        };
        let path = fs::canonicalize(&program.path).unwrap_or_else(|_| program.path.clone());
        let first = before.first().map_or_else(|| path.clone(), PathBuf::from);
        let mut command = Command::new(&first);
        if let Some(rest) = before.get(1..) {
            command.args(rest).arg(&path);
        }
        command
            .args(args)
            .envs(self.env.iter().map(|(name, value)| (name, value)))
            .current_dir(dir)
            .stdin(file(stdin, |path| File::open(path))?)
            .stdout(file("stdout", |path| File::create(path))?)
            .stderr(file("stderr", |path| File::create(path))?)
            .process_group(0)
            .spawn()
            .map_err(|error| RunError::Start(first, error))
    }
}

/// A running tool. When dropped, it is killed with all its children.
#[derive(Debug)]
pub struct Running {
    invocation: Invocation,
    program: Program,
    before: Vec<String>,
    dir: PathBuf,
    child: Child,
}

impl Running {
    /// Returns its process id, which is also the id of its process group.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Returns whether the load is over. [`Self::wait`] then returns at once for every tool without a second
    /// call.
    ///
    /// # Errors
    /// If the state of the process cannot be read.
    pub fn is_over(&mut self) -> io::Result<bool> {
        self.child.try_wait().map(|status| status.is_some())
    }

    /// Waits until the tool ends, at most for `limit`.
    ///
    /// # Errors
    /// See [`RunError`]. At the limit the tool is killed.
    pub fn wait(mut self, limit: Duration) -> Result<Output, RunError> {
        let started = Instant::now();
        let mut status = self.end(started, limit)?;
        if !self.invocation.then.is_empty() && status.success() {
            let invocation = &self.invocation;
            self.child =
                invocation.spawn(&self.program, &self.before, &self.dir, &invocation.then, "stdin")?;
            status = self.end(started, limit)?;
        }
        let read = |name: &str| {
            let path = self.dir.join(name);
            let bytes = fs::read(&path).map_err(|error| RunError::File(path, error))?;
            Ok(String::from_utf8_lossy(&bytes).into_owned())
        };
        Ok(Output {
            version: self.program.version.clone(),
            command: self.invocation.line(),
            stdout: read("stdout")?,
            stderr: read("stderr")?,
            exit: status.code(),
            dir: self.dir.clone(),
        })
    }

    fn end(&mut self, started: Instant, limit: Duration) -> Result<ExitStatus, RunError> {
        loop {
            match self.child.try_wait() {
                Ok(Some(status)) => return Ok(status),
                Ok(None) if started.elapsed() >= limit => {
                    return Err(RunError::TooLong(self.invocation.tool, limit));
                }
                Ok(None) => thread::sleep(Duration::from_millis(5)),
                Err(error) => return Err(RunError::Start(self.program.path.clone(), error)),
            }
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // After a wait, the id may belong to another process; the group is then left alone.
        if matches!(self.child.try_wait(), Ok(None)) {
            if let Some(group) = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw) {
                let _ = kill_process_group(group, Signal::KILL);
            }
            let _ = self.child.wait();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> (Invocation, Program) {
        let mut invocation = Invocation::new("sh");
        invocation.args(["-c", script]).file("given", "content");
        (invocation, Program { path: "/bin/sh".into(), version: "1.0".into() })
    }

    #[test]
    fn it_runs_in_its_directory_and_tells_what_it_printed() {
        let dir = tempfile::tempdir().unwrap();
        let (mut invocation, program) = shell("cat given -; echo bad >&2; exit 3");
        invocation.stdin = b" typed".to_vec();
        let output =
            invocation.start(&program, &[], dir.path()).unwrap().wait(Duration::from_secs(20)).unwrap();
        assert_eq!((output.stdout.as_str(), output.stderr.as_str()), ("content typed", "bad\n"));
        assert_eq!((output.exit, output.command[0].as_str()), (Some(3), "sh"));
    }

    #[test]
    fn the_second_call_follows_and_the_prefix_goes_before_both() {
        let dir = tempfile::tempdir().unwrap();
        let (mut invocation, program) = shell("echo $MARK >first");
        invocation.then = vec!["-c".into(), "cat first; echo $MARK".into()];
        let before = ["env".to_owned(), "MARK=x".to_owned()];
        let output =
            invocation.start(&program, &before, dir.path()).unwrap().wait(Duration::from_secs(20)).unwrap();
        assert_eq!(output.stdout, "x\nx\n");
    }

    #[test]
    fn what_does_not_end_is_killed_with_its_children() {
        let dir = tempfile::tempdir().unwrap();
        let (invocation, program) = shell("sleep 600 & echo $! >child; wait");
        let running = invocation.start(&program, &[], dir.path()).unwrap();
        let child = loop {
            match fs::read_to_string(dir.path().join("child")) {
                Ok(id) if id.ends_with('\n') => break id,
                _ => thread::sleep(Duration::from_millis(2)),
            }
        };
        let error = running.wait(Duration::from_millis(10)).unwrap_err();
        assert!(error.to_string().starts_with("sh had not ended after 10ms"), "{error}");
        let state = || fs::read_to_string(format!("/proc/{}/stat", child.trim())).ok();
        let started = Instant::now();
        while state().is_some_and(|stat| !stat.contains(") Z ")) {
            assert!(started.elapsed() < Duration::from_secs(20), "its child still runs");
            thread::sleep(Duration::from_millis(2));
        }
    }
}
