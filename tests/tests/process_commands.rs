//! `tollgate status`, `reload`, `stop` and `cost`: commands that show and control a whole running gateway.

use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tollgate_tests::api::{JSON, call, json_of};
use tollgate_tests::{Gate, Gateway, Origin, Ran, binary, eventually, refused_address, tollgate};

const READER: &str = "reader-reader-reader";
const WRITER: &str = "writer-writer-writer";
const OWNER: &str = "owner-owner-owner-owner";

/// Runs a command against this gateway, with this token.
fn ran_with(gateway: &Gateway, words: &[&str], token: &str) -> Ran {
    let mut command = Command::new(binary());
    command.args(words).env("TOLLGATE_ADMIN", gateway.admin_address().to_string());
    command.env("TOLLGATE_TOKEN", token);
    let out = command.output().expect("tollgate runs");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("UTF-8");
    Ran { code: out.status.code(), out: text(out.stdout), err: text(out.stderr) }
}

fn ran(gateway: &Gateway, words: &[&str]) -> Ran {
    ran_with(gateway, words, "")
}

fn guarded() -> Gateway {
    Gateway::start(&format!(
        "admin: {{bind: $ADMIN, audit_log: audit.jsonl, tokens: {{r: {{role: read, token: {READER}}}, \
         w: {{role: write, token: {WRITER}}}, a: {{role: admin, token: {OWNER}}}}}}}\nroutes: [{{match: /a, respond: a}}]"
    ))
}

#[test]
fn a_reload_shows_what_changed() {
    let gateway =
        Gateway::start("routes: [{name: one, match: /a, respond: a}, {name: two, match: /b, respond: b}]");
    let same = ran(&gateway, &["reload"]);
    assert_eq!(same.code, Some(0), "{same:?}");
    assert!(
        same.out.starts_with("nothing differs from before\nreloaded ") && same.out.contains("generation 2"),
        "{same:?}"
    );
    gateway.write_config(
        "timeouts: {drain: 2s}\nroutes: [{name: one, match: /a, respond: new}, {name: three, match: /c, to: shop}]\n\
         upstreams: {shop: \"127.0.0.1:1\"}",
    );
    let reported = ran(&gateway, &["reload"]);
    assert_eq!((reported.code, reported.err.as_str()), (Some(0), ""), "{reported:?}");
    for text in [
        "~ routes/one\n",
        "  - respond: a\n  + respond: new\n",
        "- routes/two\n",
        "+ routes/three\n",
        "+ upstreams/shop\n",
        "~ settings: timeouts\n",
        "2 routes, generation 3, ",
    ] {
        assert!(reported.out.contains(text), "{text:?} in {reported:?}");
    }
    // The plan was in force when the command returned.
    assert_eq!(gateway.client().get("/a").text(), "new");
    let value = ran(&gateway, &["reload", "--output", "json"]);
    let value: Value = serde_json::from_str(&value.out).expect("JSON");
    assert_eq!(
        (&value["generation"], &value["changes"], &value["problem"]),
        (&json!(4), &json!([]), &Value::Null)
    );
}

