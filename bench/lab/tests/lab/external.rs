//! Tests gateways that already run: the load reaches them, their CPU time comes from each kind of source, and
//! a report without it says so.

use crate::bench::{Bench, LAB, reason};
use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};
use tollgate_lab_origin::{Link, Settings};

/// A process that is killed when dropped.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn port() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

fn start(arguments: &[&str], listens: SocketAddr) -> Running {
    let mut command = Command::new(LAB);
    let child = Running(command.args(arguments).stdout(Stdio::null()).spawn().unwrap());
    let begun = Instant::now();
    while TcpStream::connect(listens).is_err() {
        assert!(begun.elapsed() < Duration::from_secs(10), "{arguments:?} does not listen");
        sleep(Duration::from_millis(10));
    }
    child
}

/// An origin and a gateway in front of it, as their user runs them.
struct Site {
    origin: SocketAddr,
    gateway: SocketAddr,
    of_gateway: Running,
    _of_origin: Running,
}

impl Site {
    fn new(bench: &Bench) -> Self {
        let (origin, control, gateway) = (port(), port(), port());
        let mut settings = Settings::new(origin, control);
        settings.response_bytes = 77;
        bench.write("origin.json", &serde_json::to_string(&settings).unwrap());
        let of_origin = start(&["origin", bench.path("origin.json").to_str().unwrap()], control);
        let link = Link { listen: gateway, to: origin, round_trip_ms: 0.0, bytes_per_second: 1e12 };
        bench.write("link.json", &serde_json::to_string(&link).unwrap());
        let of_gateway = start(&["relay", bench.path("link.json").to_str().unwrap()], gateway);
        Self { origin, gateway, of_gateway, _of_origin: of_origin }
    }

    fn study(&self, cpu: &str) -> String {
        format!(
            "
title: My own gateway
about: It runs already.
target: http://{}/any
{cpu}
origin: http://{}/any
baseline: direct
settings: {{connections: 4, rate: 400, seconds: 1, rounds: 2, warm_up: 0.2}}
sections: [{{title: As it is, systems: [direct, target], points: [{{}}]}}]
",
            self.gateway, self.origin
        )
    }
}

/// Runs a study and returns the costs of `target`, in microseconds a request, and the Markdown.
#[track_caller]
fn costs(bench: &Bench, study: &str) -> (Vec<f64>, String) {
    bench.write("mine.yaml", study);
    let run = ["run", "mine.yaml", "--fresh", "--out", "r.jsonl", "--markdown", "r.md"];
    let answer = bench.command(&run).output().unwrap();
    assert!(answer.status.success(), "{}", String::from_utf8_lossy(&answer.stderr));
    let results = bench.results("r.jsonl");
    let trials: Vec<_> = results.trials.iter().filter(|trial| trial.system == "target").collect();
    assert_eq!(trials.len(), 2);
    for trial in &trials {
        assert_eq!(reason(trial), None);
        assert!(trial.load.as_ref().unwrap().ok > 100, "{:?}", trial.load);
    }
    assert!(results.ceilings.is_empty(), "an origin that is not ours is not driven at full speed");
    // On a busy machine a rate may not be kept, and then it has no cost.
    let costs = trials.iter().filter_map(|trial| trial.cost).map(|cost| cost.total_us()).collect();
    (costs, fs::read_to_string(bench.path("r.md")).unwrap())
}

#[test]
fn a_process_of_this_host_is_charged() {
    let bench = Bench::new();
    let site = Site::new(&bench);
    let (costs, report) = costs(&bench, &site.study(&format!("cpu: {{pid: {}}}", site.of_gateway.0.id())));
    assert!(!costs.is_empty() && costs.iter().sum::<f64>() > 0.0, "{costs:?}");
    assert!(report.contains("Its CPU time is read from process"), "{report}");
}

