//! `tollgate trace` and `GET /api/v1/trace`: what a followed request shows, who may follow, and that a follower
//! harms no request.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::process::{Command, Stdio};
use std::sync::Arc;

use serde_json::{Value, json};
use tollgate_tests::http2::request;
use tollgate_tests::{
    Authority, Client, DEADLINE, Gateway, Http2Origin, Origin, Response, TlsPeer, binary, eventually,
    free_address, refused_address, tollgate,
};

/// A client of the API that follows requests.
struct Follower {
    client: Client,
    pending: Vec<u8>,
}

/// Starts to follow. When it returns, all workers gather.
fn follow(gateway: &Gateway, query: &str) -> Follower {
    let mut client = Client::connect(gateway.admin_address(), Arc::default());
    client.send(format!("GET /api/v1/trace?{query} HTTP/1.1\r\nHost: localhost\r\n\r\n"));
    let head = client.head();
    assert_eq!(head.status, 200, "{head:?}");
    assert_eq!(head.headers.get("content-type"), Some("application/x-ndjson"));
    Follower { client, pending: Vec::new() }
}

impl Follower {
    /// Returns the next line that is not empty; `None` at the end of the response.
    fn line(&mut self) -> Option<Value> {
        loop {
            if let Some(end) = self.pending.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.pending.drain(..=end).collect();
                if line.len() > 1 {
                    return Some(serde_json::from_slice(&line).expect("JSON"));
                }
                continue;
            }
            match self.client.wire().chunk().expect("a chunk") {
                Ok(data) => self.pending.extend(data),
                Err(_) => return None,
            }
        }
    }

    fn next(&mut self) -> Value {
        self.line().expect("a trace")
    }
}

/// Returns the steps with this name.
fn steps<'a>(trace: &'a Value, name: &str) -> Vec<&'a Value> {
    let steps = trace["steps"].as_array().expect("steps");
    steps.iter().filter(|step| step["step"] == name).collect()
}

/// Returns the only step with this name.
fn step<'a>(trace: &'a Value, name: &str) -> &'a Value {
    match steps(trace, name).as_slice() {
        [step] => step,
        other => panic!("{} steps `{name}` in {trace:#}", other.len()),
    }
}

/// Returns the value of a field of a head.
fn field<'a>(head: &'a Value, name: &str) -> &'a Value {
    let fields = head["fields"].as_array().expect("fields");
    let found =
        fields.iter().find(|field| field["name"].as_str().is_some_and(|it| it.eq_ignore_ascii_case(name)));
    &found.unwrap_or_else(|| panic!("no {name} in {head:#}"))["value"]
}

fn metric(gateway: &Gateway, name: &str) -> f64 {
    gateway.metrics().sum(name, "").expect("the metric")
}

