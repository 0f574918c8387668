//! Copies of every request to a shadow that is dead or does not answer: the clients hardly notice.

use std::time::Duration;

use tollgate_tests::{Gateway, Origin, Service, refused_address};

use super::is_optimised;
use super::load::Load;

const CLIENTS: usize = 8;
const PAUSE: Duration = Duration::from_millis(2);
/// Turns are short and many. Other load on the machine then affects both turns of a round. The median of 45
/// rounds is more exact than the median of 15 rounds of the same total length. Each turn still has some 1,500
/// answers.
const TURN: Duration = Duration::from_millis(500);
const ROUNDS: usize = 45;

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

/// Runs rounds of one turn for each gateway, and takes the median of their ratios.
fn mirrored(what: &str, shadow: &str) {
    let origin = Service::start("origin");
    let plain = gateway(&origin, "", shadow);
    let mirrored = gateway(&origin, ", policies: {mirror: {to: shadow}}", shadow);
    let _ = (p99(&plain), p99(&mirrored));
    // Each gateway goes first in every other round, so that neither benefits from its position.
    let round = |number: usize| {
        let with = (number % 2 == 1).then(|| p99(&mirrored));
        let without = p99(&plain);
        (without, with.unwrap_or_else(|| p99(&mirrored)))
    };
    let mut rounds: Vec<(f64, f64)> = (0..ROUNDS).map(round).collect();
    let ratio = |round: &(f64, f64)| round.1 / round.0;
    rounds.sort_by(|a, b| ratio(a).total_cmp(&ratio(b)));
    let (without, with) = rounds[ROUNDS / 2];
    let [low, median, high] = [ROUNDS / 4, ROUNDS / 2, ROUNDS - 1 - ROUNDS / 4].map(|at| ratio(&rounds[at]));
    let events = mirrored.metrics();
    let count = |event: &str| {
        events.sum("tollgate_policy_events_total", &format!("event=\"{event}\"")).unwrap_or(0.0)
    };
    eprintln!(
        "mirror at 100 % to a shadow that {what}, {CLIENTS} clients: p99 {with:.0} us, {without:.0} us without, ratio \
         {median:.3} (half of the rounds: {low:.3} to {high:.3}); copies that failed: {:.0}, dropped: {:.0}",
        count("failed"),
        count("dropped"),
    );
    assert!(count("failed") + count("dropped") > 100.0, "there were copies");
    assert!(!is_optimised() || median <= 1.05, "p99 is {median:.3} of what it is without a mirror");
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
