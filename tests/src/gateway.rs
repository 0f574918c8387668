//! Starts the real binary, watches it and stops it.

use std::fmt::Write as _;
use std::fs;
use std::io::{ErrorKind, Read};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process, set_child_subreaper};
use serde_json::Value;

use crate::address::free_address;
use crate::client::Client;
use crate::frames::Frames;
use crate::http2::Http2;
use crate::message::Response;
use crate::metrics::Metrics;
use crate::origin::Origin;
use crate::process::{binary, send_signal, state};
use crate::{DEADLINE, eventually};

/// A running `tollgate run`, or `tollgate controller` if the config has the section `fleet`. The drop asserts that the process still runs (unless the test ended it) and
/// never panicked.
#[derive(Debug)]
pub struct Gateway {
    child: Child,
    /// The id of the serving process; an upgrade changes it.
    main: u32,
    /// The processes that took over by upgrades, in order.
    successors: Vec<u32>,
    ended: bool,
    directory: PathBuf,
    listen: SocketAddr,
    admin: SocketAddr,
    out: Arc<Mutex<String>>,
    err: Arc<Mutex<String>>,
    answers: Arc<AtomicU64>,
}

fn has_key(yaml: &str, key: &str) -> bool {
    yaml.lines().any(|line| line.strip_prefix(key).is_some_and(|rest| rest.starts_with(':')))
}

fn capture(mut pipe: impl Read + Send + 'static) -> Arc<Mutex<String>> {
    let text = Arc::new(Mutex::new(String::new()));
    let inner = Arc::clone(&text);
    thread::spawn(move || {
        let mut chunk = [0; 8192];
        while let Ok(n @ 1..) = pipe.read(&mut chunk) {
            inner.lock().expect("output").push_str(&String::from_utf8_lossy(&chunk[..n]));
        }
    });
    text
}

impl Gateway {
    /// Writes the config, starts the gateway and waits until it is ready.
    ///
    /// If the YAML lacks `listen`, `admin`, `workers` (1) or `access_log` (JSON, to a file that
    /// [`Gateway::records`] reads), the harness adds them. It replaces `$DIR` with a directory of the test's
    /// own, and `$LISTEN` and `$ADMIN` with the addresses. A controller gets only `admin`.
    ///
    /// # Panics
    /// Panics if the gateway does not become ready.
    #[must_use]
    pub fn start(yaml: &str) -> Self {
        Self::start_program(&binary(), yaml)
    }

