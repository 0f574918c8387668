//! The bounds of the process's own resources: memory and file descriptors.

use std::time::Duration;

use serde_json::{Value, json};
use tollgate_tests::frames::pseudo;
use tollgate_tests::{Client, Gateway, Origin, Signal, eventually, limit_files};

/// Returns a config with a route for each of three priorities, and a route that the gateway answers itself.
fn config(origin: &Origin, overload: &str) -> String {
    let to = format!("to: \"{}\"", origin.address());
    let buffer = "buffer: {request: {memory: 64MiB}}, limits: {body: 64MiB}";
    format!(
        "overload: {overload}\nroutes:\n  - {{match: \"/upload\", {to}, {buffer}}}\n  - {{match: \"/*\", {to}}}\n  \
         - {{match: \"/low\", {to}, priority: low}}\n  - {{match: \"/high\", {to}, priority: high}}\n  - {{match: \"/healthy\", respond: 204}}\n"
    )
}

fn status(gateway: &Gateway) -> Value {
    let text = gateway.admin("/status").text();
    let value: Value = serde_json::from_str(&text).unwrap_or_else(|_| panic!("JSON: {text}"));
    value["overload"].clone()
}

/// Reloads the config with a memory bound of which the current memory is the share `used`, and waits until
/// `shed` is in force.
fn bound_memory(gateway: &Gateway, origin: &Origin, used: f64, shed: &Value) {
    let resident = gateway.memory_kib("VmRSS") * 1024;
    let bound = (resident as f64 / used) as u64;
    gateway.write_config(&config(origin, &format!("{{memory: {bound}, shed_from: 40%}}")));
    gateway.signal(Signal::HUP);
    eventually("the guard to look", || status(gateway)["shed"] == *shed);
}

fn answers(client: &mut Client) -> [(u16, String); 4] {
    ["/low", "/", "/high", "/healthy"].map(|target| {
        let response = client.get(target);
        (response.status, response.reason().to_owned())
    })
}

#[test]
fn when_memory_is_short_the_lowest_priority_goes_first() {
    const UPLOAD: usize = 24 << 20;
    let origin = Origin::ok();
    let gateway = Gateway::start(&config(&origin, "{memory: 4GiB}"));
    let mut client = gateway.client();
    // A collected body without its last byte takes memory, so that the bounds below are well above the
    // minimum.
    let mut upload = gateway.client();
    upload.send(format!("POST /upload HTTP/1.1\r\nHost: a\r\nContent-Length: {UPLOAD}\r\n\r\n"));
    upload.send(vec![b'x'; UPLOAD - 1]);
    eventually("the body to be there", || gateway.memory_kib("VmRSS") * 1024 > UPLOAD as u64);
    let good = (200, "-".to_owned());
    let (shed, own) = ((503, "overload".to_owned()), (204, "-".to_owned()));
    assert_eq!(answers(&mut client), [good.clone(), good.clone(), good.clone(), own.clone()]);
    // The thresholds are 40 % and 70 %: far from the changes of memory during the test.
    bound_memory(&gateway, &origin, 0.55, &json!(["low"]));
    assert_eq!(answers(&mut client), [shed.clone(), good.clone(), good.clone(), own.clone()]);
    bound_memory(&gateway, &origin, 0.85, &json!(["low", "normal"]));
    assert_eq!(answers(&mut client), [shed.clone(), shed.clone(), good.clone(), own.clone()]);
    assert_eq!(gateway.client().get("/high").status, 200, "who is new is let in");
    bound_memory(&gateway, &origin, 1.3, &json!(["low", "normal", "high"]));
    assert_eq!(answers(&mut client), [shed.clone(), shed.clone(), shed.clone(), own.clone()]);
    refused(&gateway);
    let metrics = gateway.metrics();
    assert!(metrics.sum("tollgate_overload_ratio", "resource=\"memory\"").is_some_and(|ratio| ratio > 1.0));
    let count =
        |priority: &str| metrics.sum("tollgate_overload_shed_total", &format!("priority=\"{priority}\""));
    assert_eq!([count("low"), count("normal"), count("high")], [Some(3.0), Some(2.0), Some(1.0)]);
    upload.send("x");
    assert_eq!(upload.response().status, 200, "what is under way goes on");
    // All requests are admitted again.
    gateway.write_config(&config(&origin, "{memory: 4GiB}"));
    gateway.signal(Signal::HUP);
    eventually("the guard to look", || status(&gateway)["shed"] == json!([]));
    assert_eq!(answers(&mut client), [good.clone(), good.clone(), good, own]);
    let stderr = gateway.stderr();
    for line in
        ["requests of low priority", "requests of low and normal priority", "all requests and new client"]
    {
        assert!(stderr.contains(&format!("warning: overload: {line}")), "{line} in {stderr}");
    }
}

