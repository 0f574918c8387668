//! Copies of every request to a shadow that is dead, or that does not answer: the clients hardly feel it.

use std::time::Duration;

use tollgate_tests::{Gateway, Origin, Service, refused_address};

use super::is_optimised;
use super::load::Load;

const CLIENTS: usize = 8;
const PAUSE: Duration = Duration::from_millis(2);
const TURN: Duration = Duration::from_millis(1500);
const TURNS: usize = 15;

fn gateway(origin: &Service, policy: &str, shadow: &str) -> Gateway {
    Gateway::start(&format!(
        "workers: 1\naccess_log: off\nroutes: [{{to: u{policy}}}]\nupstreams: {{u: \"{}\", shadow: \"{shadow}\"}}\n",
        origin.address()
    ))
}

fn p99(gateway: &Gateway) -> f64 {
    let load = Load::start(gateway.address(), CLIENTS, PAUSE);
    std::thread::sleep(TURN);
    let answers = load.end();
    assert_eq!(answers.failures, Vec::<String>::new(), "no request fails for the shadow's sake");
    answers.percentile(0.99).as_secs_f64() * 1e6
}

/// Turns of both, next to each other, and the median of their ratios: so what else the machine does falls on both.
fn mirrored(what: &str, shadow: &str) {
    let origin = Service::start("origin");
    let plain = gateway(&origin, "", shadow);
    let mirrored = gateway(&origin, ", policies: {mirror: {to: shadow}}", shadow);
    let _ = (p99(&plain), p99(&mirrored));
    let mut turns: Vec<(f64, f64)> = (0..TURNS).map(|_| (p99(&plain), p99(&mirrored))).collect();
    let ratio = |turn: &(f64, f64)| turn.1 / turn.0;
    turns.sort_by(|a, b| ratio(a).total_cmp(&ratio(b)));
    let (without, with) = turns[TURNS / 2];
    let [low, median, high] = [TURNS / 4, TURNS / 2, TURNS - 1 - TURNS / 4].map(|at| ratio(&turns[at]));
    let events = mirrored.metrics();
    let count = |event: &str| {
        events.sum("tollgate_policy_events_total", &format!("event=\"{event}\"")).unwrap_or(0.0)
    };
    eprintln!(
        "mirror at 100 % to a shadow that {what}, {CLIENTS} clients: p99 {with:.0} us, {without:.0} us without, ratio \
         {median:.3} (half of the turns: {low:.3} to {high:.3}); copies that failed: {:.0}, dropped: {:.0}",
        count("failed"),
        count("dropped"),
    );
    assert!(count("failed") + count("dropped") > 100.0, "there were copies");
    // Turns differ by some percent: what three in four of them say is no accident.
    assert!(!is_optimised() || low <= 1.05, "p99 is {low:.3} of what it is without a mirror");
}

#[test]
#[ignore = "a fault test: `make faults`"]
fn a_dead_shadow() {
    mirrored("refuses", &refused_address().to_string());
}

#[test]
#[ignore = "a fault test: `make faults`"]
fn a_shadow_that_does_not_answer() {
    let shadow = Origin::play(|connection| {
        while connection.request().is_some() {
            connection.wait_close();
        }
    });
    mirrored("does not answer", &shadow.address().to_string());
}