#[test]
fn a_rejected_reload_shows_the_error_at_its_place() {
    let gateway = Gateway::start("routes: [{match: /a, respond: a}]");
    gateway.write_config("routes:\n  - match: /a\n    respnd: b\n");
    let reported = ran(&gateway, &["reload"]);
    assert_eq!((reported.code, reported.out.as_str()), (Some(1), ""), "{reported:?}");
    for text in ["tollgate.yaml:", "respnd: b", "^", "did you mean `respond`?"] {
        assert!(reported.err.contains(text), "{text:?} in {reported:?}");
    }
    assert!(!reported.err.contains("1 error"), "a count under each problem: {reported:?}");
    assert_eq!(gateway.client().get("/a").text(), "a");
    let answer = call(&gateway, "POST", "/reload", "", "");
    let value = json_of(&answer);
    assert_eq!((answer.status, &value["error"]), (422, &json!("invalid")), "{value}");
    assert_eq!(value["problems"][0]["severity"], "error");
    assert!(value["problems"][0]["line"].as_u64().is_some_and(|line| line > 0), "{value}");
    // An address that cannot be opened is no problem of the file's text.
    gateway.write_config("listen: [$LISTEN, 192.0.2.1:80]\nroutes: [{match: /a, respond: b}]");
    let reported = ran(&gateway, &["reload"]);
    assert!(reported.code == Some(1) && reported.err.contains("192.0.2.1:80"), "{reported:?}");
    assert_eq!(gateway.client().get("/a").text(), "a");
    // The command lists settings that a reload cannot change; all other settings are in force.
    gateway.write_config("workers: 2\nroutes: [{match: /a, respond: c}]");
    let reported = ran(&gateway, &["reload"]);
    assert!(
        reported.code == Some(0)
            && reported.out.contains("warning: `workers` changed: this needs an upgrade"),
        "{reported:?}"
    );
    assert_eq!(gateway.client().get("/a").text(), "c");
}

#[test]
fn reloads_at_once_are_all_answered() {
    let gateway = Gateway::start("routes: [{match: /a, respond: a}]");
    let codes: Vec<_> = std::thread::scope(|scope| {
        let running: Vec<_> = (0..6).map(|_| scope.spawn(|| ran(&gateway, &["reload"]).code)).collect();
        running.into_iter().map(|thread| thread.join().expect("it ends")).collect()
    });
    assert_eq!(codes, [Some(0); 6]);
}

#[test]
fn the_status_tells_what_runs() {
    let gateway = Gateway::start(
        "store: $DIR/store\nroutes: [{match: /a, to: shop}]\n\
         upstreams: {shop: {endpoints: [\"127.0.0.1:1\"], health: {http: /, interval: 100ms}}}",
    );
    let text = || ran(&gateway, &["status"]);
    eventually("the endpoint is out of service", || text().out.contains("1 endpoint, 1 out of service"));
    let reported = text();
    assert_eq!((reported.code, reported.err.as_str()), (Some(0), ""), "{reported:?}");
    for text in [
        format!("tollgate {}", env!("CARGO_PKG_VERSION")),
        format!("running, process {}, up ", gateway.pid()),
        "tollgate.yaml, generation 1, 1 route, store version 0".to_owned(),
        format!("listeners    {}", gateway.address()),
        "shop 127.0.0.1:1 unhealthy".to_owned(),
        "last reload  none since the start".to_owned(),
    ] {
        assert!(reported.out.contains(&text), "{text:?} in {}", reported.out);
    }
    gateway.write_config("routes: [");
    assert_eq!(ran(&gateway, &["reload"]).code, Some(1));
    assert!(text().out.contains(", failed: "), "{:?}", text());
    let value = ran(&gateway, &["status", "--output", "json"]);
    let value: Value = serde_json::from_str(&value.out).expect("JSON");
    assert_eq!(value["listeners"], json!([gateway.address().to_string()]));
    assert_eq!(value["endpoints"]["unavailable"][0]["upstream"], "shop");
    assert_eq!(
        (&value["config"]["generation"], &value["config"]["last_reload"]["ok"]),
        (&json!(1), &json!(false))
    );
    let nobody = tollgate(&["status", "--admin", &refused_address().to_string()]);
    assert!(nobody.code == Some(1) && nobody.err.contains("does not answer"), "{nobody:?}");
}