    /// Starts a gateway as [`Gateway::start`] does, from a binary of the test's own.
    ///
    /// # Panics
    /// Panics if the gateway does not become ready.
    #[must_use]
    pub fn start_program(program: &Path, yaml: &str) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let n = NEXT.fetch_add(1, Ordering::Relaxed);
        let directory = std::env::temp_dir().join(format!("tollgate-e2e-{}-{n}", std::process::id()));
        fs::create_dir_all(&directory).expect("a temporary directory");
        let (listen, admin) = (free_address(), free_address());
        let file = directory.join("tollgate.yaml");
        fs::write(&file, complete(yaml, &directory, listen, admin)).expect("the config is written");
        // A process that takes over by an upgrade becomes a child of this process when its parent ends.
        set_child_subreaper(Some(rustix::process::getpid())).expect("a subreaper");
        let mut command = Command::new(program);
        command
            .arg(command_for(yaml))
            .arg(&file)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut started = command.spawn();
        // If a test has just written the program, a process that another test forks may hold it open for a
        // moment.
        while started.as_ref().is_err_and(|error| error.kind() == std::io::ErrorKind::ExecutableFileBusy) {
            thread::sleep(std::time::Duration::from_millis(5));
            started = command.spawn();
        }
        let mut child = started.expect("tollgate starts");
        let out = capture(child.stdout.take().expect("piped"));
        let err = capture(child.stderr.take().expect("piped"));
        let answers = Arc::new(AtomicU64::new(0));
        let main = child.id();
        let successors = Vec::new();
        let mut gateway =
            Self { child, main, successors, ended: false, directory, listen, admin, out, err, answers };
        gateway.wait_ready();
        gateway
    }

    /// Starts a gateway that sends all requests to one origin.
    #[must_use]
    pub fn to(origin: &Origin) -> Self {
        Self::with(origin, "")
    }

    /// Starts a gateway that sends all requests to one origin, with further top-level keys.
    #[must_use]
    pub fn with(origin: &Origin, yaml: &str) -> Self {
        Self::start(&format!("routes:\n  - match: \"/*\"\n    to: [{}]\n{yaml}\n", origin.address()))
    }

    fn wait_ready(&mut self) {
        let start = std::time::Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().expect("the child is ours") {
                self.ended = true;
                let config = fs::read_to_string(self.config()).unwrap_or_default();
                panic!("tollgate ended at once ({status}):\n{}\nconfig:\n{config}", self.stderr());
            }
            // Checks the listener too: an answer from the admin listener alone does not show that the
            // listener serves.
            let admin = TcpStream::connect(self.admin).is_ok();
            let serves = self.is_controller() || TcpStream::connect(self.listen).is_ok();
            if admin && serves && self.admin("/readyz").status == 200 {
                return;
            }
            assert!(start.elapsed() < DEADLINE, "tollgate does not become ready:\n{}", self.stderr());
            thread::sleep(std::time::Duration::from_millis(2));
        }
    }

    fn is_controller(&self) -> bool {
        fs::read_to_string(self.config()).is_ok_and(|yaml| has_key(&yaml, "fleet"))
    }

    /// Returns the listener's address.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.listen
    }

    /// Returns the admin listener's address.
    #[must_use]
    pub fn admin_address(&self) -> SocketAddr {
        self.admin
    }

    /// Returns the test's own directory (`$DIR`). The drop removes it.
    #[must_use]
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Returns the path of the config file.
    #[must_use]
    pub fn config(&self) -> PathBuf {
        self.directory.join("tollgate.yaml")
    }

    /// Returns the path of the access log, unless the config sets another one.
    #[must_use]
    pub fn log_file(&self) -> PathBuf {
        self.directory.join("access.log")
    }

    /// Replaces the config file. The gateway reads it at SIGHUP.
    ///
    /// # Panics
    /// Panics if the file cannot be written.
    pub fn write_config(&self, yaml: &str) {
        let text = complete(yaml, &self.directory, self.listen, self.admin);
        fs::write(self.config(), text).expect("the config is written");
    }

    /// Opens a client connection whose answers count for [`Gateway::reconcile`].
    #[must_use]
    pub fn client(&self) -> Client {
        Client::connect(self.listen, Arc::clone(&self.answers))
    }

    /// Opens a client connection with a receive buffer of about `bytes`.
    #[must_use]
    pub fn small_client(&self, bytes: usize) -> Client {
        Client::connect_small(self.listen, Arc::clone(&self.answers), bytes)
    }

    /// Opens an HTTP/2 connection by prior knowledge, whose answers count for [`Gateway::reconcile`].
    #[must_use]
    pub fn http2(&self) -> Http2 {
        self.http2_with(1 << 20)
    }

    /// Opens an HTTP/2 connection as [`Gateway::http2`] does, with a stream window of `window` bytes.
    #[must_use]
    pub fn http2_with(&self, window: u32) -> Http2 {
        Http2::connect(self.listen, Arc::clone(&self.answers), window)
    }

    /// Opens an HTTP/2 connection for single frames, with these settings.
    #[must_use]
    pub fn frames(&self, settings: &[(u16, u32)]) -> Frames {
        Frames::connect(self.listen, settings)
    }

    /// Returns how many final answers clients have received.
    #[must_use]
    pub fn answers(&self) -> u64 {
        self.answers.load(Ordering::SeqCst)
    }

    /// Sends `GET path` to the admin listener.
    #[must_use]
    pub fn admin(&self, path: &str) -> Response {
        let mut client = Client::connect(self.admin, Arc::default());
        client.ask(format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"))
    }

    /// Scrapes the metrics.
    ///
    /// # Panics
    /// Panics if the admin listener does not answer.
    #[must_use]
    pub fn metrics(&self) -> Metrics {
        let response = self.admin("/metrics");
        assert_eq!(response.status, 200, "{response:?}");
        Metrics::parse(&response.text())
    }

    /// Sends a signal to the serving process.
    ///
    /// # Panics
    /// Panics if the process no longer runs.
    pub fn signal(&self, signal: Signal) {
        send_signal(process(self.main), signal);
    }

    /// Returns the id of the serving process.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.main
    }

    /// Returns the process id that the admin listener reports.
    ///
    /// # Panics
    /// Panics if the answer holds no process id.
    #[must_use]
    pub fn serving_pid(&self) -> u32 {
        let status: Value = serde_json::from_str(&self.admin("/status").text()).expect("JSON");
        status["pid"].as_u64().and_then(|pid| u32::try_from(pid).ok()).expect("a process id")
    }

    /// Requests a binary upgrade (SIGUSR2), and waits until another process serves.
    ///
    /// # Panics
    /// Panics if no other process takes over.
    pub fn upgrade(&mut self) {
        let before = self.main;
        self.signal(Signal::USR2);
        eventually("another process", || self.serving_pid() != before);
        self.main = self.serving_pid();
        self.successors.push(self.main);
    }

    /// Waits until a process that served before an upgrade ends. Number 0 is the first process.
    ///
    /// # Panics
    /// Panics if the process does not end.
    pub fn wait_predecessor(&mut self, number: usize) {
        if number == 0 {
            assert_eq!(self.wait_exit().code(), Some(0), "{}", self.stderr());
            self.ended = false;
        } else {
            let id = self.successors[number - 1];
            eventually("a process that handed over to end", || !is_alive(id));
        }
    }

    /// Waits until the process that was started first ends, and returns its status.
    ///
    /// # Panics
    /// Panics if the process does not end.
    pub fn wait_exit(&mut self) -> ExitStatus {
        let mut status = None;
        eventually("the process to end", || {
            status = self.child.try_wait().expect("the child is ours");
            status.is_some()
        });
        self.ended = true;
        status.expect("just seen")
    }

    /// Kills the process with SIGKILL, and starts it again with the same file.
    ///
    /// # Panics
    /// Panics if the gateway does not become ready again.
    pub fn kill_and_restart(&mut self) {
        self.kill();
        self.restart();
    }

    /// Kills the process (SIGKILL).
    ///
    /// # Panics
    /// Panics if the process no longer runs.
    pub fn kill(&mut self) {
        self.child.kill().expect("the child is ours");
        self.child.wait().expect("the child is ours");
    }

    /// Starts the gateway again on the same addresses, after [`kill`](Self::kill).
    ///
    /// # Panics
    /// Panics if the gateway does not become ready.
    pub fn restart(&mut self) {
        let mut command = Command::new(binary());
        let yaml = fs::read_to_string(self.config()).expect("the config is there");
        command.arg(command_for(&yaml)).arg(self.config());
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("tollgate starts");
        self.out = capture(child.stdout.take().expect("piped"));
        self.err = capture(child.stderr.take().expect("piped"));
        self.main = child.id();
        self.child = child;
        self.wait_ready();
    }

    /// Returns what the gateway has written to standard error.
    ///
    /// # Panics
    /// Panics if the reading thread died.
    #[must_use]
    pub fn stderr(&self) -> String {
        self.err.lock().expect("output").clone()
    }

    /// Waits until the gateway has written `words` to standard error. A reply on a socket may arrive before
    /// such a message, because a thread of the harness reads the message from a pipe.
    ///
    /// # Panics
    /// Panics if the words do not appear within [`DEADLINE`].
    pub fn await_message(&self, words: &str) {
        let start = Instant::now();
        while !self.stderr().contains(words) {
            assert!(start.elapsed() < DEADLINE, "no `{words}` in:\n{}", self.stderr());
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// Returns what the gateway has written to standard output.
    ///
    /// # Panics
    /// Panics if the reading thread died.
    #[must_use]
    pub fn stdout(&self) -> String {
        self.out.lock().expect("output").clone()
    }

    /// Returns the peak memory of the process in KiB, without its program code. The code of an unoptimised
    /// build takes tens of MiB, which do not show what the gateway keeps.
    ///
    /// # Panics
    /// Panics if the process no longer runs.
    #[must_use]
    pub fn peak_kib(&self) -> u64 {
        self.memory_kib("VmHWM").saturating_sub(self.memory_kib("RssFile"))
    }

    /// Returns a figure of `/proc/PID/status` in KiB, such as `VmHWM` (peak resident memory) or `VmRSS`.
    ///
    /// # Panics
    /// Panics if there is no figure of this name.
    #[must_use]
    pub fn memory_kib(&self, name: &str) -> u64 {
        let status =
            fs::read_to_string(format!("/proc/{}/status", self.pid())).expect("the process is there");
        let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        let figure = line.and_then(|rest| rest.split_whitespace().next()?.parse().ok());
        figure.unwrap_or_else(|| panic!("no {name} in {status}"))
    }

    /// Returns how many files the process has open.
    ///
    /// # Panics
    /// Panics if the process no longer runs.
    #[must_use]
    pub fn open_files(&self) -> usize {
        fs::read_dir(format!("/proc/{}/fd", self.pid())).expect("the process is there").count()
    }
}

fn process(id: u32) -> Pid {
    i32::try_from(id).ok().and_then(Pid::from_raw).expect("a process id")
}

/// Returns whether a process exists and has not ended.
fn is_alive(id: u32) -> bool {
    state(Path::new(&format!("/proc/{id}"))).is_some_and(|state| !matches!(state, 'Z' | 'X'))
}

/// Returns the command that a config is for.
fn command_for(yaml: &str) -> &'static str {
    if has_key(yaml, "fleet") { "controller" } else { "run" }
}

