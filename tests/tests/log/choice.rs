//! The contents of logs: headers, cookies and attempts by name, filters, several logs, and logs of routes.

use std::fs;
use std::path::PathBuf;

use serde_json::{Value, json};
use tollgate_tests::api::{call, put};
use tollgate_tests::{Gateway, Origin, Signal, eventually, http2, refused_address};

use super::lines;

fn file(gateway: &Gateway, name: &str) -> PathBuf {
    gateway.directory().join(name)
}

#[test]
fn headers_and_cookies_by_name() {
    let origin = Origin::fixed(
        "HTTP/1.1 200 OK\r\nX-Cache: HIT\r\nx-cache: again\r\nSet-Cookie: id=secret\r\nContent-Length: 2\r\n\r\nok",
    );
    let gateway = Gateway::start(&format!(
        "access_log:\n  - {{to: $DIR/t.log, format: '{{header.x-tenant}}|{{response_header.X-Cache}}|{{cookie.id}}|{{header.authorization}}|{{response_header.set-cookie}}'}}\n  \
           - {{to: $DIR/access.log, format: json, fields: {{tenant: header.X-Tenant, cache: response_header.x-cache, who: cookie.id, cookies: header.cookie, reason_told: response_header.tollgate-reason}}}}\n\
         policies: {{headers: {{response: {{set: {{X-Cache: MISS}}}}}}}}\n\
         routes: [{{match: /ok, to: \"{}\"}}, {{match: /plain, to: \"{}\", policies: {{headers: off}}}}]\n",
        origin.address(),
        origin.address()
    ));
    let fields = "X-Tenant: a\r\nX-Tenant: \"b\r\nCookie: x=1; id=7\r\nAuthorization: Bearer secret\r\n";
    gateway.client().ask(format!("GET /ok HTTP/1.1\r\nHost: h\r\n{fields}\r\n"));
    gateway.http2().ask(http2::request("GET", "/ok", &[("x-tenant", "two"), ("cookie", "id=8")]));
    assert_eq!(gateway.client().get("/none").status, 404);
    let records = gateway.wait_records(3);
    let reported =
        |record: &Value| ["tenant", "cache", "who", "cookies", "reason_told"].map(|key| record[key].clone());
    let expected = [json!("a, \"b"), json!("MISS"), json!("7"), json!("***"), Value::Null];
    assert_eq!(reported(&records[0]), expected);
    assert_eq!(reported(&records[1])[..3], [json!("two"), json!("MISS"), json!("8")]);
    assert_eq!(
        reported(&records[2]),
        [Value::Null, Value::Null, Value::Null, Value::Null, json!("no_route")]
    );
    let text = file(&gateway, "t.log");
    eventually("three lines", || lines(&text).len() == 3);
    assert_eq!(lines(&text)[0], "a, \\x22b|MISS|7|***|***");
    assert_eq!(lines(&text)[2], "-|-|-|-|-");
}

#[test]
fn attempts_are_listed() {
    let origin = Origin::ok();
    let refused = refused_address();
    let gateway = Gateway::start(&format!(
        "access_log:\n  - {{to: $DIR/access.log, format: json}}\n  \
           - {{to: $DIR/t.log, format: '{{endpoints}}|{{endpoint_statuses}}|{{endpoint_reasons}}|{{endpoint_ms}}'}}\n\
         routes:\n  - {{match: /two, to: u}}\n  - {{match: /one, to: \"{}\"}}\n  - {{match: /none, respond: here}}\n\
         upstreams: {{u: {{endpoints: [\"{refused}\", \"{}\"], outlier: off}}}}\n",
        origin.address(),
        origin.address()
    ));
    let mut client = gateway.client();
    for path in ["/two", "/one", "/none"] {
        assert_eq!(client.get(path).status, 200);
    }
    let records = gateway.wait_records(3);
    let (two, own) = (&records[0], origin.address().to_string());
    assert_eq!((&two["attempts"], &two["endpoint"]), (&json!(1), &json!(own)), "{two}");
    assert_eq!(two["endpoints"], json!([refused.to_string(), own]), "{two}");
    assert_eq!(two["endpoint_statuses"], json!([null, 200]));
    assert_eq!(two["endpoint_reasons"], json!(["connection_refused", null]));
    let times = two["endpoint_ms"].as_array().expect("times");
    let sum: f64 = times.iter().filter_map(Value::as_f64).sum();
    assert!(times.len() == 2 && sum <= two["total_ms"].as_f64().expect("a time") + 0.01, "{two}");
    assert!(records[1].get("endpoints").is_none() && records[2].get("endpoints").is_none());
    let text = file(&gateway, "t.log");
    eventually("three lines", || lines(&text).len() == 3);
    let begin = format!("{refused}, {own}|-, 200|connection_refused, -|");
    assert!(lines(&text)[0].starts_with(&begin), "{}", lines(&text)[0]);
    assert!(lines(&text)[1].starts_with(&format!("{own}|200|-|")), "{}", lines(&text)[1]);
    assert_eq!(lines(&text)[2], "-|-|-|-");
}

