//! The conformance suite h2spec: every case, strict ones too.

use std::path::PathBuf;
use std::process::Command;

use tollgate_tests::{Gateway, Origin, binary};

/// Returns the path at which `scripts/install-h2spec` installs the suite: in the target directory of the
/// gateway's binary.
fn h2spec() -> PathBuf {
    let target = binary().parent().and_then(|profile| profile.parent()).expect("a target folder").to_owned();
    let program = target.join("tools/bin/h2spec");
    assert!(program.exists(), "{} is not there: run scripts/install-h2spec", program.display());
    program
}

/// One case expects that the gateway closes a connection without a valid preface and without an answer. A
/// listener that also speaks HTTP/1 answers in HTTP/1, so this listener speaks HTTP/2 only.
#[test]
fn all_146_cases() {
    // Some cases are skipped if a response is shorter than the window that they open.
    let origin = Origin::named("hello, conformance suite");
    let gateway = Gateway::with(&origin, "listen: [{bind: $LISTEN, http2: only}]");
    let address = gateway.address();
    let mut command = Command::new(h2spec());
    command.args(["--strict", "--timeout", "10", "--host", &address.ip().to_string()]);
    let output = command.args(["--port", &address.port().to_string()]).output().expect("h2spec runs");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(said.contains("146 tests, 146 passed, 0 skipped, 0 failed"), "{said}");
}