/// Returns the config with the keys that the YAML lacks, and with the placeholders replaced.
fn complete(yaml: &str, directory: &Path, listen: SocketAddr, admin: SocketAddr) -> String {
    let mut text = String::new();
    for (key, value) in [
        ("listen", "$LISTEN"),
        ("admin", "$ADMIN"),
        ("workers", "1"),
        ("access_log", "{to: $DIR/access.log, format: json}"),
    ] {
        let is_needed = key == "admin" || !has_key(yaml, "fleet");
        if is_needed && !has_key(yaml, key) {
            writeln!(text, "{key}: {value}").expect("a String takes everything");
        }
    }
    text.push_str(yaml);
    text.replace("$DIR", &directory.to_string_lossy())
        .replace("$LISTEN", &listen.to_string())
        .replace("$ADMIN", &admin.to_string())
}

impl Drop for Gateway {
    fn drop(&mut self) {
        let status = match self.child.try_wait() {
            Ok(status) => status,
            Err(e) if e.kind() == ErrorKind::Interrupted => None,
            Err(e) => panic!("the child is ours: {e}"),
        };
        let served = is_alive(self.main);
        let _ = self.child.kill();
        for successor in &self.successors {
            let _ = kill_process(process(*successor), Signal::KILL);
        }
        let _ = self.child.wait();
        let stderr = self.stderr();
        if thread::panicking() {
            let log = fs::read_to_string(self.log_file()).unwrap_or_default();
            let tail: Vec<&str> = log.lines().rev().take(20).collect();
            eprintln!(
                "--- standard error of the gateway\n{stderr}--- its last log records, newest first\n{tail:#?}"
            );
            return;
        }
        let _ = fs::remove_dir_all(&self.directory);
        assert!(!stderr.contains("panicked"), "the gateway panicked:\n{stderr}");
        if !self.successors.is_empty() {
            assert!(served || self.ended, "the gateway ended:\n{stderr}");
        } else if let (false, Some(status)) = (self.ended, status) {
            panic!("the gateway ended ({status}, signal {:?}):\n{stderr}", status.signal());
        }
    }
}