#[test]
fn an_answer_that_was_held_back_is_listed_with_its_status() {
    let (bad, good) = (Origin::fixed("HTTP/1.1 503 No\r\nContent-Length: 0\r\n\r\n"), Origin::ok());
    let gateway = Gateway::start(&format!(
        "routes: [{{to: u}}]\nupstreams: {{u: {{endpoints: [\"{}\", \"{}\"], retry: {{on: [503]}}}}}}\n",
        bad.address(),
        good.address()
    ));
    let mut client = gateway.client();
    for _ in 0..4 {
        assert_eq!(client.get("/").status, 200);
    }
    let records = gateway.wait_records(4);
    let retried = records.iter().find(|record| record.get("endpoints").is_some()).expect("a second attempt");
    assert_eq!(retried["endpoint_statuses"], json!([503, 200]), "{retried}");
    assert_eq!(retried["endpoints"], json!([bad.address().to_string(), good.address().to_string()]));
}

#[test]
fn filters_choose_lines() {
    let gateway = Gateway::start(
        "access_log:\n  - {to: $DIR/errors.log, format: '{path}', filter: {status: [5xx, 404]}}\n  \
           - {to: $DIR/slow.log, format: '{path}', filter: {min_duration: 150ms}}\n  \
           - {to: $DIR/none.log, format: '{path}', filter: {sample: 0%}}\n  \
           - {to: $DIR/either.log, format: '{path}', filter: [{status: 204}, {min_duration: 150ms}]}\n  \
           - {to: $DIR/all.log, format: '{path}', filter: {sample: 100%}}\n\
         routes:\n  - {match: /ok, respond: ok}\n  - {match: /empty, respond: 204}\n  - {match: /bad, respond: 503}\n  \
           - {match: /slow, respond: slow, policies: {fault: {delay: {time: 200ms, percent: 100}}}}\n",
    );
    let mut client = gateway.client();
    for path in ["/ok", "/empty", "/bad", "/slow", "/missing"] {
        client.get(path);
    }
    let of = |name: &str| lines(&file(&gateway, name));
    eventually("all lines", || of("all.log").len() == 5);
    for (name, paths) in [
        ("errors.log", &["/bad", "/missing"][..]),
        ("slow.log", &["/slow"]),
        // Errors (5xx) are logged at any sample rate.
        ("none.log", &["/bad"]),
        ("either.log", &["/empty", "/slow"]),
    ] {
        eventually("the lines", || of(name).len() == paths.len());
        assert_eq!(of(name), paths, "{name}");
    }
}

#[test]
fn a_sample_is_about_as_large_as_was_asked() {
    let gateway = Gateway::start(
        "access_log: [{to: $DIR/some.log, format: '{path}', filter: {sample: 25%}}, {to: $DIR/all.log, format: '{path}'}]\n\
         routes: [{respond: ok}]\n",
    );
    let mut client = gateway.client();
    for _ in 0..400 {
        client.get("/");
    }
    let of = |name: &str| lines(&file(&gateway, name)).len();
    eventually("all lines", || of("all.log") == 400);
    // Within five standard deviations.
    eventually("a quarter of them", || (57..=143).contains(&of("some.log")));
}

