//! Tests `tollgate bench load URL`: what is sent, what is shown, and how it ends. Counts decide; no test
//! depends on a speed.

use crate::bench::{Answer, Bench};
use crate::parts::Origin;
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, Mutex};
use std::thread;
use tollgate_lab_load::Done;
use tollgate_lab_record::{LoadModel, LoadResult};

/// A request as it arrived: its first line, its fields, its body.
#[derive(Debug, Clone)]
pub struct Asked {
    pub line: String,
    pub fields: BTreeMap<String, String>,
    pub body: String,
}

type Seen = Arc<Mutex<Vec<Asked>>>;

/// Starts a server that remembers requests and answers with `answer`: a whole response.
pub fn server(answer: impl Fn(&Asked) -> String + Send + Sync + 'static) -> (SocketAddr, Seen) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let seen = Seen::default();
    let (kept, answer) = (Arc::clone(&seen), Arc::new(answer));
    // The threads end with the test's process.
    thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let (kept, answer) = (Arc::clone(&kept), Arc::clone(&answer));
            thread::spawn(move || {
                let mut input = BufReader::new(stream.try_clone().ok()?);
                let mut output = stream;
                while let Some(asked) = request(&mut input) {
                    kept.lock().unwrap().push(asked.clone());
                    output.write_all(answer(&asked).as_bytes()).ok()?;
                }
                Some(())
            });
        }
    });
    (address, seen)
}

/// Reads a request; `None` at the end of the connection.
pub fn request(input: &mut impl BufRead) -> Option<Asked> {
    let mut lines = Vec::new();
    loop {
        let mut line = String::new();
        if input.read_line(&mut line).ok()? == 0 {
            return None;
        }
        match line.trim_end() {
            "" => break,
            text => lines.push(text.to_owned()),
        }
    }
    let fields: BTreeMap<String, String> = lines[1..]
        .iter()
        .filter_map(|line| line.split_once(':'))
        .map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()))
        .collect();
    let length = fields.get("content-length").map_or(0, |value| value.parse().unwrap());
    let mut body = vec![0; length];
    input.read_exact(&mut body).ok()?;
    Some(Asked { line: lines[0].clone(), fields, body: String::from_utf8(body).unwrap() })
}

/// Returns a response with status 200.
pub fn ok(body: &str) -> String {
    format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len())
}

/// Runs the program to its end; an origin of the test may go on.
pub fn run(bench: &Bench, arguments: &[&str]) -> Answer {
    Answer::from(bench.command(arguments).output().unwrap())
}

/// Runs a load and returns its result from a file, and what the program printed.
#[track_caller]
pub fn load(bench: &Bench, arguments: &[&str]) -> (LoadResult, Answer) {
    let answer = run(bench, &[&["load", "--json", "result.json"], arguments].concat());
    assert!(matches!(answer.code, Some(0 | 3)), "{answer:?}");
    let text = std::fs::read_to_string(bench.path("result.json")).unwrap();
    (serde_json::from_str::<Done>(&text).unwrap().load, answer)
}