#[test]
fn a_process_is_read_over_ssh() {
    let bench = Bench::new();
    let site = Site::new(&bench);
    // An `ssh` that reaches this host.
    bench.program("ssh", "#!/bin/sh\nwhile [ \"$1\" = -o ]; do shift 2; done\n[ \"$1\" = far ] || exit 9\nshift\nexec \"$@\"\n");
    let pid = site.of_gateway.0.id();
    let (costs, report) = costs(&bench, &site.study(&format!("cpu: {{ssh: far, pid: {pid}}}")));
    // The kernel counts in ticks here, so a gateway that forwards bytes may use none.
    assert!(!costs.is_empty() && costs.iter().all(|cost| *cost >= 0.0), "{costs:?}");
    assert!(report.contains("on far, over ssh"), "{report}");
    bench.no_process_is_left();
}

#[test]
fn a_counter_of_prometheus_is_read() {
    let bench = Bench::new();
    let site = Site::new(&bench);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        // Half a second more at each reading.
        for (number, stream) in listener.incoming().flatten().enumerate() {
            let mut stream = stream;
            let mut head = vec![0; 1024];
            let mut got = 0;
            while !head[..got].ends_with(b"\r\n\r\n") {
                got += stream.read(&mut head[got..]).unwrap();
            }
            let head = String::from_utf8_lossy(&head[..got]).into_owned();
            assert!(head.starts_with("GET /api/v1/query?query=sum(cpu) HTTP/1.1\r\n"), "{head}");
            let seconds = number as f64 * 0.5;
            let body = format!(r#"{{"data":{{"result":[{{"metric":{{}},"value":[1,"{seconds}"]}}]}}}}"#);
            let _ = write!(stream, "HTTP/1.0 200 OK\r\n\r\n{body}");
        }
    });
    let (costs, _) =
        costs(&bench, &site.study(&format!("cpu: {{prometheus: 'http://{address}', query: sum(cpu)}}")));
    // Half a second over some 400 requests.
    assert!(costs.iter().all(|cost| (1_000.0..5_000.0).contains(cost)), "{costs:?}");
}

#[test]
fn without_a_source_no_toll_is_shown_and_the_report_says_so() {
    let bench = Bench::new();
    let site = Site::new(&bench);
    let (none, report) = costs(&bench, &site.study(""));
    assert!(none.is_empty(), "{none:?}");
    assert!(report.contains("Its CPU time is not read, so no toll is shown."), "{report}");

    let closed = site.study("").replace("rate: 400, ", "");
    let (none, _) = costs(&bench, &closed);
    assert!(none.is_empty(), "{none:?}");
}

#[test]
fn a_source_that_names_another_process_shows_no_toll_of_zero() {
    let bench = Bench::new();
    let site = Site::new(&bench);
    let idle = Running(Command::new("sleep").arg("1000").spawn().unwrap());
    // From 4,000 answers on, the clock's resolution does not explain a missing CPU time.
    let study = site
        .study(&format!("cpu: {{pid: {}}}", idle.0.id()))
        .replace("rate: 400, seconds: 1, rounds: 2", "requests: 4500, rounds: 1");
    bench.write("mine.yaml", &study);
    bench.run(&["run", "mine.yaml", "--out", "r.jsonl"]).well();
    let results = bench.results("r.jsonl");
    let trial = results.trials.iter().find(|trial| trial.system == "target").unwrap();
    assert!(trial.load.as_ref().unwrap().ok >= 4_500, "{trial:?}");
    let reason = reason(trial).unwrap_or_else(|| panic!("{trial:?}"));
    assert!(reason.contains("other processes than the counted ones served them"), "{reason}");
}

