//! What is said on the standard error.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use tollgate_tests::{Gateway, Signal, binary, eventually};

#[test]
fn one_that_takes_nothing_ends_nothing() {
    let program = std::env::temp_dir().join(format!("tollgate-notices-{}", std::process::id()));
    // As a full disk, or a pipe whose reader has ended.
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
