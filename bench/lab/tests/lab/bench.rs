//! A data folder for one test, and the program started on it.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};
use tempfile::TempDir;
use tollgate_lab_record::{Results, Status, Trial, read};

/// The laboratory's program.
pub const LAB: &str = env!("CARGO_BIN_EXE_tollgate-lab");

/// How long started processes may take to end.
const PATIENCE: Duration = Duration::from_secs(10);

/// The laboratory's relay as a system: the smallest possible gateway, and always available.
const WIRE: &str = r#"title: The wire
about: Bytes go through and nothing is read.
homepage: https://www.rfc-editor.org/rfc/rfc793
ready_within_seconds: 30
programs:
  lab: {paths: ["LAB"]}
version:
  command: ["{{ programs.lab }}", --version]
  pattern: '([0-9]+\.[0-9.]+)'
files:
  - {template: link.json.j2, to: link.json}
start:
  command: ["{{ programs.lab }}", relay, "{{ folder }}/link.json"]
missing: {reason: It is always here., get: build the laboratory}
"#;

const LINK: &str = r#"{"listen": "{{ host }}:{{ port }}", "to": "{{ origins[0].host }}:{{ origins[0].port }}",
"round_trip_ms": 0, "bytes_per_second": 1e12}
"#;

const DIRECT: &str =
    "title: Nobody between\nabout: The load goes to the origin.\nhomepage: https://www.rfc-editor.org/\n";

/// A data folder, a home for installed systems, and a folder for results.
pub struct Bench {
    folder: TempDir,
}

/// The output of a program, and how it ended.
#[derive(Debug)]
pub struct Answer {
    /// Exit status; `None` after a signal.
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

impl From<Output> for Answer {
    fn from(output: Output) -> Self {
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        Self { code: output.status.code(), stdout: text(output.stdout), stderr: text(output.stderr) }
    }
}

impl Answer {
    /// Requires success.
    #[track_caller]
    pub fn well(self) -> Self {
        assert_eq!(self.code, Some(0), "{self:?}");
        self
    }

    /// Requires that the program refused with one message that contains all these words, and printed nothing
    /// else.
    #[track_caller]
    pub fn refused(self, code: i32, words: &[&str]) {
        assert_eq!(self.code, Some(code), "{self:?}");
        for word in words {
            assert!(self.stderr.contains(word), "{word:?} is not said: {}", self.stderr);
        }
        assert!(self.stdout.is_empty(), "{self:?}");
        assert!(!self.stderr.contains("panicked"), "{self:?}");
    }
}

impl Bench {
    /// Creates a folder with two systems: `direct`, and `wire`, which relays bytes.
    pub fn new() -> Self {
        let bench = Self { folder: tempfile::tempdir().unwrap() };
        for folder in ["data/systems", "data/studies", "home", "bin"] {
            fs::create_dir_all(bench.path(folder)).unwrap();
        }
        bench.write("data/systems/direct/system.yaml", DIRECT);
        bench.write("data/systems/wire/system.yaml", &WIRE.replace("LAB", LAB));
        bench.write("data/systems/wire/link.json.j2", LINK);
        bench
    }

    /// Returns a path below this test's folder.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Writes a file below this test's folder.
    pub fn write(&self, name: &str, text: &str) {
        let file = self.path(name);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, text).unwrap();
    }

    /// Writes a script that is found before everything else on the path.
    pub fn program(&self, name: &str, text: &str) {
        let file = format!("bin/{name}");
        self.write(&file, text);
        fs::set_permissions(self.path(&file), fs::Permissions::from_mode(0o755)).unwrap();
    }

    /// Adds a system that is started like `wire`, through a shell script that gets the relay's command as its
    /// arguments.
    pub fn wrapped(&self, name: &str, script: &str) {
        let start = r#"command: ["{{ programs.lab }}", relay"#;
        let through = r#"command: [sh, "{{ system }}/start.sh", "{{ programs.lab }}", relay"#;
        self.write(
            &format!("data/systems/{name}/system.yaml"),
            &WIRE.replace(start, through).replace("LAB", LAB),
        );
        self.write(&format!("data/systems/{name}/link.json.j2"), LINK);
        self.write(&format!("data/systems/{name}/start.sh"), script);
    }

    /// Adds a study.
    pub fn study(&self, name: &str, text: &str) {
        self.write(&format!("data/studies/{name}.yaml"), text);
    }

    /// Returns the command of the program on this test's data.
    pub fn command(&self, arguments: &[&str]) -> Command {
        self.command_on(&self.path("data"), arguments)
    }

    /// Returns the command of the program on other data. All its children have this test's folder in their
    /// environment.
    pub fn command_on(&self, data: &Path, arguments: &[&str]) -> Command {
        let mut command = Command::new(LAB);
        let path = std::env::var_os("PATH").unwrap_or_default();
        let path = std::env::join_paths([self.path("bin")].into_iter().chain(std::env::split_paths(&path)));
        command
            .args(arguments)
            .env("TOLLGATE_BENCH_DATA", data)
            .env("TOLLGATE_LAB_HOME", self.path("home"))
            .env("PATH", path.unwrap())
            .env_remove("COLUMNS")
            .current_dir(self.folder.path())
            .stdin(Stdio::null());
        command
    }

    /// Runs the program to its end, and requires that it leaves no process behind.
    #[track_caller]
    pub fn run(&self, arguments: &[&str]) -> Answer {
        let answer = Answer::from(self.command(arguments).output().unwrap());
        self.no_process_is_left();
        answer
    }

    /// Requires that all processes that this test started end within a while.
    #[track_caller]
    pub fn no_process_is_left(&self) {
        let started = Instant::now();
        loop {
            let left = self.started_here();
            if left.is_empty() {
                return;
            }
            assert!(started.elapsed() < PATIENCE, "still running: {left:?}");
            sleep(Duration::from_millis(20));
        }
    }

    /// Returns the command lines of the running processes whose environment has this test's folder: the
    /// program's descendants.
    pub fn started_here(&self) -> Vec<String> {
        let mark = format!("TOLLGATE_LAB_HOME={}", self.path("home").display());
        let mut lines = Vec::new();
        for process in fs::read_dir("/proc").unwrap().flatten().map(|entry| entry.path()) {
            let text = |name: &str| {
                fs::read(process.join(name))
                    .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
                    .unwrap_or_default()
            };
            if text("environ").split('\0').any(|variable| variable == mark) {
                lines.push(text("cmdline").replace('\0', " "));
            }
        }
        lines
    }

    /// Reads a result file.
    pub fn results(&self, name: &str) -> Results {
        results(&self.path(name))
    }
}

/// Reads a result file.
pub fn results(file: &Path) -> Results {
    read(fs::read(file).unwrap().as_slice()).unwrap()
}

/// Returns why a trial is bad; `None` if it is good.
pub fn reason(trial: &Trial) -> Option<&str> {
    match &trial.status {
        Status::Good => None,
        Status::Bad { reason } => Some(reason),
    }
}
