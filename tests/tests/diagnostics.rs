//! The log of the gateway's own messages: its forms, its levels at run time, and that it harms nothing.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};
use tollgate_tests::api::{JSON, call, json_of, put};
use tollgate_tests::{Gateway, Signal, binary, eventually, refused_address};

use super::tls;

fn answering(body: &str) -> String {
    format!("routes: [{{match: /version, respond: {body}}}]")
}

fn version(gateway: &Gateway) -> String {
    gateway.client().get("/version").text()
}

/// Starts a gateway whose only endpoint refuses connections.
fn without_endpoint(settings: &str) -> Gateway {
    let endpoint = refused_address();
    Gateway::start(&format!(
        "upstreams: {{gone: \"{endpoint}\"}}\nroutes: [{{match: /x, to: gone}}]\n{settings}"
    ))
}

fn objects(text: &str) -> Vec<Value> {
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}")))
        .collect()
}

/// Returns a line without the time with which it begins, such as `2026-01-31T23:59:59.123Z `.
fn untimed(line: &str) -> &str {
    let (time, rest) = line.split_once(' ').unwrap_or_else(|| panic!("no time: {line}"));
    let form: String = time.chars().map(|c| if c.is_ascii_digit() { '0' } else { c }).collect();
    assert_eq!(form, "0000-00-00T00:00:00.000Z", "{line}");
    rest
}

#[test]
fn by_default_it_is_text_with_the_time() {
    let mut gateway = Gateway::start(&answering("one"));
    let program = Command::new(binary()).arg("--version").output().expect("it runs").stdout;
    let program = String::from_utf8(program).expect("UTF-8");
    let program = program.lines().next().expect("the name and the version");
    let mut expected = vec![
        format!("{program} listens on {}: 1 route, 1 worker", gateway.address()),
        format!("dashboard, metrics, cost and health on http://{}/", gateway.admin_address()),
    ];
    gateway.await_message("dashboard, metrics, cost and health");

    let file = gateway.config().display().to_string();
    gateway.write_config("limits: {bodi: 1MiB}\nroutes: []");
    gateway.signal(Signal::HUP);
    gateway.await_message("goes on with what it has\n");
    let check = Command::new(binary()).args(["check", &file]).output().expect("it runs");
    // The problems of a file are a text of several lines, as `check` prints them.
    let problems = String::from_utf8(check.stderr).expect("UTF-8");
    expected.push(format!("error: {file} is not loaded; the gateway goes on with what it has"));
    gateway.signal(Signal::TERM);
    assert_eq!(gateway.wait_exit().code(), Some(0));
    expected.push("tollgate stops: 0 requests in flight".to_owned());
    gateway.await_message("tollgate stops");
    let reported = gateway.stderr();
    let (before, after) = reported.split_once(&problems).expect("the problems");
    let lines: Vec<&str> = before.lines().chain(after.lines()).map(untimed).collect();
    assert_eq!(lines, expected);
}

/// The journal has the time of each line, and announces itself by the device and inode of the stream.
#[test]
fn in_the_journal_and_in_commands_lines_have_no_time() {
    let other = Gateway::start(&answering("one"));
    let (file, log) = (other.directory().join("own.yaml"), other.directory().join("journal"));
    fs::write(&file, "listen: 127.0.0.1:0\nadmin: off\nroutes: [{respond: 204}]\n").expect("written");
    for (is_journal, number) in [(true, 0), (false, 1)] {
        let stream = fs::File::create(&log).expect("created");
        let metadata = stream.metadata().expect("there");
        let name = format!("{}:{}", metadata.dev(), metadata.ino() + number);
        let mut gateway = Command::new(binary())
            .arg("run")
            .arg(&file)
            .env("JOURNAL_STREAM", name)
            .stderr(stream)
            .spawn()
            .expect("it runs");
        let reported = || fs::read_to_string(&log).expect("readable");
        eventually("the start", || reported().contains("listens on"));
        assert_eq!(reported().starts_with("tollgate "), is_journal, "{}", reported());
        gateway.kill().expect("it runs");
        gateway.wait().expect("it ends");
    }
    fs::write(&file, "routes: []\n").expect("written");
    let ran = Command::new(binary()).arg("run").arg(&file).output().expect("it runs");
    assert!(ran.stderr.starts_with(b"error: "), "{}", String::from_utf8_lossy(&ran.stderr));
}

