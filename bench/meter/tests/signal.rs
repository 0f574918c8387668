//! Tests Ctrl-C: all children are stopped, and nothing is left behind. A child process acts as the
//! laboratory, since the signal ends it.

use rustix::process::{Pid, Signal, kill_process};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use tollgate_lab_meter::Scratch;
use tollgate_lab_meter::cgroup::Quota;
use tollgate_lab_meter::child::{Launch, stop_all_on_signal};

/// An environment variable that is set in the process that acts as the laboratory.
const ROLE: &str = "TOLLGATE_LAB_METER_SIGNAL_TEST";
/// The prefix of each line for the test; the test runner prints lines of its own.
const MARK: &str = "MARK ";

fn play_laboratory() {
    stop_all_on_signal(|| eprintln!("{MARK}last words")).unwrap();
    let scratch = Scratch::create("signal").unwrap();
    let quota = Quota::create("signal", 0.5, None);
    let child = Launch::new("/bin/sh").arguments(["-c", "trap '' TERM; sleep 60 & wait"]);
    let child = quota.iter().fold(child, |child, quota| child.quota(quota)).start().unwrap();
    if quota.is_err() {
        eprintln!("{MARK}SKIPPED the quota");
    }
    eprintln!("{MARK}{} {}", child.id(), scratch.path().display());
    std::thread::sleep(Duration::from_secs(60));
    panic!("no signal came");
}

#[test]
fn a_signal_stops_everything_that_was_started() {
    if std::env::var_os(ROLE).is_some() {
        return play_laboratory();
    }
    for signal in [Signal::INT, Signal::TERM] {
        let mut laboratory = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "a_signal_stops_everything_that_was_started", "--nocapture"])
            .env(ROLE, "1")
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(laboratory.stderr.take().unwrap()).lines().map_while(Result::ok);
        let mut marked = lines.filter_map(|line| Some(line.split_once(MARK)?.1.to_owned()));
        let mut first = marked.next().unwrap();
        let mut limited = true;
        if first.starts_with("SKIPPED") {
            writeln!(std::io::stderr(), "{first}: none can be made here").unwrap();
            limited = false;
            first = marked.next().unwrap();
        }
        let (child, scratch) = first.split_once(' ').unwrap();
        let child: u32 = child.parse().unwrap();
        assert!(Path::new(scratch).is_dir() && Path::new(&format!("/proc/{child}")).exists());
        assert_eq!(quotas_of(laboratory.id()).is_empty(), !limited);
        kill_process(Pid::from_child(&laboratory), signal).unwrap();
        assert_eq!(marked.next().as_deref(), Some("last words"));
        assert_eq!(laboratory.wait().unwrap().code(), Some(130));
        assert!(!Path::new(scratch).exists());
        assert!(is_gone(child), "the child {child} lives on");
        assert!(quotas_of(laboratory.id()).is_empty());
    }
}

/// Returns the groups whose names contain the process id.
fn quotas_of(pid: u32) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![PathBuf::from("/sys/fs/cgroup")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            if !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                continue;
            }
            let name = entry.file_name().to_string_lossy().into_owned();
            if name.starts_with("tollgate-lab.") && name.contains(&format!(".{pid}.")) {
                found.push(entry.path());
            }
            folders.push(entry.path());
        }
    }
    found
}

/// Returns whether a process has exited; a zombie counts as exited.
fn is_gone(pid: u32) -> bool {
    let deadline = Instant::now() + Duration::from_secs(30);
    loop {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        if stat.is_empty() || stat.contains(") Z") {
            return true;
        }
        if Instant::now() > deadline {
            return false;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}
