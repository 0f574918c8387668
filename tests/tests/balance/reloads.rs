//! The state of upstreams that a new plan keeps, and the state that it drops.

use tollgate_tests::{Gateway, Origin, eventually};

use super::{get, listed, origins, reload, tally, to};

fn weighted(origins: &[Origin], weights: &[u32]) -> String {
    let endpoints: Vec<_> = origins
        .iter()
        .zip(weights)
        .map(|(origin, weight)| format!("{{address: \"{}\", weight: {weight}}}", origin.address()))
        .collect();
    listed(&endpoints, "pool: {idle_timeout: 60s}")
}

#[test]
fn another_weight_and_another_endpoint_leave_connections_alone() {
    let origins = origins(4);
    let gateway = Gateway::start(&weighted(&origins[..3], &[1, 1, 1]));
    let all = |count: usize, requests: usize| tally((0..requests).map(|_| get(&gateway, "/", "")), count);
    assert_eq!(all(3, 3), [1, 1, 1]);
    reload(&gateway, &weighted(&origins[..3], &[3, 1, 1]));
    assert_eq!(all(3, 10), [6, 2, 2]);
    reload(&gateway, &weighted(&origins, &[3, 1, 1, 5]));
    assert_eq!(all(4, 20), [6, 2, 2, 10]);
    let connections: Vec<_> = origins.iter().map(Origin::connections).collect();
    assert_eq!(connections, [1; 4], "the pools outlive the plans");
    gateway.reconcile(&origins.iter().collect::<Vec<_>>());
}

#[test]
fn the_connections_of_an_endpoint_that_left_are_closed() {
    let origins = origins(2);
    let gateway = Gateway::start(&weighted(&origins, &[1, 1]));
    assert_eq!(tally((0..4).map(|_| get(&gateway, "/", "")), 2), [2, 2]);
    reload(&gateway, &weighted(&origins[1..], &[1]));
    eventually("its idle connection to be closed", || origins[0].open() == 0);
    assert_eq!(origins[1].open(), 1);
    assert_eq!((0..4).map(|_| get(&gateway, "/", "")).collect::<String>(), "bbbb");
}

#[test]
fn turns_go_on() {
    let origins = origins(3);
    let gateway = Gateway::start(&to(&origins, ""));
    let mut seen = String::new();
    for change in 0..9 {
        seen += &get(&gateway, "/", "");
        // The upstream's definition changes, but its turns continue.
        reload(&gateway, &to(&origins, &format!("pool: {{max_idle: {}}}", change + 1)));
    }
    assert_eq!(seen, "abcabcabc");
}

#[test]
fn a_new_endpoint_begins_slowly() {
    let origins = origins(2);
    let slow = "balance: {policy: round_robin, slow_start: 1h}";
    let gateway = Gateway::start(&to(&origins[..1], slow));
    assert_eq!(get(&gateway, "/", ""), "a");
    reload(&gateway, &to(&origins, slow));
    let seen = tally((0..110).map(|_| get(&gateway, "/", "")), 2);
    // A new endpoint gets a tenth of its share, the other a whole one; one hour is longer than the test.
    assert!((9..=12).contains(&seen[1]), "{seen:?}");
    // Endpoints of the first plan have no slow start.
    let gateway = Gateway::start(&to(&origins, slow));
    assert_eq!(tally((0..10).map(|_| get(&gateway, "/", "")), 2), [5, 5]);
}