#[test]
fn a_stop_drains_and_waits_for_the_end() {
    let gate = Gate::new();
    let opened = gate.clone();
    let origin = Origin::play(move |conn| {
        while conn.request().is_some() {
            conn.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nold\r\n");
            opened.wait();
            conn.send("4\r\n end\r\n0\r\n\r\n");
        }
    });
    let mut gateway = Gateway::to(&origin);
    let mut client = gateway.client();
    client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    let mut head = client.head();
    let started = ran(&gateway, &["stop", "--no-wait"]);
    assert!(started.code == Some(0) && started.out.contains("1 request in flight"), "{started:?}");
    eventually("the drain", || gateway.stderr().contains("tollgate stops: 1 request in flight"));
    gate.open();
    assert_eq!(client.try_body(&mut head), Ok(()));
    assert_eq!(head.text(), "old end");
    assert_eq!(gateway.wait_exit().code(), Some(0));
    let reported = ran(&gateway, &["stop"]);
    assert!(reported.code == Some(1) && reported.err.contains("does not answer"), "{reported:?}");
}

#[test]
fn a_stop_with_a_timeout_cuts_off_what_takes_longer() {
    let gate = Gate::new();
    let opened = gate.clone();
    let origin = Origin::play(move |conn| {
        while conn.request().is_some() {
            opened.wait();
        }
    });
    let mut gateway = Gateway::with(&origin, "timeouts: {drain: 300s}");
    let mut client = gateway.client();
    client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    eventually("the request is in flight", || {
        ran(&gateway, &["status", "--output", "json"]).out.contains("\"in_flight\": 1")
    });
    let wrong = ran(&gateway, &["stop", "--timeout", "soon"]);
    assert_eq!(wrong.code, Some(2), "{wrong:?}");
    let started = Instant::now();
    let reported = ran(&gateway, &["stop", "--timeout", "200ms"]);
    assert_eq!(
        (reported.code, reported.out),
        (Some(0), format!("process {} has ended\n", gateway.pid())),
        "{}",
        reported.err
    );
    assert!(started.elapsed() < Duration::from_secs(60), "it did not wait for `timeouts.drain`");
    assert_eq!(gateway.wait_exit().code(), Some(0));
    gate.open();
}

#[test]
fn reload_and_stop_have_their_roles() {
    let mut gateway = guarded();
    for (words, token, needed) in [
        (&["reload"][..], READER, "write"),
        (&["stop", "--no-wait"][..], READER, "admin"),
        (&["stop", "--no-wait"][..], WRITER, "admin"),
    ] {
        let reported = ran_with(&gateway, words, token);
        assert!(
            reported.code == Some(1) && reported.err.contains(&format!("needs the role `{needed}`")),
            "{words:?} {reported:?}"
        );
    }
    assert!(ran(&gateway, &["reload"]).err.contains("TOLLGATE_TOKEN"));
    assert_eq!(ran_with(&gateway, &["status"], READER).code, Some(0));
    assert_eq!(ran_with(&gateway, &["cost"], READER).code, Some(0));
    assert_eq!(ran_with(&gateway, &["reload"], WRITER).code, Some(0));
    // A page of another origin neither reloads nor stops the gateway.
    for path in ["/reload", "/stop"] {
        let lines = format!("Authorization: Bearer {OWNER}\r\nOrigin: http://attacker.example\r\n");
        assert_eq!(call(&gateway, "POST", path, &lines, "").status, 403, "{path}");
    }
    let answer =
        call(&gateway, "POST", "/stop?timeout=-1", &format!("Authorization: Bearer {OWNER}\r\n"), "");
    assert_eq!(answer.status, 400, "{answer:?}");
    let reported = ran_with(&gateway, &["stop"], OWNER);
    assert!(reported.code == Some(0) && reported.out.contains("has ended"), "{reported:?}");
    assert!(gateway.wait_exit().success());
    let audit = std::fs::read_to_string(gateway.directory().join("audit.jsonl")).expect("the audit log");
    for (path, who, outcome) in [("reload", "w", "done"), ("stop", "w", "refused"), ("stop", "a", "done")] {
        let is_it = |line: &Value| {
            line["path"] == format!("/api/v1/{path}") && line["who"] == who && line["outcome"] == outcome
        };
        let mut lines = audit.lines().filter_map(|line| serde_json::from_str(line).ok());
        assert!(lines.any(|line| is_it(&line)), "{path} {who} in {audit}");
    }
}

