//! With few connections the load still spreads evenly over workers and endpoints.

use tollgate_tests::{Client, Gateway};

use super::{origins, tally, to};

/// Returns how many of `requests` requests each of four endpoints gets. Each request uses a connection of its
/// own that stays open.
fn spread(workers: usize, requests: usize, balance: &str) -> Vec<usize> {
    let origins = origins(4);
    let gateway = Gateway::start(&format!("workers: {workers}\n{}", to(&origins, balance)));
    let mut open: Vec<Client> = Vec::new();
    let answers = (0..requests).map(|_| {
        let mut client = gateway.client();
        let answer = client.get("/").text();
        open.push(client);
        answer
    });
    let seen = tally(answers, 4);
    gateway.reconcile(&origins.iter().collect::<Vec<_>>());
    seen
}

#[test]
fn one_worker() {
    assert_eq!(spread(1, 4, ""), [1; 4]);
    assert_eq!(spread(1, 8, "balance: {policy: least_requests, choices: all}"), [2; 4]);
}

#[test]
fn two_workers() {
    // Each worker has two connections, and starts at an endpoint of its own.
    assert_eq!(spread(2, 4, ""), [1; 4]);
    assert_eq!(spread(2, 8, "balance: {policy: least_requests, choices: all}"), [2; 4]);
}

#[test]
fn four_workers() {
    assert_eq!(spread(4, 4, ""), [1; 4]);
    assert_eq!(spread(4, 8, ""), [2; 4]);
    assert_eq!(spread(4, 16, "balance: {policy: least_requests, choices: all}"), [4; 4]);
}

#[test]
fn few_clients_that_stay() {
    // Two clients, four workers: two workers are idle, and the endpoints still get equal shares.
    let origins = origins(3);
    let gateway = Gateway::start(&format!("workers: 4\n{}", to(&origins, "")));
    let mut clients = [gateway.client(), gateway.client()];
    let answers = (0..60).map(|turn| clients[turn % 2].get("/").text());
    assert_eq!(tally(answers, 3), [20; 3]);
}
