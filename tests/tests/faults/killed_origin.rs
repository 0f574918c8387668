//! One of three origins is killed under load.

use std::time::Duration;

use tollgate_tests::{Gateway, Service};

use super::is_optimised;
use super::load::Load;

#[test]
#[ignore = "a fault test: `make faults`"]
fn one_of_three_is_killed() {
    let mut services = ["a", "b", "c"].map(Service::start);
    let endpoints = services.each_ref().map(|service| format!("\"{}\"", service.address())).join(", ");
    let gateway = Gateway::start(&format!(
        "workers: 2\naccess_log: off\nroutes: [{{match: \"/*\", to: shop}}]\nupstreams: {{shop: {{endpoints: [{endpoints}]}}}}\n"
    ));
    let load = || Load::start(gateway.address(), 16, Duration::from_millis(2));
    let before = load();
    std::thread::sleep(Duration::from_secs(5));
    let before = before.end();
    let after = load();
    std::thread::sleep(Duration::from_secs(1));
    services[1].kill();
    std::thread::sleep(Duration::from_secs(9));
    let after = after.end();
    let sum = |name| gateway.metrics().sum(name, "upstream=\"shop\"").unwrap_or(0.0);
    eprintln!(
        "one of three origins killed: {} requests, failed {}; before p50 {:?}, p99 {:?}; then p50 {:?}, p99 {:?}; retries \
         {}, ejections {}",
        before.count() + after.count(),
        before.failures.len() + after.failures.len(),
        before.percentile(0.5),
        before.percentile(0.99),
        after.percentile(0.5),
        after.percentile(0.99),
        sum("tollgate_upstream_retries_total"),
        sum("tollgate_upstream_ejections_total"),
    );
    assert_eq!((&before.failures, &after.failures), (&Vec::new(), &Vec::new()));
    assert!(sum("tollgate_upstream_retries_total") > 0.0, "nobody noticed");
    let (was, is) = (before.percentile(0.99), after.percentile(0.99));
    assert!(!is_optimised() || is <= 2 * was, "p99 {is:?}, {was:?} before");
}
