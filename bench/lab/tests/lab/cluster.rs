//! Runs in a Kubernetes cluster: what needs no cluster, and what a run does against a small API server that refuses
//! pods. `tests/kubernetes/cluster lab` has the rest, against a real one.

use crate::bench::{Answer, Bench};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

const STUDY: &str = "
title: In a cluster
about: Any.
settings: {origin: builtin, rate: 100, seconds: 0.5, rounds: 1}
arms: {web: {kubernetes: {manifests: [web.yaml], service: web}}}
sections:
  - {title: Any, systems: [wire], points: [{}]}
  - {title: Of manifests, systems: [web], points: [{}]}
";

/// The project's own folder of systems and studies.
fn project() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

#[test]
fn the_studies_for_a_cluster_are_read_with_their_manifests() {
    let bench = Bench::new();
    for study in ["sidecar", "ingress"] {
        let file = project().join(format!("studies/kubernetes/{study}.yaml")).display().to_string();
        let run = |arguments: &[&str]| {
            Answer::from(bench.command_on(&project(), arguments).output().unwrap()).well()
        };
        let plan = run(&["run", &file, "--kubernetes", "--image", "lab:1", "--dry-run"]);
        assert!(plan.stdout.contains("as fast as answers come"), "{}", plan.stdout);
        let job = run(&["kubernetes-job", &file, "--image", "lab:1", "--", "--rounds", "2"]);
        for expected in
            ["kind: Job", "kind: ClusterRole", "--kubernetes", "nodeSelector: {tollgate.dev/bench:"]
        {
            assert!(job.stdout.contains(expected), "{expected}: {}", job.stdout);
        }
    }
}

#[test]
fn what_is_missing_for_a_cluster_is_said() {
    let bench = Bench::new();
    bench.write("mine.yaml", STUDY);
    bench.run(&["run", "mine.yaml"]).refused(1, &["manifests deploy web", "--kubernetes"]);
    // Systems of the catalogue run on this host too.
    bench.run(&["run", "mine.yaml", "--systems", "wire", "--dry-run"]).well();
    bench.run(&["run", "mine.yaml", "--kubernetes"]).refused(1, &["which image", "--image IMAGE"]);
    bench.run(&["kubernetes-job", "mine.yaml"]).refused(1, &["which image"]);
    bench.run(&["kubernetes-job", "mine.yaml", "--image", "lab:1"]).refused(1, &["web.yaml"]);
    bench.write("far.yaml", &format!("hosts: {{gateway: 10.0.0.2}}\n{STUDY}"));
    bench.run(&["run", "far.yaml", "--kubernetes", "--image", "lab:1"]).refused(1, &["exclude each other"]);
    let nowhere = ["run", "mine.yaml", "--kubernetes", "--image", "lab:1"];
    let mut command = bench.command(&nowhere);
    command.env("KUBECONFIG", bench.path("no-kubeconfig")).env("HOME", bench.path("home"));
    let answer = Answer::from(command.output().unwrap());
    answer.refused(1, &["no cluster was found"]);
}

/// A request that the API server got: its method and path.
type Log = Arc<Mutex<Vec<String>>>;

/// An API server that creates everything but pods.
struct ApiServer {
    address: SocketAddr,
    log: Log,
}

impl ApiServer {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let log = Log::default();
        let shared = Arc::clone(&log);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let log = Arc::clone(&shared);
                std::thread::spawn(move || serve(stream, &log));
            }
        });
        Self { address, log }
    }

    fn kubeconfig(&self) -> String {
        format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: c\nclusters: [{{name: c, cluster: {{server: 'http://{}'}}}}]\n\
             contexts: [{{name: c, context: {{cluster: c, user: u}}}}]\nusers: [{{name: u, user: {{token: t}}}}]\n",
            self.address
        )
    }
}

/// Answers the requests of a connection until it ends.
fn serve(stream: TcpStream, log: &Log) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let mut stream = stream;
    loop {
        let mut first = String::new();
        if reader.read_line(&mut first).unwrap_or(0) == 0 {
            return;
        }
        let mut length = 0;
        loop {
            let mut line = String::new();
            reader.read_line(&mut line).unwrap();
            if line == "\r\n" {
                break;
            }
            if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                length = value.trim().parse().unwrap();
            }
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body).unwrap();
        let (method, rest) = first.split_once(' ').unwrap();
        let path = rest.split([' ', '?']).next().unwrap();
        log.lock().unwrap().push(format!("{method} {path}"));
        let status = |code: u16, message: &str| {
            let text = format!(
                r#"{{"kind":"Status","apiVersion":"v1","status":"Failure","message":"{message}","reason":"x","code":{code}}}"#
            );
            (code, text)
        };
        let (code, text) = match method {
            "GET" if path == "/version" => {
                let keys = [
                    "buildDate",
                    "compiler",
                    "gitCommit",
                    "gitTreeState",
                    "gitVersion",
                    "goVersion",
                    "major",
                    "minor",
                    "platform",
                ];
                let keys: Vec<String> = keys.iter().map(|key| format!(r#""{key}":"1""#)).collect();
                (200, format!("{{{}}}", keys.join(",")))
            }
            "GET" if path.ends_with("/serviceaccounts/default") => (
                200,
                r#"{"kind":"ServiceAccount","apiVersion":"v1","metadata":{"name":"default"}}"#.to_owned(),
            ),
            "POST" if path.ends_with("/pods") => status(403, "pods are forbidden: the quota is used up"),
            "POST" => (201, String::from_utf8(body).unwrap()),
            "DELETE" => {
                (200, r#"{"kind":"Status","apiVersion":"v1","status":"Success","code":200}"#.to_owned())
            }
            _ => status(404, "not found"),
        };
        let answer = format!(
            "HTTP/1.1 {code} X\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{text}",
            text.len()
        );
        if stream.write_all(answer.as_bytes()).is_err() {
            return;
        }
    }
}

#[test]
fn what_was_created_is_deleted_after_an_error() {
    let bench = Bench::new();
    let server = ApiServer::start();
    bench.write("kubeconfig", &server.kubeconfig());
    bench.write("mine.yaml", &format!("kubernetes: {{namespace: lab-test, image: 'lab:1'}}\n{STUDY}"));
    let mut command =
        bench.command(&["run", "mine.yaml", "--kubernetes", "--systems", "wire", "--out", "r.jsonl"]);
    let answer = Answer::from(command.env("KUBECONFIG", bench.path("kubeconfig")).output().unwrap());
    answer.refused(1, &["Pod client: pods are forbidden: the quota is used up"]);
    bench.no_process_is_left();
    let log = server.log.lock().unwrap().clone();
    let at = |request: &str| {
        log.iter().position(|line| line == request).unwrap_or_else(|| panic!("{request}: {log:?}"))
    };
    let created = at("POST /api/v1/namespaces");
    assert!(created < at("POST /api/v1/namespaces/lab-test/secrets"));
    assert!(at("POST /api/v1/namespaces/lab-test/pods") < at("DELETE /api/v1/namespaces/lab-test"));
    // The pods were not created, so their deletion is not asked for.
    assert!(!log.iter().any(|line| line.starts_with("DELETE") && line.contains("/pods/")), "{log:?}");
    assert!(log.last().is_some_and(|line| line.starts_with("GET")), "it waits until they are gone: {log:?}");
}
