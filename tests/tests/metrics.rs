//! The admin listener: metrics, health, the live cost meter.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::process::{Command, Stdio};

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
        ("tollgate_requests_total", "route=\"main\",code=\"200\",method=\"POST\"", 10.0),
        ("tollgate_requests_total", "route=\"-\",code=\"404\",method=\"GET\"", 3.0),
        ("tollgate_requests_total", "route=\"-\",code=\"400\",method=\"-\"", 1.0),
        ("tollgate_request_duration_seconds_count", "route=\"main\"", 10.0),
        ("tollgate_reasons_total", "route=\"main\",reason=\"-\"", 10.0),
        ("tollgate_reasons_total", "route=\"-\",reason=\"no_route\"", 3.0),
        ("tollgate_reasons_total", "route=\"-\",reason=\"bad_request_line\"", 1.0),
        ("tollgate_internal_errors_total", "", 0.0),
        ("tollgate_other_names", "", 0.0),
        ("tollgate_requests_in_flight", "", 0.0),
        ("tollgate_received_bytes_total", "", 50.0),
        ("tollgate_upstream_header_seconds_count", "upstream=\"web\"", 10.0),
        ("tollgate_upstream_connections_opened_total", "upstream=\"web\"", 1.0),
        ("tollgate_upstream_pool_hits_total", "upstream=\"web\"", 9.0),
        ("tollgate_upstream_connections", "state=\"idle\"", 1.0),
        ("tollgate_upstream_connections", "state=\"active\"", 0.0),
        ("tollgate_endpoint_attempts_total", "upstream=\"web\"", 10.0),
        ("tollgate_endpoint_failures_total", "upstream=\"web\"", 0.0),
        ("tollgate_upstream_failures_total", "reason=\"connection_refused\"", 0.0),
        ("tollgate_worker_requests_total", "", 14.0),
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
fn client_input_never_becomes_a_label() {
    let gateway = Gateway::start("routes: [{match: /only, respond: 204}]");
    // Series without labels appear and disappear with what they measure, such as the cost of a request.
    let labelled =
        |gateway: &Gateway| gateway.metrics().0.iter().filter(|(name, _)| name.contains('{')).count();
    let mut client = gateway.client();
    // One request of each kind: statuses, methods and reasons have series once they have occurred.
    client.ask("M /none HTTP/1.1\r\nHost: a\r\n\r\n");
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
fn responses_are_counted_by_route_and_reason() {
    let origin = Origin::ok();
    let gateway = Gateway::start(&format!(
        "routes:
  - {{name: narrow, match: /narrow, to: \"{0}\", policies: {{rate_limit: {{rate: 2/h, burst: 2}}}}}}
  - {{name: wide, match: /wide, to: \"{0}\"}}
  - {{name: own, match: /own, respond: {{status: 429}}}}
  - {{name: down, match: /down, to: \"{1}\"}}
",
        origin.address(),
        tollgate_tests::refused_address(),
    ));
    let mut client = gateway.client();
    for path in ["/narrow", "/wide", "/own"] {
        (0..5).for_each(|_| drop(client.get(path)));
    }
    client.ask("DELETE /narrow HTTP/1.1\r\nHost: a\r\n\r\n");
    let mut client = gateway.client();
    (0..2).for_each(|_| drop(client.get("/down")));
    eventually("every request to be counted", || {
        gateway.metrics().sum("tollgate_requests_total", "") == Some(18.0)
    });
    let metrics = gateway.metrics();
    let of = |name: &str| -> BTreeMap<String, f64> {
        let all = metrics.0.iter().filter_map(|(series, value)| {
            Some((series.strip_prefix(name)?.trim_matches(['{', '}']).replace('"', ""), *value))
        });
        all.collect()
    };
    let expected = [
        ("route=narrow,code=200,method=GET", 2.0),
        ("route=narrow,code=429,method=GET", 3.0),
        ("route=narrow,code=429,method=DELETE", 1.0),
        ("route=wide,code=200,method=GET", 5.0),
        ("route=own,code=429,method=GET", 5.0),
        ("route=down,code=502,method=GET", 2.0),
    ];
    assert_eq!(
        of("tollgate_requests_total"),
        expected.map(|(series, count)| (series.to_owned(), count)).into()
    );
    let expected = [
        ("route=narrow,reason=-", 2.0),
        ("route=narrow,reason=rate_limited", 4.0),
        ("route=wide,reason=-", 5.0),
        ("route=own,reason=-", 5.0),
        ("route=down,reason=connection_refused", 2.0),
    ];
    assert_eq!(
        of("tollgate_reasons_total"),
        expected.map(|(series, count)| (series.to_owned(), count)).into()
    );
}

/// Returns the configuration of many routes, of which `metrics` gives names to some.
fn many_routes(named: usize, routes: impl Iterator<Item = usize>) -> String {
    let mut text = format!("metrics: {{ routes: {named} }}\nroutes:\n");
    for route in routes {
        let _ = writeln!(text, "  - {{ name: r{route}, match: /r{route}, respond: 204 }}");
    }
    text
}

#[test]
fn the_routes_with_traffic_have_series_of_their_own() {
    let gateway = Gateway::start(&many_routes(3, 0..50));
    let mut client = gateway.client();
    let mut asked =
        |route: usize, count: usize| (0..count).for_each(|_| drop(client.get(&format!("/r{route}"))));
    for route in [49, 7, 30] {
        asked(route, 4);
    }
    asked(0, 5);
    asked(1, 6);
    let count = |route: &str| gateway.metrics().sum("tollgate_requests_total", &format!("route=\"{route}\""));
    eventually("all are counted", || gateway.metrics().sum("tollgate_requests_total", "") == Some(23.0));
    assert_eq!([count("r49"), count("r7"), count("r30")], [Some(4.0); 3]);
    assert_eq!((count("r0"), count("r1"), count("other")), (None, None, Some(11.0)));
    let other = || gateway.metrics().sum("tollgate_other_names", "label=\"route\"");
    assert_eq!(other(), Some(2.0));
    let live: serde_json::Value = serde_json::from_slice(&gateway.admin("/api/v1/live").body).expect("JSON");
    let names: Vec<&str> =
        live["routes"].as_array().expect("a list").iter().filter_map(|one| one["name"].as_str()).collect();
    assert_eq!(names.len(), 4, "{names:?}");

    // The routes that are gone leave their places to the others, and `other` keeps what was counted there.
    let generation = || gateway.metrics().sum("tollgate_config_generation", "");
    gateway.write_config(&many_routes(3, 0..10));
    gateway.signal(tollgate_tests::Signal::HUP);
    eventually("the reload", || generation() == Some(2.0));
    let mut last = 11.0;
    eventually("a route gets its place", || {
        asked(0, 1);
        let now = count("other").expect("it stays");
        assert!(now >= last, "{now} < {last}");
        last = now;
        count("r0").is_some_and(|count| count >= 3.0)
    });
    assert_eq!(count("r7"), Some(4.0));
    let total = gateway.metrics().sum("tollgate_requests_in_flight", "");
    assert_eq!(total, Some(0.0));
}

#[test]
fn a_thousand_routes_have_series_of_their_own() {
    let gateway = Gateway::start(&many_routes(1000, 0..1000));
    let mut client = gateway.client();
    for route in 0..1000 {
        assert_eq!(client.get(&format!("/r{route}")).status, 204);
    }
    eventually("all are counted", || gateway.metrics().sum("tollgate_requests_total", "") == Some(1000.0));
    let metrics = gateway.metrics();
    assert_eq!(metrics.sum("tollgate_requests_total", "route=\"other\""), None);
    assert_eq!(metrics.sum("tollgate_requests_total", "route=\"r999\""), Some(1.0));
    let live: serde_json::Value = serde_json::from_slice(&gateway.admin("/api/v1/live").body).expect("JSON");
    assert_eq!(live["routes"].as_array().map(Vec::len), Some(1000));
}

#[test]
fn retried_requests_are_counted_by_their_result() {
    let origin = Origin::ok();
    let gateway = Gateway::start(&format!(
        "routes: [{{match: /well, to: half}}, {{match: /badly, to: none}}]
upstreams:
  half: {{ endpoints: [\"{0}\", \"{1}\"], outlier: off }}
  none: {{ endpoints: [\"{0}\"], outlier: off }}
",
        tollgate_tests::refused_address(),
        origin.address()
    ));
    let mut client = gateway.client();
    (0..6).for_each(|_| assert_eq!(client.get("/well").status, 200));
    (0..2).for_each(|_| assert_eq!(client.get("/badly").status, 502));
    let sum = |labels: &str| gateway.metrics().sum("tollgate_upstream_retried_requests_total", labels);
    eventually("the failed ones", || sum("upstream=\"none\",result=\"failed\"") == Some(2.0));
    assert_eq!(sum("upstream=\"none\",result=\"succeeded\""), Some(0.0));
    assert!(sum("upstream=\"half\",result=\"succeeded\"").is_some_and(|count| count >= 2.0));
    assert_eq!(sum("upstream=\"half\",result=\"failed\""), Some(0.0));
}

#[test]
fn limits_are_beside_the_gauges() {
    let origin = Origin::ok();
    let gateway = Gateway::start(&format!(
        "limits: {{ connections: 5000 }}
routes: [{{to: web}}]
upstreams: {{ web: {{ endpoints: [\"{}\"], limits: {{ connections: 70, requests: 90 }} }} }}
",
        origin.address()
    ));
    assert_eq!(gateway.client().get("/").status, 200);
    let metrics = gateway.metrics();
    let limit = |resource: &str| metrics.sum("tollgate_upstream_limit", &format!("resource=\"{resource}\""));
    assert_eq!((limit("connections"), limit("requests")), (Some(70.0), Some(90.0)));
    assert_eq!(metrics.sum("tollgate_client_connections_limit", ""), Some(5000.0));
    let value = |name: &str| metrics.sum(name, "").unwrap_or_default();
    assert!(value("process_start_time_seconds") > 1.7e9);
    assert!(value("process_virtual_memory_bytes") >= value("process_resident_memory_bytes"));
    assert!(value("process_max_fds") >= value("process_open_fds"));
    assert!(value("tollgate_cores") > 0.0);
    let workers = |name: &str| metrics.0.iter().filter(|(series, _)| series.starts_with(name)).count();
    assert_eq!(workers("tollgate_worker_cpu_seconds_total"), workers("tollgate_worker_requests_total"));
}

/// Returns what is wrong with the names of a scrape: the rules that `promtool check metrics` applies too.
fn unusual_names(text: &str) -> Vec<String> {
    const UNITS: [&str; 8] = [
        "milliseconds",
        "microseconds",
        "nanoseconds",
        "minutes",
        "hours",
        "kilobytes",
        "megabytes",
        "percent",
    ];
    let mut problems = Vec::new();
    let mut helped = Vec::new();
    for line in text.lines() {
        if let Some(help) = line.strip_prefix("# HELP ") {
            helped.extend(help.split(' ').next());
        }
        let Some((name, kind)) = line.strip_prefix("# TYPE ").and_then(|line| line.split_once(' ')) else {
            continue;
        };
        if !helped.contains(&name) {
            problems.push(format!("{name} has no help"));
        }
        if (kind == "counter") != name.ends_with("_total") {
            problems.push(format!("{name} is a {kind}"));
        }
        if kind != "histogram" && ["_bucket", "_count", "_sum"].iter().any(|suffix| name.ends_with(suffix)) {
            problems.push(format!("{name} looks like a part of a histogram"));
        }
        if name
            .split('_')
            .any(|word| UNITS.contains(&word) || ["gauge", "counter", "histogram"].contains(&word))
        {
            problems.push(format!("{name} has an unusual word"));
        }
        if name.contains(|c: char| c.is_uppercase() || c == ':') {
            problems.push(format!("{name} has an unusual character"));
        }
    }
    problems
}

#[test]
fn names_follow_the_conventions_under_traffic() {
    let origin = Origin::ok();
    let gateway = Gateway::start(&format!(
        "limits: {{ connections: 5000 }}
routes: [{{match: /x, to: web}}, {{match: /limited, respond: 204, policies: {{rate_limit: {{rate: 1/h, burst: 1}}}}}}]
upstreams: {{ web: {{ endpoints: [\"{}\", \"{}\"], limits: {{ connections: 70 }} }} }}
overload: {{ memory: 1GiB }}
",
        origin.address(),
        tollgate_tests::refused_address(),
    ));
    let mut client = gateway.client();
    // The cost is in the metrics only once it is known.
    eventually("the cost to be known", || {
        (0..200).for_each(|_| drop(client.get("/x")));
        client.get("/limited");
        gateway.metrics().sum("tollgate_cost_cpu_seconds_per_request", "").is_some()
    });
    let text = gateway.admin("/metrics").text();
    assert_eq!(unusual_names(&text), Vec::<String>::new());
    assert_eq!(unusual_names("# TYPE a_milliseconds gauge\n").len(), 2, "the check finds something");
    let promtool = Command::new("promtool")
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    // It is in the package `prometheus` of Debian.
    let Ok(mut promtool) = promtool else { return };
    std::io::Write::write_all(&mut promtool.stdin.take().expect("a pipe"), text.as_bytes())
        .expect("it reads");
    let output = promtool.wait_with_output().expect("it ends");
    let reported =
        String::from_utf8_lossy(&output.stderr).into_owned() + &String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{reported}");
    assert!(reported.trim().is_empty(), "{reported}");
}

#[test]
fn an_upstream_without_a_name_has_a_short_one() {
    let origins = [Origin::ok(), Origin::ok(), Origin::ok()];
    let address = |index: usize| origins[index].address();
    let gateway = Gateway::start(&format!(
        "routes: [{{to: [\"{}\", \"{}\", \"{}\"]}}]",
        address(0),
        address(1),
        address(2)
    ));
    let mut client = gateway.client();
    (0..6).for_each(|_| assert_eq!(client.get("/").status, 200));
    let labels = format!("upstream=\"{}+2\"", address(0));
    eventually("they are counted", || {
        gateway.metrics().sum("tollgate_upstream_header_seconds_count", &labels) == Some(6.0)
    });
    assert_eq!(gateway.metrics().sum("tollgate_endpoint_up", &labels), Some(3.0));
    let live: serde_json::Value = serde_json::from_slice(&gateway.admin("/api/v1/live").body).expect("JSON");
    assert_eq!(live["upstreams"][0]["name"], format!("{}+2", address(0)));
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
        metrics.sum("tollgate_cost_cpu_seconds_per_request", "").is_some_and(|cost| cost > 0.0 && cost < 0.1)
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