#[test]
fn a_url_is_loaded_and_the_summary_has_what_the_origin_counted() {
    let bench = Bench::new();
    let origin = Origin::start(&bench, r#", "response_bytes": 100"#);
    let url = format!("http://localhost:{}/a?b=1", origin.port);
    let (load, answer) = load(&bench, &[&url, "-n", "1000", "-c", "8", "-t", "2", "--html", "page.html"]);
    assert_eq!((load.ok, load.failures.total(), load.connections), (1_000, 0, 8));
    assert_eq!(load.body_bytes, Some(100_000));
    assert_eq!(origin.asked("/counters")["requests"].as_u64(), Some(1_000));
    for words in
        ["good        1,000\n", "failed      0 (0.00 %)", "statuses    200: 1,000", "p99.9", "closed loop"]
    {
        assert!(answer.stdout.contains(words), "{words:?}: {}", answer.stdout);
    }
    assert!(answer.stderr.contains("HTTP/1.1, 8 connections, as fast as answers come"), "{}", answer.stderr);
    let page = std::fs::read_to_string(bench.path("page.html")).unwrap();
    for words in ["<title>Load on http://localhost:", "<td>1,000</td>", "<polyline", "p99.9"] {
        assert!(page.contains(words), "{words:?}: {page}");
    }
    assert!(!page.contains("src=") && !page.contains("href="), "the page is self-contained");
}

#[test]
fn method_headers_cookies_and_body_arrive_as_given() {
    let bench = Bench::new();
    let (address, seen) = server(|_| ok("fine"));
    bench.write("body.txt", "from a file");
    let url = format!("http://{address}/p#fragment");
    let one = ["-n", "1", "-c", "1"];
    load(
        &bench,
        &[&[&url, "-H", "X-A: 1", "-H", "Host: api.test", "-b", "a=1", "-b", "b=2", "-d", "hi"], &one[..]]
            .concat(),
    );
    load(&bench, &[&[&url, "-X", "PUT", "-d", "@body.txt", "--no-keep-alive"], &one[..]].concat());
    let seen = seen.lock().unwrap().clone();
    assert_eq!((seen[0].line.as_str(), seen[0].body.as_str()), ("POST /p HTTP/1.1", "hi"));
    let field = |at: usize, name: &str| seen[at].fields.get(name).map(String::as_str);
    assert_eq!(field(0, "x-a"), Some("1"));
    assert_eq!(field(0, "host"), Some("api.test"));
    assert_eq!(field(0, "cookie"), Some("a=1; b=2"));
    assert_eq!((seen[1].line.as_str(), seen[1].body.as_str()), ("PUT /p HTTP/1.1", "from a file"));
    assert_eq!((field(1, "connection"), field(1, "host")), (Some("close"), Some(&*address.to_string())));
}

#[test]
fn a_rate_and_its_shapes_send_the_requests_that_their_curve_has() {
    let bench = Bench::new();
    let origin = Origin::start(&bench, "");
    let url = format!("http://127.0.0.1:{}/", origin.port);
    for (rate, count) in [
        ("200", 200),
        ("ramp:0-400", 200),
        ("step:100,300", 200),
        ("spike:100-500,200ms", 180),
        ("sine:200,100,1s", 200),
    ] {
        let (load, _) = load(&bench, &[&url, "--rate", rate, "-z", "1s", "-c", "4"]);
        let sent = load.ok + load.failures.total();
        assert!(sent.abs_diff(count) <= 1, "{rate}: {sent}");
        assert!(load.response_time.is_some(), "the latency counts from the intended time");
    }
    let (load, answer) = load(&bench, &[&url, "-r", "poisson:200", "-z", "1s", "--live"]);
    assert_eq!(load.model, LoadModel::Poisson { rps: 200.0 });
    // The seed decides the number.
    assert!((140..260).contains(&load.ok), "{}", load.ok);
    assert!(answer.stderr.contains("   1 s "), "{}", answer.stderr);
}

#[test]
fn a_mix_is_sent_by_weight_and_rows_of_a_csv_file_in_turn() {
    let bench = Bench::new();
    let (address, seen) = server(|_| ok("fine"));
    let url = format!("http://{address}/");
    bench.write("users.csv", "id,name\n1,\"Ann, A\"\n2,Bo\n");
    load(
        &bench,
        &[
            &url,
            "--mix",
            "3:/u/{{id}}",
            "--mix",
            "1:POST /u?n={{name}}",
            "-d",
            "I am {{name}}",
            "--csv",
            "users.csv",
        ]
        .into_iter()
        .chain(["-H", "X-Id: {{id}}", "-n", "80", "-c", "1"])
        .collect::<Vec<_>>(),
    );
    let mut counts: BTreeMap<String, u32> = BTreeMap::new();
    for asked in seen.lock().unwrap().iter() {
        *counts.entry(format!("{} {} {}", asked.line, asked.fields["x-id"], asked.body)).or_default() += 1;
    }
    // Four requests of the mix and two rows: the POST always meets the same row.
    let expected = [
        ("GET /u/1 HTTP/1.1 1 ", 20),
        ("GET /u/2 HTTP/1.1 2 ", 40),
        ("POST /u?n=Ann,%20A HTTP/1.1 1 I am Ann, A", 20),
    ];
    let expected: BTreeMap<String, u32> =
        expected.into_iter().map(|(line, count)| (line.to_owned(), count)).collect();
    assert_eq!(counts, expected);
}

#[test]
fn a_flow_takes_a_value_from_an_answer_into_the_next_request() {
    let bench = Bench::new();
    let (address, seen) = server(|asked| {
        match asked.line.as_str() {
        "POST /login HTTP/1.1" => ok(&format!("{{\"user\": {{\"token\": \"t-{}\"}}}}", asked.body)),
        line if line.starts_with("GET /items") => "HTTP/1.1 200 OK\r\nX-Next: /page/7\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nid\r\n3\r\n=42\r\n0\r\n\r\n".to_owned(),
        _ => ok("done"),
    }
    });
    let plan = format!(
        r#"{{"target": "http://{address}/", "connections": 2, "flow": true, "length": {{"requests": 40}},
        "verification": "status", "think": {{"least": 0.0, "most": 0.001}},
        "data": {{"columns": ["user"], "rows": [["ann"], ["bo"]]}},
        "requests": [
          {{"method": "POST", "path": "/login", "body": {{"text": "{{{{user}}}}"}}, "extract": {{"token": {{"json": "/user/token"}}}}}},
          {{"path": "/items", "headers": [["Authorization", "Bearer {{{{token}}}}"]],
            "extract": {{"next": {{"header": "x-next"}}, "id": {{"pattern": "id=([0-9]+)"}}}}}},
          {{"path": "{{{{next}}}}?id={{{{id}}}}"}}]}}"#
    );
    bench.write("flow.json", &plan);
    let answer = bench.run(&["load", "flow.json"]).well();
    let done: Done = serde_json::from_str(answer.stdout.lines().last().unwrap()).unwrap();
    assert_eq!((done.load.ok, done.load.failures.total()), (40, 0));
    let mut counts: BTreeMap<String, u32> = BTreeMap::new();
    for asked in seen.lock().unwrap().iter() {
        let token = asked.fields.get("authorization").map_or("", String::as_str);
        *counts.entry(format!("{} {token}", asked.line)).or_default() += 1;
    }
    // Two users, each in order: at most one pass of each is not over.
    let count = |line: &str| counts.get(line).copied().unwrap_or(0);
    let (logins, pages) = (count("POST /login HTTP/1.1 "), count("GET /page/7?id=42 HTTP/1.1 "));
    assert!(pages <= logins && logins <= pages + 2 && pages >= 12, "{counts:?}");
    let items = count("GET /items HTTP/1.1 Bearer t-ann") + count("GET /items HTTP/1.1 Bearer t-bo");
    assert_eq!(logins + items + pages, 40, "nothing else was sent: {counts:?}");
    for user in ["ann", "bo"] {
        assert!(counts[&format!("GET /items HTTP/1.1 Bearer t-{user}")] >= 5, "{counts:?}");
    }
}

