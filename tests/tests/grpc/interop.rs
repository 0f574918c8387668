//! gRPC's own interoperability cases, between its client and server in Go, with the gateway between them.

use std::fs::File;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread;

use tollgate_tests::{Authority, Gateway, binary, eventually, free_port};

/// Every case that needs only a client and a server. The others need cloud accounts, or several servers.
const CASES: [&str; 18] = [
    "empty_unary",
    "large_unary",
    "client_streaming",
    "server_streaming",
    "ping_pong",
    "empty_stream",
    "timeout_on_sleeping_server",
    "cancel_after_begin",
    "cancel_after_first_response",
    "status_code_and_message",
    "special_status_message",
    "custom_metadata",
    "unimplemented_method",
    "unimplemented_service",
    "orca_per_rpc",
    "orca_oob",
    "rpc_soak",
    "channel_soak",
];

/// The two cases for load reports need a balancer that reads them.
const ORCA: &str = r#"{"loadBalancingConfig":[{"test_backend_metrics_load_balancer":{}}]}"#;

/// Returns the path of a program that `scripts/install-grpc-interop` has built.
fn program(name: &str) -> PathBuf {
    let target = binary().parent().and_then(|profile| profile.parent()).expect("a target folder").to_owned();
    let program = target.join("tools/grpc-interop").join(name);
    assert!(program.exists(), "{} is not there: run scripts/install-grpc-interop", program.display());
    program
}

/// The server and its port. The drop ends it.
struct Server(Child, u16);

impl Server {
    fn start() -> Self {
        let port = free_port();
        let mut command = Command::new(program("server"));
        command
            .arg(format!("--port={port}"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::inherit());
        let mut server = Self(command.spawn().expect("the server starts"), port);
        eventually("the server to listen", || {
            assert!(matches!(server.0.try_wait(), Ok(None)), "the server has stopped");
            std::net::TcpStream::connect(("127.0.0.1", port)).is_ok()
        });
        server
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Runs all cases, a few at a time. Returns the failed cases, with the client's output.
fn failures(gateway: &Gateway, more: &[String]) -> Vec<String> {
    let address = gateway.address();
    let run = |case: &str| {
        let mut client = Command::new(program("client"));
        client
            .arg(format!("--server_host={}", address.ip()))
            .arg(format!("--server_port={}", address.port()));
        client.arg(format!("--test_case={case}")).args(more);
        // For a slow machine: the soak tests have no other bound of their own.
        client.args([
            "--soak_overall_timeout_seconds=60",
            "--soak_per_iteration_max_acceptable_latency_ms=20000",
        ]);
        if case.starts_with("orca") {
            client.arg(format!("--service_config_json={ORCA}"));
        }
        let output = client.output().expect("the client runs");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        (!output.status.success()).then(|| format!("{case}: {said}"))
    };
    thread::scope(|scope| {
        let turns = CASES.chunks(5).map(|some| {
            let run = &run;
            scope.spawn(move || some.iter().filter_map(|case| run(case)).collect::<Vec<_>>())
        });
        let turns: Vec<_> = turns.collect();
        turns.into_iter().flat_map(|turn| turn.join().expect("no panic")).collect()
    })
}

fn config(server: &Server) -> String {
    format!("routes: [{{name: interop, to: \"h2c://127.0.0.1:{}\"}}]\n", server.1)
}

#[test]
fn all_cases_in_plain_text() {
    let server = Server::start();
    let gateway = Gateway::start(&config(&server));
    let failed = failures(&gateway, &[]);
    assert!(failed.is_empty(), "{}", failed.join("\n"));
    let metrics = gateway.metrics();
    let count = |code| {
        let labels = format!("route=\"interop\",grpc_status=\"{code}\"");
        metrics.sum("tollgate_grpc_requests_total", &labels).unwrap_or_default()
    };
    // status_code_and_message and special_status_message; unimplemented_method and unimplemented_service.
    assert_eq!((count(2), count(12)), (3.0, 2.0), "{metrics:?}");
    assert!(count(0) >= 25.0, "{metrics:?}");
}

#[test]
fn all_cases_over_tls() {
    let server = Server::start();
    let authority = Authority::new();
    let own = authority.issue(&["interop.example"]);
    let folder = std::env::temp_dir().join(format!("tollgate-interop-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let file = |name: &str, text: &str| {
        let path = folder.join(name);
        std::io::Write::write_all(&mut File::create(&path).expect("a file"), text.as_bytes())
            .expect("written");
        path.display().to_string()
    };
    let (certificate, key) = (file("own.pem", &own.chain), file("own.key", &own.key));
    let trusted = file("ca.pem", &authority.pem());
    let gateway = Gateway::start(&format!(
        "listen: [{{bind: $LISTEN, tls: {{certificate: {certificate}, key: {key}}}}}]\n{}",
        config(&server)
    ));
    let more = [
        "--use_tls".to_owned(),
        "--use_test_ca".to_owned(),
        format!("--ca_file={trusted}"),
        "--server_host_override=interop.example".to_owned(),
    ];
    let failed = failures(&gateway, &more);
    assert!(failed.is_empty(), "{}", failed.join("\n"));
    std::fs::remove_dir_all(&folder).expect("removed");
}
