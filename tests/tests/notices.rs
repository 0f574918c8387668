//! Notices on standard error.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use tollgate_tests::{Gateway, Signal, binary, eventually};

#[test]
fn a_stuck_output_does_not_stop_the_gateway() {
    let program = std::env::temp_dir().join(format!("tollgate-notices-{}", std::process::id()));
    // Like a full disk, or a pipe whose reader has closed it.
    fs::write(&program, format!("#!/bin/sh\nexec {} \"$@\" 2>/dev/full\n", binary().display()))
        .expect("written");
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("permissions");
    let answering = |body: &str| format!("routes: [{{match: /version, respond: {body}}}]");
    let mut gateway = Gateway::start_program(&program, &answering("one"));
    let version = |gateway: &Gateway| gateway.client().get("/version").text();
    gateway.write_config("routez: []");
    gateway.signal(Signal::HUP);
    eventually("the file to be refused", || gateway.admin("/status").text().contains("the file has errors"));
    assert_eq!(version(&gateway), "one");
    gateway.write_config(&answering("two"));
    gateway.signal(Signal::HUP);
    eventually("the new plan", || version(&gateway) == "two");
    gateway.upgrade();
    gateway.wait_predecessor(0);
    assert_eq!(version(&gateway), "two");
    fs::remove_file(&program).expect("removed");
}

#[test]
fn a_reader_that_takes_nothing_stops_nothing() {
    let directory = std::env::temp_dir().join(format!("tollgate-stalled-{}", std::process::id()));
    fs::create_dir_all(&directory).expect("a directory");
    let (program, pipe) = (directory.join("program"), directory.join("pipe"));
    let mode = rustix::fs::Mode::from(0o600);
    rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, mode, 0).expect("a pipe");
    // The pipe is open for reading, but no process reads it.
    let _reader = fs::OpenOptions::new().read(true).write(true).open(&pipe).expect("both ends");
    let script = format!("#!/bin/sh\nexec {} \"$@\" 2>{}\n", binary().display(), pipe.display());
    fs::write(&program, script).expect("written");
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("permissions");
    let mut gateway = Gateway::start_program(&program, "routes: [{match: /version, respond: one}]");
    // More than the pipe holds.
    let wrong: String = (0..300).map(|n| format!("- {{match: /{n}, respnd: x}}\n")).collect();
    gateway.write_config(&format!("routes:\n{wrong}"));
    gateway.signal(Signal::HUP);
    eventually("the file to be refused", || gateway.admin("/status").text().contains("the file has errors"));
    gateway.write_config("routes: [{match: /version, respond: two}]");
    gateway.signal(Signal::HUP);
    eventually("the new plan", || gateway.client().get("/version").text() == "two");
    assert_eq!(gateway.admin("/healthz").status, 200);
    gateway.signal(Signal::TERM);
    assert_eq!(gateway.wait_exit().code(), Some(0));
    fs::remove_dir_all(&directory).expect("removed");
}
