//! `tollgate top` and the documents that it reads: once as text, and live in a pseudo-terminal.

use std::io::{Read, Write};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::thread;
use std::time::Instant;

use serde_json::{Value, json};
use tollgate_tests::{Client, DEADLINE, Gateway, Origin, binary, eventually, free_address, tollgate};

fn gateway(origin: &Origin) -> Gateway {
    Gateway::start(&format!(
        "routes: [{{name: items, match: \"/items/*\", to: shop}}]\nupstreams: {{shop: \"{}\"}}\n",
        origin.address()
    ))
}

fn live(gateway: &Gateway, query: &str) -> Value {
    let response = gateway.admin(&format!("/api/v1/live{query}"));
    assert_eq!(response.status, 200);
    serde_json::from_str(&response.text()).expect("JSON")
}

#[test]
fn the_live_document_tells_what_happened() {
    let origin = Origin::named("a");
    let gateway = gateway(&origin);
    let mut client = gateway.client();
    for path in ["/items/1", "/items/2", "/items/3", "/nowhere"] {
        client.get(path);
    }
    eventually("the requests are counted", || live(&gateway, "")["requests"]["total"] == 4);
    let all = live(&gateway, "");
    assert_eq!(all["requests"]["codes"], json!([0, 0, 3, 0, 1, 0]));
    assert_eq!((&all["routes"][0]["name"], &all["routes"][0]["requests"]), (&json!("items"), &json!(3)));
    assert!(all["routes"][0]["latency"]["p99"].as_f64().expect("known") > 0.0);
    assert_eq!(all["reasons"], json!({ "no_route": 1 }));
    assert_eq!((&all["configured_routes"], &all["clients"]["open"]), (&json!(1), &json!(1)));
    let endpoint = &all["upstreams"][0]["endpoints"][0];
    assert_eq!(endpoint["address"], origin.address().to_string());
    assert_eq!((&endpoint["state"], &endpoint["requests"]), (&json!("available"), &json!(3)));
    assert!(all["resources"]["memory"].as_u64().expect("known") > 1 << 20);
    // The history grows without requests, and `after` limits the answer to newer points.
    let points = |document: &Value| document["history"]["time"].as_array().expect("a column").clone();
    eventually("two seconds of history", || points(&live(&gateway, "")).len() >= 2);
    let before = points(&live(&gateway, ""));
    let last = before.last().expect("a point").as_f64().expect("seconds");
    let later = points(&live(&gateway, &format!("?after={last}")));
    assert!(later.iter().all(|time| time.as_f64() > Some(last)), "{later:?} after {last}");
    assert!(points(&live(&gateway, "?after=9999999999")).is_empty());
}

#[test]
fn explain_by_the_plan_in_force() {
    let origin = Origin::named("a");
    let gateway = gateway(&origin);
    let post = |body: &str| {
        let mut client = Client::connect(gateway.admin_address(), Arc::default());
        client.send(format!(
            "POST /api/v1/explain HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        ));
        let response = client.response_to("POST");
        let value: Value = serde_json::from_str(&response.text()).expect("JSON");
        (response.status, value)
    };
    let (status, answer) = post(r#"{"method": "GET", "url": "/items/7"}"#);
    assert_eq!(status, 200, "{answer}");
    assert_eq!((&answer["route"]["name"], &answer["route"]["line"]), (&json!("items"), &Value::Null));
    // Except for the positions of routes, it is the output of the command for the file.
    let file = gateway.config();
    let ran = tollgate(&["explain", file.to_str().expect("text"), "GET", "/items/7", "--json"]);
    let mut by_command: Value = serde_json::from_str(&ran.out).expect("JSON");
    for key in ["file", "line"] {
        by_command["route"][key] = Value::Null;
    }
    assert_eq!(answer, by_command);
    let (status, answer) = post(r#"{"method": "GET", "url": "/x", "headers": ["A: b", "no colon"]}"#);
    assert_eq!((status, &answer["problems"][0]["pointer"]), (422, &json!("/headers/1")), "{answer}");
    let (status, answer) = post(r#"{"method": "GET"}"#);
    assert!(status == 422 && answer["message"].as_str().expect("text").contains("url"), "{answer}");
    // The answer follows the plan in force: another plan, another answer.
    gateway.write_config("routes: [{name: other, match: \"/items/*\", respond: 204}]");
    gateway.signal(tollgate_tests::Signal::HUP);
    eventually("the new plan answers", || {
        post(r#"{"method": "GET", "url": "/items/7"}"#).1["route"]["name"] == "other"
    });
}

#[test]
fn one_page_for_a_pipe() {
    let origin = Origin::named("a");
    let gateway = gateway(&origin);
    gateway.client().get("/items/1");
    let ran = tollgate(&["top", "--once", "--admin", &gateway.admin_address().to_string()]);
    assert_eq!(ran.code, Some(0), "{}", ran.all());
    for text in ["running, generation 1", "requests", "ROUTE", "items", "ENDPOINT", "available"] {
        assert!(ran.out.contains(text), "{text} in\n{}", ran.out);
    }
    assert!(!ran.out.contains('\u{1b}'), "a pipe gets no escape sequences");
    let nobody = tollgate(&["top", "--once", "--admin", &free_address().to_string()]);
    assert_eq!(nobody.code, Some(1));
    assert!(nobody.err.contains("does not answer"), "{}", nobody.err);
}

#[test]
fn live_in_a_terminal_until_q() {
    let origin = Origin::named("a");
    let gateway = gateway(&origin);
    gateway.client().get("/items/1");
    // `script` (util-linux) opens a pseudo-terminal, which has no size until `stty` sets one.
    let command = format!(
        "stty cols 110 rows 30 && exec '{}' top --admin {}",
        binary().display(),
        gateway.admin_address()
    );
    let mut child = Command::new("script")
        .args(["-qec", &command, "/dev/null"])
        .env("TERM", "xterm-256color")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("script is part of every Debian");
    let (mut keys, mut screen) = (child.stdin.take().expect("piped"), child.stdout.take().expect("piped"));
    let (sender, receiver) = channel();
    thread::spawn(move || {
        let mut chunk = [0; 4096];
        while let Ok(n @ 1..) = screen.read(&mut chunk) {
            let _ = sender.send(String::from_utf8_lossy(&chunk[..n]).into_owned());
        }
    });
    let (mut seen, begun) = (String::new(), Instant::now());
    let mut wait_for = |text: &str| {
        while !seen.contains(text) {
            assert!(begun.elapsed() < DEADLINE * 3, "waited in vain for {text} in\n{seen:?}");
            seen.extend(receiver.recv_timeout(DEADLINE));
        }
        seen.clear();
    };
    wait_for("items");
    keys.write_all(b"\t").expect("a key");
    wait_for("available");
    keys.write_all(b"q").expect("a key");
    let status = child.wait().expect("it ends");
    assert!(status.success(), "{status}");
}