/// Asserts that the gateway refuses a new connection before it reads a request.
fn refused(gateway: &Gateway) {
    let mut client = gateway.client();
    let response = client.response();
    assert_eq!((response.status, response.reason()), (503, "overload"));
    client.expect_close();
}

#[test]
fn connections_past_the_descriptors_are_refused_and_the_others_go_on() {
    let origin = Origin::ok();
    let gateway = Gateway::start(&config(&origin, "{files: 80%}"));
    let mut first = gateway.client();
    assert_eq!(first.get("/").status, 200);
    // Few enough that some clients reach the bound, and enough for connections to the endpoint.
    let limit = gateway.open_files() as u64 + 60;
    limit_files(gateway.pid(), limit);
    eventually("the guard to look", || status(&gateway)["files"]["bound"] == json!(limit * 80 / 100));
    let mut kept = Vec::new();
    // All at once: between two checks of the guard, more than there are descriptors.
    let clients: Vec<_> = (0..120).map(|_| gateway.client()).collect();
    let mut turned_away = 0;
    for mut client in clients {
        client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
        // A client that was refused earlier may find its connection reset.
        match client.try_response("GET") {
            Ok(response) if response.status == 200 => kept.push(client),
            Ok(response) => {
                assert_eq!((response.status, response.reason()), (503, "overload"));
                turned_away += 1;
            }
            Err(_) => turned_away += 1,
        }
    }
    assert!(kept.len() >= 10 && turned_away >= 60, "{} kept, {turned_away} turned away", kept.len());
    assert!(gateway.open_files() as u64 <= limit * 80 / 100 + 8, "{} of {limit}", gateway.open_files());
    eventually("the guard to look", || status(&gateway)["shed"] == json!(["low"]));
    for client in kept.iter_mut().chain([&mut first]) {
        assert_eq!(client.get("/").status, 200);
        assert_eq!(client.get("/low").reason(), "overload", "past 90 % of the bound");
    }
    let metrics = gateway.metrics();
    let refused = metrics.sum("tollgate_client_connections_rejected_total", "");
    assert!(refused.is_some_and(|count| count >= 60.0), "{refused:?}");
    drop(kept);
    eventually("new connections to be taken in again", || {
        let mut client = gateway.client();
        client.send("GET /low HTTP/1.1\r\nHost: a\r\n\r\n");
        client.try_response("GET").is_ok_and(|response| response.status == 200)
    });
    assert_eq!(first.get("/").status, 200);
}

#[test]
fn without_a_descriptor_left_the_others_go_on_and_who_waits_is_served_later() {
    let origin = Origin::ok();
    let gateway = Gateway::start(&config(&origin, "{files: 100%}"));
    let mut first = gateway.client();
    assert_eq!(first.get("/").status, 200);
    limit_files(gateway.pid(), gateway.open_files() as u64 + 10);
    // The guard accepts as many as there are descriptors; the next connection cannot even be refused.
    let (mut served, mut waiting) = (Vec::new(), Vec::new());
    for _ in 0..30 {
        let mut client = gateway.client();
        client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
        client.wire().set_deadline(Duration::from_millis(300));
        match client.try_response("GET") {
            Ok(response) if response.status == 200 => served.push(client),
            _ => waiting.push(client),
        }
    }
    assert!(!served.is_empty() && waiting.len() >= 15, "{} served", served.len());
    for _ in 0..20 {
        // A waiting connection may be accepted late, and hold the connection to the origin for a moment.
        eventually("an answer over the kept connections", || first.get("/").status == 200);
    }
    drop((served, first));
    limit_files(gateway.pid(), 1024);
    eventually("new connections to be taken in", || {
        let mut client = gateway.client();
        client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
        client.try_response("GET").is_ok_and(|response| response.status == 200)
    });
    for client in &mut waiting {
        client.wire().set_deadline(tollgate_tests::DEADLINE);
        let answered = client.try_response("GET");
        assert!(!matches!(answered, Err(tollgate_tests::ReadError::TimedOut)), "nobody waits for ever");
    }
}

