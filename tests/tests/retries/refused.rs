//! Endpoints that refuse connections: a request goes on to the next one, and others pass them over.

use std::time::Instant;

use tollgate_tests::{Gate, Gateway, Origin, Signal, eventually, refused_address};

use super::{addresses, gateway};

const POST: &str = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nbody";

/// Returns the addresses of endpoints that refuse connections.
fn refusing(count: usize) -> Vec<String> {
    (0..count).map(|_| refused_address().to_string()).collect()
}

fn refusals(gateway: &Gateway) -> f64 {
    let labels = "reason=\"connection_refused\"";
    gateway.metrics().sum("tollgate_upstream_failures_total", labels).unwrap_or_default()
}

/// In a rolling restart, several endpoints may be down before the gateway notices the first.
#[test]
fn cost_neither_attempts_nor_budget() {
    let origin = Origin::echo();
    let mut endpoints = refusing(5);
    endpoints.push(origin.address().to_string());
    let gateway = gateway(&endpoints, ", retry: {budget: 0%, budget_min: 0}", "", "workers: 1");
    let mut client = gateway.client();
    for _ in 0..3 {
        assert_eq!(client.ask(POST).text(), "POST / body");
    }
    let metrics = gateway.metrics();
    assert_eq!(metrics.sum("tollgate_upstream_retries_denied_total", ""), Some(0.0));
    assert!(refusals(&gateway) >= 5.0, "the endpoints were never met");
    let records = gateway.wait_records(3);
    assert!(records.iter().all(|record| record["attempts"] == 1), "{records:#?}");
    gateway.reconcile(&[&origin]);
}

#[test]
fn are_tried_within_a_bound() {
    let gateway = gateway(&refusing(20), "", "", "workers: 1");
    let response = gateway.client().get("/");
    assert_eq!((response.status, response.reason()), (502, "connection_refused"));
    // The two attempts, and eight that do not count.
    assert_eq!(refusals(&gateway), 10.0);
}

#[test]
fn end_a_request_that_is_not_retried() {
    let origin = Origin::echo();
    let endpoints = [refused_address().to_string(), origin.address().to_string()];
    for retry in ["off", "{on: [reset]}"] {
        let gateway = gateway(&endpoints, &format!(", retry: {retry}"), "", "workers: 1");
        let mut client = gateway.client();
        let answers = [(); 2].map(|()| client.get("/").status);
        assert!(answers.contains(&502) && answers.contains(&200), "{retry}: {answers:?}");
    }
}

/// With `outlier` on, which is the default, other requests do not meet them for a second.
#[test]
fn are_passed_over_for_a_moment() {
    let origin = Origin::echo();
    let (first, second, good) = (refused_address(), refused_address(), origin.address());
    for balance in ["round_robin", "least_requests", "random"] {
        let gateway = Gateway::start(&format!(
            "routes: [{{match: \"/*\", to: u}}]\nworkers: 1\n\
             upstreams: {{u: {{endpoints: [\"{first}\", \"{second}\", \"{good}\"], balance: {balance}, \
             outlier: {{consecutive_gateway_errors: off, consecutive_5xx: off}}}}}}\n"
        ));
        let start = Instant::now();
        let mut client = gateway.client();
        eventually("both to refuse", || {
            assert_eq!(client.get("/").status, 200);
            refusals(&gateway) >= 2.0
        });
        for _ in 0..50 {
            assert_eq!(client.get("/").status, 200);
        }
        let seconds = start.elapsed().as_secs_f64();
        assert!(
            refusals(&gateway) <= 2.0 + 2.0 * seconds,
            "{balance}: {} in {seconds} s",
            refusals(&gateway)
        );
    }
}

/// An endpoint that is the only one is tried at each request, so that it serves as soon as it is back.
#[test]
fn are_tried_if_there_is_no_other() {
    let address = refused_address();
    let gateway = Gateway::start(&format!("routes: [{{match: \"/*\", to: \"{address}\"}}]\nworkers: 1\n"));
    let mut client = gateway.client();
    assert_eq!(client.get("/").status, 502);
    let listener = std::net::TcpListener::bind(address).expect("the port is still free");
    let origin = Origin::play_on(listener, |conn| {
        while conn.request().is_some() {
            conn.ok("back");
        }
    });
    assert_eq!(client.get("/").text(), "back");
    assert_eq!(origin.count(), 1);
}

/// A request that waits at an endpoint while the configuration replaces all endpoints.
#[test]
fn a_retry_finds_the_endpoints_of_the_newest_plan() {
    let gate = Gate::new();
    let opened = gate.clone();
    let leaving = Origin::play(move |conn| {
        conn.request();
        opened.wait();
    });
    let new = Origin::named("new");
    let to = |origin: &Origin, version: &str| {
        format!(
            "routes: [{{match: \"/*\", to: u}}, {{match: /version, respond: {version}}}]\nworkers: 1\n\
             upstreams: {{u: {{endpoints: {:?}}}}}\n",
            addresses(&[origin])
        )
    };
    let gateway = Gateway::start(&to(&leaving, "one"));
    let mut client = gateway.client();
    client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    eventually("the request", || leaving.count() == 1);
    gateway.write_config(&to(&new, "two"));
    gateway.signal(Signal::HUP);
    eventually("the new plan", || gateway.client().get("/version").text() == "two");
    gate.open();
    assert_eq!(client.response().text(), "new");
    assert_eq!(leaving.count(), 1);
}
