//! The Autobahn conformance suite for WebSockets: through the gateway each case ends as it does at the
//! endpoint alone.

use std::collections::BTreeMap;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};
use tollgate_tests::{binary, eventually, free_port};

use crate::tls;

/// Returns the path at which `scripts/install-autobahn` installs the suite: in the target directory of the
/// gateway's binary.
fn wstest() -> PathBuf {
    let target = binary().parent().and_then(|profile| profile.parent()).expect("a target folder").to_owned();
    let program = target.join("tools/autobahn/wstest");
    assert!(program.exists(), "{} is not there: run scripts/install-autobahn", program.display());
    program
}

/// The suite's own echo server. The drop ends it.
struct EchoServer(Child);

impl EchoServer {
    fn start(folder: &Path) -> (Self, u16) {
        // The server compares its own port with the port in a request, so it must know the port.
        let port = free_port();
        let mut command = Command::new(wstest());
        command.args(["-m", "echoserver", "-w", &format!("ws://127.0.0.1:{port}")]).current_dir(folder);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let mut server = Self(command.spawn().expect("it starts"));
        eventually("the echo server", || {
            assert!(matches!(server.0.try_wait(), Ok(None)), "the echo server has stopped");
            TcpStream::connect(("127.0.0.1", port)).is_ok()
        });
        (server, port)
    }
}

impl Drop for EchoServer {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The results of the cases by case number: the verdict, and how the connection was closed.
type Cases = BTreeMap<String, (String, String)>;

fn cases(report: &Value, agent: &str) -> Cases {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let found = report[agent].as_object().unwrap_or_else(|| panic!("{agent} is in {report}"));
    found.iter().map(|(id, it)| (id.clone(), (text(&it["behavior"]), text(&it["behaviorClose"])))).collect()
}

/// Runs all groups except speed (9) and compression (12, 13), which the server does not support.
#[test]
fn each_case_ends_as_it_does_without_a_gateway() {
    let files = tls::Files::new();
    let (_server, port) = EchoServer::start(files.path());
    let routes =
        format!("routes: [{{match: \"/*\", to: \"127.0.0.1:{port}\", rewrite: {{host: endpoint}}}}]\n");
    let plain = tollgate_tests::Gateway::start(&routes);
    let (secure, _authority, _files) =
        tls::gateway(&format!("listen: {{bind: $LISTEN, tls: {{$A}}}}\n{routes}"));
    let outdir = files.path().join("report");
    let spec = json!({
        "outdir": outdir,
        "servers": [
            {"agent": "alone", "url": format!("ws://127.0.0.1:{port}")},
            {"agent": "ws", "url": format!("ws://{}", plain.address())},
            {"agent": "wss", "url": format!("wss://{}", secure.address())},
        ],
        // The suite gives a peer one second to close. A machine with few processors needs more.
        "options": {"closeHandshakeTimeout": 20, "serverConnectionDropTimeout": 20, "openHandshakeTimeout": 20},
        "cases": ["*"],
        "exclude-cases": ["9.*", "12.*", "13.*"],
        "exclude-agent-cases": {},
    });
    files.write("spec.json", &spec.to_string());
    let mut command = Command::new(wstest());
    command.args(["-m", "fuzzingclient", "-s"]).arg(files.path().join("spec.json")).current_dir(files.path());
    let ran = command.output().expect("it runs");
    let report = std::fs::read_to_string(outdir.join("index.json"));
    let report = report.unwrap_or_else(|_| panic!("no report: {}", String::from_utf8_lossy(&ran.stderr)));
    let report: Value = serde_json::from_str(&report).expect("JSON");
    let alone = cases(&report, "alone");
    assert_eq!(alone.len(), 247);
    // In some cases timing decides whether an answer or the end comes first: hence "non-strict".
    let good = |(how, closed): &(String, String)| {
        ["OK", "NON-STRICT", "INFORMATIONAL"].contains(&how.as_str())
            && ["OK", "INFORMATIONAL"].contains(&closed.as_str())
    };
    let same = |one: &str, other: &str| one == other || (one != "INFORMATIONAL" && other != "INFORMATIONAL");
    assert!(alone.values().all(good), "{alone:?}");
    for agent in ["ws", "wss"] {
        let through = cases(&report, agent);
        let differ: Vec<_> = alone
            .iter()
            .map(|(id, how)| (id, how, through.get(id)))
            .filter(|(_, how, found)| !found.is_some_and(|found| good(found) && same(&how.0, &found.0)))
            .collect();
        assert!(differ.is_empty(), "{agent}: {differ:?}");
    }
}
