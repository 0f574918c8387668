//! Every origin fails, for longer than the window of the retry budget, with retries and hedging enabled.

use std::time::Duration;

use tollgate_tests::{Gateway, Origin};

use super::load::Load;

#[test]
#[ignore = "a fault test: `make faults`"]
fn all_origins_fail() {
    let bad = || Origin::fixed("HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n");
    // One origin is slow as well: hedged attempts count against the same budget.
    let slow = Origin::play(|conn| {
        while conn.request().is_some() {
            conn.pause(Duration::from_millis(30));
            conn.send("HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n");
        }
    });
    let origins = [bad(), bad(), slow];
    let endpoints = origins.each_ref().map(|origin| format!("\"{}\"", origin.address())).join(", ");
    let gateway = Gateway::start(&format!(
        "workers: 2\naccess_log: off\nroutes: [{{match: \"/*\", to: u}}]\nupstreams:\n  u:\n    endpoints: [{endpoints}]\n    \
         outlier: off\n    hedge: 10ms\n    retry: {{attempts: 8, on: [reset, timeout, 5xx], backoff: 1ms, backoff_max: 5ms}}\n"
    ));
    let load = Load::start(gateway.address(), 16, Duration::from_millis(5));
    std::thread::sleep(Duration::from_secs(25));
    let answers = load.end();
    let seen: usize = origins.iter().map(Origin::count).sum();
    let ratio = seen as f64 / answers.count() as f64;
    let sum = |name| gateway.metrics().sum(name, "upstream=\"u\"").unwrap_or(0.0);
    eprintln!(
        "all origins fail: {} requests of clients, {seen} at the origins, ratio {ratio:.3}; retries {}, second attempts {}, \
         denied {}",
        answers.count(),
        sum("tollgate_upstream_retries_total"),
        sum("tollgate_upstream_hedges_total"),
        sum("tollgate_upstream_retries_denied_total"),
    );
    assert!(answers.count() > 1000 && answers.times.is_empty(), "a load that fails");
    assert!(ratio <= 1.2, "{ratio:.3} requests for each of a client's");
    assert!(ratio > 1.1, "hardly anything was tried again: {ratio:.3}");
}