#[test]
fn a_flow_whose_value_is_missing_counts_a_wrong_body_and_starts_over() {
    let bench = Bench::new();
    let (address, seen) = server(|_| ok("no token"));
    bench.write(
        "flow.json",
        &format!(
            r#"{{"target": "{address}", "flow": true, "length": {{"requests": 5}}, "requests": [
              {{"path": "/login", "extract": {{"t": {{"json": "/token"}}}}}}, {{"path": "/use/{{{{t}}}}"}}]}}"#
        ),
    );
    let answer = bench.run(&["load", "flow.json"]).well();
    let done: Done = serde_json::from_str(answer.stdout.lines().last().unwrap()).unwrap();
    assert_eq!((done.load.ok, done.load.failures.body), (0, 5));
    assert!(seen.lock().unwrap().iter().all(|asked| asked.line == "GET /login HTTP/1.1"));
}

#[test]
fn conditions_decide_the_exit_status() {
    let bench = Bench::new();
    let origin = Origin::start(&bench, r#", "status": 503"#);
    let url = format!("http://127.0.0.1:{}/", origin.port);
    let judged = |more: &[&str]| load(&bench, &[&[&url, "-n", "20", "-c", "2"], more].concat());
    let (load, answer) = judged(&["--fail-if", "errors>0.1%", "--fail-if", "p99>1h"]);
    assert_eq!((load.ok, load.failures.status, answer.code), (0, 20, Some(3)));
    assert!(answer.stdout.contains("20 wrong status"), "{}", answer.stdout);
    assert!(answer.stderr.contains("failed: errors>0.1% holds"), "{}", answer.stderr);
    assert!(answer.stderr.contains("failed: p99>1h cannot be decided: no request was answered"));
    let (load, answer) = judged(&["--status", "503", "--fail-if", "errors>0", "--fail-if", "max>1h"]);
    assert_eq!((load.ok, answer.code), (20, Some(0)));
    assert!(!answer.stderr.contains("failed"), "{}", answer.stderr);
}

#[test]
fn the_highest_rate_that_holds_an_objective_is_found() {
    let bench = Bench::new();
    // One connection and answers after 20 ms: at most 50 a second, whatever the machine.
    let origin = Origin::start(&bench, r#", "delay_ms": 20"#);
    let url = format!("http://127.0.0.1:{}/", origin.port);
    let find = ["load", &url, "--find-rate", "errors<1%", "--find-rate", "p99<400ms"];
    let answer = run(&bench, &[&find[..], &["-c", "1", "-z", "1s", "--json", "best.json"]].concat()).well();
    let done: Done = serde_json::from_slice(&std::fs::read(bench.path("best.json")).unwrap()).unwrap();
    let rate = done.load.model.rps().unwrap();
    assert!(rate <= 100.0, "{answer:?}");
    assert!(answer.stdout.contains("/s holds errors<1%, p99<400ms; "), "{answer:?}");
    assert!(answer.stderr.contains("100/s  fails") || rate == 100.0, "{answer:?}");
    let none = run(&bench, &["load", &url, "--find-rate", "p99<1ms", "-c", "1", "-z", "50ms"]);
    assert_eq!(none.code, Some(3), "{none:?}");
    assert!(none.stderr.contains("no rate holds p99<1ms"), "{none:?}");
}

#[test]
fn what_cannot_be_loaded_is_refused_with_what_to_do() {
    let bench = Bench::new();
    bench.write("plan.json", r#"{"target": "127.0.0.1:1"}"#);
    bench.write("empty.csv", "id\n");
    let (address, _) = server(|_| ok("fine"));
    let (url, https) = (format!("http://{address}/"), format!("https://{address}/"));
    let refused = |arguments: &[&str], code: i32, words: &[&str]| {
        bench.run(&[&["load"], arguments].concat()).refused(code, words);
    };
    refused(&["ftp://a/"], 2, &["ftp://a/: expected http://, https://, ws:// or wss://"]);
    refused(&["http://no.such.name.invalid/"], 1, &["cannot resolve no.such.name.invalid"]);
    refused(&["http://127.0.0.1:1/"], 1, &["cannot connect to 127.0.0.1:1"]);
    refused(&["localhost:8080"], 1, &["localhost:8080: ", "or a URL with its scheme: http://HOST/"]);
    refused(
        &["plan.json", "--rate", "5"],
        2,
        &["--rate describes a load on a URL, but plan.json is the file of a plan"],
    );
    refused(&["plan.json", "-H", "a: b"], 2, &["--header describes"]);
    refused(&[&https], 1, &["did you mean http://"]);
    refused(&[&url, "--insecure"], 2, &["options of TLS need https://"]);
    refused(&[&url, "--rate", "fast"], 2, &["--rate fast: expected requests a second"]);
    refused(&[&url, "--rate", "sine:9,1,0s"], 2, &["--rate sine:9,1,0s: a period of 0 s"]);
    refused(&[&url, "-z", "0s"], 2, &["`length` is 0 seconds"]);
    refused(&[&url, "-c", "0"], 2, &["0 connections over 1 threads"]);
    refused(&[&url, "-c", "1", "-t", "4"], 2, &["1 connections over 4 threads"]);
    refused(&[&url, "--streams", "4"], 2, &["`streams` is 4, but HTTP/1.1 has one request at a time"]);
    refused(&[&url, "-H", "nothing"], 2, &["-H \"nothing\": expected `Name: value`"]);
    refused(&[&url, "-b", "nothing"], 2, &["-b \"nothing\": expected `name=value`"]);
    refused(&[&url, "-n", "1", "--speed", "2"], 2, &["--speed 2: expected a recording with --replay FILE"]);
    refused(
        &[&format!("{url}{{{{id}}}}")],
        2,
        &["/{{id}}\": expected --csv FILE with the values for {{...}}"],
    );
    refused(&[&url, "--json", "no/such/folder"], 1, &["no/such/folder: No such file"]);
    refused(&[&url, "--csv", "empty.csv"], 1, &["empty.csv: expected a line of names, and at least one row"]);
    refused(&[&format!("{url}{{{{id}}}}"), "--csv", "none.csv"], 1, &["none.csv: "]);
    refused(&[&url, "--mix", "/a"], 2, &["--mix \"/a\": expected `WEIGHT:PATH`"]);
    refused(&[&url, "--fail-if", "p98>1ms"], 2, &["\n  p98>1ms\n  ^^^ expected p50"]);
    refused(&[&url, "--rate", "5", "--think", "1s"], 2, &["--rate", "--think"]);
    refused(&[&url, "-z", "soon"], 2, &["expected a time, such as 200ms"]);
}
