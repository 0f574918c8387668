//! Commands without a file find one, or say where they looked.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;

use rustix::process::Signal;
use tempfile::TempDir;

use super::{Ran, Running, tollgate};

const GOOD: &str = "listen: 127.0.0.1:0\nadmin: off\nroutes: [{name: here, match: /x, respond: 204}]\n";

/// Runs a command in a folder, with this value of `TOLLGATE_CONFIG`.
fn run_in(folder: &Path, args: &[&str], variable: Option<&Path>) -> Ran {
    let mut command = tollgate(args);
    command.current_dir(folder).env_remove("TOLLGATE_CONFIG");
    if let Some(file) = variable {
        command.env("TOLLGATE_CONFIG", file);
    }
    Ran::from(command.output().expect("tollgate starts"))
}

fn folder_with(name: &str, text: &str) -> TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join(name), text).expect("written");
    folder
}

#[test]
fn the_file_of_the_working_directory() {
    let folder = folder_with("tollgate.yaml", GOOD);
    let ran = run_in(folder.path(), &["check"], None);
    assert_eq!(
        (ran.code, ran.out.as_str()),
        (Some(0), "./tollgate.yaml is good: 1 route, 0 upstreams\n"),
        "{ran:?}"
    );
    assert_eq!(ran.err, "the configuration is ./tollgate.yaml (no file was named)\n");
    let ran = run_in(folder.path(), &["explain", "GET", "/x"], None);
    assert!(ran.code == Some(0) && ran.out.contains("here (./tollgate.yaml:3)"), "{ran:?}");
    assert!(ran.err.contains("./tollgate.yaml (no file was named)"), "{ran:?}");
    // A forgotten URL is not taken for a forgotten file.
    let ran = run_in(folder.path(), &["explain", "tollgate.yaml", "GET"], None);
    assert!(ran.code == Some(2) && ran.err.contains("the URL is missing"), "{ran:?}");
}

#[test]
fn the_file_that_the_variable_names_comes_first() {
    let folder = folder_with("tollgate.yaml", "listen: [");
    let other = folder_with("other.yaml", GOOD);
    let file = other.path().join("other.yaml");
    let ran = run_in(folder.path(), &["check"], Some(&file));
    assert!(ran.code == Some(0) && ran.err.contains("other.yaml (named by TOLLGATE_CONFIG)"), "{ran:?}");
    let ran = run_in(folder.path(), &["check"], Some(Path::new("/no/such.yaml")));
    assert!(ran.code == Some(1) && ran.err.contains("/no/such.yaml"), "{ran:?}");
    // A file on the command line wins, and is not announced.
    let ran =
        run_in(folder.path(), &["check", file.to_str().expect("UTF-8")], Some(Path::new("/no/such.yaml")));
    assert_eq!((ran.code, ran.err.as_str()), (Some(0), ""), "{ran:?}");
}

#[test]
fn without_any_file_the_places_are_listed() {
    if Path::new("/etc/tollgate/tollgate.yaml").exists() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    for args in [&["run"][..], &["check"], &["explain", "GET", "/x"]] {
        let ran = run_in(folder.path(), args, None);
        assert_eq!((ran.code, ran.out.as_str()), (Some(2), ""), "{ran:?}");
        for text in
            ["$TOLLGATE_CONFIG", "./tollgate.yaml", "/etc/tollgate/tollgate.yaml", "To make a first one"]
        {
            assert!(ran.err.contains(text), "{text} in {ran:?}");
        }
    }
    // The command that the message gives makes a good file.
    let ran = run_in(folder.path(), &["check"], None);
    let make = ran.err.lines().find(|line| line.contains("printf")).expect("a command").trim();
    let made = std::process::Command::new("sh").args(["-c", make]).current_dir(folder.path()).status();
    assert!(made.expect("sh runs").success());
    let ran = run_in(folder.path(), &["check"], None);
    assert!(ran.code == Some(0) && ran.out.contains("1 route"), "{ran:?}");
}

#[test]
fn run_names_the_file_that_it_uses() {
    let folder = folder_with("tollgate.yaml", GOOD);
    let mut command = tollgate(&["run"]);
    let mut running = Running::start(command.current_dir(folder.path()).env_remove("TOLLGATE_CONFIG"));
    let mut lines = BufReader::new(running.child().stderr.take().expect("piped")).lines();
    let mut line = || lines.next().expect("a line").expect("a line");
    assert!(line().contains("the configuration is ./tollgate.yaml (no file was named)"));
    assert!(line().contains("listens on"));
    running.signal(Signal::TERM);
    assert_eq!(running.end().code, Some(0));
}
