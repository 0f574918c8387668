//! Tests `tollgate bench load --replay`: the gateway's access log, and HAR files.

use crate::bench::Bench;
use crate::load_url::{load, ok, server};
use std::time::Instant;
use tollgate_lab_record::LoadModel;

#[test]
fn an_access_log_is_repeated_with_its_hosts_paths_sizes_and_statuses() {
    let bench = Bench::new();
    let (address, seen) = server(|asked| {
        if asked.line.starts_with("GET /gone") {
            "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n".to_owned()
        } else {
            ok("fine")
        }
    });
    let line = |millisecond: u32, method: &str, path: &str, host: &str, status: u16, bytes: u32| {
        format!(
            r#"{{"time":"2026-01-31T23:59:59.{millisecond:03}Z","client":"192.0.2.7","method":"{method}","path":"{path}","query":null,"host":"{host}","status":{status},"bytes_in":{bytes},"bytes_out":4,"total_ms":0.5,"user_agent":"curl/8"}}"#
        )
    };
    let lines = [
        line(100, "GET", "/a", "one.test", 200, 0),
        line(150, "POST", "/b", "two.test", 200, 9),
        // The server answers otherwise than it is recorded.
        line(200, "GET", "/gone", "one.test", 200, 0),
        line(250, "GET", "/gone", "one.test", 404, 0),
        r#"{"time":"2026-01-31T23:59:59.260Z","method":null,"status":400,"total_ms":0}"#.to_owned(),
    ];
    bench.write("access.log", &(lines.join("\n") + "\n"));
    let url = format!("http://{address}/ignored");
    let (result, answer) = load(&bench, &[&url, "--replay", "access.log", "-c", "2"]);
    assert_eq!((result.ok, result.failures.status, result.failures.total()), (3, 1, 1));
    assert!(answer.stderr.contains("access.log: 1 entries cannot be repeated"), "{}", answer.stderr);
    assert!(answer.stderr.contains("a recording of 4 requests"), "{}", answer.stderr);
    let mut asked: Vec<String> = seen
        .lock()
        .unwrap()
        .iter()
        .map(|asked| format!("{} {} {}", asked.line, asked.fields["host"], asked.body.len()))
        .collect();
    asked.sort();
    assert_eq!(
        asked,
        [
            "GET /a HTTP/1.1 one.test 0",
            "GET /gone HTTP/1.1 one.test 0",
            "GET /gone HTTP/1.1 one.test 0",
            "POST /b HTTP/1.1 two.test 9"
        ]
    );
    assert!(seen.lock().unwrap().iter().all(|asked| asked.fields["user-agent"] == "curl/8"));
}

#[test]
fn the_times_of_a_recording_are_kept_and_a_speed_divides_them() {
    let bench = Bench::new();
    let (address, seen) = server(|_| ok("fine"));
    let line = |second: u32| {
        format!(
            r#"{{"time":"2026-01-31T23:59:0{second}Z","method":"GET","path":"/","status":200,"total_ms":0}}"#
        )
    };
    bench.write("access.log", &[line(0), line(1), line(2), line(3)].join("\n"));
    let url = format!("http://{address}/");
    let started = Instant::now();
    let (result, _) = load(&bench, &[&url, "--replay", "access.log", "--speed", "4", "-c", "1"]);
    // Three gaps of a second and a last one of their mean, four times as fast.
    assert!(started.elapsed().as_secs_f64() >= 0.75);
    assert_eq!((result.ok, result.seconds), (4, 1.0));
    assert_eq!(result.model.rps(), Some(4.0));
    // A longer duration repeats it.
    let (result, _) =
        load(&bench, &[&url, "--replay", "access.log", "--speed", "40", "-z", "250ms", "-c", "1"]);
    assert_eq!(result.ok, 10);
    assert_eq!(seen.lock().unwrap().len(), 14);
}