#[test]
fn the_cost_as_text() {
    let gateway = Gateway::start("routes: [{match: /a, respond: a}]");
    let reported = ran(&gateway, &["cost"]);
    assert!(reported.code == Some(0) && reported.out.starts_with("Last 10 s: "), "{reported:?}");
    assert_eq!(gateway.admin("/cost.txt").text().lines().count(), reported.out.lines().count());
    let value = ran(&gateway, &["cost", "--output", "json"]);
    let value: Value = serde_json::from_str(&value.out).expect("JSON");
    assert_eq!(value["windows"][0]["seconds"], 10);
    for path in ["/cost", "/cost.txt", "/status"] {
        assert!(gateway.admin(path).text().ends_with('\n'), "{path}");
    }
}

#[test]
fn the_default_type_of_curl_is_read_where_no_form_can_send_it() {
    let form = "Content-Type: application/x-www-form-urlencoded\r\n";
    let gateway = Gateway::start("store: $DIR/store");
    let put = |body: &str| call(&gateway, "PUT", "/routes/a", form, body);
    assert_eq!(put("{\"match\": \"/a\", \"respond\": \"json\"}").status, 201);
    assert_eq!(gateway.client().get("/a").text(), "json");
    assert_eq!(put("{match: /a, respond: yaml}").status, 200);
    assert_eq!(gateway.client().get("/a").text(), "yaml");
    assert_eq!(call(&gateway, "PATCH", "/routes/a", form, "{\"respond\": \"patched\"}").status, 200);
    assert_eq!(call(&gateway, "PUT", "/upstreams/u", form, "[\"127.0.0.1:1\"]").status, 201);
    // A real form is none of them, and the message says what to add.
    let answer = put("match=/a&respond=x");
    assert_eq!(answer.status, 415);
    assert!(answer.text().contains("-H 'Content-Type: application/json'"), "{}", answer.text());
    // A form of a browser can send a POST: there the type stays required.
    let body = "{\"changes\": [{\"op\": \"delete\", \"kind\": \"routes\", \"name\": \"a\"}]}";
    assert_eq!(call(&gateway, "POST", "/transactions", form, body).status, 415);
    assert_eq!(call(&gateway, "POST", "/transactions", JSON, body).status, 200);
    // A page of another origin gets nowhere with either method.
    let foreign = format!("{form}Origin: http://attacker.example\r\n");
    assert_eq!(
        call(&gateway, "PUT", "/routes/b", &foreign, "{\"match\": \"/b\", \"respond\": \"b\"}").status,
        403
    );
}

#[test]
fn kinds_in_the_singular() {
    let gateway = Gateway::start("store: $DIR/store");
    let said = |words: &[&str]| {
        let ran = ran(&gateway, words);
        assert_eq!(ran.code, Some(0), "{words:?} {ran:?}");
        ran.out
    };
    said(&["set", "route/api", "{match: /api, respond: api}"]);
    assert_eq!(said(&["get", "route/api"]), "match: /api\nrespond: api\n");
    assert_eq!(said(&["get", "route", "api"]), said(&["get", "routes/api"]));
    said(&["set", "policy_sets/framed", "{headers: {response: {set: {X-Set: framed}}}}"]);
    assert!(
        said(&["get", "policies"]).contains("framed") && said(&["get", "policy/framed"]).contains("X-Set")
    );
    said(&["delete", "route/api"]);
}

#[test]
fn an_empty_store_is_reported_once_it_was_read() {
    let mut gateway = Gateway::start("store: $DIR/store");
    gateway.await_message("no routes yet");
    gateway.await_message("tollgate set routes/hello");
    assert_eq!(ran(&gateway, &["set", "routes/a", "{match: /a, respond: a}"]).code, Some(0));
    gateway.kill_and_restart();
    assert_eq!(gateway.client().get("/a").text(), "a");
    assert!(!gateway.stderr().contains("no routes"), "{}", gateway.stderr());
}