#[test]
fn json_is_one_object_per_line() {
    let mut gateway = Gateway::start(&format!("log: {{format: json}}\n{}", answering("one")));
    gateway.write_config(&format!("log: {{format: json}}\nlimits: {{bodi: 1MiB}}\n{}", answering("two")));
    gateway.signal(Signal::HUP);
    gateway.await_message("is not loaded");
    gateway.write_config(&format!("log: {{format: json}}\n{}", answering("two")));
    gateway.signal(Signal::HUP);
    gateway.await_message("reloaded");
    gateway.signal(Signal::TERM);
    assert_eq!(gateway.wait_exit().code(), Some(0));
    gateway.await_message("tollgate stops");
    let lines = objects(&gateway.stderr());
    for line in &lines {
        let time = line["time"].as_str().expect("a time");
        assert!(time.len() == 24 && time.ends_with('Z'), "{line}");
        assert!(["level", "component", "message"].iter().all(|key| line[key].is_string()), "{line}");
    }
    let find = |words: &str| {
        let has = |line: &&Value| line["message"].as_str().is_some_and(|message| message.contains(words));
        lines.iter().find(has).unwrap_or_else(|| panic!("no `{words}` in {lines:#?}"))
    };
    let source = |line: &Value| (line["level"].clone(), line["component"].clone());
    assert_eq!(source(find("listens on")), ("info".into(), "gateway".into()));
    let wrong = find("unknown key `bodi` in `limits`");
    assert_eq!(source(wrong), ("error".into(), "reload".into()));
    assert_eq!(wrong["file"], gateway.config().display().to_string());
    assert!(wrong["line"].is_u64() && wrong["help"] == "did you mean `body`?", "{wrong}");
    assert_eq!(source(find("is not loaded")), ("error".into(), "reload".into()));
    assert_eq!(
        (source(find("reloaded")), &find("reloaded")["generation"]),
        (("info".into(), "reload".into()), &2.into())
    );
}

#[test]
fn debug_shows_why_a_connect_fails() {
    let gateway = without_endpoint("log: {components: {upstream: debug}}");
    assert_eq!(gateway.client().get("/x").status, 502);
    gateway.await_message("debug: upstream: cannot connect to the endpoint upstream=gone endpoint=");
}

#[test]
fn debug_shows_why_a_handshake_fails() {
    let (gateway, _authority, _files) = tls::gateway(
        "listen: {bind: $LISTEN, tls: {$A}}\nlog: {components: {tls: debug}}\nroutes: [{respond: 204}]",
    );
    let mut client = gateway.client();
    client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    let peer = format!(" peer={} ", client.address());
    gateway.await_message(&peer);
    let line = gateway.stderr().lines().find(|line| line.contains(&peer)).map(str::to_owned);
    let line = line.expect("just seen");
    assert!(line.contains("Z debug: tls: the TLS handshake of a client failed: "), "{line}");
    assert!(line.contains(&format!(" listener={} ", gateway.address())), "{line}");
    assert!(line.ends_with(" reason=not_tls"), "{line}");
}

#[test]
fn trace_shows_why_a_connection_ends() {
    let gateway = Gateway::start(&format!("log: {{components: {{listener: trace}}}}\n{}", answering("one")));
    let mut client = gateway.client();
    (0..3).for_each(|_| assert_eq!(client.get("/version").text(), "one"));
    let peer = client.address();
    gateway.await_message(&format!("accepted a connection peer={peer} "));
    let end = format!("closes a connection peer={peer} ");
    assert!(!gateway.stderr().contains(&end), "{}", gateway.stderr());
    drop(client);
    gateway.await_message(&format!("{end}requests=3 reason=end\n"));
}

