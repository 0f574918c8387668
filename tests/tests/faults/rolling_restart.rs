//! All origins are restarted one by one, and no idempotent request fails.

use std::time::Duration;

use tollgate_tests::{Gateway, Service, eventually};

use super::load::Load;

const CLIENTS: usize = 16;
const ROUNDS: usize = 3;

/// How an origin stops.
#[derive(Clone, Copy, Debug)]
enum Going {
    /// SIGTERM: it answers the requests in progress.
    Ended,
    /// SIGKILL in mid-answer.
    Killed,
}

/// Restarts all origins under load, for some rounds, with these health rules. Each restart starts when the
/// previous origin has been ready for a while.
fn roll(origins: usize, rules: &str, going: Going) {
    let names = ["a", "b", "c"];
    let mut services: Vec<Service> = names[..origins].iter().map(|name| Service::start(name)).collect();
    let endpoints: Vec<String> =
        services.iter().map(|service| format!("\"{}\"", service.address())).collect();
    let gateway = Gateway::start(&format!(
        "workers: 2\naccess_log: off\nroutes: [{{match: \"/*\", to: shop}}]\nupstreams:\n  shop:\n    \
         endpoints: [{}]\n{rules}",
        endpoints.join(", ")
    ));
    let load = Load::start(gateway.address(), CLIENTS, Duration::from_millis(2));
    // The retry budget is a share of the requests of the last 10 seconds, so there must be some.
    std::thread::sleep(Duration::from_secs(2));
    for _ in 0..ROUNDS {
        for service in &mut services {
            match going {
                Going::Ended => service.end(),
                Going::Killed => service.kill(),
            }
            // As long as a quick start takes.
            std::thread::sleep(Duration::from_millis(1500));
            service.restart();
            // An orchestrator waits until the new instance is ready, but not until the gateway has noticed.
            std::thread::sleep(Duration::from_millis(1500));
        }
    }
    // Without probes the last origin may stay out for the rest of its ejection.
    let all = if rules.is_empty() { origins - 1 } else { origins };
    eventually("all to be asked again", || {
        let mut client = gateway.client();
        let seen: String = (0..4 * origins).map(|_| client.get("/").text()).collect();
        names.iter().filter(|name| seen.contains(**name)).count() >= all
    });
    let answers = load.end();
    let retries = gateway.metrics().sum("tollgate_upstream_ejections_total", "upstream=\"shop\"");
    eprintln!(
        "rolling restart of {origins}, {going:?}, {}: {} requests, {} failed; p50 {:?}, p99 {:?}; {} ejections",
        if rules.contains("health") { "with probes" } else { "without probes" },
        answers.count(),
        answers.failures.len(),
        answers.percentile(0.5),
        answers.percentile(0.99),
        retries.unwrap_or(0.0),
    );
    assert!(answers.count() > 1000, "a load");
    assert_eq!(answers.failures, [""; 0]);
}

const PROBES: &str = "    health: {http: /, interval: 200ms, timeout: 2s}\n";

#[test]
#[ignore = "a fault test: `make faults`"]
fn three_that_are_killed() {
    roll(3, "", Going::Killed);
}

#[test]
#[ignore = "a fault test: `make faults`"]
fn three_that_end() {
    roll(3, "", Going::Ended);
}

#[test]
#[ignore = "a fault test: `make faults`"]
fn two_that_are_killed() {
    roll(2, "", Going::Killed);
}

#[test]
#[ignore = "a fault test: `make faults`"]
fn three_that_are_killed_and_probed() {
    roll(3, PROBES, Going::Killed);
}