#[test]
fn a_request_waits_for_a_descriptor_for_a_while() {
    let origin = Origin::ok();
    let gateway = Gateway::start(&config(&origin, "{files: 100%}"));
    let mut client = gateway.client();
    client.send("GET /");
    eventually("the client to be there", || {
        gateway.metrics().sum("tollgate_client_connections", "").is_some_and(|open| open >= 1.0)
    });
    limit_files(gateway.pid(), 8);
    client.send(" HTTP/1.1\r\nHost: a\r\n\r\n");
    client.expect_silence(Duration::from_millis(100));
    assert_eq!(origin.count(), 0, "there is no descriptor for a connection to it");
    limit_files(gateway.pid(), 1024);
    assert_eq!(client.response().status, 200);
    assert_eq!(gateway.metrics().sum("tollgate_upstream_connections_opened_total", ""), Some(1.0));
}

#[test]
fn a_new_connection_gives_its_descriptor_back_when_its_first_request_finds_none() {
    let origin =
        Origin::fixed_then_close("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok");
    let gateway = Gateway::start(&config(&origin, "{files: 100%}"));
    let mut old = gateway.client();
    assert_eq!(old.get("/").status, 200);
    let mut new = gateway.client();
    new.send("GET /");
    let mut http2 = gateway.http2();
    assert_eq!(http2.get("/healthy").status, 204);
    let mut new_http2 = gateway.frames(&[]);
    eventually("the clients to be there", || {
        gateway.metrics().sum("tollgate_client_connections", "").is_some_and(|open| open >= 4.0)
    });
    limit_files(gateway.pid(), 8);
    new.send(" HTTP/1.1\r\nHost: a\r\n\r\n");
    let response = new.response();
    assert_eq!(
        (response.status, response.reason(), response.header("connection")),
        (503, "overload", Some("close"))
    );
    new.expect_close();
    assert!(new_http2.ask(1, &pseudo("/")), "an answer");
    assert_eq!(new_http2.goodbye(), Some(0), "NO_ERROR");
    for _ in 0..2 {
        assert_eq!(old.get("/").reason(), "overload", "it was served before");
        assert_eq!(http2.get("/").status, 503);
    }
    limit_files(gateway.pid(), 1024);
    assert_eq!((old.get("/").status, http2.get("/").status), (200, 200));
}

#[test]
fn an_endpoint_is_not_blamed_for_the_lack_of_a_descriptor() {
    let origin =
        Origin::fixed_then_close("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok");
    let other =
        Origin::fixed_then_close("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok");
    let gateway = Gateway::start(&format!(
        "overload: {{files: 100%}}\nupstreams: {{u: {{endpoints: [\"{}\", \"{}\"], health: {{http: /, interval: 100ms}}, \
         outlier: {{consecutive_gateway_errors: 2}}, retry: off}}}}\nroutes: [{{match: \"/*\", to: u}}]\n",
        origin.address(),
        other.address()
    ));
    let mut client = gateway.client();
    assert_eq!(client.get("/").status, 200);
    eventually("a first probe of each", || {
        gateway
            .metrics()
            .sum("tollgate_upstream_probes_total", "result=\"good\"")
            .is_some_and(|good| good >= 2.0)
    });
    limit_files(gateway.pid(), 8);
    for _ in 0..5 {
        let response = client.get("/");
        assert_eq!((response.status, response.reason()), (503, "overload"));
    }
    std::thread::sleep(Duration::from_millis(500));
    limit_files(gateway.pid(), 1024);
    eventually("an answer", || client.get("/").status == 200);
    let metrics = gateway.metrics();
    assert_eq!(metrics.sum("tollgate_upstream_ejections_total", ""), Some(0.0));
    assert_eq!(metrics.sum("tollgate_endpoint_up", ""), Some(2.0));
    assert_eq!(metrics.sum("tollgate_upstream_probes_total", "result=\"connection_refused\""), Some(0.0));
    assert!(
        metrics.sum("tollgate_upstream_probes_total", "result=\"skipped\"").is_some_and(|count| count > 0.0)
    );
}
