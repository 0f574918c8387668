//! The admin listener: metrics, health, the live cost meter.

use tollgate_tests::{Gate, Gateway, Origin, eventually};

#[test]
fn requests_reasons_and_connections_are_counted() {
    let origin = Origin::ok();
    let gateway = Gateway::start(&format!(
        "routes: [{{name: main, match: \"/x/*\", to: web}}]\nupstreams: {{web: \"{}\"}}\n",
        origin.address()
    ));
    let mut client = gateway.client();
    for _ in 0..10 {
        client.post("/x/", b"12345");
    }
    for _ in 0..3 {
        client.get("/none");
    }
    gateway.client().ask("GARBAGE\r\n\r\n");
    eventually("every request to be counted", || {
        gateway.metrics().sum("tollgate_requests_total", "") == Some(14.0)
    });
    let metrics = gateway.metrics();
    for (name, labels, value) in [
        ("tollgate_requests_total", "route=\"main\"", 10.0),
        ("tollgate_requests_total", "code=\"2xx\"", 10.0),
        ("tollgate_requests_total", "code=\"4xx\"", 4.0),
        ("tollgate_request_duration_seconds_count", "route=\"main\"", 10.0),
        ("tollgate_reasons_total", "reason=\"-\"", 10.0),
        ("tollgate_reasons_total", "reason=\"no_route\"", 3.0),
        ("tollgate_reasons_total", "reason=\"bad_request_line\"", 1.0),
        ("tollgate_requests_in_flight", "", 0.0),
        ("tollgate_received_bytes_total", "", 50.0),
        ("tollgate_upstream_header_seconds_count", "upstream=\"web\"", 10.0),
        ("tollgate_upstream_connections_opened_total", "upstream=\"web\"", 1.0),
        ("tollgate_upstream_pool_hits_total", "upstream=\"web\"", 9.0),
        ("tollgate_upstream_connections", "state=\"idle\"", 1.0),
        ("tollgate_upstream_connections", "state=\"active\"", 0.0),
        ("tollgate_build_info", "version=", 1.0),
    ] {
        assert_eq!(metrics.sum(name, labels), Some(value), "{name}{{{labels}}}");
    }
    assert!(metrics.sum("process_cpu_seconds_total", "").is_some());
    assert!(metrics.sum("tollgate_sent_bytes_total", "").is_some_and(|bytes| bytes >= 20.0));
}

#[test]
fn gauges_follow_what_is_open() {
    let gate = Gate::new();
    let opened = gate.clone();
    let origin = Origin::play(move |conn| {
        while conn.request().is_some() {
            opened.wait();
            conn.ok("ok");
        }
    });
    let gateway = Gateway::to(&origin);
    let mut clients: Vec<_> = (0..5).map(|_| gateway.client()).collect();
    for client in &mut clients {
        client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    }
    let gauge = |name: &str, labels: &str| gateway.metrics().sum(name, labels);
    eventually("five in flight", || gauge("tollgate_requests_in_flight", "") == Some(5.0));
    eventually("five clients", || gauge("tollgate_client_connections", "") == Some(5.0));
    eventually("five active", || gauge("tollgate_upstream_connections", "state=\"active\"") == Some(5.0));
    gate.open();
    for client in &mut clients {
        assert_eq!(client.response().status, 200);
    }
    eventually("none in flight", || gauge("tollgate_requests_in_flight", "") == Some(0.0));
    eventually("five idle", || gauge("tollgate_upstream_connections", "state=\"idle\"") == Some(5.0));
    drop(clients);
    eventually("no clients", || gauge("tollgate_client_connections", "") == Some(0.0));
}

#[test]
fn nothing_a_client_sends_becomes_a_label() {
    let gateway = Gateway::start("routes: [{match: /only, respond: 204}]");
    // Series without labels appear and disappear with what they measure, such as the cost of a request.
    let labelled =
        |gateway: &Gateway| gateway.metrics().0.iter().filter(|(name, _)| name.contains('{')).count();
    let mut client = gateway.client();
    client.get("/none");
    eventually("the first to be counted", || {
        gateway.metrics().sum("tollgate_requests_total", "") == Some(1.0)
    });
    let before = labelled(&gateway);
    for i in 0..300 {
        client.ask(format!("M{i} /{i} HTTP/1.1\r\nHost: h{i}.example\r\n\r\n"));
    }
    eventually("all to be counted", || gateway.metrics().sum("tollgate_requests_total", "") == Some(301.0));
    assert_eq!(labelled(&gateway), before);
}

#[test]
fn they_can_be_switched_off() {
    let origin = Origin::ok();
    let gateway = Gateway::with(&origin, "metrics: off");
    assert_eq!(gateway.client().get("/").status, 200);
    assert_eq!(gateway.admin("/metrics").status, 404);
    assert_eq!(gateway.admin("/readyz").status, 200);
}

#[test]
fn health_and_readiness() {
    let origin = Origin::ok();
    let gateway = Gateway::to(&origin);
    assert_eq!(gateway.admin("/healthz").status, 200);
    assert_eq!(gateway.admin("/readyz").status, 200);
    assert_eq!(gateway.admin("/no-such-page").status, 404);
}

#[test]
fn the_cost_meter_tells_its_figures_or_why_not() {
    let origin = Origin::ok();
    let gateway = Gateway::to(&origin);
    let response = gateway.admin("/cost");
    assert_eq!(response.status, 200);
    let cost: serde_json::Value = serde_json::from_slice(&response.body).expect("JSON");
    assert!(cost["cores"].as_f64().is_some_and(|cores| cores > 0.0), "{cost}");
    let mut client = gateway.client();
    eventually("the cost to be known", || {
        for _ in 0..200 {
            assert_eq!(client.get("/").status, 200);
        }
        let metrics = gateway.metrics();
        metrics.sum("tollgate_cost_cpu_microseconds_per_request", "").is_some_and(|cost| cost > 0.0)
            && metrics
                .sum("tollgate_headroom_requests_per_second", "")
                .is_some_and(|headroom| headroom >= 0.0)
    });
}

#[test]
fn the_admin_listener_survives_nonsense() {
    let origin = Origin::ok();
    let gateway = Gateway::to(&origin);
    for nonsense in
        ["GARBAGE\r\n\r\n", "POST /metrics HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello", "\0\0\0\0"]
    {
        let mut client = tollgate_tests::Client::connect(gateway.admin_address(), std::sync::Arc::default());
        client.send(nonsense);
        client.half_close();
        assert!(client.wire().wait_close(), "{nonsense:?}");
    }
    assert_eq!(gateway.admin("/healthz").status, 200);
}