#[test]
fn requests_of_a_gateway_that_runs_are_not_sought_at_the_laboratorys_origin() {
    let bench = Bench::new();
    let site = Site::new(&bench);
    let study = site.study("").replace("systems: [direct, target]", "systems: [wire, target]");
    let own = format!("origin: http://{}/any\n", site.origin);
    let study = study.replace(&own, "").replace("baseline: direct", "baseline: wire");
    bench.write("mine.yaml", &study);
    bench.run(&["run", "mine.yaml", "--out", "r.jsonl"]).well();
    let results = bench.results("r.jsonl");
    for trial in &results.trials {
        assert_eq!(reason(trial), None, "{trial:?}");
        assert_eq!(trial.evidence.upstream.requests.is_some(), trial.system == "wire", "{trial:?}");
    }
    assert_eq!(results.trials.len(), 4);
}

#[test]
fn what_cannot_be_reached_is_a_row_with_its_reason() {
    let bench = Bench::new();
    let site = Site::new(&bench);
    let nobody = port();
    let study = site.study("cpu: {pid: 99999999}").replace(&site.gateway.to_string(), &nobody.to_string());
    let missing = |study: &str| {
        bench.write("mine.yaml", study);
        bench.run(&["run", "mine.yaml", "--fresh", "--out", "r.jsonl"]).well();
        let results = bench.results("r.jsonl");
        let target = results.systems.into_iter().find(|system| system.name == "target").unwrap();
        target.missing.unwrap().reason
    };
    assert!(missing(&study).contains("refused"), "{}", missing(&study));
    let wrong = missing(&site.study("cpu: {pid: 99999999}"));
    assert!(wrong.contains("the CPU time of process 99999999"), "{wrong}");

    bench.write("mine.yaml", &site.study("cpu: {pid: 1, unit: a}"));
    bench
        .run(&["run", "mine.yaml"])
        .refused(1, &["mine.yaml:5:", "expected one of `pid`, `cgroup`, `unit` and `pod`"]);
    bench.write("mine.yaml", &site.study("").replace("target: http", "target: ftp"));
    bench.run(&["run", "mine.yaml"]).refused(1, &["mine.yaml:4:", "the scheme `ftp` is not supported"]);
}

/// Creates a self-signed certificate of an elliptic curve in a folder.
fn certificate(folder: &Path, key: &str, file: &str) {
    let made = Command::new("openssl")
        .args([
            "req",
            "-x509",
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:P-256",
            "-nodes",
            "-days",
            "2",
        ])
        .args(["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"])
        .args(["-keyout", key, "-out", file])
        .current_dir(folder)
        .output()
        .unwrap();
    assert!(made.status.success(), "{made:?}");
}

/// Starts an nginx with TLS in the folder `tls` of a test. `listen` are options of its listener, `http` is
/// configuration, and `answer` the body of its answers. `None` if the programs are missing.
fn nginx_with_tls(bench: &Bench, listen: &str, http: &str, answer: &str) -> Option<(Running, SocketAddr)> {
    let (Some(nginx), Some(_)) = (program("nginx"), program("openssl")) else {
        eprintln!("SKIPPED: nginx and openssl are needed");
        return None;
    };
    let at = port();
    let folder = bench.path("tls");
    fs::create_dir_all(&folder).unwrap();
    certificate(&folder, "key.pem", "cert.pem");
    let path = folder.display();
    bench.write(
        "tls/nginx.conf",
        &format!(
            "daemon off; master_process off; pid {path}/pid; error_log {path}/error.log; events {{}} http {{ access_log off; \
             client_body_temp_path {path}/b; proxy_temp_path {path}/p; fastcgi_temp_path {path}/f; \
             uwsgi_temp_path {path}/u; scgi_temp_path {path}/s; {http} server {{ listen {at} ssl {listen}; \
             ssl_protocols TLSv1.3; ssl_certificate {path}/cert.pem; ssl_certificate_key {path}/key.pem; \
             location / {{ return 200 {answer}; }} }} }}"
        ),
    );
    let nginx = Running(Command::new(nginx).arg("-c").arg(folder.join("nginx.conf")).spawn().unwrap());
    let begun = Instant::now();
    while TcpStream::connect(at).is_err() {
        assert!(begun.elapsed() < Duration::from_secs(10));
        sleep(Duration::from_millis(10));
    }
    Some((nginx, at))
}

