//! Tests of the command line through the built binary.

mod demo;
mod docs;
mod explain;
mod found;
mod hash;
mod help;
mod import;
mod pages;
mod start;

use std::io::Write;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use tempfile::NamedTempFile;

/// Longer than any command here takes on a busy machine.
const DEADLINE: Duration = Duration::from_secs(20);

/// Returns the command with an environment that does not affect it.
fn tollgate(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tollgate"));
    command
        .args(args)
        .env_remove("NOTIFY_SOCKET")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

/// Runs a command to its end.
fn run(args: &[&str]) -> Ran {
    Ran::from(tollgate(args).output().expect("tollgate starts"))
}

/// Runs a command to its end with this standard input.
fn run_with_input(args: &[&str], input: &str) -> Ran {
    let mut child = tollgate(args).stdin(Stdio::piped()).spawn().expect("tollgate starts");
    child.stdin.take().expect("piped").write_all(input.as_bytes()).expect("it reads");
    Ran::from(child.wait_with_output().expect("it ends"))
}

/// The output of a command and its exit code.
#[derive(Debug)]
struct Ran {
    code: Option<i32>,
    out: String,
    err: String,
}

impl From<Output> for Ran {
    fn from(output: Output) -> Self {
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("UTF-8");
        let ran = Self { code: output.status.code(), out: text(output.stdout), err: text(output.stderr) };
        assert!(!ran.err.contains("panicked"), "{ran:?}");
        ran
    }
}

/// Writes a configuration to a temporary file.
fn file(text: &str) -> NamedTempFile {
    let mut file = tempfile::Builder::new().suffix(".yaml").tempfile().expect("a temporary file");
    file.write_all(text.as_bytes()).expect("written");
    file
}

/// Returns its path as an argument.
fn arg(file: &NamedTempFile) -> &str {
    file.path().to_str().expect("UTF-8")
}

/// A running command. It is killed if the test ends before it.
struct Running(Option<Child>);

impl Running {
    fn start(command: &mut Command) -> Self {
        Self(Some(command.spawn().expect("tollgate starts")))
    }

    fn child(&mut self) -> &mut Child {
        self.0.as_mut().expect("it runs")
    }

    fn signal(&mut self, signal: rustix::process::Signal) {
        let id = i32::try_from(self.child().id()).expect("a process id");
        let id = rustix::process::Pid::from_raw(id).expect("not 0");
        rustix::process::kill_process(id, signal).expect("it lives");
    }

    /// Waits for its end.
    fn end(mut self) -> Ran {
        let start = Instant::now();
        let mut child = self.0.take().expect("it runs");
        while child.try_wait().expect("a status").is_none() {
            if start.elapsed() > DEADLINE {
                let _ = child.kill();
                panic!("it does not end: {:?}", child.wait_with_output());
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Ran::from(child.wait_with_output().expect("it has ended"))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(mut child) = self.0.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
