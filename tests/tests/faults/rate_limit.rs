//! Rate limits under four times the permitted load: how exact they are alone, shared, and when their Redis
//! dies.

use std::time::{Duration, Instant};

use tollgate_tests::{Gateway, Redis, Service};

use super::is_optimised;
use super::offered::{Offered, offer};

const RATE: f64 = 1000.0;
const BURST: f64 = 100.0;
const OFFERED: f64 = 4000.0;
const LASTS: Duration = Duration::from_secs(10);

fn gateway(origin: &Service, workers: usize, limit: &str) -> Gateway {
    Gateway::start(&format!(
        "workers: {workers}\naccess_log: off\npolicies: {{rate_limit: {limit}}}\nroutes: [{{to: \"{}\"}}]\n",
        origin.address()
    ))
}

/// Prints how many requests passed, how many were permitted, and the ratio; returns the ratio.
fn reported(what: &str, offered: &Offered) -> f64 {
    let passed = offered.count(200);
    let most = BURST + RATE * offered.lasted().as_secs_f64();
    let ratio = passed as f64 / most;
    eprintln!(
        "{what}: {} offered in {:.2} s, {passed} passed, {most:.0} may, ratio {ratio:.4}; {:?}; p99 {:.0} us",
        offered.0.len(),
        offered.lasted().as_secs_f64(),
        offered.statuses(),
        offered.p99().as_secs_f64() * 1e6,
    );
    assert_eq!(passed + offered.count(429), offered.0.len(), "nothing else: {:?}", offered.statuses());
    ratio
}

#[test]
#[ignore = "a fault test: `make faults`"]
fn a_limit_is_exact_over_four_workers() {
    let origin = Service::start("origin");
    let gateway = gateway(&origin, 4, &format!("{{rate: {RATE}/s, burst: {BURST}}}"));
    let ratio = reported("a limit over 4 workers", &offer(&[gateway.address()], 16, OFFERED, LASTS));
    assert!(ratio <= 1.01, "{ratio:.4}");
    assert!(!is_optimised() || ratio >= 0.99, "{ratio:.4}");
}

#[test]
#[ignore = "a fault test: `make faults`"]
fn a_limit_that_two_gateways_share_is_never_exceeded() {
    let origin = Service::start("origin");
    for lease in ["", ", lease: 20"] {
        let redis = Redis::start("");
        let limit = format!(
            "{{rate: {RATE}/s, burst: {BURST}{lease}, redis: {{url: \"redis://{}\", timeout: 1s}}}}",
            redis.address()
        );
        let gateways = [(); 2].map(|()| gateway(&origin, 2, &limit));
        let addresses = [gateways[0].address(), gateways[1].address()];
        let what = format!("a limit shared by 2 gateways{lease}");
        let ratio = reported(&what, &offer(&addresses, 8, OFFERED, LASTS));
        assert!(ratio <= 1.01, "{what}: {ratio:.4}");
        assert!(!is_optimised() || ratio >= 0.95, "{what}: {ratio:.4}");
    }
}

/// The Redis dies half-way. The configured failure mode applies at once, and no request waits.
fn redis_dies(mode: &str, afterwards: u16) {
    let origin = Service::start("origin");
    let mut redis = Redis::start("");
    let limit = format!(
        "{{rate: 100000/s, redis: {{url: \"redis://{}\", timeout: 1s, on_failure: {mode}}}}}",
        redis.address()
    );
    let gateway = gateway(&origin, 2, &limit);
    let address = gateway.address();
    // The connection is open, and everything is warm.
    offer(&[address], 8, 1000.0, Duration::from_secs(1));
    let load = std::thread::spawn(move || offer(&[address], 8, 1000.0, LASTS));
    std::thread::sleep(LASTS / 2);
    let dying = Instant::now();
    redis.kill();
    let killed = Instant::now();
    let [healthy, after, meanwhile] = load.join().expect("the load does not panic").around(dying, killed);
    let times = [healthy.p99(), after.p99()].map(|time| time.as_secs_f64() * 1e6);
    eprintln!(
        "the Redis of a limit is killed, on_failure: {mode}: before {:?}, p99 {:.0} us; as it died {:?}; after {:?}, \
         p99 {:.0} us, longest {:.0} us",
        healthy.statuses(),
        times[0],
        meanwhile.statuses(),
        after.statuses(),
        times[1],
        after.0.iter().map(|answer| answer.took).max().unwrap_or_default().as_secs_f64() * 1e6,
    );
    assert_eq!(healthy.count(200), healthy.0.len(), "{:?}", healthy.statuses());
    let fits = |status: u16| status == 200 || status == afterwards;
    assert!(meanwhile.0.iter().all(|answer| fits(answer.status)), "{:?}", meanwhile.statuses());
    assert_eq!(after.count(afterwards), after.0.len(), "{:?}", after.statuses());
    assert!(after.0.len() > 1000, "there was load: {}", after.0.len());
    assert!(!is_optimised() || times[1] <= 2.0 * times[0], "p99 {:.0} us, {:.0} before", times[1], times[0]);
}

#[test]
#[ignore = "a fault test: `make faults`"]
fn a_redis_that_dies_lets_all_pass_where_that_is_chosen() {
    redis_dies("open", 200);
}

#[test]
#[ignore = "a fault test: `make faults`"]
fn a_lost_redis_denies_requests_if_configured() {
    redis_dies("closed", 503);
}
