//! Tests the generator, the origin and the link alone, as processes that JSON files describe.

use crate::bench::Bench;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};
use tollgate_lab_load::Done;
use tollgate_lab_meter::ports::free_ports;
use tollgate_lab_record::{LoadModel, LoadResult};

/// An origin that ends with the test.
pub struct Origin {
    child: Child,
    pub port: u16,
    control: u16,
}

impl Drop for Origin {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Origin {
    /// Starts an origin; `more` has all settings but the addresses, each after a comma.
    pub fn start(bench: &Bench, more: &str) -> Self {
        let [port, control] = free_ports(2).unwrap()[..] else { panic!("two ports") };
        let text = format!(r#"{{"listen": "127.0.0.1:{port}", "control": "127.0.0.1:{control}"{more}}}"#);
        bench.write("origin.json", &text);
        let child = bench.command(&["origin", "origin.json"]).stdout(Stdio::null()).spawn().unwrap();
        let origin = Self { child, port, control };
        let started = Instant::now();
        while TcpStream::connect(("127.0.0.1", control)).is_err() {
            assert!(started.elapsed() < Duration::from_secs(20), "the origin does not listen");
            sleep(Duration::from_millis(10));
        }
        origin
    }

    fn counters(&self) -> serde_json::Value {
        self.asked("/counters")
    }

    /// Returns the answer of the control port.
    pub fn asked(&self, path: &str) -> serde_json::Value {
        let mut stream = TcpStream::connect(("127.0.0.1", self.control)).unwrap();
        stream.write_all(format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n").as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        serde_json::from_str(answer.split_once("\r\n\r\n").unwrap().1).unwrap()
    }
}

/// Runs a plan; `more` has all fields but the target.
#[track_caller]
fn load(bench: &Bench, port: u16, more: &str) -> LoadResult {
    bench.write("plan.json", &format!(r#"{{"target": "127.0.0.1:{port}", {more}}}"#));
    let output = bench.command(&["load", "plan.json"]).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[..lines.len() - 1], ["measuring", "measured"]);
    let done: Done = serde_json::from_str(lines[lines.len() - 1]).unwrap();
    assert!(done.used.cpu_us() > 0.0, "{:?}", done.used);
    done.load
}

#[test]
fn what_the_generator_verified_is_what_the_origin_counted() {
    let bench = Bench::new();
    let origin = Origin::start(&bench, r#", "response_bytes": 1000, "threads": 2"#);
    let result = load(
        &bench,
        origin.port,
        r#""connections": 8, "length": {"requests": 5000}, "requests": [{"path": "/a"}]"#,
    );
    assert_eq!((result.ok, result.failures.total(), result.sent), (5_000, 0, Some(5_000)));
    assert_eq!(result.body_bytes, Some(5_000_000));
    assert_eq!(
        result.statuses.iter().map(|(status, count)| (*status, *count)).collect::<Vec<_>>(),
        [(200, 5_000)]
    );
    let counted = origin.counters();
    assert_eq!((counted["requests"].as_u64(), counted["connections"].as_u64()), (Some(5_000), Some(8)));

    let result = load(
        &bench,
        origin.port,
        r#""connections": 4, "keep_alive": false, "length": {"requests": 200}, "model": {"kind": "constant", "rps": 2000}"#,
    );
    assert_eq!((result.ok, result.failures.total()), (200, 0));
    assert_eq!(result.model, LoadModel::Constant { rps: 2_000.0 });
    assert_eq!(result.response_time.as_ref().map(|times| times.count), Some(200));
    let counted = origin.counters();
    assert_eq!((counted["requests"].as_u64(), counted["connections"].as_u64()), (Some(5_200), Some(208)));
    assert_eq!(counted["closed_by_request"].as_u64(), Some(200));
}

#[test]
fn answers_that_are_not_as_expected_are_counted_by_kind() {
    let bench = Bench::new();
    let origin = Origin::start(&bench, r#", "response_bytes": 10, "status": 503"#);
    let with = |expect: &str| {
        load(
            &bench,
            origin.port,
            &format!(r#""length": {{"requests": 20}}, "requests": [{{"path": "/", "expect": {expect}}}]"#),
        )
    };
    let status = with(r#"{"status": 200}"#);
    assert_eq!((status.ok, status.failures.status), (0, 20));
    let length = with(r#"{"status": 503, "length": 11}"#);
    assert_eq!((length.ok, length.failures.length), (0, 20));
    let digest = with(r#"{"status": 503, "length": 10, "digest": 1}"#);
    assert_eq!((digest.ok, digest.failures.body), (0, 20));
    assert_eq!(with(r#"{"status": 503, "length": 10}"#).ok, 20);
}

#[test]
fn a_plan_or_a_setting_that_cannot_be_is_refused_by_name() {
    let bench = Bench::new();
    let refused = |what: &str, text: &str, words: &[&str]| {
        bench.write("p.json", text);
        bench.run(&[what, "p.json"]).refused(1, words);
    };
    refused("load", "{}", &["p.json: missing field `target`"]);
    refused(
        "load",
        r#"{"target": "127.0.0.1:1", "conections": 3}"#,
        &["p.json: unknown field `conections`", "line 1"],
    );
    refused(
        "load",
        r#"{"target": "127.0.0.1:1", "connections": 0}"#,
        &["load plan: ", "expected at least one"],
    );
    refused(
        "load",
        r#"{"target": "127.0.0.1:1"}"#,
        &["cannot connect to 127.0.0.1:1", "is the server listening"],
    );
    refused(
        "origin",
        r#"{"listen": "127.0.0.1:0", "control": "127.0.0.1:0", "status": 7}"#,
        &["`status` is 7: expected"],
    );
    refused(
        "relay",
        r#"{"listen": "127.0.0.1:0", "to": "127.0.0.1:1", "round_trip_ms": -1, "bytes_per_second": 1e6}"#,
        &["`round_trip_ms` is -1: expected"],
    );
}

#[test]
fn a_port_that_is_taken_is_said() {
    let bench = Bench::new();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    bench.write("o.json", &format!(r#"{{"listen": "{address}", "control": "127.0.0.1:0"}}"#));
    bench
        .run(&["origin", "o.json"])
        .refused(1, &[&format!("cannot listen on {address}"), "is another server there?"]);
}