#[test]
fn a_har_file_is_repeated_with_its_headers_and_bodies() {
    let bench = Bench::new();
    let (address, seen) = server(|_| ok("fine"));
    bench.write(
        "site.har",
        r#"{"log": {"version": "1.2", "entries": [
          {"startedDateTime": "2026-03-01T09:00:00.000Z", "time": 1, "request": {"method": "GET", "url": "https://a.test/x?y=1",
            "headers": [{"name": "accept", "value": "text/html"}, {"name": "Connection", "value": "keep-alive"}]}, "response": {"status": 200}},
          {"startedDateTime": "2026-03-01T09:00:00.020Z", "time": 1, "request": {"method": "POST", "url": "https://a.test/save",
            "headers": [], "postData": {"mimeType": "text/plain", "text": "hello"}}, "response": {"status": 200}}]}}"#,
    );
    let (result, _) =
        load(&bench, &[&format!("http://{address}/"), "--replay", "site.har", "-H", "X-Test: yes"]);
    assert_eq!((result.ok, result.failures.total()), (2, 0));
    let mut seen = seen.lock().unwrap().clone();
    seen.sort_by(|a, b| a.line.cmp(&b.line));
    assert_eq!((seen[0].line.as_str(), seen[0].fields["host"].as_str()), ("GET /x?y=1 HTTP/1.1", "a.test"));
    assert_eq!(seen[0].fields["accept"], "text/html");
    assert!(!seen[0].fields.contains_key("connection"));
    assert_eq!((seen[1].line.as_str(), seen[1].body.as_str()), ("POST /save HTTP/1.1", "hello"));
    assert!(seen.iter().all(|asked| asked.fields["x-test"] == "yes"));
}

#[test]
fn a_study_repeats_a_recording_against_every_system() {
    let bench = Bench::new();
    let line = |millisecond: u32, method: &str, bytes: u32, answer: &str| {
        format!(
            r#"{{"time":"2026-01-31T23:59:59.{millisecond:03}Z","method":"{method}","path":"/mine","host":"my.test","bytes_in":{bytes},"total_ms":0,{answer}}}"#
        )
    };
    let (large, none) = (r#""status":404,"bytes_out":70000"#, r#""status":204,"bytes_out":0"#);
    bench.write(
        "access.log",
        &[line(0, "GET", 0, large), line(10, "POST", 5, none), line(20, "HEAD", 0, large)].join("\n"),
    );
    let study = "
title: My traffic
about: A recording.
settings: {origin: builtin, rounds: 1, warm_up: 0.1, seconds: 0.3, connections: 4}
sections:
  - title: Replayed
    systems: [direct, wire]
    settings: {replay: access.log, replay_speed: 0.5}
    points: [{title: At half the speed}]
";
    bench.study("mine", study);
    bench.run(&["run", "mine", "--out", "r.jsonl"]).well();
    let results = bench.results("r.jsonl");
    for name in ["direct", "wire"] {
        let trial = results.trials.iter().find(|trial| trial.system == name).unwrap();
        let load = trial.load.as_ref().unwrap();
        // Three requests in 60 ms. The origin gives the recorded answers.
        assert_eq!(load.model, LoadModel::Constant { rps: 50.0 });
        assert_eq!((load.ok, load.failures.total()), (15, 0), "{name}: {load:?}");
        assert_eq!(load.statuses, [(404, 10), (204, 5)].into(), "{name}");
        assert_eq!(load.body_bytes, Some(5 * 70_000), "{name}");
    }
    for (wrong, words) in [
        ("replay: access.log", "rate: 5, replay: access.log"),
        ("replay_speed: 0.5", "replay_speed: 0"),
        ("replay: access.log", "replay: access.log, tool: wrk"),
    ] {
        bench.study("wrong", &study.replace(wrong, words));
        bench.run(&["run", "wrong"]).refused(1, &["replay"]);
    }
}

#[test]
fn what_is_no_recording_is_refused_with_its_line() {
    let bench = Bench::new();
    bench.write("access.log", "192.0.2.7 - - [31/Jan/2026:23:59:59 +0000] \"GET / HTTP/1.1\" 200 5\n");
    let url = "http://127.0.0.1:1/";
    bench
        .run(&["load", url, "--replay", "access.log"])
        .refused(1, &["access.log: line 1: expected a line of the gateway's access log with `format: json`"]);
    bench.run(&["load", url, "--replay", "none.log"]).refused(1, &["none.log: No such file"]);
    bench.run(&["load", url, "--speed", "2"]).refused(2, &["--replay"]);
}
