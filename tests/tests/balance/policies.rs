//! Balance policies, priorities, zones.

use tollgate_tests::{Gate, Gateway, Origin, eventually};

use super::{get, listed, origins, tally, to};

/// Returns how many of `requests` requests in sequence each of three origins gets while the first holds one
/// unanswered.
fn beside_a_slow_one(balance: &str, requests: usize) -> Vec<usize> {
    let gate = Gate::new();
    let opened = gate.clone();
    let slow = Origin::play(move |conn| {
        while conn.request().is_some() {
            opened.wait();
            conn.ok("a");
        }
    });
    let origins = [slow, Origin::named("b"), Origin::named("c")];
    let gateway = Gateway::start(&to(&origins, balance));
    let count = || origins.iter().map(Origin::count).sum::<usize>();
    let mut waiting = gateway.client();
    loop {
        let sent = count() + 1;
        waiting.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
        eventually("the request", || count() == sent);
        if origins[0].count() > 0 {
            break;
        }
        waiting.response();
    }
    let mut client = gateway.client();
    let seen = tally((0..requests).map(|_| client.get("/").text()), 3);
    gate.open();
    assert_eq!(waiting.response().text(), "a");
    gateway.reconcile(&origins.iter().collect::<Vec<_>>());
    seen
}

#[test]
fn least_requests_goes_round_a_slow_endpoint() {
    assert_eq!(beside_a_slow_one("balance: least_requests", 40)[0], 0);
    assert_eq!(beside_a_slow_one("balance: {policy: least_requests, choices: all}", 40), [0, 20, 20]);
}

#[test]
fn random_is_by_weight() {
    let origins = origins(2);
    let endpoints = [
        format!("{{address: \"{}\", weight: 3}}", origins[0].address()),
        format!("{{address: \"{}\", weight: 1}}", origins[1].address()),
    ];
    let gateway = Gateway::start(&listed(&endpoints, "balance: random"));
    let mut client = gateway.client();
    let seen = tally((0..2_000).map(|_| client.get("/").text()), 2);
    // Six standard deviations either way.
    assert!((1_384..=1_616).contains(&seen[0]), "{seen:?}");
}

#[test]
fn the_own_zone_is_preferred_and_priorities_wait() {
    let origins = origins(3);
    let endpoint = |at: usize, keys: &str| format!("{{address: \"{}\", {keys}}}", origins[at].address());
    let endpoints =
        [endpoint(0, "zone: here"), endpoint(1, "zone: there"), endpoint(2, "zone: here, priority: 1")];
    let seen = |zone: &str| {
        let gateway = Gateway::start(&format!("{zone}{}", listed(&endpoints, "")));
        let mut client = gateway.client();
        tally((0..20).map(|_| client.get("/").text()), 3)
    };
    assert_eq!(seen("zone: here\n"), [20, 0, 0]);
    assert_eq!(seen("zone: there\n"), [0, 20, 0]);
    assert_eq!(seen("zone: nowhere\n"), [10, 10, 0]);
    assert_eq!(seen(""), [10, 10, 0]);
}

#[test]
fn a_lower_priority_takes_over_from_sick_endpoints() {
    // Two endpoints that fail every probe, and two in reserve.
    let origins: Vec<_> = ["a", "b", "c", "d"]
        .into_iter()
        .map(|name| {
            Origin::play(move |conn| {
                while let Some(request) = conn.request() {
                    match (request.target.as_str(), name) {
                        ("/healthz", "a" | "b") => {
                            conn.send("HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n");
                        }
                        _ => conn.ok(name),
                    }
                }
            })
        })
        .collect();
    let endpoint =
        |at: usize, priority: u8| format!("{{address: \"{}\", priority: {priority}}}", origins[at].address());
    let endpoints = [endpoint(0, 0), endpoint(1, 0), endpoint(2, 1), endpoint(3, 1)];
    let health = "health: {http: /healthz, interval: 100ms, unhealthy: 1}";
    let gateway = Gateway::start(&listed(&endpoints, health));
    eventually("the reserve to take over", || {
        tally((0..10).map(|_| get(&gateway, "/", "")), 4)[2..] == [5, 5]
    });
}

#[test]
fn without_anyone_well_all_take_requests_unless_panic_is_off() {
    let sick = || {
        Origin::play(|conn| {
            while let Some(request) = conn.request() {
                match request.target.as_str() {
                    "/healthz" => {
                        conn.send("HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n");
                    }
                    _ => conn.ok("a"),
                }
            }
        })
    };
    let origins = [sick(), sick()];
    let health = "health: {http: /healthz, interval: 100ms, unhealthy: 1}";
    let gateway = Gateway::start(&to(
        &origins,
        &format!("{health}\n    balance: {{policy: round_robin, panic_threshold: 0%}}"),
    ));
    let mut client = gateway.client();
    eventually("both to be out", || client.get("/").status == 503);
    assert_eq!(client.get("/").reason(), "destination_unavailable");
    let gateway = Gateway::start(&to(&origins, health));
    let probes = || {
        origins.iter().map(|origin| origin.requests().iter().filter(|r| r.target == "/healthz").count()).min()
    };
    let before = probes();
    eventually("some probes", || probes() > before.map(|before| before + 3));
    let mut client = gateway.client();
    assert!((0..10).all(|_| client.get("/").status == 200), "health is ignored");
}
