//! One of three origins is behind a network that first delays, and then drops all bytes.

use std::thread;
use std::time::Duration;

use tollgate_tests::{Gateway, Service};

use super::load::Load;
use super::network::{HOLE, Relay};

#[test]
#[ignore = "a fault test: `make faults`"]
fn one_of_three_is_slow_and_then_gone() {
    let services = ["a", "b", "c"].map(Service::start);
    let relay = Relay::to(services[1].address());
    let gateway = Gateway::start(&format!(
        "workers: 2\naccess_log: off\nroutes: [{{match: \"/*\", to: shop}}]\nupstreams: {{shop: {{endpoints: [\"{}\", \"{}\", \
         \"{}\"], retry: {{per_try: 300ms, on: [connect_failure, reset, timeout]}}, \
         outlier: {{consecutive_gateway_errors: 3}}}}}}\n",
        services[0].address(),
        relay.address(),
        services[2].address()
    ));
    for (what, delay) in
        [("as it should be", 0), ("20 ms each way", 20), ("a black hole", HOLE), ("back again", 0)]
    {
        relay.set(delay);
        let load = Load::start(gateway.address(), 16, Duration::from_millis(2));
        thread::sleep(Duration::from_secs(5));
        let answers = load.end();
        let sum = |name| gateway.metrics().sum(name, "upstream=\"shop\"").unwrap_or(0.0);
        eprintln!(
            "one of three origins behind a relay, {what}: {} requests, {} failed; p50 {:?}, p99 {:?}, longest {:?}; retries \
             {}, ejections {}",
            answers.count(),
            answers.failures.len(),
            answers.percentile(0.5),
            answers.percentile(0.99),
            answers.percentile(1.0),
            sum("tollgate_upstream_retries_total"),
            sum("tollgate_upstream_ejections_total"),
        );
        assert_eq!(answers.failures, Vec::<String>::new(), "{what}");
        if delay == HOLE {
            assert!(sum("tollgate_upstream_ejections_total") > 0.0, "nobody noticed");
        }
    }
}
