//! Tests that a system's own counters of its workers are read at both ends of a trial, here and at an agent, and stand
//! in the report.

use crate::agents::{agent, key};
use crate::bench::{Bench, LAB, reason};
use std::fs;
use tollgate_lab_record::Workers;

/// A relay with two workers, as its metrics say.
const SYSTEM: &str = r#"title: The counted wire
about: A relay, and a page of metrics beside it.
homepage: https://www.rfc-editor.org/
ready_within_seconds: 30
programs:
  lab: {paths: ["LAB"]}
  python: {names: [python3]}
version:
  command: ["{{ programs.lab }}", --version]
  pattern: '([0-9]+\.[0-9.]+)'
files:
  - {template: link.json.j2, to: link.json}
start:
  command: ["{{ programs.python }}", "{{ system }}/metrics.py", "{{ programs.lab }}", "{{ folder }}/link.json",
            "{{ host }}", "{{ admin_port }}"]
features: [statistics]
workers:
  path: /metrics
  connections: open_connections
  requests: requests_total
  between: {messages: messages_total}
missing: {reason: It needs Python 3., get: apt-get install python3}
"#;

const LINK: &str = r#"{"listen": "{{ host }}:{{ port }}", "to": "{{ origins[0].host }}:{{ origins[0].port }}",
"round_trip_ms": 0, "bytes_per_second": 1e12}
"#;

/// Each reading finds 30 more requests of the first worker, 10 more of the second, and 5 more messages.
const METRICS: &str = r#"
import http.server
import subprocess
import sys

readings = 0


class Page(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        global readings
        readings += 1
        text = (
            "open_connections{worker=\"0\"} 3\nopen_connections{worker=\"1\"} 1\n"
            f"requests_total{{worker=\"0\"}} {readings * 30}\nrequests_total{{worker=\"1\"}} {readings * 10}\n"
            f"messages_total {readings * 5}\n"
        ).encode()
        self.send_response(200 if self.path == "/metrics" else 404)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *_):
        pass


page = http.server.HTTPServer((sys.argv[3], int(sys.argv[4])), Page)
# The relay is what the laboratory waits for, so the page listens before.
subprocess.Popen([sys.argv[1], "relay", sys.argv[2]])
page.serve_forever()
"#;

fn bench() -> Bench {
    let bench = Bench::new();
    bench.write("data/systems/counted/system.yaml", &SYSTEM.replace("LAB", LAB));
    bench.write("data/systems/counted/link.json.j2", LINK);
    bench.write("data/systems/counted/metrics.py", METRICS);
    bench
}

fn study(hosts: &str) -> String {
    format!(
        "
title: Balance
about: Any.
{hosts}
analyses: [{{kind: scaling, section: Workers}}]
# One request at a time is no part's limit, however busy the machine is.
settings: {{origin: builtin, connections: 1, seconds: 0.5, rounds: 2, warm_up: 0, features: [statistics]}}
sections:
  - title: Workers
    systems: [counted]
    axis: workers
    points: [{{set: {{workers: 1}}}}, {{set: {{workers: 2}}}}, {{set: {{workers: 4000, target_cores: 4000}}}}]
"
    )
}

fn counted() -> Workers {
    Workers {
        connections: vec![3, 1],
        accepted: Vec::new(),
        requests: vec![30, 10],
        between: [("messages".to_owned(), 5)].into(),
    }
}

#[test]
fn the_counters_of_workers_are_those_of_the_trial() {
    let bench = bench();
    bench.study("balance", &study(""));
    let answer = bench.run(&["run", "balance", "--out", "r.jsonl", "--markdown", "r.md"]).well();
    let left_out = "4000 workers on 4000 cores are left out";
    assert!(answer.stderr.contains(left_out), "{}", answer.stderr);
    let results = bench.results("r.jsonl");
    assert_eq!(results.cells.len(), 2);
    for trial in &results.trials {
        assert_eq!(reason(trial), None, "{}", trial.system);
        let expected = (trial.cell == "1-2").then(counted);
        assert_eq!(trial.evidence.workers, expected, "one worker shares with none");
    }
    let report = fs::read_to_string(bench.path("r.md")).unwrap();
    let row = report.lines().find(|line| line.contains("The counted wire") && line.contains("messages"));
    let row = row.unwrap_or_else(|| panic!("{report}"));
    // 3 of 4 connections, and 30 of 40 requests, at one of 2 workers.
    assert!(row.contains("| 1.50 | - | 1.50 |"), "{row}");
}

#[test]
fn the_counters_of_workers_are_read_at_an_agent() {
    let bench = bench();
    let key = key(&bench, "lab.pem");
    let gateway = agent(&bench, &key, None, "127.0.0.1:0");
    bench.study("balance", &study(&format!("hosts: {{gateway: '{}'}}", gateway.address)));
    let answer = bench.command(&["run", "balance", "--out", "r.jsonl", "--key", &key]).output().unwrap();
    assert!(answer.status.success(), "{}", String::from_utf8_lossy(&answer.stderr));
    let results = bench.results("r.jsonl");
    let of_two: Vec<_> = results.trials.iter().filter(|trial| trial.cell == "1-2").collect();
    assert_eq!(of_two.len(), 2);
    for trial in of_two {
        assert_eq!(reason(trial), None, "{}", trial.system);
        assert_eq!(trial.evidence.workers, Some(counted()));
    }
    drop(gateway);
    bench.no_process_is_left();
}