#[test]
fn a_level_over_the_api_takes_effect_at_once_and_is_audited() {
    let tokens =
        "{ops: {role: write, token: a-token-of-operators}, eye: {role: read, token: a-token-of-readers}}";
    let gateway =
        without_endpoint(&format!("admin: {{bind: $ADMIN, audit_log: $DIR/audit, tokens: {tokens}}}"));
    let ops = format!("{JSON}Authorization: Bearer a-token-of-operators\r\n");
    let eye = format!("{JSON}Authorization: Bearer a-token-of-readers\r\n");
    let set = |lines: &str, body: Value| call(&gateway, "PUT", "/log", lines, &body.to_string());
    let state = || json_of(&call(&gateway, "GET", "/log", &eye, ""));
    let usual = json!({ "level": "info", "components": {}, "format": "text", "output": "stderr", "lost": 0 });
    assert_eq!(state(), usual);
    let attempt = || assert_eq!(gateway.client().get("/x").status, 502);
    attempt();
    let detailed = json!({ "components": { "upstream": "debug" } });
    assert_eq!(set(&eye, detailed.clone()).status, 403);
    let answer = set(&ops, detailed);
    assert_eq!((answer.status, &json_of(&answer)), (200, &state()));
    assert_eq!(state()["components"], json!({ "upstream": "debug" }));
    gateway.await_message("audit: log levels by ops: info, upstream debug\n");
    assert!(!gateway.stderr().contains("cannot connect"), "{}", gateway.stderr());
    attempt();
    // The gateway tries twice. A thread of its own writes the log.
    let failures = || gateway.stderr().matches("cannot connect to the endpoint").count();
    eventually("both attempts in the log", || failures() == 2);

    assert_eq!(set(&ops, json!({ "level": "warn", "components": {} })).status, 200);
    attempt();
    // Levels of the file are in force again after a reload.
    gateway.signal(Signal::HUP);
    eventually("the file's levels", || state() == usual);
    gateway.signal(Signal::HUP);
    gateway.await_message("generation 3");
    assert_eq!(failures(), 2);

    let audit = objects(&fs::read_to_string(gateway.directory().join("audit")).expect("an audit log"));
    let records: Vec<_> = audit.iter().map(|it| (&it["who"], &it["outcome"], &it["value"])).collect();
    let first = json!({ "level": "info", "components": { "upstream": "debug" } });
    let second = json!({ "level": "warn", "components": {} });
    assert_eq!(
        records,
        [
            (&"eye".into(), &"refused".into(), &Value::Null),
            (&"ops".into(), &"changed".into(), &first),
            (&"ops".into(), &"changed".into(), &second),
        ]
    );
    assert!(audit.iter().all(|it| it["path"] == "/api/v1/log"), "{audit:?}");
}

#[test]
fn wrong_levels_are_refused_with_the_reason() {
    let gateway = Gateway::start(&answering("one"));
    for (body, reason) in [
        (json!({ "level": "warning" }), "`warning` is not a level: did you mean `warn`?"),
        (json!({ "components": { "tsl": "debug" } }), "`tsl` is not a component: did you mean `tls`?"),
        (json!({ "format": "json" }), "`format` is not a key: there are level, components"),
        (json!(["debug"]), "the body is not a mapping"),
    ] {
        let answer = put(&gateway, "/log", &body);
        assert_eq!((answer.status, &json_of(&answer)["message"]), (400, &reason.into()));
    }
    assert_eq!(json_of(&call(&gateway, "GET", "/log", "", ""))["level"], "info");
    let tollgate = |words: &[&str]| {
        let mut command = Command::new(binary());
        command.arg("log").args(words).env("TOLLGATE_ADMIN", gateway.admin_address().to_string());
        let ran = command.output().expect("it runs");
        (ran.status.code(), String::from_utf8([ran.stdout, ran.stderr].concat()).expect("UTF-8"))
    };
    let (code, text) = tollgate(&["--component", "upstream=loud"]);
    assert_eq!(code, Some(1), "{text}");
    assert!(text.starts_with("error: `loud` is not a level: there are error"), "{text}");
    assert_eq!(tollgate(&["--component", "tls"]), (Some(1), "error: `tls` is not `NAME=LEVEL`\n".to_owned()));
    assert_eq!(tollgate(&["--level", "debug", "--component", "tls=trace"]).0, Some(0));
    let (code, text) = tollgate(&["--component", "health=warn"]);
    assert_eq!(code, Some(0), "{text}");
    let state =
        "level: debug\ncomponents:\n  health: warn\n  tls: trace\nformat: text\noutput: stderr\nlost: 0\n";
    assert_eq!(text, state);
}

/// Starts the binary with a standard error that a shell sets up.
fn start_with_stderr(directory: &Path, redirection: &str, yaml: &str) -> Gateway {
    let program = directory.join("program");
    let script = format!("#!/bin/sh\nexec {} \"$@\" {redirection}\n", binary().display());
    fs::write(&program, script).expect("written");
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("permissions");
    Gateway::start_program(&program, yaml)
}