fn ask_admin(gateway: &Gateway, path: &str, lines: &str) -> Response {
    let mut client = Client::connect(gateway.admin_address(), Arc::default());
    client.ask(format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n{lines}Connection: close\r\n\r\n"))
}

#[test]
fn a_plain_request_shows_route_endpoint_and_status() {
    let origin = Origin::named("hello");
    let gateway = Gateway::start(&format!(
        "routes:\n- {{name: all, match: \"/*\", respond: 204}}\n- {{name: items, match: \"/items/*\", to: shop}}\n\
         upstreams: {{shop: \"{}\"}}\n",
        origin.address()
    ));
    let mut follower = follow(&gateway, "");
    let mut client = gateway.client();
    client.ask("GET /items/1?page=2&key=abc HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer abc\r\nCookie: a=abc\r\nX-Key: abc\r\n\r\n");
    let trace = follower.next();
    assert_eq!((&trace["method"], &trace["host"]), (&json!("GET"), &json!("h")));
    assert_eq!((&trace["target"], &trace["status"]), (&json!("/items/1?page=*&key=*"), &json!(200)));
    assert!(step(&trace, "connection")["peer"].as_str().is_some_and(|peer| peer.starts_with("127.0.0.1:")));
    let route = step(&trace, "route");
    assert_eq!((&route["name"], &route["action"]), (&json!("items"), &json!("forward")));
    assert_eq!(route["because"], json!(["the path is /items or below it"]));
    assert_eq!(
        route["others"][0],
        json!({"name": "all", "why": "it matches, but its path is less specific"})
    );
    let attempt = step(&trace, "attempt");
    assert_eq!((&attempt["upstream"], &attempt["status"]), (&json!("shop"), &json!(200)));
    assert_eq!(attempt["endpoint"], origin.address().to_string());
    assert_eq!(attempt["reused"], false);
    assert!(attempt["connect_ms"].as_f64().is_some());
    let sent = step(&trace, "sent");
    assert_eq!(sent["line"], "GET /items/1?page=*&key=*");
    assert_eq!((field(sent, "host"), field(sent, "authorization")), (&json!("h"), &Value::Null));
    assert_eq!((field(sent, "cookie"), field(sent, "x-forwarded-for")), (&Value::Null, &json!("127.0.0.1")));
    assert_eq!(step(&trace, "received")["line"], "200");
    let response = step(&trace, "response");
    assert_eq!((&response["by"], &response["bytes"]), (&json!("endpoint"), &json!(5)));
    assert_eq!(step(&trace, "end")["reason"], Value::Null);
    assert!(!trace.to_string().contains("abc"), "a credential is shown: {trace:#}");
    // The trace shows the request that the origin received.
    let got = origin.request();
    let names: Vec<_> =
        sent["fields"].as_array().expect("fields").iter().map(|it| it["name"].clone()).collect();
    assert_eq!(json!(names), json!(got.headers.names()));
    // Times do not go back.
    let times: Vec<f64> =
        trace["steps"].as_array().expect("steps").iter().filter_map(|step| step["at_ms"].as_f64()).collect();
    assert!(times.is_sorted() && times.len() >= 4, "{times:?}");
    // The next one takes the connection of the pool.
    client.get("/items/2");
    assert_eq!(step(&follower.next(), "attempt")["reused"], true);
}

#[test]
fn the_command_prints_the_steps() {
    let origin = Origin::ok();
    let gateway =
        Gateway::start(&format!("access_log: off\nroutes: [{{name: r, to: \"{}\"}}]\n", origin.address()));
    let admin = gateway.admin_address().to_string();
    let mut child = Command::new(binary())
        .args(["trace", "--limit", "1", "--status", "2xx", "--admin", &admin])
        .stdout(Stdio::piped())
        .spawn()
        .expect("it starts");
    let mut out = BufReader::new(child.stdout.take().expect("piped"));
    // The command prints nothing when it begins to follow. It ends after the first request.
    eventually("a request is shown", || {
        gateway.client().get("/a?b=c");
        child.try_wait().expect("the child is ours").is_some()
    });
    assert!(child.wait().expect("it ended").success());
    let mut text = String::new();
    while out.read_line(&mut text).expect("text") > 0 {}
    for part in [
        "GET test.example/a?b=*: 200, ",
        " connection from 127.0.0.1:",
        " route      r (forward): it takes every request\n",
        &format!(" attempt 1  {}, ", origin.address()),
        " sent       GET /a?b=*, no body\n",
        " received   200\n",
        " response   200 by the endpoint, 2 bytes of body\n",
        " end        complete\n",
    ] {
        assert!(text.contains(part), "{part:?} in\n{text}");
    }
    let ran = tollgate(&["trace", "--path", "items", "--admin", &admin]);
    assert!(ran.code == Some(1) && ran.err.starts_with("error: "), "{ran:?}");
}

#[test]
fn a_retry_shows_both_attempts_with_their_reasons() {
    let origin = Origin::ok();
    let unavailable = Origin::fixed("HTTP/1.1 503 X\r\nContent-Length: 0\r\n\r\n");
    let endpoints = [refused_address(), unavailable.address(), origin.address()].map(|it| it.to_string());
    let gateway = Gateway::start(&format!(
        "routes: [{{to: u}}]\n\
         upstreams: {{u: {{endpoints: {endpoints:?}, outlier: off, retry: {{attempts: 3, on: [connect_failure, 5xx]}}}}}}\n"
    ));
    let mut follower = follow(&gateway, "");
    assert_eq!(gateway.client().get("/").status, 200);
    let trace = follower.next();
    assert_eq!(step(&trace, "sent")["line"], "GET /");
    let attempts = steps(&trace, "attempt");
    let shown: Vec<_> =
        attempts.iter().map(|it| (&it["number"], &it["endpoint"], &it["status"], &it["reason"])).collect();
    let (refused, none) = (json!("connection_refused"), Value::Null);
    let [first, second, third] = endpoints.map(|it| json!(it));
    assert_eq!(
        shown,
        [
            (&json!(1), &first, &none, &refused),
            (&json!(2), &second, &json!(503), &none),
            (&json!(3), &third, &json!(200), &none),
        ]
    );
    assert_eq!(attempts[2]["reused"], false);
}

#[test]
fn an_attempt_without_a_connection_has_sent_nothing() {
    let gateway = Gateway::start(&format!("routes: [{{to: \"{}\"}}]\n", refused_address()));
    let mut follower = follow(&gateway, "status=502");
    gateway.client().get("/");
    let trace = follower.next();
    let attempts = steps(&trace, "attempt");
    assert!(
        attempts.iter().all(|it| it["reason"] == "connection_refused" && it["reused"].is_null()),
        "{trace:#}"
    );
    assert!(!attempts.is_empty() && steps(&trace, "sent").is_empty() && steps(&trace, "received").is_empty());
    let response = step(&trace, "response");
    assert_eq!(
        (&response["by"], field(response, "tollgate-reason")),
        (&json!("gateway"), &json!("connection_refused"))
    );
}

#[test]
fn policies_show_their_verdicts() {
    let origin = Origin::ok();
    let gateway = Gateway::start(&format!(
        "routes:\n\
         - {{name: closed, match: /closed, to: \"{0}\", policies: {{ip: {{deny: 127.0.0.0/8}}, rate_limit: {{rate: 1/s}}}}}}\n\
         - {{name: open, match: /open, to: \"{0}\", policies: {{rate_limit: {{rate: 1000/s}}, fault: {{delay: {{time: 30ms}}}}}}}}\n",
        origin.address()
    ));
    let mut follower = follow(&gateway, "");
    assert_eq!(gateway.client().get("/closed").status, 403);
    let trace = follower.next();
    let policies = steps(&trace, "policy");
    let shown: Vec<_> = policies.iter().map(|it| (&it["kind"], &it["place"], &it["verdict"])).collect();
    let place = json!("route/closed");
    assert_eq!(shown[0], (&json!("ip"), &place, &json!("refuse with 403: address_denied")), "{trace:#}");
    assert_eq!(shown[1], (&json!("rate_limit"), &place, &json!("not evaluated")));
    assert!(steps(&trace, "attempt").is_empty() && steps(&trace, "sent").is_empty());
    assert_eq!(
        (&step(&trace, "response")["by"], &step(&trace, "end")["reason"]),
        (&json!("gateway"), &json!("address_denied"))
    );
    assert_eq!(gateway.client().get("/open").status, 200);
    let trace = follower.next();
    let policies = steps(&trace, "policy");
    assert!(policies.iter().all(|it| it["verdict"] == "continue") && policies.len() == 2, "{trace:#}");
    let fault = policies.iter().find(|it| it["kind"] == "fault").expect("it was evaluated");
    assert_eq!(fault["waited_for"], json!(["a delay"]));
    let waited = fault["waited_ms"].as_f64().expect("a time");
    let attempt = step(&trace, "attempt")["at_ms"].as_f64().expect("a time");
    assert!(waited >= 29.0 && attempt >= waited, "{trace:#}");
}

#[test]
fn filters_filter() {
    let origin = Origin::ok();
    let gateway = Gateway::start(&format!("routes: [{{match: \"/v1/*\", to: \"{}\"}}]\n", origin.address()));
    let mut client = gateway.client();
    // Only the last request passes the filter. Any other one would be shown before it.
    for (query, others, last) in [
        ("host=*.example.com", &["a /v1/1", "example.com /v1/2"][..], "a.example.com /v1/3"),
        ("path=/v1/a/*", &["a /v1/1", "a /v1/ab"], "a /v1/a/b"),
        ("path=/v1/%7Bid%7D", &["a /v1", "a /v1/a/b"], "a /v1/7"),
        ("status=404", &["a /v1/1"], "a /nowhere"),
        ("status=4xx,5xx&host=b", &["a /v1/1", "a /nowhere", "b /v1/1"], "b /nowhere"),
        ("reason=no_route", &["a /v1/1"], "a /nowhere"),
        ("client=127.0.0.0/8", &[], "a /v1/1"),
    ] {
        let mut follower = follow(&gateway, &format!("{query}&limit=1"));
        for sent in others.iter().chain([&last]) {
            let (host, path) = sent.split_once(' ').expect("two words");
            client.ask(format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n"));
        }
        let trace = follower.next();
        let shown =
            format!("{} {}", trace["host"].as_str().unwrap_or(""), trace["target"].as_str().unwrap_or(""));
        assert_eq!(shown, last, "{query}");
        assert_eq!(follower.line(), None, "{query}: the limit ends the response");
    }
    let mut follower = follow(&gateway, "client=192.0.2.1");
    let mut all = follow(&gateway, "limit=1");
    client.get("/v1/1");
    all.next();
    assert!(follower.client.wire().pending().is_empty());
    follower.client.expect_silence(std::time::Duration::from_millis(50));
    for query in ["path=v1", "host=a%20b", "client=x", "status=fine", "reason=x", "limit=x", "other=1"] {
        let refused = ask_admin(&gateway, &format!("/api/v1/trace?{query}"), "");
        assert!(refused.status == 400 && refused.text().contains("bad_request"), "{query}: {refused:?}");
    }
}

#[test]
fn requests_that_reach_no_endpoint() {
    let gateway = Gateway::start("routes: [{name: old, match: /old, redirect: {path: /new}}]\n");
    let mut follower = follow(&gateway, "");
    gateway.client().get("/nowhere");
    let trace = follower.next();
    let nearest = &step(&trace, "no_route")["nearest"][0];
    assert_eq!(*nearest, json!({"name": "old", "why": "the path does not match"}), "{trace:#}");
    assert_eq!((&trace["status"], &trace["reason"]), (&json!(404), &json!("no_route")));
    gateway.client().get("/old");
    let trace = follower.next();
    assert_eq!(step(&trace, "route")["action"], "redirect");
    assert_eq!(
        (&step(&trace, "response")["by"], &step(&trace, "response")["line"]),
        (&json!("gateway"), &json!("302"))
    );
    gateway.client().ask("GET /a b?key=secret HTTP/1.1\r\nHost: h\r\n\r\n");
    let trace = follower.next();
    assert_eq!((&trace["method"], &trace["reason"]), (&Value::Null, &json!("bad_request_line")), "{trace:#}");
    assert!(
        step(&trace, "unreadable")["bytes"].is_string() && !trace.to_string().contains("secret"),
        "{trace:#}"
    );
    gateway.client().ask("GET /a HTTP/1.1\r\nHost: h\r\nX Thing: secret\r\n\r\n");
    let trace = follower.next();
    assert_eq!(step(&trace, "end")["detail"], "X Thing: ...", "{trace:#}");
    gateway.client().ask("GET /%00 HTTP/1.1\r\nHost: h\r\n\r\n");
    let trace = follower.next();
    assert_eq!(trace["reason"], "bad_path");
    assert!(steps(&trace, "route").is_empty() && step(&trace, "end")["detail"].is_string(), "{trace:#}");
}

#[test]
fn a_fallback_shows_the_attempt_that_it_replaces() {
    let origin = Origin::ok();
    let gateway = Gateway::start(&format!(
        "routes:\n- {{match: /other, to: dead, fallback: {{on: 5xx, to: shop}}}}\n\
         - {{match: /fixed, to: dead, fallback: {{on: 5xx, respond: {{status: 503, body: sorry}}}}}}\n\
         upstreams: {{shop: \"{}\", dead: {{endpoints: \"{}\", retry: off}}}}\n",
        origin.address(),
        refused_address()
    ));
    let mut follower = follow(&gateway, "");
    for (path, shown) in [
        ("/other", json!([["dead", null, "connection_refused"], ["shop", 200, null]])),
        ("/fixed", json!([["dead", null, "connection_refused"]])),
    ] {
        gateway.client().get(path);
        let trace = follower.next();
        let attempts = steps(&trace, "attempt")
            .into_iter()
            .map(|it| json!([it["upstream"], it["status"], it["reason"]]));
        assert_eq!(attempts.collect::<Value>(), shown, "{trace:#}");
    }
}

#[test]
fn a_client_that_leaves() {
    let origin = Origin::play(|conn| {
        while conn.request().is_some() {
            conn.wait_close();
        }
    });
    let gateway = Gateway::to(&origin);
    let mut follower = follow(&gateway, "status=0");
    let mut client = gateway.client();
    client.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n");
    eventually("the origin has the request", || origin.count() == 1);
    client.reset();
    let trace = follower.next();
    assert_eq!((&trace["status"], &trace["reason"]), (&json!(0), &json!("client_closed")));
    assert_eq!(step(&trace, "attempt")["reason"], "client_closed");
    assert!(steps(&trace, "response").is_empty(), "{trace:#}");
}

#[test]
fn http2_and_grpc() {
    let origin = Http2Origin::play(|stream| {
        stream.body();
        stream.head(200, &[("content-type", "application/grpc"), ("grpc-status", "5")], true);
    });
    let gateway = Gateway::start(&format!("routes: [{{name: r, to: \"h2c://{}\"}}]", origin.address()));
    let mut follower = follow(&gateway, "");
    let mut client = gateway.http2();
    let fields = [("content-type", "application/grpc"), ("te", "trailers")];
    let mut stream = client.begin(request("POST", "/shop.Orders/Place", &fields), false).expect("begun");
    let _ = stream.send(&b"\0\0\0\0\0"[..], true);
    stream.response().expect("an answer");
    let trace = follower.next();
    assert_eq!(step(&trace, "request")["version"], "HTTP/2.0");
    assert_eq!(
        (&step(&trace, "sent")["line"], &step(&trace, "sent")["bytes"]),
        (&json!("POST /shop.Orders/Place"), &json!(5))
    );
    assert_eq!(
        (&step(&trace, "attempt")["status"], &step(&trace, "end")["grpc_status"]),
        (&json!(200), &json!(5))
    );
}

#[test]
fn a_hedged_request_shows_both_attempts() {
    let slow = Origin::play(|conn| {
        while conn.request().is_some() {
            conn.wait_close();
        }
    });
    let quick = Origin::ok();
    let endpoints = [slow.address().to_string(), quick.address().to_string()];
    let gateway = Gateway::start(&format!(
        "routes: [{{to: u}}]\nupstreams: {{u: {{endpoints: {endpoints:?}, hedge: 20ms, outlier: off}}}}\n"
    ));
    let mut follower = follow(&gateway, "");
    assert_eq!(gateway.client().get("/").status, 200);
    let trace = follower.next();
    let attempts = steps(&trace, "attempt");
    assert_eq!(attempts.len(), 2, "{trace:#}");
    assert_eq!((&attempts[0]["endpoint"], &attempts[0]["status"]), (&json!(endpoints[0]), &Value::Null));
    assert_eq!((&attempts[1]["endpoint"], &attempts[1]["status"]), (&json!(endpoints[1]), &json!(200)));
    assert!(attempts[1]["at_ms"].as_f64() >= Some(19.0), "{trace:#}");
}

#[test]
fn a_follower_that_does_not_read_loses_traces_and_harms_no_request() {
    let gateway = Gateway::start("access_log: off\nroutes: [{match: \"/*\", respond: hello}]\n");
    let mut slow = Client::connect_small(gateway.admin_address(), Arc::default(), 4096);
    slow.send("GET /api/v1/trace HTTP/1.1\r\nHost: localhost\r\n\r\n");
    assert_eq!(slow.head().status, 200);
    let mut client = gateway.client();
    let path = format!("/{}", "a".repeat(1000));
    eventually("traces are lost", || {
        for _ in 0..100 {
            assert_eq!(client.get(&path).text(), "hello");
        }
        metric(&gateway, "tollgate_traces_lost_total") > 0.0
    });
    // It gets the number of lost traces when it reads again.
    let mut slow = Follower { client: slow, pending: Vec::new() };
    let lost = loop {
        client.get(&path);
        if let Some(lost) = slow.next().get("lost") {
            break lost.as_u64().expect("a number");
        }
    };
    assert!(lost > 0 && lost as f64 <= metric(&gateway, "tollgate_traces_lost_total"), "{lost}");
}

#[test]
fn without_followers_no_trace_is_built() {
    let gateway = Gateway::start("routes: [{match: \"/*\", respond: hello}]\n");
    let mut client = gateway.client();
    client.get("/");
    assert_eq!(metric(&gateway, "tollgate_traces_total"), 0.0);
    let mut follower = follow(&gateway, "");
    assert_eq!(metric(&gateway, "tollgate_trace_followers"), 1.0);
    // A reload of the access log does not end it.
    gateway.write_config(
        "access_log: {to: $DIR/other.log}\nroutes: [{name: new, match: \"/*\", respond: hello}]\n",
    );
    gateway.signal(tollgate_tests::Signal::HUP);
    eventually("the new plan is in force", || {
        client.get("/");
        step(&follower.next(), "route")["name"] == "new"
    });
    drop(follower);
    eventually("the follower is gone", || metric(&gateway, "tollgate_trace_followers") == 0.0);
    eventually("the worker has the new list", || {
        let before = metric(&gateway, "tollgate_traces_total");
        client.get("/");
        client.get("/");
        metric(&gateway, "tollgate_traces_total") == before
    });
    let (traces, requests) =
        (metric(&gateway, "tollgate_traces_total"), metric(&gateway, "tollgate_requests_total"));
    for _ in 0..10 {
        client.get("/");
    }
    eventually("the requests are counted", || metric(&gateway, "tollgate_requests_total") >= requests + 10.0);
    assert_eq!(metric(&gateway, "tollgate_traces_total"), traces);
}

#[test]
fn a_few_clients_with_the_role_may_follow() {
    let gateway = Gateway::start(
        "admin: {bind: $ADMIN, audit_log: audit.jsonl, tokens: {\
         looks: {role: read, token: reader-reader-reader}, works: {role: write, token: writer-writer-writer}}}\n\
         routes: [{match: \"/*\", respond: hello}]\n",
    );
    let path = "/api/v1/trace?limit=0";
    assert_eq!(ask_admin(&gateway, path, "").status, 401);
    let refused = ask_admin(&gateway, path, "Authorization: Bearer reader-reader-reader\r\n");
    assert!(refused.status == 403 && refused.text().contains("needs the role `write`"), "{refused:?}");
    let right = "Authorization: Bearer writer-writer-writer\r\n";
    assert_eq!(ask_admin(&gateway, path, right).status, 200);
    let foreign = format!("{right}Origin: http://evil.example\r\n");
    assert_eq!(ask_admin(&gateway, path, &foreign).status, 403);
    gateway.await_message("audit: requests are followed by works");
    let audited = std::fs::read_to_string(gateway.directory().join("audit.jsonl")).expect("an audit log");
    let entries: Vec<Value> = audited.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let done = entries.iter().find(|entry| entry["outcome"] == "done").expect("the one that followed");
    assert_eq!((&done["who"], &done["path"]), (&json!("works"), &json!("/api/v1/trace")));
    let open = Gateway::start("routes: [{match: \"/*\", respond: hello}]\n");
    let mut followers: Vec<_> = (0..4).map(|_| follow(&open, "limit=1")).collect();
    let busy = ask_admin(&open, path, "");
    assert!(busy.status == 503 && busy.text().contains("\"busy\""), "{busy:?}");
    // All of them get the same request.
    open.client().get("/");
    let traces: Vec<_> = followers.iter_mut().map(Follower::next).collect();
    assert!(traces.iter().all(|trace| *trace == traces[0]));
    eventually("there is room again", || ask_admin(&open, path, "").status == 200);
}

#[test]
fn a_connection_shows_its_tls() {
    let (gateway, authority, _files) =
        crate::tls::gateway("listen: {bind: $LISTEN, tls: {$A}}\nroutes: [{respond: hello}]\n");
    let mut follower = follow(&gateway, "");
    let mut client =
        TlsPeer::trusting(&authority).connect(gateway.address(), "a.example").expect("a handshake");
    client.get("a.example", "/");
    let trace = follower.next();
    let tls = &step(&trace, "connection")["tls"];
    assert_eq!((&tls["version"], &tls["server_name"]), (&json!("1.3"), &json!("a.example")), "{trace:#}");
}

#[test]
fn a_trusted_proxy_announces_the_client() {
    let gateway = Gateway::start("forwarded: {trusted_proxies: 127.0.0.0/8}\nroutes: [{respond: hello}]\n");
    let mut follower = follow(&gateway, "client=198.51.100.0/24&limit=1");
    let mut client = gateway.client();
    client.get("/");
    client.ask("GET / HTTP/1.1\r\nHost: h\r\nX-Forwarded-For: 198.51.100.7\r\n\r\n");
    assert_eq!(step(&follower.next(), "connection")["client"], "198.51.100.7");
    assert_eq!(follower.line(), None);
}

/// Connects to a stream, and reads to the end after a word.
fn speak(address: SocketAddr, word: &[u8]) -> Vec<u8> {
    let mut client = TcpStream::connect(address).expect("the gateway accepts");
    client.set_read_timeout(Some(DEADLINE)).expect("a timeout");
    client.write_all(word).expect("written");
    let mut answer = Vec::new();
    let _ = client.read_to_end(&mut answer);
    answer
}

#[test]
fn a_stream_shows_its_steps() {
    let origin = Origin::play(|conn| {
        if conn.wire().take(4).is_ok() {
            conn.send("pong!");
        }
    });
    let address = free_address();
    let gateway = Gateway::start(&format!(
        "listen: [$LISTEN, {{bind: \"{address}\", name: l4, protocol: tcp}}]\nroutes: [{{match: /*, respond: 204}}]\n\
         streams:\n- {{name: mail, listeners: l4, server_names: mail.example.com, to: mail}}\n\
         - {{name: db, listeners: l4, to: db}}\n\
         upstreams: {{mail: \"{0}\", db: [\"{1}\", \"{0}\"]}}\n",
        origin.address(),
        refused_address()
    ));
    let mut follower = follow(&gateway, "stream=db");
    assert_eq!(gateway.client().get("/").status, 204, "a request that is not asked for");
    // One of the first two connections meets the endpoint that refuses, which the balancer picks in turn.
    let traces: Vec<Value> = (0..2)
        .map(|_| {
            assert_eq!(speak(address, b"ping"), b"pong!");
            follower.next()
        })
        .collect();
    let trace = traces.iter().find(|trace| steps(trace, "connect").len() == 2).expect("a failed attempt");
    assert_eq!(trace["stream"], json!({"protocol": "TCP", "name": "db"}));
    assert_eq!(
        (&trace["status"], &trace["method"], &trace["reason"]),
        (&json!(0), &Value::Null, &Value::Null)
    );
    assert!(step(trace, "accepted")["client"].as_str().is_some_and(|it| it.starts_with("127.0.0.1:")));
    assert!(steps(trace, "client_hello").is_empty());
    assert_eq!(step(trace, "stream")["action"], "forward");
    let [failed, made] = steps(trace, "connect")[..] else { panic!("two") };
    assert_eq!((&failed["number"], &failed["reason"]), (&json!(1), &json!("connection_refused")));
    assert_eq!((&made["number"], &made["reason"]), (&json!(2), &Value::Null));
    assert_eq!((&made["upstream"], &made["endpoint"]), (&json!("db"), &json!(origin.address().to_string())));
    assert!(made["connect_ms"].as_f64().is_some() && made["took_ms"].as_f64().is_some(), "{made}");
    let relay = step(trace, "relay");
    assert_eq!((&relay["bytes_in"], &relay["bytes_out"]), (&json!(4), &json!(5)));
    assert_eq!(step(trace, "end")["reason"], Value::Null);
    let times: Vec<f64> =
        trace["steps"].as_array().expect("steps").iter().filter_map(|step| step["at_ms"].as_f64()).collect();
    assert!(times.is_sorted() && times.len() == 6, "{times:?}");
    drop(follower);

    // The server name of a handshake is shown, and can be asked for.
    let mut follower = follow(&gateway, "host=*.example.com");
    speak(address, b"ping");
    let peer = TlsPeer::trusting(&Authority::new()).offering(&["h2", "http/1.1"]);
    assert!(peer.connect(address, "mail.example.com").is_err(), "the endpoint speaks no TLS");
    let trace = follower.next();
    assert_eq!((&trace["stream"]["name"], &trace["host"]), (&json!("mail"), &json!("mail.example.com")));
    let hello = step(&trace, "client_hello");
    assert_eq!(
        (&hello["server_name"], &hello["alpn"]),
        (&json!("mail.example.com"), &json!(["h2", "http/1.1"]))
    );
    assert!(hello["at_ms"].as_f64().is_some());
    // Conditions of requests exclude streams.
    drop(follower);
    let mut follower = follow(&gateway, "status=2xx&limit=1");
    speak(address, b"ping");
    assert_eq!(gateway.client().get("/").status, 204);
    let trace = follower.next();
    assert_eq!((&trace["stream"], &trace["status"]), (&Value::Null, &json!(204)));
    let ran = tollgate(&[
        "trace",
        "--stream",
        "db",
        "--path",
        "/",
        "--admin",
        &gateway.admin_address().to_string(),
    ]);
    assert!(ran.code == Some(1) && ran.err.contains("path: a stream of layer 4 has none"), "{ran:?}");
}

#[test]
fn a_stream_that_fails_and_a_session_of_datagrams() {
    let server = UdpSocket::bind("127.0.0.1:0").expect("loopback");
    let (tcp, udp) = (free_address(), free_address());
    let gateway = Gateway::start(&format!(
        "listen:\n- $LISTEN\n- {{bind: \"{tcp}\", protocol: tcp, name: gone, to: \"{}\"}}\n\
         - {{bind: \"{udp}\", protocol: udp, name: dns}}\nroutes: []\n\
         streams: [{{name: dns, listeners: dns, to: \"{}\", timeouts: {{idle: 200ms}}}}]\n",
        refused_address(),
        server.local_addr().expect("bound")
    ));
    let mut follower = follow(&gateway, "stream=*");
    assert!(speak(tcp, b"").is_empty());
    let trace = follower.next();
    assert_eq!((&trace["stream"]["name"], &trace["reason"]), (&json!("gone"), &json!("connection_refused")));
    assert_eq!(steps(&trace, "connect").last().expect("one")["reason"], "connection_refused");
    assert!(steps(&trace, "relay").is_empty(), "{trace:#}");
    let client = UdpSocket::bind("127.0.0.1:0").expect("loopback");
    client.send_to(b"question", udp).expect("sent");
    let trace = follower.next();
    assert_eq!(trace["stream"], json!({"protocol": "UDP", "name": "dns"}));
    assert_eq!(step(&trace, "relay")["bytes_in"], 8);
    assert_eq!(step(&trace, "end")["reason"], "idle_timeout");
}