#[test]
fn routes_have_their_own_or_none() {
    let mut gateway = Gateway::start(
        "access_log: {to: $DIR/main.log, format: '{path}'}\n\
         routes:\n  - {match: /a, respond: a}\n  - {match: /off, respond: b, access_log: off}\n  \
           - {match: /own, respond: c, access_log: {to: $DIR/own.log, format: 'own {path}'}}\n  \
           - {match: /both, respond: d, access_log: [{to: $DIR/own.log, format: 'own {path}'}, {to: $DIR/main.log, format: 'too {path}'}]}\n",
    );
    let of = |gateway: &Gateway, name: &str| lines(&file(gateway, name));
    let ask = |gateway: &Gateway| {
        let mut client = gateway.client();
        for path in ["/a", "/off", "/own", "/both", "/missing"] {
            client.get(path);
        }
    };
    ask(&gateway);
    eventually("lines", || of(&gateway, "main.log").len() == 3 && of(&gateway, "own.log").len() == 2);
    // Two logs write to this file, each in its own order.
    let mut main = of(&gateway, "main.log");
    main.sort();
    assert_eq!(main, ["/a", "/missing", "too /both"]);
    assert_eq!(of(&gateway, "own.log"), ["own /own", "own /both"]);

    // Both files are reopened after a rotation.
    for name in ["main.log", "own.log"] {
        fs::rename(file(&gateway, name), file(&gateway, &format!("{name}.1"))).expect("moved");
    }
    gateway.signal(Signal::USR1);
    eventually("new files", || file(&gateway, "main.log").exists() && file(&gateway, "own.log").exists());
    gateway.client().get("/own");
    eventually("a line", || of(&gateway, "own.log").len() == 1);

    // A reload replaces the logs.
    gateway.write_config(
        "access_log: {to: $DIR/main.log, format: '{path}'}\n\
         routes:\n  - {match: /a, respond: a, access_log: {to: $DIR/third.log, format: '{path}'}}\n  - {match: /own, respond: new}\n",
    );
    gateway.signal(Signal::HUP);
    eventually("the new plan", || gateway.client().get("/own").text() == "new");
    gateway.client().get("/a");
    eventually("lines", || of(&gateway, "third.log") == ["/a"]);
    eventually("lines", || of(&gateway, "main.log").iter().any(|line| line == "/own"));
    let before = of(&gateway, "own.log").len();
    for _ in 0..3 {
        gateway.client().get("/own");
    }
    let own = |gateway: &Gateway| of(gateway, "main.log").iter().filter(|line| *line == "/own").count();
    eventually("lines", || own(&gateway) >= 4);
    assert_eq!(of(&gateway, "own.log").len(), before);
    gateway.signal(Signal::TERM);
    assert_eq!(gateway.wait_exit().code(), Some(0));
}

#[test]
fn documents_of_the_api_choose_logs_but_write_no_files() {
    let gateway = Gateway::start(
        "store: $DIR/store\naccess_log: {to: $DIR/main.log, format: '{path}'}\nroutes: [{match: /file, respond: f}]\n",
    );
    let route = |path: &str, log: Value| json!({"match": path, "respond": "r", "access_log": log});
    assert_eq!(put(&gateway, "/routes/a", &route("/a", json!("off"))).status, 201);
    let own = json!({"to": "stdout", "format": "own {path}", "filter": {"status": "2xx"}});
    assert_eq!(put(&gateway, "/routes/b", &route("/b", own)).status, 201);
    let path = file(&gateway, "written.log");
    let answer = put(&gateway, "/routes/c", &route("/c", json!(path.to_str().expect("UTF-8"))));
    assert_eq!(answer.status, 422, "{answer:?}");
    let answer = put(&gateway, "/routes/c", &route("/c", json!("syslog:server=127.0.0.1:514")));
    assert_eq!(answer.status, 422, "{answer:?}");
    let mut client = gateway.client();
    for path in ["/a", "/b", "/file"] {
        assert_eq!(client.get(path).status, 200);
    }
    eventually("a line", || gateway.stdout().contains("own /b\n"));
    eventually("a line", || lines(&file(&gateway, "main.log")) == ["/file"]);
    assert!(!path.exists());
    assert_eq!(call(&gateway, "DELETE", "/routes/b", "", "").status, 200);
    assert_eq!(gateway.client().get("/b").status, 404);
    eventually("a line", || lines(&file(&gateway, "main.log")) == ["/file", "/b"]);
}