#[test]
fn wrong_answers_over_http_2_alone_are_found_beside_a_tool_with_http_2() {
    let bench = Bench::new();
    // The same body over HTTP/1.1, another one for each request of a connection over HTTP/2.
    let http = "keepalive_requests 1000000000; map $server_protocol $answer { default 1; HTTP/2.0 $connection_requests; }";
    let Some((_nginx, at)) = nginx_with_tls(&bench, "http2", http, "$answer") else { return };
    if program("h2load").is_none() {
        eprintln!("SKIPPED: h2load is needed");
        return;
    }
    let study = format!(
        "
title: With HTTP/2
about: It runs already.
target: https://localhost:{}/
settings: {{features: [tls], http: 2, streams: 2, tool: h2load, connections: 2, seconds: 1, rounds: 1, warm_up: 0}}
sections: [{{title: As it is, systems: [target], points: [{{}}]}}]
",
        at.port()
    );
    bench.write("mine.yaml", &study);
    bench.run(&["run", "mine.yaml", "--out", "r.jsonl"]).well();
    let results = bench.results("r.jsonl");
    let trial = results.trials.iter().find(|trial| trial.system == "target").unwrap();
    let load = trial.load.as_ref().unwrap();
    assert!(load.ok > 0 && load.failures.total() == 0, "the tool saw nothing: {load:?}");
    let reason = reason(trial).unwrap_or_else(|| panic!("{trial:?}"));
    assert!(reason.contains("verified requests before and after h2load's"), "{reason}");
    assert!(reason.contains("a body with other bytes"), "{reason}");
}

#[test]
fn a_gateway_with_tls_is_expected_to_keep_its_certificate() {
    let bench = Bench::new();
    let Some((nginx, at)) = nginx_with_tls(&bench, "", "", "ok") else { return };
    let folder = bench.path("tls");
    let path = folder.display();
    let study = format!(
        "
title: With TLS
about: It runs already.
target: https://localhost:{}/
cpu: {{pid: {}}}
settings: {{connections: 2, rate: 100, seconds: 0.5, rounds: 2, warm_up: 0}}
sections: [{{title: As it is, systems: [direct, target], points: [{{}}]}}]
",
        at.port(),
        nginx.0.id()
    );
    bench.write("mine.yaml", &study);
    bench.run(&["run", "mine.yaml", "--out", "r.jsonl"]).well();
    let results = bench.results("r.jsonl");
    let target = results.systems.iter().find(|system| system.name == "target").unwrap();
    assert_eq!(target.missing, None);
    assert!(results.trials.iter().all(|trial| trial.system == "target"));
    assert_eq!(
        results.trials.iter().filter(|trial| reason(trial).is_none()).count(),
        2,
        "{:?}",
        results.trials
    );
    let direct = results.systems.iter().find(|system| system.name == "direct").unwrap();
    assert!(direct.missing.as_ref().unwrap().reason.contains("names no `origin: URL`"));
    // A certificate that it does not present.
    certificate(&folder, "other-key.pem", "other.pem");
    let pinned = study.replace("cpu:", &format!("certificate: {path}/other.pem\ncpu:"));
    bench.write("mine.yaml", &pinned);
    bench.run(&["run", "mine.yaml", "--fresh", "--out", "r.jsonl"]).well();
    assert!(bench.results("r.jsonl").trials.iter().all(|trial| reason(trial).is_some()));
    drop(nginx);
}

fn program(name: &str) -> Option<std::path::PathBuf> {
    ["/usr/sbin", "/usr/bin", "/usr/local/bin"]
        .map(|folder| Path::new(folder).join(name))
        .into_iter()
        .find(|file| file.is_file())
}
