//! The conformance suite that others wrote, every case of it, strict ones too.

use std::path::PathBuf;
use std::process::Command;

use tollgate_tests::{Gateway, Origin, binary};

/// Where `scripts/install-h2spec` puts it: beside the folder of the gateway's binary.
fn h2spec() -> PathBuf {
    let target = binary().parent().and_then(|profile| profile.parent()).expect("a target folder").to_owned();
    let program = target.join("tools/bin/h2spec");
    assert!(program.exists(), "{} is not there: run scripts/install-h2spec", program.display());
    program
}

/// One case wants a connection closed without a word that does not begin as HTTP/2 does. Where HTTP/1 is spoken too,
/// it gets an answer in that: hence a listener for HTTP/2 alone.
#[test]
fn all_146_cases() {
    // Some cases are skipped where a response has fewer bytes than they open a window for.
    let origin = Origin::named("hello, conformance suite");
    let gateway = Gateway::with(&origin, "listen: [{bind: $LISTEN, http2: only}]");
    let address = gateway.address();
    let mut command = Command::new(h2spec());
    command.args(["--strict", "--timeout", "10", "--host", &address.ip().to_string()]);
    let output = command.args(["--port", &address.port().to_string()]).output().expect("h2spec runs");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(said.contains("146 tests, 146 passed, 0 skipped, 0 failed"), "{said}");
}