#[test]
fn a_lost_output_harms_nothing() {
    let directory = std::env::temp_dir().join(format!("tollgate-diagnostics-{}", std::process::id()));
    fs::create_dir_all(&directory).expect("a directory");
    for redirection in ["2>&-", "2>/dev/full"] {
        let mut gateway =
            start_with_stderr(&directory, redirection, &format!("log: trace\n{}", answering("one")));
        (0..100).for_each(|_| assert_eq!(version(&gateway), "one", "{redirection}"));
        gateway.write_config(&format!("log: trace\n{}", answering("two")));
        gateway.signal(Signal::HUP);
        eventually("the new plan", || version(&gateway) == "two");
        if redirection == "2>/dev/full" {
            eventually("lines to be counted", || {
                json_of(&call(&gateway, "GET", "/log", "", ""))["lost"].as_u64() > Some(0)
            });
        }
        gateway.signal(Signal::TERM);
        assert_eq!(gateway.wait_exit().code(), Some(0), "{redirection}");
    }
    fs::remove_dir_all(&directory).expect("removed");
}

#[test]
fn a_file_is_rotated_and_a_reload_changes_the_output() {
    let to = |file: &str, body: &str| format!("log: {{output: $DIR/{file}}}\n{}", answering(body));
    let gateway = Gateway::start(&to("one.log", "one"));
    let read = |file: &str| fs::read_to_string(gateway.directory().join(file)).unwrap_or_default();
    eventually("the start", || read("one.log").contains("listens on"));
    assert_eq!(gateway.stderr(), "");
    let line = read("one.log").lines().next().expect("a line").to_owned();
    let (time, message) = line.split_once(' ').expect("a time");
    assert!(time.len() == 24 && message.starts_with("tollgate "), "{line}");

    fs::rename(gateway.directory().join("one.log"), gateway.directory().join("old.log")).expect("moved");
    gateway.signal(Signal::USR1);
    eventually("the file to be opened again", || gateway.directory().join("one.log").exists());
    gateway.signal(Signal::HUP);
    eventually("a line in it", || read("one.log").contains("generation 2"));

    gateway.write_config(&to("none/two.log", "two"));
    gateway.signal(Signal::HUP);
    eventually("the refusal", || read("one.log").contains("two.log: its directory does not exist"));
    assert_eq!(version(&gateway), "one");
    gateway.write_config(&to("two.log", "two"));
    gateway.signal(Signal::HUP);
    eventually("the new file", || read("two.log").contains("generation 3"));
    assert_eq!(version(&gateway), "two");
    assert_eq!(gateway.stderr(), "");
}

#[test]
fn secrets_appear_at_no_level() {
    const SECRET: &str = "4yLqZp8WnTfB2cXvK7mRgUdJ0HsEoAiN";
    for format in ["text", "json"] {
        let log = format!("log: {{level: trace, format: {format}}}");
        let config = |wrong: &str| {
            format!(
                "{log}\nadmin: {{bind: $ADMIN, tokens: {{t: {{role: write, token: {SECRET}{wrong}}}}}}}\n\
                 consumers: {{a: {{hmac_keys: {{k: {SECRET}}}}}}}\nupstreams: {{gone: \"{}\"}}\n\
                 routes: [{{match: /x, to: gone}}, {{match: /y, to: gone, policies: {{hmac: on}}}}]",
                refused_address()
            )
        };
        let gateway = Gateway::start(&config(""));
        for path in [format!("/x?token={SECRET}"), "/y".to_owned()] {
            let fields =
                format!("Authorization: Bearer {SECRET}\r\nCookie: a={SECRET}\r\nX-Api-Key: {SECRET}\r\n");
            gateway.client().ask(format!("GET {path} HTTP/1.1\r\nHost: a\r\n{fields}\r\n"));
        }
        gateway.await_message("cannot connect");
        let lines = format!("{JSON}Authorization: Bearer {SECRET}\r\n");
        assert_eq!(call(&gateway, "PUT", "/log", &lines, "{}").status, 200);
        gateway.write_config(&config(", rle: x"));
        gateway.signal(Signal::HUP);
        gateway.await_message("is not loaded");
        assert!(!gateway.stderr().contains(SECRET), "{format}: {}", gateway.stderr());
    }
}
